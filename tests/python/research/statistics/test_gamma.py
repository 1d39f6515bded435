"""Tests of gamma and of the best alignment of passages."""

from __future__ import annotations

import builtins
import math
from itertools import combinations, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llamaherd.research.codes.span_files import Unit
from llamaherd.research.statistics import gamma
from llamaherd.research.statistics.gamma import Gamma, shuffled
from llamaherd.research.statistics.unit_alignment import (
    Units,
    best_alignment,
    dissimilarity,
    units_of,
)

Coder = list[list[Unit]]


def coder(*units: tuple[int, int, str]) -> Coder:
    """Return a coder's units in a single text."""
    return [[Unit(*each) for each in units]]


def lowest(units: Units) -> float:
    """Return the lowest total disorder, by trying all alignments."""
    pairs = units.n_coders * (units.n_coders - 1) / 2

    def cost(members: list[int]) -> float:
        total = pairs - len(members) * (len(members) - 1) / 2
        for i, j in combinations(members, 2):
            if units.text[i] != units.text[j]:
                return math.inf
            total += float(dissimilarity(units, np.array([i]), np.array([j]))[0])
        return total / pairs

    def best(left: tuple[int, ...]) -> float:
        if not left:
            return 0.0
        by_coder: dict[int, list[int | None]] = {}
        for each in left[1:]:
            if units.coder[each] != units.coder[left[0]]:
                by_coder.setdefault(int(units.coder[each]), [None]).append(each)
        found = math.inf
        for chosen in product(*by_coder.values()):
            members = [left[0], *(each for each in chosen if each is not None)]
            rest = tuple(each for each in left if each not in members)
            found = min(found, cost(members) + best(rest))
        return found

    return best(tuple(range(len(units))))


UNIT = st.builds(
    lambda start, size, label: Unit(start, start + size, label),
    st.integers(0, 12),
    st.integers(1, 6),
    st.sampled_from("ab"),
)
CODER = st.lists(st.lists(UNIT, max_size=2), min_size=2, max_size=2)
CODERS = st.lists(CODER, min_size=2, max_size=4)


@pytest.mark.long(
    reason="simulates studies or compares with other packages on many samples"
)
@settings(max_examples=60)
@given(coders=CODERS)
def test_the_best_alignment_is_the_best_of_all(coders: list[Coder]) -> None:
    units = units_of(coders)
    disorder, first = best_alignment(units)
    assert disorder.sum() == pytest.approx(lowest(units), abs=1e-9)
    assert len(set(first.tolist())) == len(first)


@settings(max_examples=30)
@given(coders=CODERS, order=st.randoms(use_true_random=False))
def test_the_order_of_coders_units_and_texts_does_not_matter(
    coders: list[Coder], order: Any
) -> None:
    total = best_alignment(units_of(coders))[0].sum()
    other = [[order.sample(text, len(text)) for text in own] for own in coders]
    order.shuffle(other)
    texts = list(zip(*other, strict=True))
    order.shuffle(texts)
    other = [list(own) for own in zip(*texts, strict=True)]
    assert best_alignment(units_of(other))[0].sum() == pytest.approx(total)


@settings(max_examples=15)
@given(own=CODER, n=st.integers(2, 4))
def test_identical_coders_agree_perfectly(own: Coder, n: int) -> None:
    found = Gamma([own] * n, [20, 20], precision=1.0)
    n_units = sum(map(len, own))
    assert found.value() == (1.0 if n_units else pytest.approx(math.nan, nan_ok=True))
    assert (found.n_samples >= 30) == bool(n_units)


# pygamma-agreement 0.5.9, CombinedCategoricalDissimilarity(alpha=1, beta=1,
# delta_empty=1, AbsoluteCategoricalDissimilarity()): the disorder of the best alignment,
# and gamma and the expected disorder by ShuffleContinuumSampler with a precision of 1%.
ORACLE = [
    coder((0, 10, "a"), (15, 30, "b"), (40, 52, "a"), (60, 70, "c"), (75, 95, "b")),
    coder((2, 11, "a"), (14, 30, "b"), (38, 50, "b"), (61, 74, "c")),
    coder((0, 12, "a"), (20, 33, "a"), (41, 52, "a"), (55, 68, "c"), (76, 90, "b"),
          (97, 100, "a")),
    coder((1, 9, "b"), (44, 70, "c")),
]  # fmt: skip
DISORDERS = {2: 0.46689066, 3: 0.6462376, 4: 0.9951229}
EXPECTED = {2: 1.0672281980514526, 3: 1.158049464225769}
GAMMAS = {2: 0.56252027, 3: 0.44196028}


@pytest.mark.parametrize("n", DISORDERS)
def test_the_disorder_is_that_of_pygamma_agreement(n: int) -> None:
    units = units_of(ORACLE[:n])
    disorder, _ = best_alignment(units)
    assert disorder.sum() / (len(units) / n) == pytest.approx(DISORDERS[n], rel=1e-6)


@pytest.mark.parametrize("n", GAMMAS)
def test_gamma_is_that_of_pygamma_agreement(n: int) -> None:
    found = Gamma(ORACLE[:n], [95 if n == 2 else 100])
    # Both expected disorders are random: their errors are 1% and 2%.
    assert found.expected == pytest.approx(EXPECTED[n], rel=0.03)
    assert found.value() == pytest.approx(GAMMAS[n], abs=0.02)


def test_dissimilarities_by_hand() -> None:
    units = units_of([coder((0, 10, "a")), coder((2, 12, "a")), coder((0, 10, "b"))])
    i, j = np.array([0, 0, 1]), np.array([1, 2, 2])
    assert dissimilarity(units, i, j).tolist() == [(4 / 20) ** 2, 1, 1 + (4 / 20) ** 2]
    # All three together; a missing unit has the dissimilarity 1 to any other.
    disorder, _ = best_alignment(units)
    assert disorder.tolist() == [pytest.approx((0.04 + 1 + 1.04) / 3)]
    alone, _ = best_alignment(units_of([coder((0, 10, "a")), coder(), coder()]))
    assert alone.tolist() == [1]


def test_units_of_different_texts_are_not_aligned() -> None:
    here, there = [[Unit(0, 5, "a")], []], [[], [Unit(0, 5, "a")]]
    assert best_alignment(units_of([here, there]))[0].tolist() == [1, 1]
    both = Gamma([[*here, *here], [*here, *there]], [50] * 4)
    assert both.value(np.array([0])) == 1.0
    assert both.value(np.array([2, 3])) < 0.1 < both.value() < 0.9
    assert math.isnan(both.value(np.array([1])))


def test_random_continua_keep_lengths_labels_and_least_shifts() -> None:
    own = coder((0, 10, "a"), (20, 30, "b"), (90, 100, "a"))
    units = units_of([own, own, own])
    rng = np.random.default_rng(3)
    shifts = set()
    for _ in range(200):
        made = shuffled(units, np.array([0]), 100, rng)
        each = [made.taken(made.coder == k) for k in range(3)]
        assert all((one.end - one.start).tolist() == [10, 10, 10] for one in each)
        assert all(one.label.tolist() == [0, 1, 0] for one in each)
        begins = [int(one.start[0]) for one in each]
        assert all(
            ((one.start - one.start[0]) % 100 == [0, 20, 90]).all() for one in each
        )
        shifts.update(begins)
        assert all(5 <= abs(a - b) <= 95 for a, b in combinations(begins, 2))
    assert len(shifts) > 90


def test_long_units_leave_room_for_shifts() -> None:
    own = coder((0, 9, "a"))
    found = Gamma([own, coder((1, 10, "a")), own], [10], precision=1.0)
    assert math.isfinite(found.value())


def test_random_passages_agree_by_chance() -> None:
    rng = np.random.default_rng(5)

    def random() -> Coder:
        starts = rng.integers(0, 1960, 20)
        return [[Unit(int(a), int(a) + 40, str(rng.choice(["a", "b"]))) for a in starts]]

    values = [Gamma([random(), random()], [2000]).value() for _ in range(12)]
    assert abs(np.mean(values)) < 0.05


def test_the_number_of_random_continua_follows_their_variation() -> None:
    rng = np.random.default_rng(6)
    starts = np.sort(rng.integers(0, 960, 6))
    one = [[Unit(int(a), int(a) + 40, "a") for a in starts]]
    other = [[Unit(int(a) + 9, int(a) + 44, "a") for a in starts]]
    found = Gamma([one, other], [1000])
    assert 30 < found.n_samples < 1000
    assert found.error == pytest.approx(0.02, rel=0.5)
    assert Gamma([one, other], [1000], precision=0.5).n_samples == 30
    assert Gamma([one, other], [1000], precision=1e-5).n_samples == 1000  # the most
    same = Gamma([one, other], [1000])
    assert (same.expected, same.value()) == (found.expected, found.value())
    assert Gamma([one, other], [1000], seed=2).expected != found.expected


def test_fractional_solutions_are_solved_as_integer_programs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The linear program of three coders may have a lower, fractional solution."""
    from scipy import optimize  # noqa: PLC0415 - as in the module

    calls: list[int] = []
    real = optimize.milp

    def counted(cost: Any, **options: Any) -> Any:
        calls.append(len(cost))
        return real(cost, **options)

    monkeypatch.setattr(optimize, "milp", counted)
    rng = np.random.default_rng(1)
    for _ in range(150):
        coders = []
        for _ in range(3):
            starts, sizes = rng.integers(0, 8, 3), rng.integers(2, 7, 3)
            names = rng.choice(["a", "b"], 3)
            rows = zip(starts.tolist(), sizes.tolist(), names.tolist(), strict=True)
            coders.append(coder(*((a, a + n, name) for a, n, name in rows)))
        before = len(calls)
        units = units_of(coders)
        total = best_alignment(units)[0].sum()
        if len(calls) > before:
            assert total == pytest.approx(lowest(units), abs=1e-9)
            if len(calls) > 2:
                break
    assert calls


def test_labels_select_units() -> None:
    one = coder((0, 10, "a"), (40, 50, "b"))
    other = coder((0, 10, "a"), (70, 80, "b"))
    assert Gamma([one, other], [100], ["a"]).value() == 1.0
    assert Gamma([one, other], [100], ["b"]).value() < 0.5
    assert math.isnan(Gamma([one, other], [100], ["c"]).value())


def test_too_many_alignments_are_refused() -> None:
    own = coder(*((i, i + 50, "a") for i in range(30)))
    with pytest.raises(ValueError, match="too many passages that overlap for gamma"):
        best_alignment(units_of([own, own, own]), 10_000)


@pytest.mark.parametrize("limit", [0, 300])
def test_random_continua_with_many_alignments_are_aligned_in_parts(
    limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eight coders with five passages were refused, as 30 continua were one alignment."""
    coders = [coder((k, 9, "a"), (12 + k, 20, "b")) for k in range(4)]
    together = Gamma(coders, [40], precision=1.0)
    sizes = []
    real = best_alignment

    def counted(units: Units, *limits: int) -> Any:
        found = real(units, *limits)
        sizes.append(len(set(units.text.tolist())))
        return found

    monkeypatch.setattr(gamma, "best_alignment", counted)
    monkeypatch.setattr(gamma, "_MOST_TOGETHER", limit)
    in_parts = Gamma(coders, [40], precision=1.0)
    assert in_parts.expected == pytest.approx(together.expected)
    assert sum(sizes) == 1 + 30  # the coders themselves, and random continua
    assert max(sizes) == 1 if limit == 0 else 1 < max(sizes) < 30


def test_a_continuum_with_too_many_alignments_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    units = units_of([coder((0, 9, "a")), coder((1, 9, "a"))])
    monkeypatch.setattr(gamma, "MOST_COLUMNS", 0)
    monkeypatch.setattr(gamma, "_MOST_TOGETHER", 0)
    with pytest.raises(ValueError, match="too many passages that overlap for gamma"):
        gamma._disorders([units, units])


@pytest.mark.parametrize(("length", "n"), [(1, 2), (2, 3), (9, 4)])
def test_short_texts_of_many_coders_have_random_continua(length: int, n: int) -> None:
    """The draw of shifts did not end if the circle had no room for them."""
    own = coder((0, length, "a"))
    assert Gamma([own] * n, [length], precision=1.0).n_samples >= 30


@settings(max_examples=200)
@given(length=st.integers(1, 60), n=st.integers(2, 9), seed=st.integers(0, 99))
def test_shifts_are_apart(length: int, n: int, seed: int) -> None:
    apart = length / (2 * n)
    shifts = gamma._shifts(n, length, apart, np.random.default_rng(seed))
    assert len(shifts) == n
    away = [abs(int(a) - int(b)) for a, b in combinations(shifts, 2)]
    if length >= n:
        assert all(0 < each < length for each in away)
    # The least difference is reduced only if all positions could be excluded.
    if (2 * math.ceil(apart) - 1) * (n - 1) < length:
        assert all(apart <= each <= length - apart for each in away)


def test_shifts_are_drawn_as_by_rejection() -> None:
    drawn = [gamma._shifts(3, 12, 2.0, np.random.default_rng(k)) for k in range(6000)]
    found = np.array(drawn)
    assert np.bincount(found[:, 0], minlength=12) == pytest.approx(500, abs=110)
    # After the first shift, nine positions are left for the second one.
    gaps = np.bincount((found[:, 1] - found[:, 0]) % 12, minlength=12)
    assert gaps[[0, 1, 11]].tolist() == [0, 0, 0]
    assert gaps[2:11] == pytest.approx(6000 / 9, abs=130)


def test_without_scipy(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def no_scipy(name: str, *args: Any, **options: Any) -> Any:
        if name.startswith("scipy"):
            raise ImportError(name)
        return real(name, *args, **options)

    monkeypatch.setattr(builtins, "__import__", no_scipy)
    with pytest.raises(ImportError, match=r"gamma needs the package scipy: .*research"):
        best_alignment(units_of([coder((0, 5, "a")), coder((0, 5, "a"))]))
