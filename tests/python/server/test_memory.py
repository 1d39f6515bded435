"""Memory for the caches of several models, and models that could never fit."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
import tiny_models
from hypothesis import given
from hypothesis import strategies as st
from llamaherd.cli.main import main
from llamaherd.engine.loop.sizing import Work
from llamaherd.remote.processes import LANGUAGE_VARIABLE
from llamaherd.server import app, serving
from llamaherd.server.models.spec import cache_sizes

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Serve = Callable[..., tuple[int, str]]


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


# Options and the models that the error names.
CASES: list[tuple[list[str], list[str]]] = [
    (["one.gguf"], ["'one'"]),
    (["one.gguf", "--alias", "gpt-4"], ["'one'"]),
    (["one.gguf", "--n-ctx", "4096"], ["'one'"]),
    (["vectors.gguf"], ["'vectors'"]),
    (["one.gguf", "--embedding-model", "vectors.gguf"], ["'one' and 'vectors'"]),
    (["one.gguf", "--lora", "style=style.gguf"], ["'one'"]),
    (["one.gguf", "--model", "b=two.gguf"], ["'one'", "'b'"]),
    (["one.gguf", "--any-model", "--model", "vectors.gguf"], ["'one'", "'vectors'"]),
    (["--model", "one.gguf", "--model", "vectors.gguf", "--n-ctx", "999"], ["'one'"]),
]


@pytest.fixture
def serve(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Serve:
    """Return a function that starts a server, which ends at once."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(serving.Server, "run", lambda *_: None)

    def run(*options: str) -> tuple[int, str]:
        always = ("--port", "0", "--n-threads", "1", "--n-seq-max", "4")
        status = main(["serve", *always, *options])
        return status, capsys.readouterr().err

    return run


def _needed(error: str) -> dict[str, float]:
    """Return the memory that an error names, in tenths of MB."""
    found = re.findall(r"(\d+\.\d) MB for ('[^,]+')[,\n]", error)
    return {names: round(10 * float(size)) for size, names in found}


@pytest.mark.parametrize(("options", "names"), CASES, ids=" ".join)
def test_a_server_starts_with_the_memory_that_the_error_names(
    serve: Serve, options: list[str], names: list[str]
) -> None:
    status, error = serve(*options, "--memory", "1kb")
    assert status == 2
    assert "--memory is 0.0 MB, but with KV cache and buffers" in error
    needed = _needed(error)
    assert set(names) <= set(needed)
    most = int(max(needed.values()))
    assert serve(*options, "--memory", f"{most}00kb") == (0, "")
    status, error = serve(*options, "--memory", f"{most - 1}00kb")
    assert (status, max(_needed(error).values())) == (2, most)


def test_available_memory_is_a_limit_for_several_models(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "memory_of_model", lambda _: 1000)
    status, error = serve("one.gguf", "--model", "two.gguf")
    assert status == 1
    assert "0.0 MB of memory are available for models" in error
    assert set(_needed(error.replace(":", ","))) == {"'one'", "'two'"}
    assert "--memory" not in error


def test_r_sees_the_argument_of_its_function(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(LANGUAGE_VARIABLE, "R")
    status, error = serve("one.gguf", "--memory", "1kb")
    assert status == 2
    assert error.startswith("llamaherd: memory of server_start() is 0.0 MB, but")


def test_the_cache_of_one_model_stays_within_the_memory(
    serve: Serve, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned: list[int] = []

    def create(host: Any, *_: object) -> Any:
        work = Work(needs=[tiny_models.N_CTX] * 4)
        planned.append(host._sizing.plan(work).memory_bytes)
        return make(host, *_)

    make = app.create_app
    monkeypatch.setattr(app, "create_app", create)
    _, error = serve("one.gguf", "--memory", "1kb")
    least = int(max(_needed(error).values()))
    assert serve("one.gguf")[0] == serve("one.gguf", "--memory", f"{least}00kb")[0] == 0
    free, limited = planned
    assert limited < free
    assert limited <= 100_000 * least - (folder / "one.gguf").stat().st_size
