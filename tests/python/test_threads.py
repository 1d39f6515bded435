"""The threads that ggml computes on."""

from __future__ import annotations

import sys
import time
import warnings
from typing import TYPE_CHECKING

import llamaherd as lh
import pytest
from llamaherd import _native, threads

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    TinyPath = Callable[[str], Path]

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")


@on_linux
def test_ggml_computes_on_our_threads_however_it_was_compiled_by_default() -> None:
    assert _native.own_threads()


@on_linux
@pytest.mark.model
def test_threads_of_an_idle_context_sleep(smollm2: lh.Model) -> None:
    with lh.Context(smollm2, n_threads=3) as context:
        lh.generate(context, "Hello", max_tokens=2)
        before = time.process_time()
        time.sleep(0.5)
        assert time.process_time() - before < 0.25  # three that spin: 1.5


@on_linux
def test_one_warning_where_ggml_computes_with_other_threads(
    monkeypatch: pytest.MonkeyPatch, tiny_path: TinyPath
) -> None:
    monkeypatch.setattr(_native, "own_threads", lambda: False)
    monkeypatch.setattr(threads, "_warned", set())
    with lh.Model(tiny_path("llama")) as model:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            lh.Context(model, n_threads=1)
        with pytest.warns(UserWarning, match="GGML_OPENMP=ON.*llama-cpp-python=="):
            lh.Context(model, n_threads=2)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            lh.Context(model, n_threads=2)
