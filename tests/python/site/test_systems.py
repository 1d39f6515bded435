"""The tables of systems and versions agree with their records."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from types import ModuleType

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def systems() -> ModuleType:
    path = ROOT / "scripts" / "systems.py"
    spec = importlib.util.spec_from_file_location("systems", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_pages_have_the_recorded_tables(systems: ModuleType) -> None:
    assert systems.table() in (ROOT / "README.md").read_text(encoding="utf-8")
    assert systems.versions_table() in (ROOT / "docs/install.md").read_text(
        encoding="utf-8"
    )


def test_a_cell_is_recorded_and_others_are_not_tried(
    systems: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    readme, page = tmp_path / "README.md", tmp_path / "docs/install.md"
    record = tmp_path / "systems.json"
    page.parent.mkdir()
    for path, name in ((readme, "systems"), (page, "versions")):
        path.write_text(f"before\n<!-- {name} -->\n<!-- end of {name} -->\nafter\n")
    monkeypatch.setattr(systems.marked, "ROOT", tmp_path)
    monkeypatch.setattr(systems, "VERSIONS_RECORD", tmp_path / "versions.json")
    monkeypatch.setattr(systems, "RECORD", record)
    systems.main(["record", "arm64", "c_tests=emulated"])
    assert json.loads(record.read_text()) == {"arm64": {"c_tests": "emulated"}}
    row = "| Linux, 64-bit ARM | not tried | run in emulation | not tried |"
    assert row in readme.read_text()
    with pytest.raises(SystemExit, match="'perfect' is none of run, emulated, compiled"):
        systems.main(["record", "arm64", "r=perfect"])
    systems.main(["version", "3.13", "===== 7 passed ====="])
    assert (
        "| Python 3.13, quick tests | `make test-pythons` | 7 passed | 20"
        in page.read_text()
    )
    assert (
        "| Python 3.14, quick tests | `make test-pythons` | not tried |  |"
        in page.read_text()
    )
    with pytest.raises(SystemExit, match=r"'3\.9' is none of 3\.11, "):
        systems.main(["version", "3.9", "7 passed"])
