"""Jobs of requests in steps, at the end of a server."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from fake_calls import assert_right, request
from llamaherd.run.call import Call
from llamaherd.server.awaited import AwaitedJob
from stepping import plan, stepping, submit
from waiting import wait_until

if TYPE_CHECKING:
    from llamaherd.loop.loop import Loop
    from llamaherd.run.steps import Steps


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
    job = AwaitedJob(_Work(loop), threads)
    waiting = asyncio.ensure_future(job.outcome())
    await asyncio.to_thread(wait_until, lambda: bool(loop._groups))
    waiting.cancel()
