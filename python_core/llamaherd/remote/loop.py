"""Loop of an engine elsewhere: sends the requests of all calls, some at a time."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from time import perf_counter
from typing import TYPE_CHECKING

from llamaherd.engine.core.errors import ServerError
from llamaherd.engine.core.outcome import Finish, Output
from llamaherd.engine.core.stats import Load, RequestStats
from llamaherd.engine.loop.threaded import SendingLoop
from llamaherd.remote.client import Address, FailedError, UnreachableError
from llamaherd.remote.request import ApiForm, SentRequest, failed_output, refuse

if TYPE_CHECKING:
    import httpx

    from llamaherd.engine.loop.group import Group


class EngineLoop(SendingLoop["_Sending"]):
    """Sends requests to an engine and delivers its answers.

    Groups take turns. A request keeps its place between two tries, so that an engine
    which is busy gets fewer requests.
    """

    plan = None  # the engine's cache is its own

    def __init__(self, address: Address, form: ApiForm, n_at_once: int) -> None:
        super().__init__("engine")
        self._address, self._form, self._n_at_once = address, form, n_at_once
        self._wake: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None

    @property
    def load(self) -> Load:
        """Return the number of running and waiting requests."""
        with self._lock:
            sendings = list(self._works.values())
        n_running = sum(len(sending.running) for sending in sendings)
        n_open = sum(len(sending.group.open) for sending in sendings)
        return Load(
            n_running=n_running,
            n_waiting=max(0, n_open - n_running),
            n_slots=self._n_at_once,
        )

    # ---- for SendingLoop ----

    def _make_work(self, group: Group) -> _Sending:
        if group.is_watched:
            raise refuse("stream", "an engine elsewhere", "it sends whole answers")
        return _Sending(group)

    def _stir(self) -> None:
        if self._wake is not None:
            loop, event = self._wake
            with suppress(RuntimeError):  # the event loop has just ended
                loop.call_soon_threadsafe(event.set)

    def _turn(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        """Send requests until no group is left."""
        event = asyncio.Event()
        with self._lock:
            self._wake = (asyncio.get_running_loop(), event)
        tasks: dict[asyncio.Task[Output], tuple[_Sending, int]] = {}
        async with self._address.session() as session:
            while True:
                event.clear()
                with self._lock:
                    sendings = list(self._works.values())
                if not sendings:
                    return
                self._fill(session, sendings, tasks)
                for sending in sendings:
                    if sending.is_over:
                        self._end(sending.group, sending.error)
                waker = asyncio.ensure_future(event.wait())
                is_idle = not tasks and any(sending.is_over for sending in sendings)
                if not is_idle:
                    await asyncio.wait({*tasks, waker}, return_when="FIRST_COMPLETED")
                waker.cancel()
                for task in [task for task in tasks if task.done()]:
                    _take(task, *tasks.pop(task))

    def _fill(
        self,
        session: httpx.AsyncClient,
        sendings: list[_Sending],
        tasks: dict[asyncio.Task[Output], tuple[_Sending, int]],
    ) -> None:
        """End groups that give up, and start requests of the others in turn."""
        for sending in sendings:
            group = sending.group
            if self._is_closed and sending.error is None:
                sending.error = self._closed_error()
            if sending.error is not None or group.is_cancelled:
                sending.give_up(tasks)
            elif group.is_stopping:
                sending.waiting.clear()
        turns = [sending for sending in sendings if sending.waiting]
        while turns and len(tasks) < self._n_at_once:
            sending = turns.pop(0)
            i = sending.waiting.pop()
            task = asyncio.ensure_future(self._ask(session, sending.group, i))
            sending.running.add(i)
            sending.started_s[i] = perf_counter()
            tasks[task] = (sending, i)
            if sending.waiting:
                turns.append(sending)

    async def _ask(self, session: httpx.AsyncClient, group: Group, i: int) -> Output:
        request = group.requests[i]
        assert isinstance(request, SentRequest)  # noqa: S101 - made by the same engine
        if request.problem:
            return failed_output(request.problem, is_rejected=True)
        output: Output = await self._address.ask(
            session,
            request.path,
            self._form.body(request),
            lambda answer: self._form.output(request, answer),
        )
        return output


class _Sending:
    """A group whose requests are sent."""

    def __init__(self, group: Group) -> None:
        self.group = group
        self.waiting = sorted(group.open, reverse=True)  # the first at the end
        self.running: set[int] = set()
        self.started_s: dict[int, float] = {}  # times when requests were sent
        self.answered_s = 0.0  # time of the last answer
        self.error: BaseException | None = None  # reason to end the group

    @property
    def is_over(self) -> bool:
        """Whether nothing of the group waits or runs."""
        return not self.waiting and not self.running

    def give_up(self, tasks: dict[asyncio.Task[Output], tuple[_Sending, int]]) -> None:
        """Send nothing more, and break the connections of what runs."""
        self.waiting.clear()
        for task, (sending, _) in tasks.items():
            if sending is self:
                task.cancel()


def _take(task: asyncio.Task[Output], sending: _Sending, i: int) -> None:
    """Deliver the output of a request that has ended."""
    group, now_s = sending.group, perf_counter()
    started_s = sending.started_s.pop(i)
    sending.running.discard(i)
    if task.cancelled():
        return
    try:
        output = task.result()
        sending.answered_s = now_s
    except UnreachableError as error:
        if sending.answered_s < started_s:  # no other request was answered meanwhile
            sending.error = sending.error or ServerError(str(error.failure))
            return
        output = failed_output(error.failure)
    except FailedError as error:
        output = failed_output(error.failure)
    except Exception as error:  # noqa: BLE001 - the caller gets it
        sending.error = sending.error or error
        return
    queue_s, wall_s = started_s - group.came_s, now_s - group.came_s
    stats = RequestStats(
        queue_s=queue_s,
        first_token_s=wall_s if output.finish is not Finish.ERROR else None,
        wall_s=wall_s,
        n_prefill_tokens=output.n_prompt or 0,
        n_decode_tokens=output.n_generated or 0,
    )
    group.deliver(i, output, stats)
