"""Tests of paired comparisons: known values, and coverage of intervals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from llamaherd.coding.gold.size import gold_size
from llamaherd.coding.selection import measures as paired
from llamaherd.coding.statistics import accuracy_of, cohen_kappa

K = 3


def coded(
    rng: np.random.Generator, n: int, rates: tuple[float, ...]
) -> tuple[np.ndarray[Any, Any], list[np.ndarray[Any, Any]]]:
    """Return codes, and labels that are right with these probabilities."""
    truth = rng.integers(0, K, n)
    given = [
        np.where(rng.random(n) < rate, truth, (truth + rng.integers(1, K, n)) % K)
        for rate in rates
    ]
    return truth, given


def flags(labels: Any) -> Any:
    return np.eye(K, dtype=bool)[labels]


def units(truth: Any, weights: Any = None, strata: Any = None) -> paired.UnitCodes:
    n = len(truth)
    return paired.UnitCodes(
        should=flags(truth),
        weights=np.ones(n) if weights is None else weights,
        strata=np.zeros(n, dtype=np.int64) if strata is None else strata,
    )


def members(given: list[Any]) -> list[Any]:
    return [(flags(each), np.ones(len(each), dtype=bool)) for each in given]


def test_values_are_those_of_validate() -> None:
    rng = np.random.default_rng(1)
    truth, given = coded(rng, 80, (0.6, 0.8))
    w = rng.uniform(1, 9, 80)
    own = accuracy_of(given[0].tolist(), truth.tolist(), unit_weights=w)
    kappa = cohen_kappa(given[0].tolist(), truth.tolist(), unit_weights=w)
    expected = {
        "accuracy": own.accuracy.value,
        "balanced_accuracy": own.balanced_accuracy.value,
        "macro_f1": own.macro_f1.value,
        "kappa": kappa.value,
    }
    for measure in paired.LABEL_MEASURES:
        found = paired.compare(members(given), units(truth, w), measure)
        assert found.values[0].value == pytest.approx(expected[measure])
        (pair,) = found.differences
        assert pair.value == pytest.approx(found.values[0].value - found.values[1].value)
        assert pair.low <= pair.value <= pair.high


@pytest.mark.parametrize("measure", paired.LABEL_MEASURES)
def test_slopes_are_derivatives_by_weight(measure: paired.MeasureName) -> None:
    rng = np.random.default_rng(2)
    truth, given = coded(rng, 40, (0.7,))
    w = rng.uniform(1, 5, 40)

    def of(weights: np.ndarray[Any, Any]) -> Any:
        hit = given[0] == truth
        return paired._statistic(measure, flags(given[0]), hit, flags(truth), weights)

    found, step = of(w / w.sum()), 1e-6
    for i in (0, 7, 39):
        values = []
        for sign in (1, -1):
            moved = w.copy()
            moved[i] += sign * step
            values.append(of(moved / moved.sum()).value)
        slope = (values[0] - values[1]) / (2 * step)
        assert found.slopes[i] / w.sum() == pytest.approx(slope, rel=1e-4, abs=1e-9)


@pytest.mark.parametrize("measure", paired.LABEL_MEASURES)
def test_intervals_of_differences_hold(measure: paired.MeasureName) -> None:
    """Also where hardly any two labels differ; before, all equal had no interval."""
    rng = np.random.default_rng(12)
    for rates, n in (((0.85, 0.75), 60), ((0.99, 0.98), 50)):
        truth, given = coded(rng, 100_000, rates)
        (pair,) = paired.compare(members(given), units(truth), measure).differences
        inside = 0
        for _ in range(100):
            truth, given = coded(rng, n, rates)
            (found,) = paired.compare(members(given), units(truth), measure).differences
            inside += found.low <= pair.value <= found.high
        assert inside >= 89  # 5 below 95%: probability 1.2%


@pytest.mark.parametrize("measure", paired.LABEL_MEASURES)
def test_a_label_that_only_one_classifier_gives_is_no_obstacle(
    measure: paired.MeasureName,
) -> None:
    truth = np.repeat([0, 1], 20)
    other = truth.copy()
    other[:3] = 2
    found = paired.compare(members([truth, other]), units(truth), measure)
    (pair,) = found.differences
    assert pair.value > 0
    assert pair.low < pair.value <= pair.high


def test_unit_without_an_answer_counts_as_wrong() -> None:
    truth = np.array([0, 1, 2, 0])
    is_given = np.array([True, True, False, False])
    found = paired.compare([(flags(truth), is_given)], units(truth))
    assert found.values[0].value == 0.5
    kappa = paired.compare([(flags(truth), is_given)], units(truth), "kappa").values[0]
    assert kappa.value < 0.5


@pytest.mark.long(
    reason="simulates studies or compares with other packages on many samples"
)
def test_intervals_hold_together() -> None:
    rng = np.random.default_rng(3)
    rates = (0.7, 0.7, 0.7, 0.7, 0.7, 0.7)
    n_wrong = {"none": 0, "bonferroni": 0}
    draws = 150
    for _ in range(draws):
        truth, given = coded(rng, 100, rates)
        for adjust in n_wrong:
            found = paired.compare(members(given), units(truth), adjust=adjust)  # type: ignore[arg-type]
            n_wrong[adjust] += any(each.is_clear for each in found.differences)
    assert n_wrong["bonferroni"] / draws < 0.1  # 0.05 is expected
    assert n_wrong["none"] / draws > 0.2  # from 15 pairs


def test_strata_and_equal_labels() -> None:
    truth = np.array([0, 1] * 10)
    strata = np.array([0] * 19 + [1])
    found = paired.compare(members([truth, truth]), units(truth, strata=strata))
    (pair,) = found.differences
    assert pair.value == 0
    assert pair.low < 0 < pair.high
    assert not pair.is_clear
    assert pair.turned().first == 1


@pytest.mark.parametrize("measure", paired.LABEL_MEASURES)
def test_a_difference_of_all_units_has_an_interval(measure: paired.MeasureName) -> None:
    """The limits were equal to the difference, which seemed to be significant."""
    truth = np.repeat(np.arange(K), 4)
    found = paired.compare(members([truth, (truth + 1) % K]), units(truth), measure)
    (pair,) = found.differences
    assert pair.value >= 1
    assert pair.low < pair.value


def test_kappa_is_for_one_label() -> None:
    sets = paired.UnitCodes(
        should=np.array([[True, True], [False, False]]),
        weights=np.ones(2),
        strata=np.zeros(2, dtype=np.int64),
    )
    given = [(sets.should, np.ones(2, dtype=bool))]
    with pytest.raises(ValueError, match="one label per text"):
        paired.compare(given, sets, "kappa")
    assert paired.compare(given, sets, "macro_f1").values[0].value == 1


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


@given(st.integers(0, 10**6))
def test_any_units_can_be_compared(seed: int) -> None:
    """Few units, several labels or one, labels and answers that are missing."""
    rng = np.random.default_rng(seed)
    n, k, several = rng.integers(1, 12), rng.integers(1, 5), rng.random() < 0.4

    def drawn() -> Any:
        if several:
            return rng.random((n, k)) < 0.4
        return np.eye(k, dtype=bool)[rng.integers(0, k, n)]

    answers = [(drawn(), rng.random(n) < 0.8) for _ in range(rng.integers(1, 4))]
    made = paired.UnitCodes(
        should=drawn(), weights=rng.uniform(1, 50, n), strata=rng.integers(0, 3, n)
    )
    for measure in paired.LABEL_MEASURES:
        if several and measure == "kappa":
            continue
        for pair in paired.compare(answers, made, measure).differences:
            assert np.isnan(pair.low) or pair.low - 1e-9 <= pair.value <= pair.high + 1e-9
