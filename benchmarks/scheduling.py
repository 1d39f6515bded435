"""Cost of scheduling many prompts: prefix tree, admission, results.

An engine that answers immediately replaces libllama, so that only scheduling takes time.
"""

from __future__ import annotations

import sys
import time
from array import array
from pathlib import Path

from llamaherd import SamplingParams
from llamaherd.calls.run.call import Call
from llamaherd.engine.core.outcome import Counts, Finish, Output, RunOutcome, Status
from llamaherd.engine.core.request import Request
from llamaherd.engine.memory.plan import AUTO_SLOTS, MAX_HOLD, Plan
from llamaherd.engine.schedule.engine import Engine

_N_TOKENS = 500


class InstantEngine(Engine):
    """Engine in which each request ends, or each prefix is held, at the next run.

    Attributes:
        requests: Requests that were not released, by id.
    """

    def __init__(self) -> None:
        self.requests: dict[int, Request] = {}
        self._fresh: list[int] = []

    n_ctx = (AUTO_SLOTS + MAX_HOLD) * 2 * _N_TOKENS
    n_ctx_seq = 2 * _N_TOKENS

    def submit(self, id_: int, request: Request, *_: object, **__: object) -> None:
        """Store a request."""
        self.requests[id_] = request
        self._fresh.append(id_)

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


def measure() -> dict[str, object]:
    """Return the seconds to schedule 10,000 prompts, on a plan that never changes."""
    requests = make_requests(100, 100)
    engine = InstantEngine()
    plan = Plan(
        n_ctx=engine.n_ctx,
        n_seq_max=AUTO_SLOTS,
        n_hold=MAX_HOLD,
        kv_layout="per_sequence",
        n_ctx_seq=engine.n_ctx_seq,
        capacity=engine.n_ctx_seq,
        memory_bytes=0,
    )
    sys.path.append(str(Path(__file__).parents[1] / "tests/python"))
    from fake_engine import make_loop

    loop = make_loop(plan, engine)
    start = time.perf_counter()
    Call(requests, seed=0).run(loop)
    return {"seconds": [time.perf_counter() - start], "n_prompts": len(requests)}
