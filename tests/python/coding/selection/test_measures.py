"""Tests of measures of classifiers and raters, and of their paired differences."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from classified import labelled, part_codes
from hypothesis import given
from hypothesis import strategies as st
from llamaherd.coding.selection import measures
from llamaherd.coding.statistics.accuracy import accuracy_of
from llamaherd.coding.statistics.agreement import cohen_kappa
from llamaherd.coding.statistics.number_agreement import number_agreement

if TYPE_CHECKING:
    from llamaherd.coding.selection.parts import PartCodes

K = 3
LABELS = measures.LABEL_MEASURES
ALL = measures.MEASURES
LONG = "simulates studies or compares with other packages on many samples"


def drawn(
    measure: str, rng: np.random.Generator, n: int, errors: tuple[float, ...]
) -> tuple[Any, list[Any]]:
    """Return codes, and labels that are wrong with these probabilities.

    For numbers the errors of raters have a shared part and these spreads.
    """
    if measure == "mae":
        codes = rng.normal(5, 2, n)
        shared = rng.normal(0, 0.5, n)
        return codes, [codes + shared + rng.normal(0, spread, n) for spread in errors]
    codes = rng.integers(0, K, n)
    return codes, [
        np.where(rng.random(n) < rate, (codes + rng.integers(1, K, n)) % K, codes)
        for rate in errors
    ]


def flags(labels: Any) -> Any:
    return np.eye(K, dtype=bool)[labels]


def words(values: Any) -> list[str | None]:
    """Return labels of arrays as texts; None for NaN."""
    return [None if math.isnan(value) else repr(value) for value in values.tolist()]


def codes_of(
    codes: Any,
    weights: Any = None,
    strata: Any = None,
    ends: tuple[float, float] = (0, 10),
) -> PartCodes:
    """Return the codes of texts: indices of labels, or numbers between the ends."""
    names = list(map(repr, ends)) if codes.dtype == float else list("012")
    texts: list[Any] = words(codes)
    return part_codes([(text,) for text in texts], names, weights, strata)


def compared(
    measure: Any, codes: Any, labels: Any, weights: Any = None, strata: Any = None,
    *, ends: tuple[float, float] = (0, 10), **options: Any,
) -> measures.Paired:  # fmt: skip
    part = codes_of(codes, weights, strata, ends)
    coded = [labelled(words(row), part.names) for row in labels]
    return measures.compare(coded, part, measure, **options)


def numbers_of(paired: measures.Paired) -> tuple[np.ndarray, np.ndarray]:
    values = [[value.value, value.low, value.high] for value in paired.values]
    pairs = [[d.value, d.low, d.high, d.differ] for d in paired.differences]
    return np.array(values), np.array(pairs)


@pytest.mark.parametrize("measure", ALL)
def test_values_are_those_of_validate(measure: str) -> None:
    rng = np.random.default_rng(1)
    codes, labels = drawn(measure, rng, 80, (0.4, 0.2))
    w = rng.uniform(1, 9, 80)
    paired = compared(measure, codes, labels, w)
    w = codes_of(codes, w).weights
    for row, value in zip(labels, paired.values, strict=True):
        pair = (row.tolist(), codes.tolist())
        if measure == "mae":
            assert value == number_agreement([row, codes], unit_weights=w).mae
            assert value.value == pytest.approx(np.average(abs(row - codes), weights=w))
        elif measure == "kappa":
            kappa = cohen_kappa(*pair, unit_weights=w)
            assert value.value == pytest.approx(kappa.value)
        else:
            accuracy = accuracy_of(*pair, unit_weights=w)
            assert value.value == pytest.approx(getattr(accuracy, measure).value)
    (pair,) = paired.differences
    assert pair.value == pytest.approx(paired.values[0].value - paired.values[1].value)
    assert pair.low <= pair.value <= pair.high
    turned = pair.turned()
    assert (turned.first, turned.value, turned.low) == (1, -pair.value, -pair.high)


@pytest.mark.parametrize("measure", LABELS)
def test_slopes_are_derivatives_by_weight(measure: measures.MeasureName) -> None:
    rng = np.random.default_rng(2)
    codes, (labels,) = drawn(measure, rng, 40, (0.3,))
    w = rng.uniform(1, 5, 40)

    def of(weights: np.ndarray[Any, Any]) -> Any:
        hits = labels == codes
        return measures._statistic(measure, flags(labels), hits, flags(codes), weights)

    statistic, step = of(w / w.sum()), 1e-6
    for i in (0, 7, 39):
        values = []
        for sign in (1, -1):
            moved = w.copy()
            moved[i] += sign * step
            values.append(of(moved / moved.sum()).value)
        slope = (values[0] - values[1]) / (2 * step)
        assert statistic.slopes[i] / w.sum() == pytest.approx(slope, rel=1e-4, abs=1e-9)


@pytest.mark.parametrize("measure", ALL)
def test_intervals_of_differences_hold(measure: str) -> None:
    """Also where hardly any two labels differ; before, all equal had no interval."""
    rng = np.random.default_rng(12)
    for errors, n in (((0.15, 0.25), 60), ((0.01, 0.02), 50)):
        (pair,) = compared(measure, *drawn(measure, rng, 100_000, errors)).differences
        inside = 0
        for _ in range(100):
            (difference,) = compared(measure, *drawn(measure, rng, n, errors)).differences
            inside += difference.low <= pair.value <= difference.high
        assert inside >= 89  # 5 below 95%: probability 1.2%


@pytest.mark.long(reason=LONG)
def test_intervals_hold_for_correlated_raters() -> None:
    rng = np.random.default_rng(4)
    one, other = (math.sqrt(0.25 + spread**2) for spread in (0.6, 0.9))
    expected = (one - other) * math.sqrt(2 / math.pi)
    inside = 0
    for _ in range(600):
        (pair,) = compared("mae", *drawn("mae", rng, 120, (0.6, 0.9))).differences
        inside += pair.low <= expected <= pair.high
    assert 0.92 < inside / 600 < 0.98  # 0.95 is expected, with the standard error 0.009


@pytest.mark.long(reason=LONG)
def test_intervals_hold_together() -> None:
    rng = np.random.default_rng(3)
    n_wrong = {"none": 0, "bonferroni": 0}
    draws = 150
    for _ in range(draws):
        codes, labels = drawn("accuracy", rng, 100, (0.3,) * 6)
        for adjust in n_wrong:
            pairs = compared("accuracy", codes, labels, adjust=adjust).differences
            n_wrong[adjust] += any(pair.is_clear for pair in pairs)
    assert n_wrong["bonferroni"] / draws < 0.1  # 0.05 is expected
    assert n_wrong["none"] / draws > 0.2  # from 15 pairs


@pytest.mark.parametrize("measure", ALL)
def test_simultaneous_intervals_are_wider(measure: str) -> None:
    codes, labels = drawn(measure, np.random.default_rng(6), 80, (0.5, 0.6, 0.7, 0.8))
    alone = compared(measure, codes, labels, adjust="none")
    together = compared(measure, codes, labels, adjust="bonferroni")
    for one, other in zip(alone.differences, together.differences, strict=True):
        assert other.low < one.low
        assert one.high < other.high
    assert together.values == alone.values


def test_the_difference_of_mean_errors_is_a_paired_t_test() -> None:
    codes, labels = drawn("mae", np.random.default_rng(3), 40, (0.5, 1.0))
    (pair,) = compared("mae", codes, labels).differences
    apart = abs(labels[0] - codes) - abs(labels[1] - codes)
    # scipy.stats.ttest_rel has the same interval; the t quantile with 39 degrees of
    # freedom is 2.0227
    reach = 2.022691 * apart.std(ddof=1) / math.sqrt(40)
    limits = (apart.mean() - reach, apart.mean() + reach)
    assert (pair.low, pair.high) == pytest.approx(limits, rel=1e-6)


@pytest.mark.parametrize("measure", LABELS)
def test_a_label_that_only_one_classifier_gives_is_no_obstacle(measure: str) -> None:
    codes = np.repeat([0, 1], 20)
    other = codes.copy()
    other[:3] = 2
    (pair,) = compared(measure, codes, [codes, other]).differences
    assert pair.value > 0
    assert pair.low < pair.value <= pair.high


def test_a_unit_without_an_answer_counts_as_wrong() -> None:
    codes = np.array([0, 1, 2, 0])
    answers = [labelled(["0", "1", None, None], list("012"))]
    part = codes_of(codes)
    assert measures.compare(answers, part).values[0].value == 0.5
    assert measures.compare(answers, part, "kappa").values[0].value < 0.5
    numbers = np.array([1.0, np.nan, 5.0, np.nan])  # the farther end of the scale
    (mae,) = compared("mae", np.array([1.0, 9.0, 5.0, 4.0]), [numbers]).values
    assert mae.value == pytest.approx((9 + 6) / 4)


def test_equal_labels_have_an_interval_around_0() -> None:
    codes = np.array([0, 1] * 10)
    strata = np.array([0] * 19 + [1])
    (pair,) = compared("accuracy", codes, [codes, codes], strata=strata).differences
    assert pair.value == 0
    assert pair.low < 0 < pair.high
    assert not pair.is_clear


@pytest.mark.parametrize("measure", LABELS)
def test_a_difference_of_all_units_has_an_interval(measure: str) -> None:
    """The limits were equal to the difference, which seemed to be significant."""
    codes = np.repeat(np.arange(K), 4)
    (pair,) = compared(measure, codes, [codes, (codes + 1) % K]).differences
    assert pair.value >= 1
    assert pair.low < pair.value


@pytest.mark.parametrize("n", [1, 2, 3])
def test_very_few_units_show_no_difference(n: int) -> None:
    """Two units gave intervals of width 0, and one unit a warning of numpy."""
    codes = np.array([1.0, 3.0, 4.0])[:n]
    numbers = [np.array([1.0, 2.0, 3.0])[:n], np.array([2.0, 1.0, 0.0])[:n]]
    (pair,) = compared("mae", codes, numbers).differences
    assert not pair.is_clear or pair.low < pair.high
    if n == 1:
        assert math.isnan(pair.high)
    several = compared("mae", codes, [*numbers, codes])
    assert not any(pair.low == pair.high != 0 for pair in several.differences)


def test_a_difference_without_variance_has_no_limits() -> None:
    codes = np.arange(1.0, 9.0)
    (pair,) = compared("mae", codes, [codes + 1, codes]).differences
    assert abs(pair.value) >= 1
    assert math.isnan(pair.low)
    assert not pair.is_clear


def test_kappa_is_for_one_label() -> None:
    sets = part_codes([("a", "b"), ()], "ab", several=True)
    answers = [labelled(["a; b", ""], "ab")]
    with pytest.raises(ValueError, match="one label per text"):
        measures.compare(answers, sets, "kappa")
    assert measures.compare(answers, sets, "macro_f1").values[0].value == 1


@given(st.integers(0, 10**6))
def test_any_units_can_be_compared(seed: int) -> None:
    """Few units, several labels or one, labels and answers that are missing."""
    rng = np.random.default_rng(seed)
    n, k, several = rng.integers(1, 12), rng.integers(1, 5), rng.random() < 0.4

    names = "abcd"[:k]

    def some() -> list[tuple[str, ...]]:
        if several:
            return [tuple(np.array([*names])[rng.random(k) < 0.4]) for _ in range(n)]
        return [(names[j],) for j in rng.integers(0, k, n)]

    def answered() -> list[str | None]:
        return ["; ".join(x) if rng.random() < 0.8 else None for x in some()]

    answers = [labelled(answered(), names) for _ in range(rng.integers(1, 4))]
    weights, strata = rng.uniform(1, 50, n), rng.integers(0, 3, n)
    units = part_codes(some(), names, weights, strata, several=bool(several))
    for measure in LABELS:
        if several and measure == "kappa":
            continue
        for pair in measures.compare(answers, units, measure).differences:
            assert np.isnan(pair.low) or pair.low - 1e-9 <= pair.value <= pair.high + 1e-9


@pytest.mark.parametrize("adjust", ["none", "bonferroni"])
@pytest.mark.parametrize("measure", ALL)
def test_nothing_depends_on_the_order_of_texts_and_labels(
    measure: str, adjust: Any
) -> None:
    n, rng = 60, np.random.default_rng(3)
    codes, labels = drawn(measure, rng, n, (0.1, 0.2, 0.3))
    weights, strata = rng.uniform(0.5, 2, n), rng.integers(0, 2, n)
    order = rng.permutation(n)
    names = np.array([2, 0, 1])

    def of(*drawing: Any) -> Any:
        return numbers_of(compared(measure, *drawing, adjust=adjust))

    values, pairs = of(codes, labels, weights, strata)
    changes = [
        (codes[order], [row[order] for row in labels], weights[order], strata[order]),
        (codes, labels, weights * 9, 1 - strata),
    ]
    if measure != "mae":
        changes.append((names[codes], [names[row] for row in labels], weights, strata))
    for change in changes:
        other, apart = of(*change)
        np.testing.assert_allclose(other[:, 0], values[:, 0], atol=1e-9)
        np.testing.assert_allclose(apart, pairs, atol=1e-6)
    (turned,) = of(codes, labels[1::-1], weights, strata)[1]
    (pair,) = of(codes, labels[:2], weights, strata)[1]
    np.testing.assert_allclose(turned, [-pair[0], -pair[2], -pair[1], pair[3]], atol=1e-9)


def test_errors_of_numbers_have_any_unit() -> None:
    rng = np.random.default_rng(3)
    codes, labels = drawn("mae", rng, 60, (0.5, 1, 2))
    weights = rng.uniform(0.5, 2, 60)
    values, pairs = numbers_of(compared("mae", codes, labels, weights))
    for times in (100.0, 1e-6):
        numbers = [(row + 3) * times for row in labels]
        paired = compared(
            "mae", (codes + 3) * times, numbers, weights, ends=(3 * times, 13 * times)
        )
        other, apart = numbers_of(paired)
        np.testing.assert_allclose(other / times, values, rtol=1e-6)
        np.testing.assert_allclose(apart[:, :3] / times, pairs[:, :3], rtol=1e-5)
