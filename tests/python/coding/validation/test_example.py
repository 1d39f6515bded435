"""docs/validation.md shows the page that benchmarks/validation.py computes today."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

ROOT = Path(__file__).resolve().parents[4]


def test_the_example_of_the_page_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    benchmark = importlib.import_module("validation")
    page = benchmark.PAGE.read_text(encoding="utf-8")
    written = benchmark.marked.replaced(page, "example", benchmark.example())
    assert written == page, "`python benchmarks/validation.py` writes it"
