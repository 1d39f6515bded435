"""The contract of `Job`, on every kind of job."""

from __future__ import annotations

import _thread
import asyncio
import copy
import os
import pickle
import signal
import threading
import warnings
from contextlib import closing
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import pytest
from hub_server import Hub, serving
from llamaherd import _r
from llamaherd._r import hosts
from llamaherd.calls.run.hosted import HostedCall
from llamaherd.engine.core.progress import JobProgress
from llamaherd.engine.hub import download
from llamaherd.engine.native.embedder import NativeEmbedder
from llamaherd.engine.native.engine import NativeEngine
from llamaherd.optimize.requantize import Requantized
from plain_forms import value
from waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

TEXTS = [f"text {i}" for i in range(40)]
BOOK = lh.Codebook("Which?", ["a", "b"])
# Function of each kind of job that does the work; a `Gate` blocks it.
ENGINE = (NativeEngine, "run")
GATES: dict[str, tuple[Any, str]] = {
    "generate": ENGINE,
    "classify": ENGINE,
    "score": ENGINE,
    "perplexity": ENGINE,
    "annotate": ENGINE,
    "embed": (NativeEmbedder, "run"),
    "optimize": (Requantized, "quantize"),
    "fetch": (download, "download"),
    "cluster": (hosts, "Cluster"),
}
CLASSES = {"embed": lh.types.EmbedJob, "optimize": lh.types.OptimizeJob}


class Gate:
    """Blocks a function until it is opened."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.opened = threading.Event()

    def holding(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def held(*args: Any, **kwargs: Any) -> Any:
            self.entered.set()
            assert self.opened.wait(60)
            return function(*args, **kwargs)

        return held


class Starter:
    """Starts a job of one kind. Its gate is closed.

    Attributes:
        gate: Gate that blocks the work of the job.
    """

    def __init__(self, kind: str, model: lh.Model, folder: Path, url: str) -> None:
        self.kind = kind
        self.gate = Gate()
        self._model = model
        self._folder = folder
        self._url = url
        self._context = lh.Context(model, n_seq_max=2, n_threads=1)

    def start(self) -> lh.Job[Any]:
        return getattr(self, self.kind)()

    def close(self) -> None:
        self.gate.opened.set()
        self._context.close()

    def generate(self) -> lh.Job[Any]:
        options = {"max_tokens": 20, "ignore_eos": True}
        return lh.start_parallel(self._context, TEXTS, **options)

    def classify(self) -> lh.Job[Any]:
        return lh.start_classify(self._context, TEXTS, ["yes", "no"])

    def score(self) -> lh.Job[Any]:
        return lh.start_score(self._context, TEXTS, " yes")

    def perplexity(self) -> lh.Job[Any]:
        return lh.start_perplexity(self._context, TEXTS)

    def annotate(self) -> lh.Job[Any]:
        return lh.start_annotate({"text": TEXTS}, "text", BOOK, self._context)

    def embed(self) -> lh.Job[Any]:
        return lh.start_embed(self._model, TEXTS, n_threads=1)

    def optimize(self) -> lh.Job[Any]:
        options = {"types": ["F16"], "text": "a" * 80, "n_threads": 1}
        return lh.start_optimize(self._model.path, self._folder, **options)

    def fetch(self) -> lh.Job[Any]:
        options = {"force": False, "check_memory": False}
        return value(_r.fetch_start(f"{self._url}/model.gguf", options))["job"]

    def cluster(self) -> lh.Job[Any]:
        return value(_r.cluster_start(self._model, "local", {}))["job"]


class FakeCluster:
    """Cluster without actors."""

    def __init__(
        self, *_arguments: Any, is_cancelled: Callable[[], bool], **_: Any
    ) -> None:
        self.is_cancelled = is_cancelled()


def is_cancelled(kind: str, results: Any) -> bool:
    """Return whether the results show that their job was cancelled."""
    if kind in ("optimize", "fetch"):
        return results is None
    if kind == "cluster":
        return results.is_cancelled
    if kind in ("embed", "annotate"):
        return any(error and "ended before" in error for error in results.errors)
    return "cancelled" in results.finish_reasons


@pytest.fixture(scope="module")
def model(tiny_path: Callable[[str], Path]) -> Iterator[lh.Model]:
    with lh.Model(tiny_path("llama")) as model, lh.Context(model) as context:
        lh.generate(context, "a", max_tokens=1)  # ggml's own threads exist from now on
        yield model


@pytest.fixture(params=sorted(GATES))
def starter(
    request: pytest.FixtureRequest,
    model: lh.Model,
    tmp_path: Path,
    own_cache: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Starter]:
    del own_cache
    kind: str = request.param
    with (
        serving(Hub()) as hub,
        closing(Starter(kind, model, tmp_path, hub.url)) as starter,
    ):
        hub.by_target["/model.gguf"] = b"GGUF" + bytes(1000)
        owner, name = GATES[kind]
        function = FakeCluster if kind == "cluster" else getattr(owner, name)
        monkeypatch.setattr(owner, name, starter.gate.holding(function))
        yield starter


def test_waiting_has_an_end_and_results_stay(starter: Starter) -> None:
    job = starter.start()
    assert type(job) is CLASSES.get(starter.kind, lh.Job)
    assert not job.wait(0)
    assert not job.wait(0.01)
    starter.gate.opened.set()
    assert job.wait(60)
    assert job.wait(0)
    assert job.wait()
    results = job.results()
    assert not is_cancelled(starter.kind, results)
    assert job.results() is job.result() is job.outcome() is results
    job.cancel()
    job.cancel()
    assert job.results() is results


def test_progress_has_counts_a_unit_and_a_line(starter: Starter) -> None:
    job = starter.start()
    starter.gate.entered.wait(60)
    begun = job.progress
    starter.gate.opened.set()
    job.results()
    for progress in (begun, job.progress):
        assert isinstance(progress, JobProgress)
        assert isinstance(progress.line, str)
        assert isinstance(progress.unit, str)
        assert all(isinstance(text, str) for text in progress.messages)
    assert begun.n_done <= job.progress.n_done
    if starter.kind != "cluster":
        assert job.progress.n_done == job.progress.n_total > 0
    state = value(_r.job_wait(job, 0))
    assert state["done"]
    assert state["n_done"] == job.progress.n_done
    n = state["counts"].partition(" | ")[0].split("/")
    assert len(set(n)) == 1 or starter.kind == "cluster"
    assert all(text.endswith("B") for text in n) == (job.progress.unit == "B")


@pytest.mark.parametrize("moment", ["at once", "while it runs"])
def test_cancelling_ends_the_work(starter: Starter, moment: str) -> None:
    job = starter.start()
    if moment == "while it runs":
        assert starter.gate.entered.wait(60)
    job.cancel()
    starter.gate.opened.set()
    assert job.wait(60)
    assert is_cancelled(starter.kind, job.results())


def test_asyncio_waits_for_a_job_without_a_thread(starter: Starter) -> None:
    async def main() -> Any:
        job = starter.start()
        await asyncio.to_thread(starter.gate.entered.wait, 60)
        n_threads = threading.active_count()
        both = asyncio.gather(job, job)
        await asyncio.sleep(0)
        assert threading.active_count() == n_threads
        assert not both.done()
        starter.gate.opened.set()
        first, second = await both
        assert first is second is await job is job.results()
        return first

    assert not is_cancelled(starter.kind, asyncio.run(main()))


def test_cancelling_a_wait_in_asyncio_cancels_the_job(starter: Starter) -> None:
    async def main() -> lh.Job[Any]:
        job = starter.start()
        await asyncio.to_thread(starter.gate.entered.wait, 60)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(job, 0.01)
        starter.gate.opened.set()
        return job

    assert is_cancelled(starter.kind, asyncio.run(main()).results())


def test_an_event_loop_that_ends_first_does_no_harm(starter: Starter) -> None:
    job = starter.start()
    events = asyncio.new_event_loop()
    waiting = events.create_task(job._await_results())
    events.call_soon(events.stop)
    events.run_forever()
    waiting._log_destroy_pending = False
    events.close()
    starter.gate.opened.set()
    assert not is_cancelled(starter.kind, job.results())


def test_a_job_is_shown_with_its_progress(starter: Starter) -> None:
    job = starter.start()
    assert starter.gate.entered.wait(60)
    assert repr(job).startswith(f"<{type(job).__name__}: ")
    assert repr(job).endswith("running>")
    starter.gate.opened.set()
    job.results()
    assert repr(job).endswith("done>")
    if starter.kind != "cluster":
        n, unit = job.progress.n_total, job.progress.unit
        assert f"{n} of {n} {unit}" in repr(job)


def test_an_error_is_raised_where_the_results_are_asked_for(
    starter: Starter, monkeypatch: pytest.MonkeyPatch
) -> None:
    class OddError(Exception):
        pass

    def fail(_work: object) -> None:
        raise OddError("no luck")

    first = starter.start()
    monkeypatch.setattr(type(first._work), "run", fail)
    job = starter.start()
    assert job.wait(60)
    assert repr(job).endswith("failed: no luck>")
    for method in (
        *(job.results, job.results, job.result, job.outcome),
        lambda: asyncio.run(job._await_results()),
    ):
        with pytest.raises(OddError, match="no luck"):
            method()
    starter.gate.opened.set()
    first.cancel()
    assert first.wait(60)


@pytest.mark.skipif(os.name == "nt", reason="needs pthread_kill")
def test_ctrl_c_ends_the_wait_and_not_the_work(starter: Starter) -> None:
    job = starter.start()
    waiting = threading.Event()

    def press() -> None:
        starter.gate.entered.wait(60)
        waiting.wait(60)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    thread = threading.Thread(target=press)
    thread.start()
    with pytest.raises(KeyboardInterrupt):  # noqa: PT012 - from here on it may come
        waiting.set()
        job.wait()
    thread.join()
    assert not job.wait(0)
    starter.gate.opened.set()
    assert not is_cancelled(starter.kind, job.results())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_is_refused(starter: Starter) -> None:
    job = starter.start()
    assert starter.gate.entered.wait(60)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # about forks with threads
        pid = os.fork()
    if pid == 0:
        signal.alarm(60)  # this ends a child that hangs
        n_refused = 0
        for use in (job.wait, job.results, job.outcome):
            try:
                use()
            except lh.ForkError:
                n_refused += 1
        os._exit(n_refused)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 3
    starter.gate.opened.set()
    assert not is_cancelled(starter.kind, job.results())


def test_a_job_stays_in_its_process(starter: Starter) -> None:
    job = starter.start()
    for use in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match=f"a {type(job).__name__} cannot be pickled"):
            use(job)
    job.cancel()
    starter.gate.opened.set()
    assert job.wait(60)


def test_no_thread_is_left(starter: Starter) -> None:
    n_before = _thread._count()
    job = starter.start()
    assert starter.gate.entered.wait(60)
    assert _thread._count() > n_before
    starter.gate.opened.set()
    job.results()
    if isinstance(job._work, HostedCall):
        assert job._work.host.loop._worker.is_over  # at once, because R may fork next
    # The system's thread ends a moment after Python's.
    wait_until(lambda: _thread._count() <= n_before)
