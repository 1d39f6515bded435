"""Tests of draws with known inclusion probabilities."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from llamaherd.coding.estimation.estimate import estimate
from llamaherd.coding.gold.size import gold_size
from llamaherd.coding.statistics import dsl, sampling
from scipy.stats import hypergeom
from simulated_texts import by_dsl, by_gold

DRAWS = 2500
Z = 1.959963984540054


def frequencies(draw: object, n_texts: int, draws: int = DRAWS) -> np.ndarray:
    """Return the share of draws that contain each text."""
    rng = np.random.default_rng(7)
    counts = np.zeros(n_texts)
    for _ in range(draws):
        counts[draw(rng).rows] += 1
    return counts / draws


def assert_equal_probs(shares: np.ndarray, probs: np.ndarray) -> None:
    """Compare by a chi-squared sum; a correct draw fails once in a million times."""
    spread = probs * (1 - probs) / DRAWS
    assert shares[spread == 0] == pytest.approx(probs[spread == 0])
    z = (shares - probs)[spread > 0] / np.sqrt(spread[spread > 0])
    assert np.abs(z).max() < 5
    assert (z**2).sum() < len(z) + 5 * math.sqrt(2 * len(z))


def test_simple_draws() -> None:
    shares = frequencies(lambda rng: sampling.draw_simple(30, 12, rng), 30)
    assert_equal_probs(shares, np.full(30, 0.4))
    draw = sampling.draw_simple(30, 12, np.random.default_rng(1))
    assert draw.probs.tolist() == [0.4] * 12
    assert sorted(set(draw.rows.tolist())) == draw.rows.tolist()


@pytest.mark.long(
    reason="simulates studies or compares with other packages on many samples"
)
@pytest.mark.parametrize(
    "allocation", ["proportional", "equal", {"a": 5, "b": 1, "c": 4}]
)
def test_stratified_draws(allocation: object) -> None:
    strata = ["a"] * 20 + ["b"] * 3 + ["c"] * 17

    def draw(rng: np.random.Generator) -> sampling.Draw:
        return sampling.draw_stratified(strata, 10, rng, allocation)

    one = draw(np.random.default_rng(0))
    assert_equal_probs(frequencies(draw, 40), one.all_probs)
    sizes = (
        {"proportional": {"a": 4, "b": 2, "c": 4}, "equal": {"a": 4, "b": 3, "c": 3}}.get(
            allocation, allocation
        )
        if isinstance(allocation, str)
        else allocation
    )
    assert Counter(strata[i] for i in one.rows) == sizes
    assert one.all_probs.sum() == pytest.approx(10)


def test_each_stratum_gets_two_where_it_has_them() -> None:
    strata = ["rare"] + ["few"] * 2 + ["many"] * 997
    draw = sampling.draw_stratified(strata, 50, np.random.default_rng(0))
    assert Counter(strata[i] for i in draw.rows) == {"rare": 1, "few": 2, "many": 47}
    assert draw.all_probs[0] == 1
    with pytest.raises(ValueError, match=r"n must be between 5 .* and 1000, not 4"):
        sampling.draw_stratified(strata, 4, np.random.default_rng(0))


def test_unequal_draws() -> None:
    sizes = np.random.default_rng(3).gamma(0.5, size=40)
    probs = sampling.inclusion_probs(sizes, 12, 0.2)
    assert probs.sum() == pytest.approx(12)
    assert (probs >= 0.2 * 12 / 40 - 1e-12).all()
    assert probs.max() == 1  # the largest sizes have probability 1

    def draw(rng: np.random.Generator) -> sampling.Draw:
        return sampling.draw_unequal(probs, rng)

    assert_equal_probs(frequencies(draw, 40), probs)
    assert all(len(draw(np.random.default_rng(i)).rows) == 12 for i in range(50))


def test_inclusion_probabilities_by_hand() -> None:
    # Half of the 4 draws are allocated evenly: 0.2 for each of 10 texts. The other half
    # by size: 2 / 12 for each unit of size.
    sizes = np.array([3.0] + [1.0] * 9)
    probs = sampling.inclusion_probs(sizes, 4, 0.5)
    assert probs[0] == pytest.approx(0.2 + 2 * 3 / 12)
    assert probs[1] == pytest.approx(0.2 + 2 * 1 / 12)
    assert sampling.inclusion_probs(np.zeros(5), 2, 0.0).tolist() == [0.4] * 5
    capped = sampling.inclusion_probs(np.array([100.0, 1, 1, 2]), 2, 0.0)
    assert capped.tolist() == [1, 0.25, 0.25, 0.5]
    with pytest.raises(ValueError, match="n must be at most 1, the number of texts"):
        sampling.inclusion_probs(np.array([1.0, 0, 0]), 2, 0.0)


@pytest.mark.parametrize("seed", range(20))
def test_many_texts_with_any_probabilities(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = rng.gamma(0.1, size=5000) ** 2
    probs = sampling.inclusion_probs(sizes, 700, 0.05)
    draw = sampling.draw_unequal(probs, rng)
    assert len(set(draw.rows.tolist())) == 700
    assert set(np.flatnonzero(draw.all_probs == 1)) <= set(draw.rows.tolist())


@pytest.mark.parametrize(
    ("probs", "match"),
    [
        (
            [0.5, 0.7],
            "must sum to the number of texts to draw, a whole number, not to 1.2",
        ),
        ([1.5, 0.5], "a probability between 0 and 1"),
        ([math.nan, 1.0], "a probability between 0 and 1"),
        ([0.0, 0.0], "must sum"),
    ],
)
def test_what_are_no_probabilities_is_refused(probs: list[float], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        sampling.draw_unequal(np.array(probs), np.random.default_rng(0))


def test_sizes_are_near_those_of_the_textbook() -> None:
    # Cochran, "Sampling Techniques", 1977, 4.4: share 0.5, +- 0.05 at 95%: 385; with
    # 1,000 in all 385 / (1 + 384 / 1000). A t interval needs a few codes more.
    assert gold_size(0.05).gold == pytest.approx(385, rel=0.012)
    texts = gold_size(0.05, population=1000, target="texts")
    assert texts.gold == pytest.approx(278, rel=0.015)
    assert gold_size(0.05, population=1000).gold == gold_size(0.05).gold
    assert gold_size(0.05).dsl is None
    assert gold_size(0.003).gold == math.ceil(Z**2 * 0.25 / 0.003**2)


def test_sizes_with_labels() -> None:
    # Labels are right in 90%, the share is one half: kappa is 0.8, and the variance of
    # errors is 0.1.
    size = gold_size(0.05, accuracy=0.9)
    assert size.kappa == pytest.approx(0.8)
    assert size.dsl == pytest.approx(Z**2 * 0.1 / 0.05**2, rel=0.04)
    assert size.ppi == pytest.approx(Z**2 * 0.25 * (1 - 0.64) / 0.05**2, rel=0.04)
    assert size == gold_size(0.05, kappa=0.8) or size.kappa != 0.8
    assert f"{size.dsl} texts by DSL" in str(size)
    perfect = gold_size(0.05, accuracy=1.0)
    assert perfect.dsl == perfect.ppi  # enough that an unseen error hardly matters
    assert 50 < (perfect.dsl or 0) < 80
    useless = gold_size(0.05, kappa=0.0)
    # more than without labels
    assert useless.dsl == pytest.approx(2 * useless.gold, rel=0.02)
    assert useless.ppi == useless.gold
    with pytest.raises(ValueError, match="not both"):
        gold_size(0.05, accuracy=0.9, kappa=0.8)
    with pytest.raises(ValueError, match=r"accuracy must be at least 0\.5, the accuracy"):
        gold_size(0.05, accuracy=0.3)


@pytest.mark.filterwarnings("ignore::UserWarning")  # few codes, few errors
@pytest.mark.parametrize("share", [0.5, 0.1, 0.03])
def test_estimates_have_the_width_that_was_planned(share: float) -> None:
    """Intervals of `estimate` have half the width 0.04 on average, as planned."""
    n_texts, kappa = 1500, 0.8
    size = gold_size(0.04, share=share, kappa=kappa, population=n_texts)
    rng = np.random.default_rng(8)
    error = (1 - kappa) * share * (1 - share)
    cells = [1 - share - error, error, error, share - error]
    starts = np.round(np.cumsum([0, *cells]) * n_texts).astype(int)
    sizes = np.diff(starts)
    code, label = np.repeat([0, 0, 1, 1], sizes), np.repeat([0, 1, 0, 1], sizes)
    quantiles = (np.arange(25) + 0.5) / 25
    widths: dict[str, list[float]] = {"gold": [], "dsl": [], "ppi": []}
    for method, halves in widths.items():
        n = getattr(size, method)
        # Samples have all numbers of errors, and of codes 1, as often as by chance.
        false, missed, right = (
            hypergeom.ppf(rng.permutation(quantiles), n_texts, m, n) for m in sizes[1:]
        )
        for of_cells in np.transpose([n - false - missed - right, false, missed, right]):
            codes: list[int | None] = [None] * n_texts
            for start, m, drawn in zip(starts, sizes, of_cells.astype(int), strict=False):
                for row in start + rng.choice(m, drawn, replace=False):
                    codes[row] = int(code[row])
            (row,) = estimate(
                {"label": label.tolist()},
                codes,
                outcome="1",
                prob="simple",
                methods=[method],  # type: ignore[list-item] # of the names above
            ).rows
            halves.append((row.high - row.low) / 2)
        # With few codes PPI++ gives the labels a random weight, and may be shorter.
        least = 0.03 if method == "ppi" else 0.038
        assert least < np.mean(halves) < 0.042, method


@pytest.mark.parametrize("target", ["population", "texts"])
def test_sizes_for_given_texts_have_the_width_planned(target: sampling.Target) -> None:
    """A tenth of 1,000 texts has a wrong label, half of them in each direction."""
    n_texts = 1000
    size = gold_size(0.05, accuracy=0.9, population=n_texts, target=target)
    rng = np.random.default_rng(6)
    code = np.arange(n_texts) % 2.0
    label = np.where(np.arange(n_texts) % 20 < 18, code, 1 - code)
    ones = np.ones((n_texts, 1))
    for n, method in ((size.gold, by_gold), (size.dsl, by_dsl)):
        errors = []
        for _ in range(40):
            draw = sampling.draw_simple(n_texts, n or 0, rng)
            rows = draw.rows
            study = dsl.Problem(
                kind="ols", x_hat=ones, y_hat=label, rows=rows, x=ones[rows],
                y=code[rows], probs=draw.probs, strata=draw.strata[rows], target=target,
            )  # fmt: skip
            errors.append(method(study).std_errors[0])
        assert 1.97 * np.mean(errors) == pytest.approx(0.05, rel=0.03)


def test_widths_that_so_few_texts_cannot_give() -> None:
    with pytest.raises(ValueError, match=r"200 texts are too few .* 0\.0693 even if all"):
        gold_size(0.05, population=200)
    assert gold_size(0.05, population=200, target="texts").gold == 133
    # The narrowest possible interval needs nearly all texts.
    size = gold_size(0.0694, population=200, accuracy=0.9)
    assert size.gold == 200
    assert (size.dsl or 0) > 195
