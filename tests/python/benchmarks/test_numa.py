"""The benchmark of threads that users run and send."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import tiny_models

if TYPE_CHECKING:
    from types import ModuleType

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def numa(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("numa")


def test_the_file_has_the_machine_and_a_speed_for_each_number(
    numa: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tiny_models.write(tmp_path / "secret-name.gguf", "llama")
    output = tmp_path / "out.json"
    sizes = ["--prompts", "3", "--tokens", "4", "--rounds", "2", "--threads", "1", "2"]
    numa.main([str(path), *sizes, "--output", str(output)])
    text = output.read_text(encoding="utf-8")
    found = json.loads(text)
    assert list(found["tokens_per_second"]) == ["1", "2"]
    for speeds in found["tokens_per_second"].values():
        assert speeds["prompt"] > 0
        assert speeds["answer"] > 0
    assert found["machine"]["llama_cpp_python"]
    assert "secret-name" not in text  # nothing of the user's
    assert "round 2, 1 threads" in capsys.readouterr().out


def test_threads_cover_a_node_and_the_machine(
    numa: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, cpus in (("node0", "0-5,12-17"), ("node1", "6-11,18-23")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "cpulist").write_text(f"{cpus}\n", encoding="utf-8")
    monkeypatch.setattr(numa, "_NODES", tmp_path)
    monkeypatch.setattr(numa.os, "cpu_count", lambda: 24)
    monkeypatch.setattr(numa.hardware, "n_cores", lambda: 12)
    monkeypatch.setattr(numa.psutil, "cpu_count", lambda logical: 24 if logical else 12)
    if sys.platform == "linux":
        monkeypatch.setattr(numa.os, "sched_getaffinity", lambda _: set(range(24)))
    assert numa.numbers_of_threads() == [1, 2, 4, 8, 12, 16, 24]
    assert numa.nodes() == {"node0": "0-5,12-17", "node1": "6-11,18-23"}
