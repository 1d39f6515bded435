"""Shares as text: only an exact 0 or 1 is shown as 0 or 1."""

from __future__ import annotations

import ast
import math
import re
from pathlib import Path

import hypothesis.strategies as st
import llamaherd
import llamaherd as lh
import pytest
from hypothesis import example, given
from llamaherd.coding import sentences
from llamaherd.coding.reports import page, prose
from llamaherd.engine.core.phrases import decimals, limits, percents, rounded

PACKAGE = Path(llamaherd.__file__).parent
# Other numbers with a fixed number of decimals: sizes, times, log-odds, ratios.
OTHERS = {
    *("methods: size / 1000000000.0", "counts: max(end)"),
    *("counts: read", "counts: rest", "counts: wall", "counts: wrote"),
    "page: seconds",
    "page: memory / 2 ** 30",
    "sampling: e",
}


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (499 / 500, 2, "0.998"),
        (1 / 500, 2, "0.002"),
        (1.0, 2, "1.00"),
        (0.0, 2, "0.00"),
        (-0.0, 2, "0.00"),
        (0.5, 2, "0.50"),
        (0.994, 2, "0.99"),
        (0.995, 2, "0.99"),
        (0.9951, 2, "0.995"),
        (-0.999, 2, "-0.999"),
        (-0.001, 2, "-0.001"),
        (0.99996, 3, "0.99996"),
        (1 - 1e-15, 2, "1.00"),
        (1e-15, 2, "0.00"),
        (-1e-15, 2, "0.00"),
        (1.004, 2, "1.00"),
        (math.nan, 2, "nan"),
    ],
)
def test_a_share_is_0_or_1_only_if_it_is(value: float, digits: int, text: str) -> None:
    assert decimals(value, digits) == text


def test_shares_in_percent_and_intervals_follow_the_rule() -> None:
    assert percents(499 / 500, 0) == "99.8%"
    assert percents(1 / 500, 0) == "0.2%"
    assert percents(1999 / 2000) == "99.95%"
    assert percents(0.5, 0) == "50%"
    assert percents(1.0) == "100.0%"
    assert percents(-1e-12) == "0.0%"
    assert percents(-0.0, 0) == "0%"
    assert percents(-0.004) == "-0.4%"
    assert limits(0.997, 1.0) == "[0.997, 1.00]"
    assert decimals(0.001, sign="+") == "+0.001"
    assert limits(-0.001, 0.3, 2, sign="+") == "[-0.001, +0.30]"


@given(st.floats(-1e3, 1e3), st.integers(0, 4))
def test_no_number_is_shown_as_minus_0(value: float, digits: int) -> None:
    for number in (value, value * 1e-9, value * 1e-15):
        for text in (
            rounded(number, digits),
            rounded(number, digits, sign="+"),
            decimals(number, digits),
            percents(number, digits),
        ):
            assert not re.fullmatch(r"-0[.]?0*%?", text)


@given(st.integers(1, 10**6), st.integers(1, 10**6), st.integers(0, 4))
@example(n=1, more=199, digits=0)  # 0.5% is rounded to even digits
@example(n=199, more=1, digits=0)
def test_no_other_share_looks_like_0_or_1(n: int, more: int, digits: int) -> None:
    share = n / (n + more)
    assert float(decimals(share, digits)) not in {0.0, 1.0}
    assert float(percents(share, digits).rstrip("%")) not in {0.0, 100.0}
    assert abs(float(decimals(share, digits)) - share) <= 0.5 * 10**-digits + 1e-12


def test_pages_show_499_of_500_as_such() -> None:
    """The page of a validation, and the words of a report."""
    labels = ["yes", "no"] * 250
    codes = ["no", *labels[1:]]
    lines = str(lh.validate(labels, codes)).splitlines()
    row = next(line for line in lines if line.startswith("accuracy"))
    assert "0.998 [0.99, 0.9999]" in row
    text = prose.format_measure({"value": 499 / 500, "low": 0.9889, "high": 0.9996})
    assert text == "0.998 (0.99 to 0.9996)"
    assert page.share_text(1999 / 2000) == "99.95%"
    assert sentences.number(1 / 5000, 3) == "0.0002"


def test_all_shares_are_formatted_by_one_module() -> None:
    """Only `OTHERS`, which are no shares, have a fixed number of decimals."""
    fixed = set()
    for folder in ("coding", "optimize", "_r"):
        for path in sorted((PACKAGE / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if not isinstance(node, ast.FormattedValue) or node.format_spec is None:
                    continue
                spec = ast.unparse(node.format_spec)
                if re.search(r"[.]\d%|[.][1-9]f", spec):
                    fixed.add(f"{path.stem}: {ast.unparse(node.value)}")
    assert fixed == OTHERS


@given(st.floats(1e-7, 1e-4), st.integers(1, 4))
def test_a_small_coefficient_is_shown_to_five_percent(number: float, digits: int) -> None:
    assert float(decimals(number, digits)) == pytest.approx(number, rel=0.051)
