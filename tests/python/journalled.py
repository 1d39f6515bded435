"""Calls with a journal on a fake engine, for several tests and their programs."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

from fake_engine import FakeEngine, make_loop, text_of
from llamaherd import SamplingParams, journal_read
from llamaherd.calls.journal.journal import Journal
from llamaherd.calls.journal.recording import RecordedCall
from llamaherd.calls.run.call import Call
from llamaherd.engine.core.request import Request
from llamaherd.engine.memory.plan import Plan
from llamaherd.engine.model.file import ModelFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from llamaherd.calls.journal.entry import JournalEntry
    from llamaherd.engine.core.outcome import RunOutcome
    from llamaherd.engine.core.results import Results

NUMERICS = {"type_k": "f16"}
SIZES = Plan(
    n_ctx=4096,
    n_seq_max=4,
    n_hold=8,
    kv_layout="unified",
    n_ctx_seq=4096,
    capacity=4096,
    memory_bytes=0,
)


class FakeContext:
    """Host on which a Job runs."""

    def __init__(self, engine: FakeEngine | None = None) -> None:
        self.engine = engine or FakeEngine(4096, 12)
        self.loop = make_loop(SIZES, self.engine)

    @property
    def closed(self) -> bool:
        return self.loop.is_closed


class PolledCall(Call):
    """Call that ends when a function, which is polled, returns True."""

    def __init__(
        self, *args: object, polled: Callable[[], bool], **options: object
    ) -> None:
        super().__init__(*args, **options)
        self._polled = polled

    @property
    def is_cancelled(self) -> bool:
        if self._polled():
            self.cancel()
        return super().is_cancelled


def request(tokens: Iterable[int], max_tokens: int = 5, **options: object) -> Request:
    seed = options.pop("seed", 7)
    ids = array("i", tokens)
    return Request(
        tokens=ids,
        max_tokens=max_tokens,
        sampling=SamplingParams(**options),
        seed=seed,
        text=text_of(ids),
    )


def recorded(
    folder: Path,
    requests: Sequence[Request],
    is_cancelled: Callable[[], bool] = lambda: False,
    **options: object,
) -> RecordedCall:
    call = PolledCall(requests, seed=1, polled=is_cancelled, **options)
    return RecordedCall(
        call,
        Journal(folder / "run.sqlite"),
        ModelFile(folder / "model.gguf"),
        NUMERICS,
        lambda tokens: f"written out: {text_of(tokens)}",
    )


def run(
    folder: Path,
    requests: Sequence[Request],
    engine: FakeEngine | None = None,
    *,
    is_cancelled: Callable[[], bool] = lambda: False,
    **options: object,
) -> tuple[Results, FakeEngine]:
    engine = engine or FakeEngine(4096, 12)
    call = recorded(folder, requests, is_cancelled, **options)
    run_once = engine.run

    def run_and_ask(*args: object, **kwargs: object) -> RunOutcome:
        call._call.is_cancelled  # noqa: B018 - asking cancels
        return run_once(*args, **kwargs)

    engine.run = run_and_ask
    results = call.run(make_loop(SIZES, engine))
    engine.run = run_once
    assert call.problem == ""
    return results, engine


def entries(folder: Path) -> list[JournalEntry]:
    return journal_read(folder / "run.sqlite")


def many(start: int) -> list[Request]:
    return [request([i % 100, i // 100]) for i in range(start, 1500)]
