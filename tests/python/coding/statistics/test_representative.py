"""Tests of samples that are declared as simple."""

from __future__ import annotations

import numpy as np
import pytest
from llamaherd.coding.estimation.design_checks import clustering_column
from llamaherd.coding.statistics.sampling import label_check
from scipy import stats


def test_a_simple_sample_is_refused_as_often_as_it_says() -> None:
    rng = np.random.default_rng(4)
    labels = rng.choice(["a", "b", "c"], 600, p=[0.7, 0.25, 0.05])
    p_values = np.array(
        [
            label_check(
                labels.tolist(), rng.choice(labels, 80, replace=False).tolist()
            ).p_value
            for _ in range(60)
        ]
    )
    assert (p_values < 0.1).mean() < 0.25
    assert np.median(p_values) == pytest.approx(0.5, abs=0.25)


def test_its_probability_is_near_that_of_chi_square() -> None:
    labels = ["a"] * 6000 + ["b"] * 3000 + ["c"] * 1000
    coded = ["a"] * 100 + ["b"] * 70 + ["c"] * 30
    check = label_check(labels, coded)
    chi = stats.chisquare([100, 70, 30], [120, 60, 20]).pvalue
    assert check.p_value == pytest.approx(chi, abs=0.01)
    assert check.expected == (120.0, 60.0, 20.0)
    assert "a: 100 coded, 120.0 expected" in str(check)


def test_nothing_to_compare_is_no_reason_to_warn() -> None:
    assert label_check(["a"] * 10, ["a"] * 3).p_value == 1.0
    assert label_check(["a", "b"], ["a", "b"]).p_value == 1.0


def test_numbers_are_compared_in_groups_of_their_size() -> None:
    numbers = np.random.default_rng(2).normal(size=30_000)
    labels = [f"{number:.12g}" for number in numbers]
    simple = label_check(labels, labels[:300])
    assert len(simple.labels) == 50
    assert all(name is not None and len(name) < 30 for name in simple.labels)
    assert sum(simple.n_texts) == len(labels)
    assert max(simple.n_texts) - min(simple.n_texts) <= 1
    assert simple.p_value > 0.01
    largest = label_check(labels, [labels[i] for i in np.argsort(numbers)[-300:]])
    assert largest.is_unlikely


def test_rare_labels_are_one_group() -> None:
    labels = [*(["frequent"] * 500), *(f"label {i}" for i in range(2000)), None]
    check = label_check(labels, labels[:60])
    assert len(check.labels) <= 51
    assert dict(zip(check.labels, check.n_texts, strict=True))["frequent"] == 500
    assert sum(check.n_texts) == len(labels)
    assert check.is_unlikely


def test_a_column_of_clusters_is_found_for_many_numbers() -> None:
    rng = np.random.default_rng(3)
    n = 20_000
    author = np.arange(n) // 20
    numbers = rng.normal(size=n // 20)[author] + rng.normal(size=n)
    frame = {"author": author.tolist()}
    labels = [f"{number:.12g}" for number in numbers]
    column = clustering_column(frame, labels, np.arange(n), ())
    assert column is not None
    assert column[0] == "author"
