"""Tests of reports of recalibrated labels: the model's labels can be reproduced."""

from __future__ import annotations

from typing import TYPE_CHECKING

import llamaherd as lh
import pytest
from llamaherd.coding.reports.report_file import read_report

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TEXTS = [f"Text number {i}." for i in range(60)]
CODES = ["Sports" if i % 3 else "Business" for i in range(60)]


@pytest.mark.filterwarnings("ignore:The codes do not show that the head:UserWarning")
@pytest.mark.filterwarnings("ignore:Recalibration does not help:UserWarning")
def test_a_report_has_both_and_is_reproduced(
    tiny_path: Callable[[str], Path], tmp_path: Path
) -> None:
    topics = lh.Codebook("Which topic?", ["Sports", "Business"])
    with lh.Model(tiny_path("llama")) as model:
        with lh.Context(model, deterministic=True) as context:
            coded = lh.annotate({"text": TEXTS}, "text", topics, context)
        gold = lh.gold_sample(coded, 40, seed=1)
        gold = gold.with_codes([CODES[row] for row in gold.rows])
        better = lh.recalibrate(coded, gold)
        validation = lh.validate(better, gold)
        found = lh.estimate(better, gold)
        path = lh.report(better, tmp_path / "report.html", validation, found)
        contents = read_report(path)
        assert contents["labels"]["values"] == coded.labels
        assert contents["run"]["recalibration"]["n_codes"] == 40
        page = path.read_text(encoding="utf-8")
        assert "Labels and probabilities are recalibrated" in page
        assert lh.reproduce(path, model).n_same == 60
    assert better.columns == coded.columns
    assert better.frame["raw_label"] == coded.labels
    assert better.frame["prob"] == pytest.approx(better.probs.max(axis=1))
