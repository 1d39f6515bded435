"""One request on its way: to be waited for, read as it grows, or cancelled."""

from __future__ import annotations

import asyncio
from functools import partial
from threading import Condition
from time import monotonic
from typing import TYPE_CHECKING, NoReturn

from llamaherd.core import checks
from llamaherd.core.errors import PromptError
from llamaherd.core.outcome import Finish
from llamaherd.core.results import Results
from llamaherd.core.stats import Stats
from llamaherd.native import shim
from llamaherd.run.answers import as_result, checked
from llamaherd.run.group import Group

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Generator, Iterator

    from llamaherd.core.outcome import Output, Piece
    from llamaherd.core.request import Request
    from llamaherd.core.results import Result
    from llamaherd.core.stats import RequestStats
    from llamaherd.run.group import GroupLoop

_SLICE_S = 0.05  # longest wait after which Ctrl-C is seen
_ASYNC_SLICE_S = 1.0  # longest one after which the end of the loop's thread is seen


class Handle:
    """A prompt that was handed in with `Context.submit`.

    It may be used from any thread, and from asyncio: `await handle` for the result,
    `async for piece in handle` for pieces of its text, without a thread for each.
    Dropping it does not cancel it.

    Args:
        loop: What runs it.
        request: What is asked.
        owner: Is kept alive: the context, or a Llama whose model it uses.
        is_alone: See `Group`.
        stream: Whether its text is wanted as it grows, from the first token on.
    """

    def __init__(
        self,
        loop: GroupLoop,
        request: Request,
        owner: object,
        *,
        is_alone: bool = True,
        stream: bool = False,
    ) -> None:
        # None after the end: it keeps an engine alive.
        self._loop: GroupLoop | None = loop
        self._request = request
        self._owner: object = owner
        self._changed = Condition()
        self._pieces: list[str] = []
        self._n_chars = 0
        self._listeners: list[Callable[[], object]] = []  # of every change
        self._callbacks: list[Callable[[Handle], object]] = []  # of the end
        self._result: Result | None = None
        self._error: BaseException | None = None
        self._is_done = False
        self._group = Group([request], self, is_alone=is_alone, is_watched=stream)
        loop.hand_in(self._group)

    @property
    def n_prompt_tokens(self) -> int:
        """Tokens of its prompt."""
        return len(self._request.tokens)

    def done(self) -> bool:
        """Whether it has ended, well or not."""
        return self._is_done

    def cancel(self) -> None:
        """Ends it within a step; returns at once. What else runs goes on."""
        loop = self._loop
        if loop is not None:
            loop.give_up(self._group)

    def result(self, timeout: float | None = None) -> Result:
        """Waits for the result.

        Args:
            timeout: Longest time to wait, in seconds; None: as long as it takes.

        Returns:
            The result; of a cancelled request one with finish reason "cancelled", with
            `partial` as its text so far.

        Raises:
            TimeoutError: It has not ended by then; it goes on.
            GenerationError: The prompt failed.
            AnswerError: Its answer does not follow its schema.
            CutOffError: `max_tokens` cut its answer off before the schema's end.
            PromptError: It could not be run at all: it is empty, or too long.
            ContextClosedError: The context was closed.
            ContextError: There is not enough memory.
            ForkError: This process was forked; the request runs in its parent.
        """
        end = None if timeout is None else monotonic() + timeout
        if not self._wait(self.done, end):
            raise TimeoutError(f"the prompt was not answered within {timeout} s")
        if self._result is None:
            raise self._error or MemoryError("the context's thread ended early")
        return self._result

    def add_done_callback(self, fn: Callable[[Handle], object]) -> None:
        """Has a function called with this handle when it has ended.

        Args:
            fn: Is called on the loop's thread, for which others wait, so it must be
                quick; at once if the end has come. What it raises is dropped.
        """
        with self._changed:
            if not self.done():
                self._callbacks.append(fn)
                return
        _call(partial(fn, self))

    def __iter__(self) -> Iterator[str]:
        """Pieces of the answer as it grows; together they are its text.

        Raises:
            GenerationError: As `result`, after the last piece; the others as well.
        """
        self._watch()
        n = 0
        is_done = False
        while not is_done:
            self._wait_for_piece(n)
            is_done = self.done()  # asked first: what is there then is all
            new = self._pieces[n:]
            n += len(new)
            yield from new
        self.result()

    def __await__(self) -> Generator[object, None, Result]:
        """The result, from asyncio. Cancelling the wait cancels the request."""
        return self._await_result().__await__()

    async def __aiter__(self) -> AsyncIterator[str]:
        """As `__iter__`, from asyncio. Leaving early does not cancel the request."""
        self._watch()
        event = asyncio.Event()
        running = asyncio.get_running_loop()

        def listener() -> None:
            running.call_soon_threadsafe(event.set)

        with self._changed:
            self._listeners.append(listener)
        try:
            n = 0
            while True:
                is_done = self.done()  # asked first: what is there then is all
                new = self._pieces[n:]
                n += len(new)
                for piece in new:
                    yield piece
                if is_done:
                    break
                await self._wait_async(event)
        finally:
            with self._changed:
                self._listeners.remove(listener)
        self.result()

    def __reduce__(self) -> NoReturn:
        checks.stays_here(self)

    def __repr__(self) -> str:
        state = "running"
        if self._error is not None:
            state = f"failed: {self._error}"
        elif self._result is not None:
            state = self._result.finish_reason
        return f"<Handle of {self.n_prompt_tokens} prompt tokens: {state}>"

    # ---- the loop tells ----

    def on_piece(self, piece: Piece) -> None:
        """The answer has grown."""
        with self._changed:
            self._add(piece.text)
            self._changed.notify_all()
        self._tell()

    def on_output(self, _i: int, output: Output, stats: RequestStats) -> None:
        """The answer is there, or will never be."""
        answer = checked(self._request, output)
        result = as_result(0, self._request, answer.output, stats, parsed=answer.value)
        if answer.output.finish is Finish.ERROR:
            kind = PromptError if output.is_rejected else answer.failure
            message = f"the prompt failed: {answer.output.message}"
            self._error = kind(message, Results([result], Stats(n_prompts=1)))
        else:
            self._result = result
        self._add(output.text[self._n_chars :])

    def on_end(self, error: BaseException | None) -> None:
        """Nothing more will come."""
        with self._changed:
            if error is not None:
                self._error, self._result = error, None
            self._is_done = True  # not before: until now it may still come to be an error
            self._owner = self._loop = None
            callbacks, self._callbacks = self._callbacks, []
            self._changed.notify_all()
        self._tell()
        for fn in callbacks:
            _call(partial(fn, self))

    # ---- inside ----

    def _add(self, text: str) -> None:
        if text:
            self._pieces.append(text)
            self._n_chars += len(text)

    def _watch(self) -> None:
        loop = self._loop
        if loop is not None:
            loop.watch(self._group)

    def _tell(self) -> None:
        for listener in list(self._listeners):
            _call(listener)

    def _wait(self, is_there: Callable[[], bool], end: float | None = None) -> bool:
        """Waits until something is there. False: the time is over."""
        while True:
            shim.check_process()  # in a forked child nobody will ever say so
            left = _SLICE_S if end is None else min(_SLICE_S, end - monotonic())
            with self._changed:
                if is_there():
                    return True
                if left <= 0:
                    return False
                self._changed.wait(left)
            self._check_alive()

    def _check_alive(self) -> None:
        loop = self._loop
        if loop is not None and loop.is_dead and not self.done():
            raise MemoryError("the context's thread ended for want of memory")

    async def _wait_async(self, event: asyncio.Event) -> None:
        """Waits for a listener to set it, or until it is time to see whether one can."""
        running = asyncio.get_running_loop()
        timer = running.call_later(_ASYNC_SLICE_S, event.set)
        try:
            await event.wait()
        finally:
            timer.cancel()
        event.clear()
        self._check_alive()

    def _wait_for_piece(self, n: int) -> None:
        self._wait(lambda: len(self._pieces) > n or self.done())

    async def _await_result(self) -> Result:
        running = asyncio.get_running_loop()
        event = asyncio.Event()
        self.add_done_callback(lambda _: running.call_soon_threadsafe(event.set))
        try:
            while not self.done():
                await self._wait_async(event)
        except asyncio.CancelledError:
            self.cancel()
            raise
        return self.result()


def _call(fn: Callable[[], object]) -> None:
    """Whoever listens must not break the loop for others: its event loop may be gone."""
    try:
        fn()
    except Exception:  # noqa: BLE001 - nobody here could do anything about it
        return
