"""Calls with a journal on a fake engine, for several tests and their programs."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

from fake_engine import FakeEngine, text_of
from llamaherd import SamplingParams, journal_read
from llamaherd.core.request import Request
from llamaherd.journal.journal import Journal
from llamaherd.journal.recording import RecordedCall
from llamaherd.memory.plan import Plan
from llamaherd.model.file import ModelFile
from llamaherd.run.call import Call
from llamaherd.run.turns import Turns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from llamaherd.core.results import Results
    from llamaherd.journal.entry import JournalEntry
    from llamaherd.schedule.client import Kept

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
    """Where a Job runs."""

    def __init__(self, engine: FakeEngine | None = None) -> None:
        self.turns = Turns()
        self.closed = False
        self._engine = engine or FakeEngine(4096, 12)

    def prepare(self, _needs: Sequence[int], *_n: int) -> tuple[FakeEngine, Plan, Kept]:
        return self._engine, SIZES, {}


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
    folder: Path, requests: Sequence[Request], **options: object
) -> RecordedCall:
    call = Call(requests, seed=1, n_ctx_train=100_000, **options)
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
    call = recorded(folder, requests, **options)
    results = call.run(lambda _needs, *_n: (engine, SIZES, {}), is_cancelled)
    assert call.problem == ""
    return results, engine


def entries(folder: Path) -> list[JournalEntry]:
    return journal_read(folder / "run.sqlite")


def many(start: int) -> list[Request]:
    return [request([i % 100, i // 100]) for i in range(start, 1500)]
