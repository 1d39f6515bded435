"""Several threads, interrupts and closing, on the real model."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import llamaherd as lh
import pytest

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.model

LONG = {"max_tokens": 4000, "params": lh.SamplingParams(ignore_eos=True)}


@pytest.mark.long(reason="random schedules on many layouts")
def test_five_callers_get_the_texts_of_a_fresh_context(smollm2: lh.Model) -> None:
    asked = [[f"The {thing} of caller {i} is" for thing in "ABC"] for i in range(5)]

    def texts(context: lh.Context, prompts: list[str]) -> list[str | None]:
        return lh.generate_parallel(context, prompts, max_tokens=12).texts

    expected = []
    for prompts in asked:
        with lh.Context(smollm2, n_seq_max=3) as context:
            expected.append(texts(context, prompts))
    with (
        lh.Context(smollm2, n_seq_max=3) as shared,
        ThreadPoolExecutor(max_workers=5) as pool,
    ):
        found = list(pool.map(lambda prompts: texts(shared, prompts), asked))
    assert found == expected


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


def test_closing_the_model_ends_what_runs_on_it(smollm2_path: Path) -> None:
    model = lh.Model(smollm2_path)
    job = lh.start_parallel(lh.Context(model), ["One"], **LONG)
    while job.progress.n_generated_tokens < 2:
        job.wait(0.02)
    model.close()
    with pytest.raises(lh.ContextClosedError):
        job.results()


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
    subprocess.run([sys.executable, "-c", script], check=True, timeout=600)
