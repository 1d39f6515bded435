"""Bounds in documents are bounds: they are not rounded to the nearest number."""

from __future__ import annotations

import importlib.util
import re
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import thorough
from hypothesis import given
from hypothesis import strategies as st

if TYPE_CHECKING:
    from types import ModuleType

BENCHMARKS = Path(__file__).resolve().parents[3] / "benchmarks"
# A number that a format specification rounds to the nearest one, beside a bound's words.
_ROUNDED = r"\{[^{}]*:[,.\d]*[.]\d[f%]\}"
_BOUNDS = (
    rf"(?i)(at least|at most|up to|more than|less than) {_ROUNDED}",
    rf"(?i){_ROUNDED} (at least|at most|or more|or less)",
    r"\{(min|max)\([^{}]*\):[^{}]*\.[1-9][f%]\}",
)


@pytest.fixture(scope="module")
def bounds() -> ModuleType:
    spec = importlib.util.spec_from_file_location("bounds", BENCHMARKS / "bounds.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("value", "digits", "lower", "upper"),
    [
        (0.99996, 4, "0.9999", "1.0000"),
        (1.0, 4, "1.0000", "1.0000"),
        (0.93, 2, "0.93", "0.93"),
        (-0.251, 2, "-0.26", "-0.25"),
        (1e-9, 4, "0.0000", "0.0001"),
        (12, 0, "12", "12"),
    ],
)
def test_a_bound_is_rounded_away_from_the_values(
    bounds: ModuleType, value: float, digits: int, lower: str, upper: str
) -> None:
    assert bounds.at_least(value, digits) == lower
    assert bounds.at_most(value, digits) == upper


def test_percentages(bounds: ModuleType) -> None:
    assert bounds.at_least(0.9299, 1, as_percent=True) == "92.9%"
    assert bounds.at_most(0.9291, 1, as_percent=True) == "93.0%"
    for n in range(1001):  # a share of a thousand draws is exact
        shown = f"{n // 10}.{n % 10}%"
        assert bounds.at_least(n / 1000, 1, as_percent=True) == shown
        assert bounds.at_most(n / 1000, 1, as_percent=True) == shown


@thorough.examples(500)
@given(st.floats(-1e6, 1e6), st.integers(0, 6))
def test_a_bound_holds_and_is_close(
    bounds: ModuleType, value: float, digits: int
) -> None:
    lower = Decimal(bounds.at_least(value, digits))
    upper = Decimal(bounds.at_most(value, digits))
    assert lower <= Decimal(repr(value)) <= upper
    assert upper - lower in (0, Decimal(1).scaleb(-digits))


def test_no_benchmark_rounds_a_bound_to_the_nearest_number() -> None:
    for text in ("{x:.4f} at least", "up to {x:,.2f} s", "{min(all_of):.1%} to"):
        assert any(re.search(pattern, text) for pattern in _BOUNDS)
    found = [
        f"{path.name}: {match[0]}"
        for path in sorted(BENCHMARKS.glob("*.py"))
        for pattern in _BOUNDS
        for match in re.finditer(pattern, path.read_text(encoding="utf-8"))
    ]
    assert found == []
