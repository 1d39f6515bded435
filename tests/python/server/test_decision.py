"""Decisions to load and unload models, tested without any model."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from llamaherd.server.models.decision import Decision, Resident, Wanted, decide
from llamaherd.server.models.spec import cache_sizes


def _models(**models: tuple[int, str, int, int]) -> dict[str, Resident]:
    """Return models by name, from bytes, state, requests and time of the last request."""
    return {
        name: Resident(n_bytes=n, state=state, n_leases=leases, used=used)  # type: ignore[arg-type]
        for name, (n, state, leases, used) in models.items()
    }


A, B, C = "a", "b", "c"


@pytest.mark.parametrize(
    ("models", "wanted", "expected"),
    [
        # there is enough memory
        (
            _models(a=(4, "loaded", 1, 1), b=(6, "unloaded", 0, 0)),
            [Wanted(B)],
            Decision(load=(B,)),
        ),
        # the least recently used model is unloaded
        (
            _models(
                a=(5, "loaded", 0, 2), b=(5, "loaded", 0, 1), c=(5, "unloaded", 0, 0)
            ),
            [Wanted(C)],
            Decision(unload=(B,)),
        ),
        # a model with requests is not unloaded
        (
            _models(
                a=(5, "loaded", 0, 2), b=(5, "loaded", 1, 1), c=(5, "unloaded", 0, 0)
            ),
            [Wanted(C)],
            Decision(unload=(A,)),
        ),
        # one large model suffices
        (
            _models(
                a=(8, "loaded", 0, 2), b=(2, "loaded", 0, 1), c=(7, "unloaded", 0, 0)
            ),
            [Wanted(C)],
            Decision(unload=(A,)),
        ),
        # no model is unloaded if all together do not suffice
        (
            _models(
                a=(5, "loaded", 0, 2), b=(5, "loaded", 1, 1), c=(7, "unloaded", 0, 0)
            ),
            [Wanted(C)],
            Decision(),
        ),
        # unless the waiting request is urgent
        (
            _models(
                a=(5, "loaded", 0, 2), b=(5, "loaded", 1, 1), c=(7, "unloaded", 0, 0)
            ),
            [Wanted(C, is_urgent=True)],
            Decision(unload=(A,), hold=frozenset({B})),
        ),
        # wait for memory that becomes free
        (
            _models(a=(8, "unloading", 0, 1), b=(7, "unloaded", 0, 0)),
            [Wanted(B)],
            Decision(),
        ),
        # the memory is for one model only
        (
            _models(
                a=(8, "unloading", 0, 1), b=(7, "unloaded", 0, 0), c=(2, "unloaded", 0, 0)
            ),
            [Wanted(B), Wanted(C)],
            Decision(),
        ),
        # a later model that fits does not wait for an earlier one that does not fit
        (
            _models(
                a=(7, "loaded", 1, 1), b=(7, "unloaded", 0, 0), c=(2, "unloaded", 0, 0)
            ),
            [Wanted(B), Wanted(C)],
            Decision(load=(C,)),
        ),
        # unless the earlier one is urgent: its memory stays reserved
        (
            _models(
                a=(7, "loaded", 1, 1), b=(9, "unloaded", 0, 0), c=(3, "unloaded", 0, 0)
            ),
            [Wanted(B, is_urgent=True), Wanted(C)],
            Decision(hold=frozenset({A})),
        ),
        # a model that can never fit has no effect on others
        (
            _models(a=(5, "loaded", 0, 1), b=(11, "unloaded", 0, 0)),
            [Wanted(B, is_urgent=True)],
            Decision(),
        ),
    ],
)
def test_decisions(
    models: dict[str, Resident], wanted: list[Wanted], expected: Decision
) -> None:
    assert decide(models, wanted, 10) == expected


_RESIDENTS = st.builds(
    Resident,
    n_bytes=st.integers(1, 12),
    state=st.sampled_from(["unloaded", "loading", "loaded", "unloading"]),
    n_leases=st.integers(0, 1),
    used=st.integers(0, 9),
)


@given(st.dictionaries(st.sampled_from("abcdef"), _RESIDENTS, min_size=1), st.data())
def test_memory_is_never_exceeded_and_no_request_loses_its_model(
    models: dict[str, Resident], data: st.DataObject
) -> None:
    taken = sum(x.n_bytes for x in models.values() if x.state != "unloaded")
    n_bytes = max(12, taken)
    names = data.draw(st.permutations(sorted(models)))
    wanted = [Wanted(name, data.draw(st.booleans())) for name in names]
    got = decide(models, wanted, n_bytes)
    assert taken + sum(models[name].n_bytes for name in got.load) <= n_bytes
    for name in got.load:
        assert models[name].state == "unloaded"
    for name in got.unload:
        assert (models[name].state, models[name].n_leases) == ("loaded", 0)
    for name in got.hold:
        assert (models[name].state, models[name].n_leases) == ("loaded", 1)
    assert len(set(got.unload)) == len(got.unload)
    # The first model is loaded as soon as all other chosen models are unloaded.
    first = models[names[0]]
    if first.state == "unloaded" and first.n_bytes <= n_bytes and wanted[0].is_urgent:
        stays = sum(
            x.n_bytes
            for name, x in models.items()
            if x.state == "loading" or name in set(got.load) - {names[0]}
        )
        kept = sum(
            x.n_bytes
            for name, x in models.items()
            if x.state == "loaded" and name not in {*got.unload, *got.hold}
        )
        assert first.n_bytes + stays + kept <= n_bytes or stays > 0


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
