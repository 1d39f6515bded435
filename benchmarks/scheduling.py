"""Cost of scheduling many prompts: prefix tree, admission, results.

An engine that answers immediately replaces libllama, so that only scheduling takes time.
"""

from __future__ import annotations

import time
from array import array
from typing import TYPE_CHECKING

from llamaherd import SamplingParams
from llamaherd.calls.run.call import Call
from llamaherd.engine.core.outcome import Counts, Finish, Output, RunOutcome, Status
from llamaherd.engine.core.request import Request
from llamaherd.engine.loop.loop import Loop
from llamaherd.engine.memory.plan import AUTO_SLOTS, MAX_HOLD, Plan
from llamaherd.engine.schedule.engine import Engine

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.engine.core.results import Results

_N_TOKENS = 500


class InstantEngine(Engine):
    """Engine in which each request ends, or each prefix is held, at the next run.

    Attributes:
        requests: Requests that were not released, by id.
        n_submitted: Number of requests so far, including shared prefixes.
    """

    def __init__(self) -> None:
        self.requests: dict[int, Request] = {}
        self._fresh: list[int] = []
        self.n_submitted = 0

    n_ctx = (AUTO_SLOTS + MAX_HOLD) * 2 * _N_TOKENS
    n_ctx_seq = 2 * _N_TOKENS

    def submit(self, id_: int, request: Request, *_: object, **__: object) -> None:
        """Store a request."""
        self.requests[id_] = request
        self._fresh.append(id_)
        self.n_submitted += 1

    def run(self, *_: object, **__: object) -> RunOutcome:
        """End all new requests."""
        events, self._fresh = tuple(self._fresh), []
        return RunOutcome(status=Status.OK, events=events, n_steps=1)

    def get(self, id_: int) -> Output:
        """Return an output without text."""
        is_prefix = self.requests[id_].max_tokens == 0
        return Output(finish=Finish.NONE if is_prefix else Finish.LENGTH)

    def release(self, id_: int) -> None:
        """Remove a request."""
        del self.requests[id_]

    def n_cells_taken(self) -> int:
        """Return 0: the cache is always free."""
        return 0

    def counts(self, call: int | None = None) -> Counts:
        """Return empty counts: nothing is computed."""
        del call
        return Counts()


class OnePlan:
    """Planner that always returns the same sizes and the same engine."""

    def __init__(self, engine: InstantEngine) -> None:
        self._engine = engine

    def plan(self, *_: object) -> Plan:
        """Return sizes for sequences of a thousand tokens."""
        return Plan(
            n_ctx=self._engine.n_ctx,
            n_seq_max=AUTO_SLOTS,
            n_hold=MAX_HOLD,
            kv_layout="per_sequence",
            n_ctx_seq=self._engine.n_ctx_seq,
            capacity=self._engine.n_ctx_seq,
            memory_bytes=0,
        )

    def check_memory(self, *_: object) -> None:
        """Do nothing: memory is always sufficient."""

    def make(self, _: Plan) -> InstantEngine:
        """The engine."""
        return self._engine


def make_requests(n_documents: int, n_questions: int) -> list[Request]:
    """Return prompts of 500 tokens, with several questions about each document."""
    n_question = _N_TOKENS // 5
    return [
        Request(
            tokens=array(
                "i", [document] * (_N_TOKENS - n_question) + [question] * n_question
            ),
            max_tokens=10,
            sampling=SamplingParams(),
            seed=0,
        )
        for question in range(n_questions)
        for document in range(n_documents)
    ]


def schedule(requests: Sequence[Request]) -> tuple[Results, InstantEngine]:
    """Run a call that computes nothing."""
    engine = InstantEngine()
    call = Call(requests, seed=0)
    return call.run(Loop(OnePlan(engine))), engine


def measure() -> dict[str, object]:
    """Return the seconds to schedule 10,000 prompts."""
    requests = make_requests(100, 100)
    start = time.perf_counter()
    schedule(requests)
    return {"seconds": [time.perf_counter() - start], "n_prompts": len(requests)}
