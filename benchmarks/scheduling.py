"""Cost of scheduling many prompts: prefix tree, admission, results.

An engine that answers at once takes libllama's place, so nothing is left but that.
"""

from __future__ import annotations

import time
from array import array
from typing import TYPE_CHECKING

from llamaherd import SamplingParams
from llamaherd.core.outcome import Counts, Finish, Output, RunOutcome, Status
from llamaherd.core.request import Request
from llamaherd.loop.loop import Loop
from llamaherd.memory.plan import AUTO_SLOTS, MAX_HOLD, Plan
from llamaherd.run.call import Call
from llamaherd.schedule.engine import Engine

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.core.results import Results

_N_TOKENS = 500


class InstantEngine(Engine):
    """Every request that is submitted ends, or is held, with the next run.

    Attributes:
        requests: Those that were not released, by id.
        n_submitted: Requests so far, shared prefixes included.
    """

    def __init__(self) -> None:
        self.requests: dict[int, Request] = {}
        self._fresh: list[int] = []
        self.n_submitted = 0

    n_ctx = (AUTO_SLOTS + MAX_HOLD) * 2 * _N_TOKENS
    n_ctx_seq = 2 * _N_TOKENS

    def submit(self, id_: int, request: Request, *_: object, **__: object) -> None:
        """Takes a request in."""
        self.requests[id_] = request
        self._fresh.append(id_)
        self.n_submitted += 1

    def run(self, *_: object, **__: object) -> RunOutcome:
        """Ends all that is new."""
        events, self._fresh = tuple(self._fresh), []
        return RunOutcome(status=Status.OK, events=events, n_steps=1)

    def get(self, id_: int) -> Output:
        """No text."""
        is_prefix = self.requests[id_].max_tokens == 0
        return Output(finish=Finish.NONE if is_prefix else Finish.LENGTH)

    def release(self, id_: int) -> None:
        """Forgets a request."""
        del self.requests[id_]

    def n_cells_taken(self) -> int:
        """There is always room."""
        return 0

    def counts(self, call: int | None = None) -> Counts:
        """Nothing is computed."""
        del call
        return Counts()


class OnePlan:
    """Sizes for a thousand tokens each, whatever the work, and that engine."""

    def __init__(self, engine: InstantEngine) -> None:
        self._engine = engine

    def plan(self, *_: object) -> Plan:
        """Always the same."""
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
        """There is always enough."""

    def make(self, _: Plan) -> InstantEngine:
        """The engine."""
        return self._engine


def make_requests(n_documents: int, n_questions: int) -> list[Request]:
    """Prompts of 500 tokens: so many questions about each document, the last in turns."""
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
    """Runs a call that computes nothing."""
    engine = InstantEngine()
    call = Call(requests, seed=0)
    return call.run(Loop(OnePlan(engine))), engine


def measure() -> dict[str, object]:
    """Seconds for 10,000 prompts."""
    requests = make_requests(100, 100)
    start = time.perf_counter()
    schedule(requests)
    return {"seconds": [time.perf_counter() - start], "n_prompts": len(requests)}
