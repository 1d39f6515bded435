"""Rows of models: an interrupted run is continued, and one table combines all rows."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
RUN = {"model": "a", "n_tweets": 1192}
ROW = {**RUN, "n_examples": 8, "way": "x", "accuracy": 0.25, "brier": 0.5, "ece": 0.125}


def test_a_run_goes_on_from_its_own_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    accuracy = importlib.import_module("accuracy")
    path = tmp_path / "a.jsonl"
    assert accuracy.known_rows(path, RUN) == set()
    path.write_text(f"{json.dumps(ROW)}\n", encoding="utf-8")
    assert accuracy.known_rows(path, RUN) == {(8, "x")}
    with pytest.raises(SystemExit, match="rows of another run"):
        accuracy.known_rows(path, {**RUN, "model": "b"})


def test_rows_of_several_models_become_one_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    report = importlib.import_module("accuracy_report")
    paths = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
    for path in paths:
        row = {**ROW, "model": path.stem}
        path.write_text(f"{json.dumps(row)}\n", encoding="utf-8")
    page = tmp_path / "probabilities.md"
    page.write_text((ROOT / "docs/probabilities.md").read_text(encoding="utf-8"), "utf-8")
    monkeypatch.setattr(report, "PAGE", page)
    monkeypatch.setattr(sys, "argv", ["report", *map(str, paths)])
    report.main()
    rows = "| a | 1,192 | 8 | x | 0.250 | 0.500 | 0.125 |\n| b | 1,192 | 8 |"
    assert rows in page.read_text(encoding="utf-8")
