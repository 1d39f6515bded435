"""Figures of coding in steps: simulation, measurement, and tables in docs/steps.md."""

from __future__ import annotations

import importlib
import json
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs/steps.md").read_text(encoding="utf-8")


@pytest.fixture(autouse=True)
def _benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))


def test_simulated_and_measured_rows_become_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    coverage = importlib.import_module("coverage_steps")
    steps = importlib.import_module("steps")
    report = importlib.import_module("steps_report")
    names = {"simple, 60", "equal strata of the steps, 150"}
    some = [each for each in coverage.DESIGNS if each.name in names]
    monkeypatch.setattr(coverage, "DESIGNS", some)
    simulated = tmp_path / "coverage.json"
    monkeypatch.setattr(sys, "argv", ["x", "--draws", "2", "--output", str(simulated)])
    coverage.main()
    rows = json.loads(simulated.read_text(encoding="utf-8"))["steps"]
    assert {row["design"] for row in rows} == names
    assert all(row["n_failed"] == 0 for row in rows)
    assert all(len(row["cells"]) == 9 for row in rows)

    rng = np.random.default_rng(4)
    code = rng.choice(3, 120)
    vectors = rng.normal(size=(120, 6)) + 2 * np.eye(3, 6)[code]
    scores = np.exp(
        rng.normal(size=(2, 120, 3)) + np.array([1, 3])[:, None, None] * np.eye(3)[code]
    )
    probs = scores / scores.sum(axis=2, keepdims=True)
    labels = ["a", "b", "c"]
    texts = [{"text": f"text {i}", "label": labels[j]} for i, j in enumerate(code)]
    known = {
        "names": labels, "small": probs[0].tolist(), "larger": probs[1].tolist(),
        "vectors": vectors.tolist(), "s_small": 10.0, "s_larger": 20.0, "s_vectors": 1.0,
    }  # fmt: skip
    monkeypatch.setattr(steps.recalibration, "passes", None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the warning about few codes
        made = {each["way"]: each for each in steps.of_seed(texts, known, 1)}
    assert made["larger model"]["accuracy"] > made["cascade"]["accuracy"]
    assert made["cascade"]["accuracy"] > made["model"]["accuracy"]
    assert made["cascade"]["seconds"] == pytest.approx(14)
    assert made["head, unsure to the model"]["seconds"] == pytest.approx(7)
    assert made["head"]["seconds"] == pytest.approx(6)
    page = tmp_path / "steps.md"
    page.write_text(PAGE, encoding="utf-8")
    monkeypatch.setattr(report, "PAGE", page)
    one = {
        "set": "s",
        "n_texts": 120,
        "n_codes": 60,
        "seeds": 1,
        "draws": [list(made.values())],
    }
    measured = tmp_path / "steps.json"
    found = {"model": "m", "larger": "l", "embeddings": "e", "sets": [one]}
    measured.write_text(json.dumps(found), encoding="utf-8")
    given = ["x", "--steps", str(measured), "--coverage", str(simulated)]
    monkeypatch.setattr(sys, "argv", given)
    report.main()
    text = page.read_text(encoding="utf-8")
    assert "| s, 120, 60 coded | model |" in text
    assert "| equal strata of the steps, 150 | " in text


def test_the_page_has_both_tables() -> None:
    for mark in ("steps", "coverage of steps"):
        part = PAGE.partition(f"<!-- {mark} -->")[2].partition("<!-- end")[0]
        assert part.count("\n|") > 5, mark
