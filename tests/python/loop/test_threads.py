"""Threads that use one context, and the thread of its loop."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import llamaherd as lh
import pytest
from llamaherd.engine.loop import threads
from llamaherd.engine.native import shim
from programs import ended
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
    return ended(LIMITED + script, model, GGML_NO_BACKTRACE="1").stdout


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


LONG = {"max_tokens": 4000, "params": lh.SamplingParams(ignore_eos=True)}


@pytest.mark.long(reason="random schedules on many layouts")
@pytest.mark.model
def test_five_callers_get_the_texts_of_a_fresh_context(smollm2: lh.Model) -> None:
    calls = [[f"The {thing} of caller {i} is" for thing in "ABC"] for i in range(5)]

    def texts(context: lh.Context, prompts: list[str]) -> list[str | None]:
        return lh.generate_parallel(context, prompts, max_tokens=12).texts

    expected = []
    for prompts in calls:
        with lh.Context(smollm2, n_seq_max=3) as context:
            expected.append(texts(context, prompts))
    with (
        lh.Context(smollm2, n_seq_max=3) as shared,
        ThreadPoolExecutor(max_workers=5) as pool,
    ):
        answers = list(pool.map(lambda prompts: texts(shared, prompts), calls))
    assert answers == expected


@pytest.mark.model
def test_closing_ends_the_call_of_another_thread(smollm2: lh.Model) -> None:
    context = lh.Context(smollm2)
    running = lh.start_parallel(context, ["One", "Two"], **LONG)
    waiting = lh.start_parallel(context, ["Three"], **LONG)
    while running.progress.n_generated_tokens < 4:
        running.wait(0.02)
    n_before = running.progress.n_generated_tokens
    context.close()
    assert running.progress.n_generated_tokens - n_before < 1000  # of 8000
    with pytest.raises(lh.ContextClosedError, match="while it generated"):
        running.results()
    with pytest.raises(lh.ContextClosedError):
        waiting.results()
    with pytest.raises(lh.ContextClosedError, match="context is closed"):
        lh.generate(context, "Four")
    context.close()


@pytest.mark.model
def test_many_threads_may_close_while_others_generate(smollm2: lh.Model) -> None:
    for _ in range(5):
        context = lh.Context(smollm2, n_seq_max=2)
        jobs = [lh.start_parallel(context, ["A", "B"], **LONG) for _ in range(3)]
        closers = [threading.Thread(target=context.close) for _ in range(3)]
        for closer in closers:
            closer.start()
        for closer in closers:
            closer.join()
        for job in jobs:
            with pytest.raises(lh.ContextClosedError):
                job.results()


@pytest.mark.model
def test_closing_the_model_ends_what_runs_on_it(smollm2_path: Path) -> None:
    model = lh.Model(smollm2_path)
    job = lh.start_parallel(lh.Context(model), ["One"], **LONG)
    while job.progress.n_generated_tokens < 2:
        job.wait(0.02)
    model.close()
    with pytest.raises(lh.ContextClosedError):
        job.results()


@pytest.mark.model
def test_cancelling_keeps_what_is_finished_and_the_context_clean(
    smollm2: lh.Model,
) -> None:
    with lh.Context(smollm2, n_seq_max=4) as context:
        expected = lh.generate(context, "The sea is", max_tokens=8).text
        # The long prompts start first and leave one slot to the short prompts.
        params = [
            lh.SamplingParams(max_tokens=4 if i < 5 else 4000, ignore_eos=True)
            for i in range(8)
        ]
        prompts = [f"Number {i}:" for i in range(8)]
        job = lh.start_parallel(context, prompts, params=params)
        while job.progress.n_done < 3:
            job.wait(0.02)
        job.cancel()
        out = job.results()
        assert sum(result.is_finished for result in out) >= 3
        assert "cancelled" in out.finish_reasons
        started = [r for r in out if r.finish_reason == "cancelled" and r.tokens]
        assert started
        assert all(result.text is None for result in started)
        assert all(len(result.tokens) < 1000 for result in started)  # of 4000
        assert lh.generate(context, "The sea is", max_tokens=8).text == expected


@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGINT")
@pytest.mark.model
def test_ctrl_c_ends_a_call_and_keeps_what_is_finished(smollm2_path: Path) -> None:
    # A shell without job control starts background processes with SIGINT ignored.
    script = f"""
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
import llamaherd as lh
context = lh.Context(lh.Model({str(smollm2_path)!r}), n_seq_max=4)
params = [lh.SamplingParams(max_tokens=2 if i < 3 else 4000, ignore_eos=True)
          for i in range(5)]
told = False
def report(progress):
    global told
    if progress.n_done >= 3 and not told:
        told = True
        print("now", flush=True)
try:
    lh.generate_parallel(context, list("abcde"), params=params, progress=report)
except KeyboardInterrupt as error:
    print(*error.results.finish_reasons)
print(lh.generate(context, "Hello", max_tokens=2).finish_reason)
"""
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "now\n"
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline().split() == ["length"] * 3 + ["cancelled"] * 2
        assert process.stdout.read() == "length\n"
    assert process.returncode == 0


@pytest.mark.model
def test_an_interpreter_may_end_while_a_job_runs(smollm2_path: Path) -> None:
    script = f"""
import llamaherd as lh
context = lh.Context(lh.Model({str(smollm2_path)!r}))
job = lh.start_parallel(context, ["a"], params=lh.SamplingParams(ignore_eos=True),
                        max_tokens=4000)
while job.progress.n_generated_tokens < 2:
    job.wait(0.02)
"""
    # All its tokens would take minutes.
    ended(script)
