"""Coding, results and report that tests of methods and of the checklist share."""

from __future__ import annotations

from typing import Any

import llamaherd as lh
import pytest
from llamaherd.coding.reports.report_data import read_report
from reported import LABELS, TEXTS


@pytest.fixture(scope="module")
def coded(context: lh.Context) -> lh.Coded:
    book = lh.Codebook("Which?", LABELS, examples=[("A.", "yes")])
    return lh.annotate({"text": TEXTS}, "text", book, context, calibrate="batch")


@pytest.fixture(scope="module")
def results(coded: lh.Coded) -> tuple[lh.types.Validation, lh.types.Estimates]:
    gold = lh.gold_sample(coded, 40, seed=7)
    codes = [LABELS[row % 2] for row in gold.rows]
    other = ["yes" if i % 5 == 0 else code for i, code in enumerate(codes)]
    gold = gold.with_codes(codes, "ann").with_codes(other, "bo")
    return lh.validate(coded, gold), lh.estimate(coded, gold)


@pytest.fixture(scope="module")
def contents(coded: lh.Coded, tmp_path_factory: Any) -> dict[str, Any]:
    path = tmp_path_factory.mktemp("methods") / "r.json"
    return read_report(lh.report(coded, path))
