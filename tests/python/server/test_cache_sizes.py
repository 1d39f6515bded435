"""Memory for the caches of several models, without any model."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from llamaherd.server.models.spec import cache_sizes


@pytest.mark.parametrize(
    ("weights", "n_bytes", "caches"),
    [
        ([80, 80], 1000, [420, 420]),  # both models fit
        ([800, 80], 1000, [100, 60]),
        ([800, 800], 1000, [200, 200]),  # one model at a time
        ([800, 400, 300], 1000, [200, 200, 200]),
        ([950, 80], 1000, [920, 920]),  # the first model never fits
        ([2000], 1000, [250]),
        ([8] * 10, 90, [1] * 10),
    ],
)
def test_caches_share_what_the_weights_leave(
    weights: list[int], n_bytes: int, caches: list[int]
) -> None:
    assert cache_sizes(weights, n_bytes) == caches


def test_the_least_memory_counts_which_models_fit_together() -> None:
    """Without the least memory, both models of 300 bytes would get 200 bytes each."""
    assert cache_sizes([300, 300], 1000) == [200, 200]
    assert cache_sizes([300, 300], 1000, [250, 250]) == [700, 700]
    assert cache_sizes([100, 900], 1000, [800, 50]) == [800, 100]
    assert cache_sizes([100, 900], 1000, [950, 150]) == [950, 150]  # no model fits


@given(
    st.lists(st.tuples(st.integers(1, 500), st.integers(0, 500)), min_size=1),
    st.integers(1, 1000),
)
def test_a_model_gets_its_least_memory_and_fits_with_what_it_gets(
    models: list[tuple[int, int]], n_bytes: int
) -> None:
    weights, least = [list(each) for each in zip(*models, strict=True)]
    caches = cache_sizes(weights, n_bytes, least)
    for n, more, cache in zip(weights, least, caches, strict=True):
        assert cache >= more
        assert (n + cache <= n_bytes) == (n + more <= n_bytes)


@given(st.lists(st.integers(1, 500), min_size=1), st.integers(1, 1000))
def test_a_model_fits_exactly_if_it_fits_with_a_cache(
    weights: list[int], n_bytes: int
) -> None:
    caches = cache_sizes(weights, n_bytes)
    for n, cache in zip(weights, caches, strict=True):
        assert cache >= n // 8
        assert (n + cache <= n_bytes) == (n + n // 8 <= n_bytes)
