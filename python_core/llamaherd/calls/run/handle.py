"""Handle of one request, to wait for the result, read pieces or cancel."""

from __future__ import annotations

import asyncio
import logging
import weakref
from contextlib import contextmanager, suppress
from threading import Condition
from time import monotonic
from typing import TYPE_CHECKING

from llamaherd.calls.asks.answers import as_result, check_answer
from llamaherd.engine.core.errors import PromptError
from llamaherd.engine.core.outcome import (
    Finish,
    Output,
    Piece,
    PieceStream,
    Stripped,
    TextPiece,
    TokenLogprob,
)
from llamaherd.engine.core.process import ProcessBound
from llamaherd.engine.core.results import Result, Results
from llamaherd.engine.core.stats import RequestStats, Stats
from llamaherd.engine.loop.group import Group
from llamaherd.engine.loop.threads import check_may_wait, wait_or_look
from llamaherd.engine.native import shim

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Generator, Iterator, Sequence

    from llamaherd.engine.core.request import Request
    from llamaherd.engine.loop.threaded import ThreadedLoop

log = logging.getLogger(__name__)
_SLICE_S = 0.05  # maximum delay until Ctrl-C is noticed


class Handle(ProcessBound):
    """Handle of a request, returned by `Context.submit`.

    A handle may be used in any thread and in asyncio. `await handle` returns the result;
    `async for piece in handle` iterates over the pieces of the text. No thread per handle
    is needed. `handle.pieces()` also yields the pieces of the thought.

    A handle that nobody holds any more cancels its request, unless it has callbacks. The
    loop `for piece in context.submit(..., stream=True)` holds the handle: the request
    ends when the loop is left early. Keep the handle to get its result after the loop.

    Args:
        loop: Loop that runs the request.
        request: Request.
        owner: Context to keep alive.
        stream: Whether pieces of the text are read, starting with the first token.
        n_again: See `Group`.
    """

    def __init__(
        self,
        loop: ThreadedLoop,
        request: Request,
        owner: object,
        *,
        stream: bool = False,
        n_again: int = 0,
    ) -> None:
        # Set to None after the end, because a group keeps its engine alive.
        self._loop: ThreadedLoop | None = loop
        self._request = request
        self._changed = Condition()
        self._pieces: list[TextPiece] = []
        self._n_chars = 0  # number of characters of the answer in `_pieces`
        self._n_thought_chars = 0
        self._thought = Stripped()
        self._logprobs: list[TokenLogprob] = []  # of tokens after the last piece
        self._n_logprobs = 0
        self._listeners: list[Callable[[], object]] = []  # called after every change
        self._callbacks: list[Callable[[Handle], object]] = []  # called at the end
        self._result: Result | None = None
        self._error: BaseException | None = None
        self._is_done = False
        self._link = _Link(self, owner)
        self._group = Group([request], self._link, is_watched=stream, n_again=n_again)
        loop.hand_in(self._group)

    @property
    def n_prompt_tokens(self) -> int:
        """Number of tokens of the prompt."""
        return self._request.n_prompt

    def done(self) -> bool:
        """Whether the request has ended, either with an answer or with a failure."""
        return self._is_done

    def cancel(self) -> None:
        """Request the end of the request and return at once; it ends within one step.

        Other requests continue.
        """
        loop = self._loop
        if loop is not None:
            loop.give_up(self._group)

    def result(self, timeout: float | None = None) -> Result:
        """Wait for the result.

        Args:
            timeout: Maximum time to wait in seconds; None for no limit.

        Returns:
            The result. A cancelled request has the finish reason "cancelled" and its text
            so far in `partial`.

        Raises:
            TimeoutError: The request has not ended in time; it continues.
            GenerationError: The prompt failed.
            AnswerError: The answer violates its schema.
            CutOffError: `max_tokens` cut the answer off before the end of its schema.
            PromptError: The prompt cannot be run: it is empty or too long.
            ContextClosedError: The context was closed.
            ContextError: Not enough memory.
            ForkError: This process was forked; the request runs in its parent.
        """
        end = None if timeout is None else monotonic() + timeout
        if not self._wait(self.done, end):
            raise TimeoutError(f"the prompt was not answered within {timeout} s")
        if self._result is None:
            raise self._error or MemoryError("the context's thread ended early")
        return self._result

    def add_done_callback(self, fn: Callable[[Handle], object]) -> None:
        """Call a function with this handle when the request ends.

        Args:
            fn: Function. The context's thread calls it, so it must be fast and cannot
                wait for other requests. If the request has already ended, the function is
                called at once. Exceptions of the function are logged, by the logger
                "llamaherd.calls.run.handle", and have no other effect.
        """
        with self._changed:
            if not self.done():
                self._callbacks.append(fn)
                self._link.kept = self
                return
        _call_back(fn, self, Exception)  # Ctrl-C in this thread is the caller's

    def pieces(self) -> PieceStream:
        """Return the pieces of thought and answer, to iterate with `for` or `async for`.

        Each piece is text with a `kind`, "thinking" or "answer". The pieces of the
        thought come first, without white space around the thought. For log-probabilities
        see `TextPiece`.
        """
        return PieceStream(self._iterate, self._iterate_async)

    def read(self, start: int = 0, timeout: float | None = None) -> list[TextPiece]:
        """Wait for pieces of thought and answer after the first `start` pieces.

        Args:
            start: Number of pieces that were read before.
            timeout: Maximum time to wait in seconds; None for no limit.

        Returns:
            The new pieces; an empty list after the timeout, or if the request has
            ended.
        """
        self._watch()
        end = None if timeout is None else monotonic() + timeout
        self._wait(lambda: len(self._pieces) > start or self.done(), end)
        return self._pieces[start:]

    def __iter__(self) -> Iterator[TextPiece]:
        """Iterate over the pieces of the answer, which add up to its text.

        Raises:
            GenerationError: The answer failed; raised after the last piece. For all
                errors see `result`.
        """
        return (piece for piece in self._iterate() if piece.kind == "answer")

    def _iterate(self) -> Iterator[TextPiece]:
        self._watch()
        n = 0
        is_done = False
        while not is_done:
            self.read(n)
            is_done = self.done()  # if the request is done, all its text is there
            new = self._pieces[n:]
            n += len(new)
            yield from new
        self.result()

    def __await__(self) -> Generator[object, None, Result]:
        """Wait for the result in asyncio. Cancelling the wait cancels the request."""
        return self._await_result().__await__()

    async def __aiter__(self) -> AsyncIterator[TextPiece]:
        """Iterate over pieces in asyncio.

        Cancelling the task that waits for a piece cancels the request. Leaving early does
        not, as long as somebody holds the handle.
        """
        async for piece in self._iterate_async():
            if piece.kind == "answer":
                yield piece

    async def _iterate_async(self) -> AsyncIterator[TextPiece]:
        self._watch()
        with self._changes() as event:
            n = 0
            while True:
                is_done = self.done()  # if the request is done, all its text is there
                new = self._pieces[n:]
                n += len(new)
                for piece in new:
                    yield piece
                if is_done:
                    break
                await wait_or_look(event, self._check_alive)
        self.result()

    def __del__(self) -> None:
        with suppress(Exception):  # the interpreter may be ending
            self.cancel()

    def __repr__(self) -> str:
        state = "running"
        if self._error is not None:
            state = f"failed: {self._error}"
        elif self._result is not None:
            state = self._result.finish_reason
        return f"<Handle of {self.n_prompt_tokens} prompt tokens: {state}>"

    # ---- called by the loop ----

    def on_piece(self, piece: Piece) -> None:
        """Store a new part of the thought or the answer."""
        with self._changed:
            if piece.kind == "thinking":
                self._add_thought(piece.text)
            else:
                if piece.logprobs is not None and piece.top_logprobs is not None:
                    n_before = piece.n_tokens - len(piece.logprobs)
                    self._add_logprobs(
                        n_before, piece.tokens, piece.logprobs, piece.top_logprobs
                    )
                self._add(piece.text, piece.n_tokens)
            self._changed.notify_all()
        self._notify()

    def on_output(self, _i: int, output: Output, stats: RequestStats) -> None:
        """Store the output of the request."""
        answer = check_answer(self._request, output)
        result = as_result(0, self._request, answer.output, stats, parsed=answer.value)
        if answer.output.finish is Finish.ERROR:
            kind = PromptError if output.is_rejected else answer.failure
            message = f"the prompt failed: {answer.output.message}"
            self._error = kind(message, Results([result], Stats(n_prompts=1)))
        else:
            self._result = result
        self._add_thought((output.thinking or "")[self._n_thought_chars :])
        if output.logprobs is not None and output.top_logprobs is not None:
            self._add_logprobs(0, output.tokens, output.logprobs, output.top_logprobs)
        self._add(output.text[self._n_chars :], len(output.tokens))

    def on_end(self, error: BaseException | None) -> None:
        """Mark the handle as done and call its callbacks."""
        with self._changed:
            if error is not None:
                self._error, self._result = error, None
            self._is_done = True  # set last, because an error may occur before this line
            self._loop = None
            callbacks, self._callbacks = self._callbacks, []
            self._changed.notify_all()
        self._notify()
        for fn in callbacks:
            _call_back(fn, self, BaseException)

    # ---- internal ----

    def _add(self, text: str, n_tokens: int) -> None:
        if text:
            logprobs, self._logprobs = tuple(self._logprobs), []
            self._pieces.append(TextPiece(text, "answer", n_tokens, logprobs))
            self._n_chars += len(text)

    def _add_logprobs(
        self,
        n_before: int,
        tokens: Sequence[int],
        logprobs: Sequence[float],
        top: Sequence[dict[int, float]],
    ) -> None:
        """Keep the log-probabilities of new tokens until the next piece.

        `n_before` tokens of the answer precede them. An actor that takes over a request
        sends its first tokens again.
        """
        new = slice(self._n_logprobs - n_before, len(logprobs))
        rows = zip(tokens[new], logprobs[new], top[new], strict=True)
        new_logprobs = [TokenLogprob(*row) for row in rows]
        self._n_logprobs += len(new_logprobs)
        self._logprobs += new_logprobs

    def _add_thought(self, text: str) -> None:
        self._n_thought_chars += len(text)
        new = self._thought.add(text)
        if new:
            self._pieces.append(TextPiece(new, "thinking"))

    def _watch(self) -> None:
        loop = self._loop
        if loop is not None:
            loop.watch(self._group)

    def _notify(self) -> None:
        for listener in list(self._listeners):
            _call(listener)

    def _wait(self, is_there: Callable[[], bool], end: float | None = None) -> bool:
        """Wait until `is_there()`; return False after the timeout."""
        while True:
            shim.check_process()  # in a forked child the event is never set
            left = _SLICE_S if end is None else min(_SLICE_S, end - monotonic())
            with self._changed:
                if is_there():
                    return True
                if left <= 0:
                    return False
                check_may_wait()
                self._changed.wait(left)
            self._check_alive()

    def _check_alive(self) -> None:
        loop = self._loop
        error = None if loop is None else loop.why_lost(self._group)
        if error is not None and not self.done():
            raise error

    async def _await_result(self) -> Result:
        with self._changes() as event:
            while not self.done():
                await wait_or_look(event, self._check_alive)
        return self.result()

    @contextmanager
    def _changes(self) -> Iterator[asyncio.Event]:
        """Yield an event that each change sets; cancelling a wait cancels the request."""
        event = asyncio.Event()
        running = asyncio.get_running_loop()

        def listener() -> None:
            running.call_soon_threadsafe(event.set)

        with self._changed:
            self._listeners.append(listener)
        try:
            yield event
        except asyncio.CancelledError:
            self.cancel()
            raise
        finally:
            with self._changed:
                self._listeners.remove(listener)


class _Link:
    """Listener that passes outputs to a handle and does not keep the handle alive.

    `kept` is the handle as long as its callbacks wait for the end.
    """

    def __init__(self, handle: Handle, owner: object) -> None:
        self._handle = weakref.ref(handle)
        self._owner = owner
        self.kept: Handle | None = None

    def on_piece(self, piece: Piece) -> None:
        handle = self._handle()
        if handle is not None:
            handle.on_piece(piece)

    def on_output(self, i: int, output: Output, stats: RequestStats) -> None:
        handle = self._handle()
        if handle is not None:
            handle.on_output(i, output, stats)

    def on_end(self, error: BaseException | None) -> None:
        handle = self._handle()
        if handle is not None:
            handle.on_end(error)
        self.kept = self._owner = None


def _call_back(
    fn: Callable[[Handle], object], handle: Handle, kind: type[BaseException]
) -> None:
    """Call a user's callback; log errors of a kind, which must not end requests."""
    try:
        fn(handle)
    except kind:
        with suppress(kind):  # of a handler of the log
            log.exception("exception in a callback of %r", handle)


def _call(fn: Callable[[], object]) -> None:
    """Call a listener and ignore its errors, because its event loop may be closed."""
    try:
        fn()
    except Exception:  # noqa: BLE001 - nobody here could do anything about it
        return
