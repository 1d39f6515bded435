"""Exact coverage of the rule for intervals, without simulation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from llamaherd.coding.statistics.uncertainty import (
    Cases,
    Spread,
    heaviest,
    skewness_noise,
)
from scipy import stats


def shares_of(n: int, drawn: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Return limits of a share for each number of hits in n codes, float64[n + 1].

    The codes are a share `drawn` of the texts that are described.
    """
    k = np.arange(n + 1)
    p, left = k / n, 1 - drawn
    third = left * p * (1 - p) * (1 - 2 * p) / n**2
    spread = Spread(
        variance=left * p * (1 - p) / (n - 1),
        third=(1 - 2 * drawn) * third,
        joint=left * third,
        df=np.full(n + 1, n - 1.0),
        noise=skewness_noise(np.where(np.arange(n)[:, None] < k, 1 - p, -p) / n),
        cases=(
            Cases.of((1 - p) / n, (1 - p) / n, k * ((1 - p) / n) ** 2),
            Cases.of(p / n, -p / n, (n - k) * (p / n) ** 2),
        ),
    )
    low, high, errors = spread.limits(p, 0.95)
    assert (errors >= np.sqrt(spread.variance)).all()
    return np.maximum(low, 0), np.minimum(high, 1)


@pytest.mark.parametrize("n", [30, 50, 100, 200, 500])
def test_intervals_of_a_share_cover_as_wilsons_do_and_are_as_short(n: int) -> None:
    low, high = shares_of(n)
    k = np.arange(n + 1)
    p_hat, far = k / n, stats.t.ppf(0.975, n - 1)
    wald = far * np.sqrt(p_hat * (1 - p_hat) / (n - 1))
    covered, plain = [], []
    for p in np.linspace(0.01, 0.5, 50):
        chance = stats.binom.pmf(k, n, p)
        covered.append(chance[(low <= p) & (p <= high)].sum())
        plain.append(chance[abs(p_hat - p) <= wald].sum())
        if n * p >= 5:
            width = chance @ (high - low)
            assert width < 1.05 * (chance @ (2 * wald))
    assert np.mean(covered) > 0.945
    assert np.min(covered) > 0.92
    assert np.min(covered) > np.min(plain) + 0.05


@pytest.mark.parametrize(("n_texts", "n"), [(200, 180), (200, 160), (100, 50)])
def test_limits_of_the_share_of_a_set_miss_it_equally_often(n_texts: int, n: int) -> None:
    low, high = shares_of(n, n / n_texts)
    missed = []
    for hits in range(n_texts // 10, n_texts // 3):
        chance = stats.hypergeom.pmf(np.arange(n + 1), n_texts, hits, n)
        share = hits / n_texts
        missed.append([chance[share < low].sum(), chance[share > high].sum()])
    too_high, too_low = np.mean(missed, axis=0)
    assert too_high < 0.03
    assert too_low < 0.03


def test_a_case_fades_with_the_cases_seen() -> None:
    size = np.full(6, 0.1)
    cases = Cases.of(size, size, np.arange(6) * 0.01)
    assert cases.fade == pytest.approx([1, 0.8, 0.6, 0.4, 0.2, 0])
    none = Spread.symmetric(np.zeros(6), np.full(6, 50.0))
    low, high, errors = none.limits(np.zeros(6), 0.95)
    assert not np.any([low, high, errors])
    one = replace(none, cases=(cases,))
    low, high, _ = one.limits(np.zeros(6), 0.95)
    assert high[0] == pytest.approx(0.1 * (1 + stats.t.ppf(0.975, 50)))
    assert (np.diff(high) < 0).all()
    assert high[5] == pytest.approx(0, abs=1e-6)
    assert low == pytest.approx(0, abs=1e-6)  # such a case raises estimates only


def test_one_text_that_is_hardly_ever_drawn_does_not_decide() -> None:
    probs = np.array([1e-6, *[0.1] * 1000])
    assert heaviest(1 / probs, probs, 0.95) == pytest.approx(10, rel=0.03)
    assert heaviest(np.zeros(0), np.zeros(0), 0.95) == 0


def test_skewness_is_known_for_a_share_and_noisy_for_errors_of_both_signs() -> None:
    n = 1000
    errors = np.zeros((n, 3))
    errors[:20, 0] = 1  # of one sign and size
    errors[:10, 1], errors[10:20, 1] = 1, -1
    errors[:16, 2], errors[16:20, 2] = 1, 4  # of two weights
    share, signs, weights = skewness_noise(errors - errors.mean(axis=0))
    assert share == pytest.approx(0, abs=1e-12)
    assert signs == pytest.approx(1 / 20, rel=0.1)
    assert 0.1 < signs / weights < 10


def test_a_noisy_skewness_does_not_shorten_the_short_side() -> None:
    plain = Spread.symmetric(np.ones(2), np.full(2, 99.0))
    moment = np.array([0.2, -0.2])
    skewed = replace(plain, third=moment, joint=moment)
    noisy = replace(skewed, noise=np.full(2, 0.5))
    low, high, _ = plain.limits(np.zeros(2), 0.95)
    short_low, short_high, _ = skewed.limits(np.zeros(2), 0.95)
    noisy_low, noisy_high, _ = noisy.limits(np.zeros(2), 0.95)
    assert short_low[0] > low[0] == noisy_low[0]
    assert short_high[1] < high[1] == noisy_high[1]
    assert noisy_high[0] == short_high[0] > high[0]
    assert noisy_low[1] == short_low[1] < low[1]
