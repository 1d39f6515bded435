"""Runs cases: a single call, or several callers at the same time."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

import llamaherd as lh

if TYPE_CHECKING:
    from collections.abc import Callable

    from cases import Case, Crowd
    from faults import Faults
    from kinds import Kind

_T = TypeVar("_T")
END_S = 60.0  # time after which a result is treated as lost


def run_case(
    faults: Faults, kind: Kind, case: Case, start: Callable[[], lh.Job[_T]]
) -> _T | None:
    """Return the results of a call; None: the call raised what it may."""
    caller = Caller(kind, case)
    hook: dict[str, Any] = {}
    if case.cancel_at is not None:
        hook = {"hook": caller.cancel, "hook_at": case.cancel_at}
    with faults.armed(case.fault, **hook):
        return caller.call(start)


def generates(case: Case, context: lh.Context) -> Callable[[], lh.Job[lh.Results]]:
    """Return a function that starts the call of a case."""
    return lambda: lh.start_parallel(
        context,
        case.prompts,
        params=case.params,
        seed=case.seed,
        on_error=case.on_error,
    )


def run_crowd(
    faults: Faults, kind: Kind, crowd: Crowd, context: lh.Context
) -> list[list[lh.Results] | None]:
    """Return each caller's results by call or submitted prompt; None as in `run_case`."""
    callers = [Caller(kind, case) for case in crowd.callers]
    leaving = [c for c in callers if c.case.cancel_at is not None]
    all_there = threading.Barrier(len(callers))

    def cancel() -> None:
        for caller in leaving:
            caller.cancel()

    def run(k: int) -> list[lh.Results] | None:
        all_there.wait()
        time.sleep(crowd.delays_s[k])
        way = crowd.ways[k]
        if way == "call":
            results = callers[k].call(generates(crowd.callers[k], context))
            return None if results is None else [results]
        return callers[k].submit(context, stream=way == "stream")

    hook: dict[str, Any] = {}
    if leaving:
        hook = {"hook": cancel, "hook_at": leaving[0].case.cancel_at}
    with (
        faults.armed(crowd.callers[0].fault, **hook),
        ThreadPoolExecutor(len(callers)) as pool,
    ):
        return list(pool.map(run, range(len(callers))))


class Caller:
    """Runs the prompts of a case, and can be cancelled from any thread."""

    def __init__(self, kind: Kind, case: Case) -> None:
        self.case = case
        self._kind = kind
        self._is_started = threading.Event()
        self._started: list[lh.Job[Any] | lh.types.Handle] = []

    def cancel(self) -> None:
        self._is_started.wait()
        for each in self._started:
            each.cancel()

    def call(self, start: Callable[[], lh.Job[_T]]) -> _T | None:
        try:
            job = start()
            self._started.append(job)
            self._is_started.set()
            assert job.wait(END_S), "a call is lost"
            return job.results()
        except self._kind.raises:
            return None
        finally:
            self._is_started.set()

    def submit(self, context: lh.Context, *, stream: bool) -> list[lh.Results] | None:
        case = self.case
        handles = []
        try:
            for prompt, params in zip(case.prompts, case.params, strict=True):
                handle = context.submit(
                    prompt, params=params, seed=case.seed, stream=stream
                )
                handles.append(handle)
                self._started.append(handle)
            self._is_started.set()
            return [_result(handle, stream=stream) for handle in handles]
        except self._kind.raises:
            return None
        finally:
            self._is_started.set()


def _result(handle: lh.types.Handle, *, stream: bool) -> lh.Results:
    """Return the results of one submitted prompt."""
    pieces = []
    try:
        if stream:
            pieces += handle
        result = handle.result(END_S)
    except lh.GenerationError as error:
        return error.results
    if stream:
        assert "".join(pieces) == (result.partial or result.text or "")
    return lh.Results([result], lh.Stats(n_prompts=1))
