"""The journal on disks that fail or are full, and in processes that are killed."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from types import ModuleType

FOLDER = Path(__file__).parents[2] / "faults"

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="puts a library in front of others with LD_PRELOAD"
)


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"faults_{name}", FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


faults = load("faults")


@pytest.mark.long(reason="fails each call to the disk in turn, some hundred runs")
def test_whatever_call_to_the_disk_fails_nothing_is_lost(tmp_path: Path) -> None:
    out = tmp_path / "disk.json"
    library = faults.build(tmp_path, "disk")
    faults.run(library, FOLDER / "disk.py", out, timeout_s=800)
    told = json.loads(out.read_text(encoding="utf-8"))
    assert len(told) == 6
    for name, tries in told.items():
        assert tries["problems"] == [], name
        assert tries["held"] == tries["tries"] > 20


@pytest.mark.long(reason="a process for each case")
def test_a_small_disk_that_is_full_at_any_level_loses_nothing(tmp_path: Path) -> None:
    own_disk = ("unshare", "--map-root-user", "--mount")
    if not shutil.which("unshare") or subprocess.call([*own_disk, "true"]) != 0:
        pytest.skip("this user may not mount a disk of its own (unshare --mount)")
    place, out = tmp_path / "disk", tmp_path / "out.json"
    place.mkdir()
    mount = 'mount -t tmpfs -o size=1m none "$1" && exec "$2" "$3" "$1" "$4"'
    program = [sys.executable, FOLDER / "small_disk.py"]
    subprocess.run([*own_disk, "sh", "-c", mount, "sh", place, *program, out], check=True)
    levels = json.loads(out.read_text(encoding="utf-8"))
    assert [level["problems"] for level in levels] == [[] for _ in levels]
    assert {level["first"] for level in levels} == {"refused", "warned", "stored"}
