"""Jobs, and the note of a slow file."""

from __future__ import annotations

import threading
import time
import warnings
from array import array
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from fake_engine import FakeEngine
from journalled import SIZES, FakeContext
from llamaherd import ContextClosedError, Interrupted
from llamaherd.calls.api import running as slow_file
from llamaherd.calls.api.running import MANY, none_answered, note_slow_file, run_to_end
from llamaherd.calls.run.call import Call
from llamaherd.calls.run.hosted import HostedCall
from llamaherd.calls.run.job import Job
from llamaherd.cli.wording import COMMAND_LINE
from llamaherd.engine.core.progress import reporter
from llamaherd.engine.core.request import Request
from llamaherd.engine.core.words import R, spoken_in
from llamaherd.engine.loop import threads
from llamaherd.types import Progress
from stepping import Stepping
from waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from llamaherd.engine.core.outcome import RunOutcome
    from llamaherd.engine.memory.plan import Plan


class SlowEngine(FakeEngine):
    def run(self, *args: object, **options: object) -> RunOutcome:
        time.sleep(0.005)
        return super().run(*args, **options)


def held_context(may_run: Callable[[int], object]) -> FakeContext:
    """Return a context whose runs wait for a function of the number of earlier runs."""
    engine = Stepping(SIZES)
    engine.before_run = may_run
    return FakeContext(engine)


def call(n_prompts: int = 3, max_tokens: int = 5) -> Call:
    requests = [
        Request(tokens=array("i", [i, 1]), max_tokens=max_tokens)
        for i in range(n_prompts)
    ]
    return Call(requests, seed=1)


def test_a_call_without_a_journal_starts_only_the_thread_of_the_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started = []

    class CountedWorker(threads.Worker):
        def __init__(self, run: Callable[[], None]) -> None:
            started.append(run)
            super().__init__(run)

    monkeypatch.setattr(threads, "Worker", CountedWorker)
    work = HostedCall(FakeContext(FakeEngine(4096, 12)), call())
    assert all(result.is_finished for result in run_to_end(lambda: work, False))
    assert len(started) == 1


def test_cancelling_keeps_the_finished() -> None:
    large, is_cancelled = call(400, 10), threading.Event()
    context = held_context(lambda _: large.progress.n_done < 20 or is_cancelled.wait(60))
    job = Job(HostedCall(context, large))
    wait_until(lambda: job.progress.n_done >= 20)
    job.cancel()
    is_cancelled.set()
    results = job.results()
    assert sum(result.is_finished for result in results) >= 20
    assert "cancelled" in results.finish_reasons


def test_a_job_may_be_cancelled_before_its_turn() -> None:
    is_cancelled = threading.Event()
    context = held_context(lambda _: is_cancelled.wait(60))
    first = Job(HostedCall(context, call(20, 50)))
    second = Job(HostedCall(context, call()))
    second.cancel()
    is_cancelled.set()
    assert second.results().finish_reasons == ["cancelled"] * 3
    assert all(result.is_finished for result in first.results())


def test_an_error_is_raised_where_the_results_are_asked_for() -> None:
    context = FakeContext(SlowEngine(4096, 12))

    def make(_plan: Plan) -> FakeEngine:
        raise MemoryError("too much")

    make_well, context.loop._sizing.make = context.loop._sizing.make, make
    job = Job(HostedCall(context, call()))
    with pytest.raises(MemoryError, match="too much"):
        job.results()
    context.loop._sizing.make = make_well
    assert all(
        result.is_finished for result in Job(HostedCall(context, call())).results()
    )


def test_closing_the_context_ends_the_job() -> None:
    runs = threading.Event()

    def run_until_closed(n_runs: int) -> None:
        if n_runs == 2:
            runs.set()
            wait_until(lambda: context.closed)

    context = held_context(run_until_closed)
    job = Job(HostedCall(context, call(400, 200)))
    assert runs.wait(60)
    assert not job.wait(0)
    context.loop.close()
    assert context.engine.closed
    with pytest.raises(ContextClosedError, match="while it generated"):
        job.results()


def test_progress_is_reported_on_the_calling_thread() -> None:
    seen: list[Progress] = []
    threads = set()

    def report(progress: Progress) -> None:
        seen.append(progress)
        threads.add(threading.current_thread())
        has_reported.set()

    has_reported = threading.Event()
    context = held_context(lambda n_runs: n_runs < 3 or has_reported.wait(60))
    results = run_to_end(
        lambda: HostedCall(context, call(60, 20)), report, range(60), none_answered
    )
    assert len(results) == 60
    assert len(seen) > 1
    assert seen[-1].n_done == seen[-1].n_total == 60
    assert [p.n_done for p in seen] == sorted(p.n_done for p in seen)
    assert threads == {threading.current_thread()}


def test_an_interrupt_keeps_the_finished() -> None:
    def report(progress: Progress) -> None:
        if progress.n_done > 10:
            raise KeyboardInterrupt

    def hold(_: int) -> None:
        if large.progress.n_done > 10:
            wait_until(lambda: large.is_cancelled)

    large = call(2000, 20)
    context = held_context(hold)
    with pytest.raises(KeyboardInterrupt) as caught:
        run_to_end(lambda: HostedCall(context, large), report, range(2000), none_answered)
    assert isinstance(caught.value, Interrupted)
    finished = [result for result in caught.value.results if result.is_finished]
    assert 10 < len(finished) < 2000
    context.loop.wait()
    assert not context.engine.slots


def test_the_bar_shows_how_far_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    with reporter(True) as report:
        for done in (2, 5):
            report(
                Progress(
                    n_done=done,
                    n_failed=1,
                    n_total=5,
                    n_prompt_tokens=400 * done,
                    n_prompt_tokens_total=2000,
                    n_generated_tokens=9,
                    elapsed_s=2.0,
                )
            )
    output = capsys.readouterr().err
    assert "5/5" in output
    assert "2.5 prompts/s, tokens/s: 1000 read, 4 written, 1 failed" in output


def test_the_bar_shows_what_is_read_before_a_prompt_is_done() -> None:
    begun = Progress(
        n_done=0,
        n_failed=0,
        n_total=5,
        n_prompt_tokens=1400,
        n_prompt_tokens_total=2000,
        n_generated_tokens=0,
        elapsed_s=2.0,
    )
    assert begun.line == "1,400 tokens read"
    assert replace(begun, n_generated_tokens=7).line == "1,400 tokens read, 7 written"


def test_progress_is_a_flag_or_a_function() -> None:
    with pytest.raises(TypeError, match="progress must be true or false, or a function"):
        reporter("yes").__enter__()


def test_statistics_are_printed_on_demand(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("NEWRLLAMA_DEBUG", "1")
    Job(HostedCall(FakeContext(SlowEngine(4096, 12)), call())).results()
    line = capfd.readouterr().err
    assert line.startswith("llamaherd: 3 prompts (0 failed)")
    assert line.count("\n") == 1


AVX = ("avx", "avx2", "fma")


def _host(path: str, kind: str = "3", n_gpu_layers: int = 0) -> Any:
    file = SimpleNamespace(name=path.rpartition("/")[2])
    metadata = {"general.file_type": kind}
    model = SimpleNamespace(
        metadata=metadata, path=path, file=file, n_gpu_layers=n_gpu_layers
    )
    return SimpleNamespace(model=model)


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slow_file, "_noted", set())
    monkeypatch.setattr(slow_file, "cpu_features", lambda: AVX)


def test_a_long_call_on_a_slow_file_names_the_command_once() -> None:
    host = _host("/models/a b.gguf")
    with pytest.warns(UserWarning, match=r'model_optimize\("/models/a b\.gguf"\)'):
        note_slow_file(host, MANY)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        note_slow_file(host, MANY)
    commands = {R: r'model_optimize\("c"\)', COMMAND_LINE: "`llamaherd optimize c`"}
    for terms, text in commands.items():
        slow_file._noted.clear()
        with spoken_in(terms), pytest.warns(UserWarning, match=text):
            note_slow_file(_host("c"), MANY)


@pytest.mark.parametrize(
    ("host", "n", "features"),
    [
        (_host("m"), MANY - 1, AVX),
        (_host("m", "7"), MANY, AVX),
        (_host("m", n_gpu_layers=-1), MANY, AVX),
        (_host("m"), MANY, (*AVX, "amx_int8")),
        (_host("m"), MANY, ("asimd",)),
    ],
    ids=["short", "Q8_0", "GPU", "AMX", "ARM"],
)
def test_no_other_call_has_the_note(
    host: Any, n: int, features: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slow_file, "cpu_features", lambda: features)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        note_slow_file(host, n)
