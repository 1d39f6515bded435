"""Threads whose end is always noticed, ggml's threads, and shortage of memory."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
import warnings
from typing import TYPE_CHECKING

import llamaherd as lh
import pytest
from llamaherd.engine.loop import threads
from llamaherd.engine.native import shim
from waiting import HANGS_S, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    TinyPath = Callable[[str], Path]

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")


@on_linux
def test_ggml_computes_on_our_threads_however_it_was_compiled_by_default() -> None:
    assert shim.own_threads()


@on_linux
@pytest.mark.model
def test_threads_of_an_idle_context_sleep(smollm2: lh.Model) -> None:
    with lh.Context(smollm2, n_threads=3) as context:
        lh.generate(context, "Hello", max_tokens=2)
        before = time.process_time()
        time.sleep(0.5)
        assert time.process_time() - before < 0.25  # three spinning threads: 1.5


def test_a_thread_runs_and_says_so() -> None:
    is_done = threading.Event()
    worker = threads.Worker(is_done.set)
    assert is_done.wait(HANGS_S)
    wait_until(lambda: worker.is_over)


def test_a_thread_that_dies_before_it_says_that_it_runs_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # As with too little memory; threading.Thread would wait forever.
    monkeypatch.setattr(threads, "_run_in_thread", lambda *_args: None)
    with pytest.raises(RuntimeError, match="found no memory"):
        threads.Worker(lambda: None)


def test_work_whose_thread_ends_without_a_word_is_over() -> None:
    worker = threads.Worker(lambda: None)
    assert threads.wait_for(threading.Event(), 10, worker)


def test_debuggers_follow_the_thread() -> None:
    seen: list[object] = []
    threading.settrace(lambda frame, _event, _arg: seen.append(frame.f_code.co_name))
    try:
        worker = threads.Worker(lambda: None)
    finally:
        threading.settrace(None)  # type: ignore[arg-type]
    wait_until(lambda: worker.is_over)
    assert "<lambda>" in seen


@on_linux
def test_one_warning_where_ggml_computes_with_other_threads(
    monkeypatch: pytest.MonkeyPatch, tiny_path: TinyPath
) -> None:
    monkeypatch.setattr(shim, "own_threads", lambda: False)
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


# Limit of memory in addition to the memory that the process already uses.
LIMITED = """
import os, resource, sys
import llamaherd as lh
def limit(mebibytes):
    pages = int(open("/proc/self/statm").read().split()[0])
    size = pages * os.sysconf("SC_PAGESIZE") + (mebibytes << 20)
    resource.setrlimit(resource.RLIMIT_AS, (size, -1))
model = lh.Model(sys.argv[1])
context = lh.Context(model, n_threads=2)
"""


def run_limited(script: str, model: Path) -> str:
    run = subprocess.run(
        [sys.executable, "-c", LIMITED + script, str(model)],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
        env={**os.environ, "GGML_NO_BACKTRACE": "1"},
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


@on_linux
def test_without_memory_a_prompt_fails_and_the_next_call_goes_on(
    tiny_path: TinyPath,
) -> None:
    script = """
def answer():
    return lh.generate_parallel(context, ["a"], max_tokens=2)[0].error
assert answer() is None
limit(40)
print(answer())
limit(2000)
print(answer())
"""
    first, second = run_limited(script, tiny_path("llama")).splitlines()
    assert "out of memory: less than 64 MiB are left" in first
    assert second == "None"
