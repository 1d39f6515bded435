"""Tests of samples drawn in waves: exact results for small populations."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from llamaherd.coding.gold import waves
from llamaherd.coding.gold.waves import Wave

CODES = np.array([1.0, 0.0, 3.0, 2.0, 5.0, 1.0])
N = len(CODES)


def wave(rows: list[int], probs: np.ndarray, n_left: int) -> Wave:
    return Wave(
        rows=np.array(rows),
        probs=probs,
        strata=np.where(probs > 0, 0, -1),
        n=len(rows),
        n_left=n_left,
    )


def by_codes(drawn: tuple[int, ...]) -> np.ndarray:
    """Return probabilities of a further text, which depend on the first codes."""
    sizes = np.arange(1, N + 1) ** (1 + CODES[list(drawn)].sum() % 3)
    sizes = np.where(np.isin(np.arange(N), drawn), 0.0, sizes)
    return sizes / sizes.sum()


def test_the_total_is_unbiased_although_the_second_wave_depends_on_codes() -> None:
    mean, mean_square, estimates = 0.0, 0.0, []
    first = list(combinations(range(N), 2))
    for drawn in first:
        probs = by_codes(drawn)
        for i in np.flatnonzero(probs):
            combined = waves.combine(
                [wave(list(drawn), np.full(N, 2 / N), N), wave([i], probs, N - 2)]
            )
            total = float(combined.weights @ CODES[combined.rows])
            mean += total * probs[i] / len(first)
            mean_square += total**2 * probs[i] / len(first)
            estimates.append(total)
    assert mean == pytest.approx(CODES.sum(), abs=1e-12)
    assert len(set(np.round(estimates, 6))) > 20  # the estimate varies over draws


def test_pooled_probabilities_would_be_biased() -> None:
    mean = 0.0
    first = list(combinations(range(N), 2))
    for drawn in first:
        probs = by_codes(drawn)
        for i in np.flatnonzero(probs):
            rows = [*drawn, i]
            pooled = 1 - (1 - 2 / N) * (1 - probs)
            pooled[list(drawn)] = 2 / N
            mean += (CODES[rows] / pooled[rows]).sum() * probs[i] / len(first)
    assert abs(mean - CODES.sum()) > 1


def test_simple_waves_are_one_simple_sample() -> None:
    n_texts, sizes = 100, [10, 20, 5]
    rng = np.random.default_rng(1)
    left, drawn = np.arange(n_texts), []
    for n in sizes:
        rows = rng.choice(left, n, replace=False)
        probs = np.where(np.isin(np.arange(n_texts), left), n / len(left), 0.0)
        drawn.append(wave(rows.tolist(), probs, len(left)))
        left = np.setdiff1d(left, rows)
    combined = waves.combine(drawn)
    assert combined.weights == pytest.approx(np.full(35, 100 / 35))
    assert combined.all_probs == pytest.approx(np.full(100, 0.35))
    assert (np.diff(combined.rows) > 0).all()
    # With one variance for all waves, the variance equals the variance of a simple sample
    # of 35.
    variance = float((combined.scale**2 * combined.left).sum())
    assert variance == pytest.approx(100 * 65 / 35)


def test_all_texts_drawn_leaves_nothing_to_estimate() -> None:
    probs = np.array([0, 0, 1.0, 1.0])
    combined = waves.combine([wave([0, 1], np.full(4, 0.5), 4), wave([2, 3], probs, 2)])
    assert combined.weights == pytest.approx(np.ones(4))


@given(
    sizes=st.lists(st.floats(0.01, 100), min_size=5, max_size=30),
    share=st.floats(0.05, 0.9),
    floor=st.floats(0, 1),
    before=st.integers(1, 20),
)
def test_bounds_hold_and_no_text_weighs_less_than_one(
    sizes: list[float], share: float, floor: float, before: int
) -> None:
    m = len(sizes)
    n = max(1, min(m - 1, round(share * m)))
    most = waves.shares([before, n], m + before)[-1]
    probs = waves.bounded_probs(np.array(sizes), n, floor, most)
    assert probs.sum() == pytest.approx(n)
    assert (probs <= most + 1e-9).all()
    assert (probs >= floor * n / m * (1 - 1e-9)).all()
    of = waves.shares([before, n], m + before)
    assert (of[1] / probs >= 1 - 1e-9).all()


def test_a_size_must_be_a_number_above_0() -> None:
    with pytest.raises(ValueError, match="above 0"):
        waves.bounded_probs(np.array([0.0, 1.0, 2.0]), 1, 0.0, 0.9)
    with pytest.raises(ValueError, match="finite"):
        waves.bounded_probs(np.array([np.nan, 1.0]), 1, 0.5, 0.9)


def test_waves_of_one_text_have_the_weights_of_r_lure() -> None:
    # Farquhar, Gal, Rainforth, ICLR 2021: R_LURE is the mean over the M drawn texts of
    # v_m L(i_m), v_m = 1 + (N - M) / (N - m) (1 / ((N - m + 1) q_m(i_m)) - 1).
    rng = np.random.default_rng(3)
    n_texts, n = 9, 5
    left, drawn, expected = np.arange(n_texts), [], np.zeros(n_texts)
    for m in range(1, n + 1):
        probs = np.zeros(n_texts)
        probs[left] = rng.dirichlet(np.full(len(left), 2.0))
        i = int(rng.choice(n_texts, p=probs))
        drawn.append(wave([i], probs, len(left)))
        v = 1 + (n_texts - n) / (n_texts - m) * (1 / ((n_texts - m + 1) * probs[i]) - 1)
        expected[i] = n_texts / n * v
        left = np.setdiff1d(left, [i])
    combined = waves.combine(drawn)
    assert combined.weights == pytest.approx(expected[combined.rows], rel=1e-12)
    assert np.ptp(combined.weights) > 0.1
