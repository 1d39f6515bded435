"""A fake context without a model: computes known answers word by word."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from contextlib import suppress
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import llamaherd as lh
from llamaherd.calls.asks.options import GenerateOptions
from llamaherd.calls.asks.requests import make_requests
from llamaherd.engine.core import checks
from llamaherd.engine.core.errors import Failure, PromptError
from llamaherd.engine.core.outcome import Counts, TextPiece
from llamaherd.engine.core.stats import Load, RequestStats
from llamaherd.engine.core.thinking import checked_thinking
from llamaherd.engine.loop.slot_times import NO_TIMES
from llamaherd.engine.model.tokens import token_array

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Generator

    from llamaherd.engine.loop.slot_times import SlotTimes

N_CTX = 512
# Error of an answer after its words, and its code, by the prompt's first word.
FAILURES = {
    "cut": (lh.CutOffError, "cut_off"),
    "wrong": (lh.AnswerError, "schema_not_followed"),
}


def answer(prompt: object, n: int) -> str:
    """Return the first `n` words of the answer to a prompt."""
    first = prompt if isinstance(prompt, str) else "-".join(map(str, list(prompt)[:3]))  # type: ignore[call-overload]
    return " ".join(f"{first}/{i}" for i in range(n))


def thought_of(options: dict[str, Any]) -> list[str]:
    """Return a thought with one word for each token that the options allow."""
    thinking = checked_thinking("thinking", options.get("thinking"))
    n = thinking.budget if thinking else 0
    return [f"{'' if i == 0 else ' '}hm{i}" for i in range(n)]


class FakeHandle:
    """A request of a `FakeContext`."""

    n_prompt_tokens = 7

    def __init__(
        self,
        prompt: object,
        params: lh.SamplingParams,
        options: dict[str, Any],
        fails_at: int,
    ) -> None:
        self.prompt = prompt
        self.params = params
        self.options = options
        self.n_words = params.max_tokens or 100
        self.words: list[str] = []  # of the answer
        self.thoughts = thought_of(options)
        self.is_cancelled = False
        self._result: lh.Result | None = None
        self._error: Exception | None = None
        self._news: list[Callable[[], None]] = []
        self._callbacks: list[Callable[[FakeHandle], None]] = []
        self._lock = threading.Lock()
        self._is_done = False
        self.fails_at = fails_at

    def step(self) -> None:
        """Add one more word; end after the last word."""
        if self.is_cancelled:
            self._end("cancelled")
            return
        if str(self.prompt).startswith("fail") or len(self.words) == self.fails_at:
            self._end("error", lh.GenerationError)
            return
        i = len(self.words)
        words = answer(self.prompt, i + 1).split(" ")
        self.words.append(words[-1] if i == 0 else f" {words[-1]}")
        if i + 1 == self.n_words:
            failure, code = FAILURES.get(str(self.prompt).split(" ", 1)[0], (None, ""))
            why = Failure(f"{self.prompt}: it failed", code)
            self._end("length" if failure is None else "error", failure, why)
        else:
            self._tell()

    def refuse(self, reason: Failure) -> None:
        self._end("error", PromptError, reason)

    def pieces(self) -> FakeHandle:
        """Yield all pieces, as `async for` does."""
        return self

    def _end(
        self,
        reason: Any,
        failure: type[lh.GenerationError] | None = None,
        why: Failure | None = None,
    ) -> None:
        text = "".join(self.words)
        is_whole = reason not in ("cancelled", "error")
        result = lh.Result(
            index=0,
            text=text if is_whole else None,
            partial=None if is_whole else text,
            tokens=list(range(len(self.words))),
            finish_reason=reason,
            complete=False,
            error=None if failure is None else why or f"{self.prompt}: it failed",
            n_prompt_tokens=self.n_prompt_tokens,
            n_reused_tokens=3,
            seed=0,
            thinking="".join(self.thoughts) or None,
            n_thinking_tokens=len(self.thoughts),
            thinking_complete=True if self.thoughts else None,
            stats=RequestStats(queue_s=0.25, first_token_s=0.5),
        )
        if failure is None:
            self._result = result
        else:
            message = f"the prompt failed: {result.error}"
            self._error = failure(message, lh.Results([result], lh.Stats()))
        self._finish()

    def _finish(self) -> None:
        with self._lock:
            self._is_done = True
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            with suppress(RuntimeError):  # its event loop may be closed
                callback(self)
        self._tell()

    def _tell(self) -> None:
        with self._lock:
            news = list(self._news)
        for tell in news:
            with suppress(RuntimeError):
                tell()

    def done(self) -> bool:
        return self._is_done

    def cancel(self) -> None:
        self.is_cancelled = True

    def add_done_callback(self, callback: Callable[[FakeHandle], None]) -> None:
        with self._lock:
            if not self._is_done:
                self._callbacks.append(callback)
                return
        callback(self)

    def result(self, timeout: float | None = None) -> lh.Result:
        ended = threading.Event()
        self.add_done_callback(lambda _: ended.set())
        if not ended.wait(timeout):
            raise TimeoutError
        if self._error is not None:
            raise self._error
        assert self._result is not None
        return self._result

    def __await__(self) -> Generator[Any, None, lh.Result]:
        loop = asyncio.get_running_loop()
        ended = asyncio.Event()
        self.add_done_callback(lambda _: loop.call_soon_threadsafe(ended.set))
        yield from ended.wait().__await__()
        return self.result()

    async def __aiter__(self) -> AsyncIterator[TextPiece]:
        for thought in self.thoughts:
            yield TextPiece(thought, "thinking")
        loop = asyncio.get_running_loop()
        news = asyncio.Event()
        with self._lock:
            self._news.append(lambda: loop.call_soon_threadsafe(news.set))
        n_read = 0
        while True:
            news.clear()
            is_last = self._is_done
            while n_read < len(self.words):
                yield TextPiece(self.words[n_read])
                n_read += 1
            if is_last:
                self.result()
                return
            await news.wait()


class FakeContext:
    """Adds one word to the answer of each running request per step.

    Attributes:
        handles: All requests so far.
        may_run: Event; while it is cleared, no request advances.
        fails_at: Number of words after which requests fail; -1 for never.
        held: Prompt that does not advance until it is cancelled; "" for none.
        raises: Error that `submit` raises; None for no error.
        slot_times: Returns the times of the slots.
    """

    def __init__(self, model: lh.Model, *, n_slots: int = 4) -> None:
        self.model = model
        self.n_slots = n_slots
        self.may_run = threading.Event()
        self.closed = False
        self.reset()
        self._waiting: deque[FakeHandle] = deque()
        self._running: list[FakeHandle] = []
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def reset(self) -> None:
        """Reset to the initial state, for another test."""
        self.handles: list[FakeHandle] = []
        self.may_run.set()
        self.step_s = 0.0
        self.fails_at = -1
        self.held = ""
        self.raises: Exception | None = None
        self.slot_times: Callable[[], SlotTimes] = lambda: NO_TIMES

    @property
    def loop(self) -> SimpleNamespace:
        """The loop, of which only counts and times are used."""
        n_words = sum(len(handle.words) for handle in self.handles)
        counts = Counts(n_generated=n_words, n_prefill=7 * len(self.handles))
        return SimpleNamespace(
            watched_counts=lambda: counts, watched_slots=self.slot_times
        )

    @property
    def load(self) -> Load:
        return Load(
            n_running=len(self._running),
            n_waiting=len(self._waiting),
            n_slots=self.n_slots,
            n_prefixes=1,
            n_ctx=N_CTX,
        )

    def submit(
        self, prompt: object, *, params: lh.SamplingParams, stream: bool, **options: Any
    ) -> FakeHandle:
        if self.closed:
            raise lh.ContextClosedError("the context is closed")
        if self.raises is not None:
            raise self.raises
        if options.get("chat"):
            prompt = self.rendered(prompt, options)
        elif isinstance(prompt, str):
            checks.text("prompt", prompt)
        else:
            token_array("prompt", prompt)
        settings = {**options, "stream": stream}
        handle = FakeHandle(prompt, params, settings, self.fails_at)
        self.handles.append(handle)
        if isinstance(prompt, str) and not prompt:
            handle.refuse(Failure("the prompt is empty", "empty"))
        elif handle.n_words > N_CTX:
            handle.refuse(Failure("the prompt has too many tokens", "too_long"))
        else:
            self._waiting.append(handle)
            self._wake.set()
        return handle

    def rendered(self, prompt: object, options: dict[str, Any]) -> object:
        """Return the tokens of a chat. `FakeHandle` creates its thought."""
        names = ("chat", "system", "variables", "template", "prefix", "merge_system")
        arguments = {name: options[name] for name in names if name in options}
        (request,), _ = make_requests(self.model, [prompt], GenerateOptions(**arguments))
        return list(request.tokens)

    def _run(self) -> None:
        while not self.closed:
            self._wake.wait()
            self._wake.clear()
            while (self._waiting or self._running) and not self.closed:
                self.may_run.wait()
                while self._waiting and len(self._running) < self.n_slots:
                    self._running.append(self._waiting.popleft())
                for handle in self._running:
                    if not self.held or handle.prompt != self.held or handle.is_cancelled:
                        handle.step()
                self._running = [h for h in self._running if not h.done()]
                threading.Event().wait(self.step_s)

    def close(self) -> None:
        self.closed = True
        self.may_run.set()
        self._wake.set()
        self._thread.join()
