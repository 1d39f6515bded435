"""Jobs of requests in steps, at the end of a server."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from fake_calls import assert_right, request
from llamaherd.calls.run.call import Call
from llamaherd.engine.core.request import AbandonedError
from llamaherd.server.errors import ApiError
from llamaherd.server.threads import AwaitedJob
from stepping import plan, stepping, submit
from waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from llamaherd.calls.run.hosted import Steps
    from llamaherd.engine.loop.loop import Loop


class _Work:
    """A call of one prompt."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._call = Call([request([1, 2])], seed=1)

    def cancel(self) -> None:
        self._call.cancel()

    def steps(self) -> Steps[object]:
        return self._call.steps(self._loop)


def test_a_server_that_is_gone_does_not_disturb_other_callers() -> None:
    """The call ends after the threads and the event loop of the server."""
    loop, engine = stepping(plan())
    may_run = threading.Event()
    engine.before_run = lambda _: may_run.wait(60)
    threads = ThreadPoolExecutor(1)
    asyncio.run(_leave_a_job(loop, threads))
    threads.shutdown(cancel_futures=True)
    other = submit(loop, request([3, 4]))
    may_run.set()
    assert_right(other.result(60), request([3, 4]))
    assert loop.wait(60)


async def _leave_a_job(loop: Loop, threads: ThreadPoolExecutor) -> None:
    job = AwaitedJob(_Work(loop), threads.submit)
    waiting = asyncio.ensure_future(job.outcome())
    await asyncio.to_thread(wait_until, lambda: bool(loop._groups))
    waiting.cancel()


class _Nothing:
    """Work whose only step returns 1."""

    def cancel(self) -> None:
        pass

    def steps(self) -> Steps[int]:
        return 1
        yield


@contextmanager
def _busy_thread() -> Iterator[ThreadPoolExecutor]:
    """Return a pool whose only thread is busy until the end of the block."""
    may_end = threading.Event()
    with ThreadPoolExecutor(1) as threads:
        threads.submit(may_end.wait, 60)
        try:
            yield threads
        finally:
            may_end.set()


def test_a_job_ends_if_its_threads_end_before_its_step() -> None:
    with _busy_thread() as threads:
        job = AwaitedJob(_Nothing(), threads.submit)
        threads.shutdown(wait=False, cancel_futures=True)
        with pytest.raises(ApiError, match="the server is stopping"):
            asyncio.run(job.outcome())
        assert job.done()


def test_work_that_is_cancelled_before_its_step_has_no_results() -> None:
    with _busy_thread() as threads:
        job = AwaitedJob(_Nothing(), threads.submit)
        job.cancel()
        with pytest.raises(AbandonedError):
            asyncio.run(job.outcome())
