"""benchmarks/before.py runs the work of two checkouts alternately."""

from __future__ import annotations

import importlib
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from types import ModuleType

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


@pytest.fixture
def before(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("before")


def test_two_checkouts_take_turns(
    before: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[tuple[Path, str]] = []

    def measure(
        folder: Path, engine: str, workload: str, _options: Namespace
    ) -> dict[str, float]:
        asked.append((folder, f"{engine} {workload}"))
        seconds = 2.0 if folder == tmp_path.resolve() else 3.0
        return {"seconds": seconds, "convert_s": seconds / 2}

    monkeypatch.setattr(before, "measure", measure)
    lines = before.compare(Namespace(before=tmp_path, rounds=2))
    assert lines[2] == "| distinct | 2.00 | 3.00 | 1.500 | 1.500 | 1.500 |"
    assert lines[-1].startswith("| R: 10,000 prompts converted | 1.00 | 1.50 | 1.500 |")
    assert len(lines) == 2 + len(before.WORK)
    n_runs = len({run for _, run in asked})
    assert len(asked) == 2 * 2 * n_runs  # one run measures both figures of R
    one = [folder for folder, _ in asked]
    assert one[: 2 * n_runs : 2] == one[2 * n_runs + 1 :: 2]  # each is first in turns
