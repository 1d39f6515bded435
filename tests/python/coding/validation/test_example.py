"""docs/validation.md shows what benchmarks/validation.py computes; simulations run."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pytest

ROOT = Path(__file__).resolve().parents[4]


def test_the_example_of_the_page_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    benchmark = importlib.import_module("validation")
    page = benchmark.PAGE.read_text(encoding="utf-8")
    written = benchmark.marked.replaced(page, "example", benchmark.example())
    assert written == page, "`python benchmarks/validation.py` writes it"


def test_every_simulated_design_has_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    benchmark = importlib.import_module("coverage_designs")
    for study in benchmark.STUDIES.values():
        for case in study.cases.values():
            design = benchmark.design_of(case)
            texts = benchmark.texts_of(design, np.random.default_rng(1))
            assert len(texts.code) == design.n_texts
