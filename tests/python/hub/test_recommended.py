"""Models to start with: what fits, and that figures are attributed."""

from __future__ import annotations

from pathlib import Path

import llamaherd as lh
import pytest

PAGE = Path(__file__).resolve().parents[3] / "docs" / "models.md"


def test_larger_memory_fits_more() -> None:
    fits = [
        sum(each.fits for each in lh.recommended_models(memory))
        for memory in (0.1, 8, 16, 32)
    ]
    assert fits == [0, 2, 3, 4]
    sizes = [each.size_bytes for each in lh.recommended_models()]
    assert sizes == sorted(sizes)


def test_each_fits_the_memory_that_it_is_suggested_for() -> None:
    for each in lh.recommended_models():
        found = lh.recommended_models(each.memory_gb or 1)
        assert {one.source: one.fits for one in found}[each.source]


def test_figures_of_others_are_not_called_measured() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for each in lh.recommended_models(8):
        assert each.source in page
        assert (each.measured == "not measured") == bool(each.published)


def test_a_wrong_memory_is_named() -> None:
    for wrong in (0, -1, float("nan"), "8"):
        with pytest.raises((lh.ArgumentError, lh.ArgumentTypeError)) as caught:
            lh.recommended_models(wrong)  # type: ignore[arg-type]
        assert caught.value.argument == "memory_gb"
