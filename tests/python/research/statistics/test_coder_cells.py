"""Tests that draws of right labels preserve the differences that are estimated."""

from __future__ import annotations

import llamaherd as lh
import numpy as np
import pandas as pd
import pytest
from llamaherd.research.statistics.coder_cells import cells_of

# The samples are small, so estimate() warns.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
N = 6000
RNG = np.random.default_rng(5)
PARTY = RNG.choice(["A", "B"], N)
TRUTH = RNG.random(N) < np.where(PARTY == "A", 0.05, 0.25)
DATA = pd.DataFrame(
    {
        "id": range(N),
        "label": np.where(RNG.random(N) < 0.9, TRUTH, ~TRUTH).astype(str),
        "party": PARTY,
        "age": RNG.normal(50, 10, N),
    }
)


def coded(sample: lh.GoldSample, right: float) -> lh.GoldSample:
    """Return the codes of three coders, all with the same probability of a right code."""
    rng, truth = np.random.default_rng(2), TRUTH[sample.rows]
    return sample.with_codes(
        {
            f"coder {j}": np.where(rng.random(len(truth)) < right, truth, ~truth)
            .astype(str)
            .tolist()
            for j in range(3)
        }
    )


def test_strata_of_labels_keep_their_shares() -> None:
    drawn = lh.gold_sample(
        DATA, 1200, by="label", allocation="equal", label="label", seed=1
    )
    found = lh.estimate(
        DATA,
        coded(drawn, 0.85),
        outcome="True",
        consensus="one_coin",
        methods=["dsl", "gold"],
    )
    for row in found.rows:  # with one prior for all strata it would be about 0.22
        assert row.estimate == pytest.approx(TRUTH.mean(), abs=0.03)
        assert row.low < TRUTH.mean() < row.high


@pytest.mark.long(
    reason="simulates studies or compares with other packages on many samples"
)
def test_groups_keep_their_difference() -> None:
    drawn = lh.gold_sample(DATA, 1500, label="label", seed=1)
    sample = coded(drawn, 0.8)
    found = lh.estimate(
        DATA,
        sample,
        by="party",
        outcome="True",
        consensus="one_coin",
        methods=["gold"],
    )
    difference = next(row for row in found.rows if row.term == "difference")
    true = TRUTH[PARTY == "B"].mean() - TRUTH[PARTY == "A"].mean()
    assert difference.estimate == pytest.approx(true, abs=0.06)
    slope = lh.estimate(
        DATA,
        sample,
        "label == 'True' ~ party",
        consensus="one_coin",
        methods=["gold"],
    ).rows[-1]
    assert slope.estimate == pytest.approx(difference.estimate, abs=0.02)


def test_small_cells_join_others() -> None:
    first = ["a"] * 30 + ["b"] * 30
    second = ["x"] * 26 + ["y"] * 4 + ["x"] * 15 + ["y"] * 15
    found = cells_of([0] * 60, first, [second])
    # Fewer than ten texts have "a", "y"; fewer than ten texts with "a" remain if those
    # with "a", "x" are removed.
    assert sorted(np.bincount(found + 1).tolist()) == [4, 15, 15, 26]
    assert (found == -1).tolist() == [False] * 26 + [True] * 4 + [False] * 30
    second[26:44] = ["y"] * 4 + ["z"] * 9 + ["x"] * 5
    first[30:39] = ["a"] * 9
    found = cells_of([0] * 60, first, [second])
    # The texts with "a", "y" and with "a", "z" form one cell, without "a", "x".
    assert np.flatnonzero(found == found[26]).tolist() == list(range(26, 39))


def test_many_numbers_are_cut_in_thirds_and_many_texts_ignored() -> None:
    ages = DATA["age"].tolist()[:90]
    zeros = [0] * 90
    found = cells_of(zeros, zeros, [ages])
    assert sorted(set(found.tolist())) == [0, 1, 2]
    low, high = np.quantile(ages, [1 / 3, 2 / 3])
    assert len(set(found[np.array(ages) < low].tolist())) == 1
    assert len(set(found[np.array(ages) > high].tolist())) == 1
    names = [f"text {i}" for i in range(90)]
    assert set(cells_of(zeros, zeros, [names]).tolist()) == {0}
    whole, parts = ([1, 2] * 45, [1.0, 2.0] * 45)
    assert (cells_of(whole, zeros) == cells_of(parts, zeros)).all()
    assert set(cells_of([1, 2] * 4, [0] * 8).tolist()) == {-1}


def test_many_labels_and_strata_are_kept() -> None:
    labels = [f"label {i % 12}" for i in range(240)]
    found = cells_of([0] * 240, labels)
    assert len(set(found.tolist())) == 12
    assert (found[:12] == found[12:24]).all()
    assert len(set(cells_of([i % 20 for i in range(240)], [0] * 240).tolist())) == 20
