"""Tests of Krippendorff's alpha for unitizing and of matching passages."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from llamaherd.coding.codes.span_files import Unit
from llamaherd.coding.validation.unitizing import Unitizing, f1_of, matches


def units(label: str, *places: tuple[int, int]) -> list[Unit]:
    """Return units from begin and length, on a continuum that begins at 150."""
    return [Unit(begin - 150, begin - 150 + size, label) for begin, size in places]


# Krippendorff (2004), appendix: two observers, a continuum of length 300.
FIRST = [*units("c", (225, 70), (370, 30)), *units("k", (180, 60), (300, 50))]
SECOND = [*units("c", (220, 80), (355, 20), (400, 20)), *units("k", (180, 60), (300, 50))]


@pytest.mark.parametrize(
    ("labels", "alpha"), [(["c"], 0.7286), (["k"], 1.0), (None, 0.8587)]
)
def test_the_published_example(labels: list[str] | None, alpha: float) -> None:
    value = Unitizing([[FIRST], [SECOND]], [300], labels).alpha()
    assert value == pytest.approx(alpha, abs=5e-5)


def test_the_published_disagreements() -> None:
    # Disagreement observed for c: 0.0144; expected: 0.0532 for c and 0.0490 for k.
    c = 1 - Unitizing([[FIRST], [SECOND]], [300], ["c"]).alpha()
    both = 1 - Unitizing([[FIRST], [SECOND]], [300]).alpha()
    assert c == pytest.approx(0.0144 / 0.0532, abs=0.003)
    assert both == pytest.approx(0.0144 / (0.0532 + 0.0490), abs=0.002)


def test_several_texts() -> None:
    twice = Unitizing([[FIRST, FIRST], [SECOND, FIRST]], [300, 300])
    one = twice.alpha(np.array([0]))
    assert one == pytest.approx(0.8587, abs=5e-5)
    assert twice.alpha(np.array([1, 1])) == 1.0
    assert one < twice.alpha() < 1
    assert math.isnan(Unitizing([[[]], [[]]], [10]).alpha())


def test_guessing_is_about_zero() -> None:
    generator = np.random.default_rng(1)

    def coder() -> list[list[Unit]]:
        starts = generator.integers(0, 180, 400)
        sizes = generator.integers(5, 20, 400)
        return [
            [Unit(int(a), int(a + n), "x")] for a, n in zip(starts, sizes, strict=True)
        ]

    assert abs(Unitizing([coder(), coder()], [200] * 400).alpha()) < 0.05


def test_units_of_a_label_that_overlap_are_one() -> None:
    joined = [Unit(0, 8, "a")]
    parts = [Unit(0, 5, "a"), Unit(3, 8, "a")]
    assert Unitizing([[joined], [parts]], [30]).alpha() == 1.0


PLACES = st.tuples(st.integers(0, 20), st.integers(1, 10), st.sampled_from("ab"))
MARKED = st.lists(PLACES, max_size=6).map(
    lambda rows: [Unit(a, a + n, label) for a, n, label in rows]
)


@given(given_units=MARKED, true_units=MARKED)
def test_measures_are_shares_and_symmetric(
    given_units: list[Unit], true_units: list[Unit]
) -> None:
    one = f1_of(matches([given_units], [true_units]))
    other = f1_of(matches([true_units], [given_units]))
    for name, measure in one.items():
        value = measure.value
        assert math.isnan(value) or 0 <= value <= 1
        mirror = name.replace("precision", "#").replace("recall", "precision")
        mirrored = other[mirror.replace("#", "recall")].value
        assert value == pytest.approx(mirrored, nan_ok=True)
    if given_units or true_units:
        assert one["exact f1"].value <= one["overlap f1"].value + 1e-12
    same_units = f1_of(matches([given_units], [given_units]))
    for name in ("exact f1", "overlap f1"):
        assert not given_units or same_units[name].value == 1.0


def test_counts_of_an_example() -> None:
    llm = [Unit(0, 4, "a"), Unit(5, 9, "b"), Unit(10, 12, "a")]
    true = [Unit(0, 4, "a"), Unit(5, 9, "a"), Unit(11, 15, "a"), Unit(20, 22, "a")]
    values = {name: score.value for name, score in f1_of(matches([llm], [true])).items()}
    assert values == pytest.approx(
        {
            "exact precision": 1 / 3,
            "exact recall": 1 / 4,
            "exact f1": 2 / 7,
            "overlap precision": 2 / 3,
            "overlap recall": 2 / 4,
            "overlap f1": 4 / 7,
        }
    )


def marked(rng: np.random.Generator, n: int) -> tuple[list[list[Unit]], list[list[Unit]]]:
    """Return passages of n texts, true ones and those that a model found."""
    true, llm = [], []
    for _ in range(n):
        places = [Unit(20 * i, 20 * i + 10, "x") for i in range(rng.poisson(1.5))]
        true.append(places)
        hits = [unit for unit in places if rng.random() < 0.8]
        llm.append(hits + [Unit(200, 210, "x")] * int(rng.random() < 0.2))
    return llm, true


@pytest.mark.parametrize("name", ["exact f1", "overlap f1", "exact recall"])
def test_slopes_are_derivatives_by_the_weights_of_texts(name: str) -> None:
    llm, true = marked(np.random.default_rng(3), 12)
    measure = f1_of(matches(llm, true))[name]
    for i in (0, 5):
        repeated = [
            f1_of(matches(llm * 200 + [llm[i]] * times, true * 200 + [true[i]] * times))
            for times in (1, 0)
        ]
        slope = (repeated[0][name].value - repeated[1][name].value) * 200
        assert slope == pytest.approx(measure.slopes[i], abs=2e-3)


def test_intervals_of_passages_hold() -> None:
    rng = np.random.default_rng(8)
    truth = f1_of(matches(*marked(rng, 20_000)))["exact f1"].value
    inside = 0
    for _ in range(300):
        low, high = f1_of(matches(*marked(rng, 40)))["exact f1"].limits(0.95)
        inside += low <= truth <= high
    assert 0.92 <= inside / 300 <= 0.99


def test_texts_without_an_error_have_an_interval() -> None:
    _, true = marked(np.random.default_rng(1), 30)
    low, high = f1_of(matches(true, true))["exact f1"].limits(0.95)
    assert 0.8 < low < high == 1


def test_alpha_has_the_interval_of_a_jackknife() -> None:
    llm, true = marked(np.random.default_rng(5), 30)
    of = Unitizing([llm, true], [300] * 30)
    alpha = of.statistic()
    without = np.array([of.alpha(np.flatnonzero(np.arange(30) != i)) for i in range(30)])
    spread = np.sqrt(29 / 30 * ((without - without.mean()) ** 2).sum())
    low, high = alpha.limits(0.95)
    assert alpha.value == of.alpha()
    assert high - low == pytest.approx(2 * 2.04523 * spread, rel=1e-4)
