"""Actions of callers that share a context, with checks of their results."""

from __future__ import annotations

import asyncio
import random
import signal
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import llamaherd as lh

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from llamaherd.calls.run.handle import Handle

END_S = 300.0  # time after which a result is treated as lost
CANCEL_S = 0.6  # latest time of a cancellation or interrupt
N_QUESTIONS = 60
CODEBOOK = "You label short texts. Answer with one word: good, bad or neither. "
STEMS = [
    "",
    "Once upon a time there was",
    CODEBOOK + "Take your time. Here is the text: ",
    CODEBOOK + "It was written long ago, by somebody who could not see its end: ",
]
WORDS = ("sea", "bread", "Paris", "winter", "train", "music", "moon", "river", "stone")


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A prompt with its settings, and its tokens and text if it runs alone."""

    prompt: str
    params: lh.SamplingParams
    tokens: list[int]
    text: str

    @property
    def is_greedy(self) -> bool:
        """True if the answer does not depend on the index of the prompt in its call."""
        return self.params.temperature <= 0


def make_questions(model: lh.Model) -> list[Question]:
    """Answer each prompt alone."""
    draw = random.Random(21)
    questions = []
    with lh.Context(model, n_seq_max=1, deterministic=True) as context:
        for i in range(N_QUESTIONS):
            words = " ".join(draw.choices(WORDS, k=draw.choice([1, 4, 12])))
            params = lh.SamplingParams(
                max_tokens=draw.choice([1, 4, 8, 16, 32]),
                temperature=0.0 if i % 4 else 0.9,
                seed=i,
                ignore_eos=bool(i % 3),
                stop=["\n\n"] if i % 5 == 0 else None,
            )
            prompt = STEMS[i % len(STEMS)] + words
            alone = lh.generate(context, prompt, params=params)
            assert alone.text is not None
            questions.append(
                Question(
                    prompt=prompt, params=params, tokens=alone.tokens, text=alone.text
                )
            )
    return questions


class Shared:
    """A context that callers sometimes close, and then create again.

    Args:
        is_exact: True if each answer must equal the answer to the prompt alone.
        make: Function that creates a context.
    """

    def __init__(self, *, is_exact: bool, make: Callable[[], lh.Context]) -> None:
        self.is_exact = is_exact
        self._make = make
        self._lock = threading.Lock()
        self.context = make()

    def reopen(self) -> None:
        """Close the context; callers that wait get a ContextClosedError."""
        with self._lock:
            old, self.context = self.context, self._make()
        old.close()


class Caller:
    """Runs one random action after the other on the contexts, and checks the results.

    Args:
        contexts: Contexts, from which one is chosen for each action.
        questions: Prompts with their expected answers.
        seed: Seed of the random choices.

    Attributes:
        did: Number of actions by name.
        got: Numbers of finish reasons; "closed" if the context was closed.
        since_s: Start time of the current action; None if there is none.
        doing: Name of the current action.
    """

    def __init__(
        self, contexts: Sequence[Shared], questions: Sequence[Question], seed: int
    ) -> None:
        self._contexts = contexts
        self._questions = questions
        self._greedy = [q for q in questions if q.is_greedy]
        self._draw = random.Random(seed)
        self.did: Counter[str] = Counter()
        self.got: Counter[str] = Counter()
        self.since_s: float | None = None
        self.doing = ""

    def act(self) -> None:
        """Run one action."""
        self._do(self._draw.choice(ACTIONS))

    def act_interrupted(self) -> None:
        """Run an action that Ctrl-C may interrupt, in the main thread."""
        action = self._draw.choice(INTERRUPTED)
        is_ready, pressed = threading.Event(), threading.Event()
        delay_s = self._draw.random() * CANCEL_S
        by_kill = self._draw.random() < 0.5
        main = threading.main_thread().ident

        def press() -> None:
            is_ready.wait()
            time.sleep(delay_s)
            if by_kill and main is not None:
                signal.pthread_kill(main, signal.SIGINT)
            else:
                signal.raise_signal(signal.SIGINT)
            pressed.set()

        threading.Thread(target=press).start()
        try:
            is_ready.set()
            self._do(action)
            pressed.wait()
            time.sleep(0.01)  # the interrupt may arrive as late as here
        except lh.Interrupted as interrupted:
            self.did["interrupted"] += 1
            self.got.update(interrupted.results.finish_reasons)
        except KeyboardInterrupt:
            self.did["interrupted"] += 1
        self.since_s = None
        pressed.wait()

    def _do(self, action: Callable[[Caller, Shared], None]) -> None:
        shared = self._draw.choice(self._contexts)
        self.doing, self.since_s = action.__name__, time.monotonic()
        self.did[action.__name__] += 1
        context = shared.context
        try:
            action(self, shared)
        except lh.ContextClosedError:
            assert context.closed or shared.context is not context
            self.got["closed"] += 1
        self.since_s = None

    # ---- actions ----

    def call(self, shared: Shared) -> None:
        """Call with some prompts, many with the same beginning."""
        questions = self._some(12)
        results = lh.generate_parallel(
            shared.context,
            [q.prompt for q in questions],
            params=[q.params for q in questions],
            progress=lambda _: None,
        )
        assert len(results) == len(questions)
        for question, result in zip(questions, results, strict=True):
            self._check(shared, question, result)

    def cancelled_call(self, shared: Shared) -> None:
        """Make a call that another thread cancels."""
        questions = self._some(12)
        job = lh.start_parallel(
            shared.context,
            [q.prompt for q in questions],
            params=[q.params for q in questions],
        )
        time.sleep(self._draw.random() * CANCEL_S)
        job.cancel()
        assert job.wait(END_S), "a call is lost"
        for question, result in zip(questions, job.results(), strict=True):
            self._check(shared, question, result, may_be_cancelled=True)

    def single(self, shared: Shared) -> None:
        """Answer one prompt."""
        question = self._draw.choice(self._questions)
        result = lh.generate(shared.context, question.prompt, params=question.params)
        self._check(shared, question, result)

    def stream(self, shared: Shared) -> None:
        """Read the stream of one prompt, sometimes not to its end."""
        question = self._draw.choice(self._questions)
        pieces = lh.generate(
            shared.context, question.prompt, params=question.params, stream=True
        )
        if self._draw.random() < 0.3:
            for piece in pieces:
                self._check_text(shared, question, piece, is_whole=False)
                break
            pieces.close()
        else:
            self._check_text(shared, question, "".join(pieces), is_whole=True)

    def submitted(self, shared: Shared) -> None:
        """Poll the result of a prompt repeatedly."""
        question = self._draw.choice(self._questions)
        handle = self._submit(shared, question)
        n_waits = 0
        while not handle.done() and n_waits < END_S / 0.05:
            n_waits += 1
            with suppress(TimeoutError):
                handle.result(0.05)
        self._check(shared, question, handle.result(0))

    def submits(self, shared: Shared) -> None:
        """Submit single prompts: some with priority, some cancelled, some streamed."""
        ended: list[Handle] = []
        questions = self._some(8)
        handles = []
        try:
            for q in questions:
                handle = self._submit(shared, q)
                handle.add_done_callback(ended.append)
                handles.append(handle)
            cancelled = {h for h in handles if self._draw.random() < 0.3}
            self._draw.shuffle(order := list(zip(questions, handles, strict=True)))
            for question, handle in order:
                if handle in cancelled:
                    time.sleep(self._draw.random() * CANCEL_S / 4)
                    handle.cancel()
                elif self._draw.random() < 0.3:
                    self._check_text(shared, question, "".join(handle), is_whole=True)
                result = handle.result(END_S)
                was = handle in cancelled
                self._check(shared, question, result, may_be_cancelled=was)
        finally:
            self._await_ends(handles, ended)

    def asyncio(self, shared: Shared) -> None:
        """Submit prompts from asyncio: awaited, streamed, or with a timeout."""
        questions = self._some(8)

        async def one(question: Question) -> None:
            handle = self._submit(shared, question)
            kind = self._draw.randrange(3)
            if kind == 0:
                self._check(shared, question, await handle)
            elif kind == 1:
                text = "".join([piece async for piece in handle])
                self._check_text(shared, question, text, is_whole=True)
            else:
                limit_s = self._draw.random() * CANCEL_S
                try:
                    result = await asyncio.wait_for(handle, limit_s)
                except TimeoutError:
                    result = await handle
                self._check(shared, question, result, may_be_cancelled=True)

        async def every() -> None:
            ends = await asyncio.gather(*map(one, questions), return_exceptions=True)
            for end in ends:
                if end is not None:
                    raise end

        asyncio.run(every())

    def reopen(self, shared: Shared) -> None:
        """Close a context while other callers may use it."""
        if self._draw.random() < 0.4:
            shared.reopen()

    # ---- helpers ----

    def _some(self, n_most: int) -> list[Question]:
        """Return prompts; only the answer to the first may be drawn at random."""
        n = self._draw.randint(1, n_most)
        first = self._draw.choice(self._questions)
        return [first, *self._draw.choices(self._greedy, k=n - 1)]

    def _submit(self, shared: Shared, question: Question) -> Handle:
        return shared.context.submit(
            question.prompt,
            params=question.params,
            priority=self._draw.choice([0, 0, 0, 1, 5]),
            stream=self._draw.random() < 0.3,
        )

    def _await_ends(self, handles: Sequence[Handle], ended: Sequence[Handle]) -> None:
        """Check that each prompt ends exactly once."""
        for handle in handles:
            with suppress(lh.LlamaHerdError):
                handle.result(END_S)
        end_s = time.monotonic() + END_S
        while len(ended) < len(handles) and time.monotonic() < end_s:
            time.sleep(0.001)
        assert sorted(map(id, ended)) == sorted(map(id, handles))

    def _check(
        self,
        shared: Shared,
        question: Question,
        result: lh.Result,
        *,
        may_be_cancelled: bool = False,
    ) -> None:
        self.got[result.finish_reason] += 1
        assert result.error is None, result.error
        n = len(result.tokens)
        is_whole = result.finish_reason != "cancelled"
        assert is_whole or may_be_cancelled, "cancelled, though nobody did"
        assert is_whole == (result.text is not None)
        most = question.params.max_tokens or 0
        assert n <= most
        if not is_whole:
            assert not shared.is_exact or result.tokens == question.tokens[:n]
            return
        assert result.finish_reason != "length" or n == most
        if shared.is_exact:
            assert result.tokens == question.tokens, question
            assert result.text == question.text, question

    def _check_text(
        self, shared: Shared, question: Question, text: str, *, is_whole: bool
    ) -> None:
        self.got["streamed" if is_whole else "left"] += 1
        if shared.is_exact:
            assert question.text.startswith(text), question
            assert not is_whole or text == question.text, question


ACTIONS: list[Callable[[Caller, Shared], None]] = [
    Caller.call,
    Caller.call,
    Caller.cancelled_call,
    Caller.single,
    Caller.stream,
    Caller.submits,
    Caller.asyncio,
    Caller.reopen,
]
INTERRUPTED: list[Callable[[Caller, Shared], None]] = [
    Caller.call,
    Caller.call,
    Caller.cancelled_call,
    Caller.single,
    Caller.stream,
    Caller.submitted,
    Caller.asyncio,
]
