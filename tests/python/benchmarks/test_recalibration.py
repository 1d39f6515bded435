"""Figures of heads: simulation, measurement, and tables in the docs."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(autouse=True)
def _benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))


def test_simulated_designs_become_a_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heads = importlib.import_module("coverage_heads")
    report = importlib.import_module("coverage_report")
    names = {"simple, 60", "equal strata, these texts", "label as a covariate"}
    some = [each for each in heads.DESIGNS if each.name in names]
    monkeypatch.setattr(heads, "DESIGNS", some)
    monkeypatch.setattr(heads, "_population", lambda _: 1.0)
    output, page = tmp_path / "heads.json", tmp_path / "page.md"
    monkeypatch.setattr(sys, "argv", ["heads", "--draws", "2", "--output", str(output)])
    heads.main()
    found = json.loads(output.read_text(encoding="utf-8"))
    assert {row["design"] for row in found["heads"]} == names
    for row in found["heads"]:
        assert row["n_failed"] == 0
        assert row["accuracy"]["recalibrated"] > row["accuracy"]["labels"]
        ways = {(each["way"], each["method"]) for each in row["cells"]}
        assert ("recalibrated", "dsl") in ways
    page.write_text(report.PAGE.read_text(encoding="utf-8"), "utf-8")
    monkeypatch.setattr(report, "PAGE", page)
    monkeypatch.setattr(sys, "argv", ["report", str(output)])
    report.main()
    made = page.read_text(encoding="utf-8")
    assert "2 draws per design (2 with embeddings)" in made
    assert "| simple, 60 |" in made


@pytest.mark.filterwarnings("ignore:.*code more texts:UserWarning")
@pytest.mark.filterwarnings("ignore:recalibration does not help:UserWarning")
def test_measured_sets_become_a_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = importlib.import_module("recalibration")
    report = importlib.import_module("recalibration_report")
    rows = measured.ag_news(1)
    assert len(rows) == 100
    assert {row["label"] for row in rows} == {"World", "Sports", "Business", "Sci/Tech"}
    names = sorted({row["label"] for row in rows})
    rng = np.random.default_rng(1)
    hit = np.eye(4)[[names.index(row["label"]) for row in rows]]
    probs = np.exp(rng.normal(size=(100, 4)) + 2 * hit + np.array([2, 0, 0, 0]))
    known = {
        "names": names,
        "probs": (probs / probs.sum(axis=1, keepdims=True)).tolist(),
        "vectors": (hit + rng.normal(size=(100, 4))).tolist(),
    }
    draws = [measured.of_seed(rows, known, 0)]
    ways = [each["way"] for each in draws[0]]
    assert ways == ["model, labels", "model, probabilities", *measured.HEADS]
    others = np.array(known["probs"]).argmax(axis=1) == hit.argmax(axis=1)
    assert abs(draws[0][0]["accuracy"] - others.mean()) < 0.15
    one = {"set": "news", "n_texts": 100, "n_codes": 50, "seeds": 1, "draws": draws}
    one |= {"seconds": 2.0, "seconds_vectors": 1.0}
    file, page = tmp_path / "rows.json", tmp_path / "page.md"
    out = {"model": "m", "embeddings": "e", "sets": [one]}
    file.write_text(json.dumps(out), encoding="utf-8")
    page.write_text(report.PAGE.read_text(encoding="utf-8"), "utf-8")
    monkeypatch.setattr(report, "PAGE", page)
    monkeypatch.setattr(sys, "argv", ["report", str(file)])
    report.main()
    made = page.read_text(encoding="utf-8")
    assert "| news, 100, 50 coded | codes alone |" in made
    assert f"| both | {draws[0][4]['accuracy']:.3f} ± 0.000 |" in made
