"""Cells of coded texts, within which a model of coders draws right labels."""

from __future__ import annotations

import numpy as np
from llamaherd.research.statistics.coder_cells import cells_of


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
    ages = np.random.default_rng(5).normal(50, 10, 90).tolist()
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
