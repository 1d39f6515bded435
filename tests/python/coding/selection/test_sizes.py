"""Tests of sizes of gold samples to compare codebooks on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from classified import labelled, part_codes
from llamaherd.coding.gold.size import gold_size
from llamaherd.coding.selection.measures import compare
from statsmodels.stats.power import TTestPower


def test_size_has_the_power_that_it_promises() -> None:
    size = gold_size(compare=0.1, differ=0.3)
    rng = np.random.default_rng(4)
    kinds = rng.choice(3, (2000, size.gold), p=[0.2, 0.1, 0.7])
    d = (kinds == 0).astype(float) - (kinds == 1)
    z = d.mean(axis=1) / (d.std(axis=1) / np.sqrt(size.gold))
    assert np.mean(z > 1.96) == pytest.approx(0.8, abs=0.04)
    assert str(size).splitlines()[1].startswith(f"  {size.gold} texts")
    assert gold_size(compare=0.1, differ=0.3, candidates=5).gold > size.gold


def test_sizes_refused() -> None:
    with pytest.raises(ValueError, match="at least the difference"):
        gold_size(compare=0.3, differ=0.2)
    with pytest.raises(ValueError, match="width or compare must be given"):
        gold_size()  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="width or compare must be given"):
        gold_size(0.05, compare=0.05)  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="accuracy has no effect with compare"):
        gold_size(compare=0.05, accuracy=0.9)  # type: ignore[call-overload]


@pytest.mark.parametrize(("compare", "spread"), [(0.5, 1.0), (0.1, 0.9), (1.0, 1.5)])
def test_size_equals_the_exact_size_of_a_t_test(compare: float, spread: float) -> None:
    exact = TTestPower().solve_power(compare / spread, power=0.8, alpha=0.05)
    size = gold_size(compare=compare, measure="mae", spread=spread)
    assert abs(size.gold - exact) <= 1.5
    exact = TTestPower().solve_power(compare / spread, power=0.9, alpha=0.05 / 10)
    size = gold_size(
        compare=compare, measure="mae", spread=spread, power=0.9, candidates=5
    )
    assert abs(size.gold - exact) <= 2.5


@pytest.mark.long(
    reason="simulates studies or compares with other packages on many samples"
)
def test_size_of_numbers_has_the_power_that_it_promises() -> None:
    """Spreads of errors are 1.5 and 1.8, their correlation is 0.6."""
    small, large, r = 1.5, 1.8, 0.6
    mean = 1.65
    apart = (large - small) * np.sqrt(2 / np.pi)
    size = gold_size(compare=apart, measure="mae", error=mean, correlation=r)
    assert str(size).splitlines()[1].startswith(f"  {size.gold} texts to compare on")
    hits = []
    rng = np.random.default_rng(11)
    for _ in range(400):
        errors = rng.multivariate_normal([0, 0], [[1, r], [r, 1]], size.gold).T
        numbers = rng.normal(5, 2, size.gold)
        names = ["-100", "100"]
        codes = part_codes([(repr(x),) for x in numbers.tolist()], names)
        coded = [
            labelled(list(map(repr, (numbers + error).tolist())), names)
            for error in (small * errors[0], large * errors[1])
        ]
        (pair,) = compare(coded, codes, "mae").differences
        hits.append(pair.high < 0)
    assert np.mean(hits) == pytest.approx(0.8, abs=0.06)


def test_spread_of_numbers_is_that_of_the_differences() -> None:
    rng = np.random.default_rng(12)
    for r in (-0.5, 0.0, 0.8):
        errors = 2 * rng.multivariate_normal([0, 0], [[1, r], [r, 1]], 400_000).T
        size = gold_size(compare=0.1, measure="mae", error=2, correlation=r)
        assert size.spread == pytest.approx(
            np.std(np.diff(abs(errors), axis=0)), rel=0.01
        )


def test_sizes_of_numbers_refused() -> None:
    with pytest.raises(ValueError, match="or spread must be given for measure='mae'"):
        gold_size(compare=0.2, measure="mae")
    with pytest.raises(ValueError, match="with compare: it is for measure='mae'"):
        gold_size(compare=0.2, spread=1)  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="measure must be one of 'accuracy', 'mae', not"):
        gold_size(compare=0.1, measure="rmse", spread=1)  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="measure has no effect with width"):
        gold_size(0.1, measure="mae")  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"width": 0.1, "power": 0.9}, "power has no effect with width: it is for comp"),
        ({"width": 0.1, "candidates": 3}, "candidates has no effect with width"),
        ({"width": 0.1, "differ": 0.1}, "differ has no effect with width"),
        ({"width": 0.1, "correlation": 0.2}, "correlation has no effect with width"),
        ({"compare": 0.1, "share": 0.2}, "share has no effect with compare: it is for w"),
        ({"compare": 0.1, "population": 500}, "population has no effect with compare"),
        ({"compare": 0.1, "target": "texts"}, "target has no effect with compare"),
        (
            {"compare": 0.1, "measure": "mae", "error": 1, "differ": 0.1},
            "differ has no effect with measure='mae': it is for compare",
        ),
        (
            {"compare": 0.1, "measure": "mae", "spread": 1, "correlation": 0.2},
            "correlation has no effect without error",
        ),
        (
            {"compare": 0.1, "measure": "mae", "error": 1, "correlation": -1},
            "correlation must be at least -0.99 and below 1, not -1",
        ),
    ],
)
def test_sizes_refuse_what_has_no_effect_or_no_size(
    options: dict[str, Any], match: str
) -> None:
    with pytest.raises(ValueError, match=match):
        gold_size(**options)
