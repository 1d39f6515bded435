"""Measurement of models: speeds on this machine, throughput, and predictions."""

from __future__ import annotations

from array import array
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from statistics import median
from time import monotonic
from typing import TYPE_CHECKING, Self

from llamaherd.calls.api.generate import generate_parallel, start_parallel
from llamaherd.calls.run.context import Context
from llamaherd.engine.core import checks
from llamaherd.engine.core.argument import Argument
from llamaherd.engine.core.errors import ArgumentError
from llamaherd.engine.core.sampling import SamplingParams
from llamaherd.engine.memory.plan import MAX_SLOTS
from llamaherd.engine.model.tokens import tokenize
from llamaherd.engine.native.models import MAX_CHUNK, Closeness, Comparison

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from llamaherd.engine.core.results import Results
    from llamaherd.engine.model.model import Model

    TimedTurn = tuple["Speed", list[str | None]]  # of a model in one round, with answers

LEAST_TOKENS = 64  # minimum number of tokens of a sample text
MOST_TOKENS = 4096
N_ROUNDS = 5
_MOST_CHARS = 40 * MOST_TOKENS  # most characters; the rest of a text is not used
_MAX_S = 30.0  # seconds after which no new round starts
_N_PREFILL = 512  # number of tokens of the prompt that measures prefill
_N_SLOTS = 8  # number of concurrent prompts that measure decode
_N_START = 16  # number of tokens of each of these prompts
_N_ANSWER = 32
_N_REFILLS = 2  # prompts per slot in a throughput: slots are also refilled


class Stopped(Exception):  # noqa: N818 - a requested end, not an error
    """Raised after `Stop.set` was called."""


class Stop:
    """Flag with which one thread ends the work of another thread."""

    def __init__(self) -> None:
        self._is_set = False
        self._abort: Callable[[], object] | None = None

    def set(self) -> None:
        """End the work in `guarding` blocks, current and future ones."""
        self._is_set = True
        if (abort := self._abort) is not None:  # another thread may end the block
            abort()

    def check(self) -> None:
        """Raise Stopped if `set` was called."""
        if self._is_set:
            raise Stopped

    @contextmanager
    def guarding(self, abort: Callable[[], object]) -> Iterator[None]:
        """Let `set` call `abort` during the block."""
        # This order ensures that the check notices a `set` between the two lines.
        self._abort = abort
        try:
            self.check()
            yield
        except Exception:
            self.check()  # this replaces the error of the aborted call
            raise
        finally:
            self._abort = None
        self.check()


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Tokens of a sample text, and the token with which texts begin."""

    tokens: Sequence[int]  # LEAST_TOKENS to MOST_TOKENS tokens
    bos: int | None  # token that begins every text; None if the model has none

    def chunks(self) -> list[array[int]]:
        """Return the chunks into which a comparison divides the text."""
        size = MAX_CHUNK - len(self._start)
        pieces = [
            self.tokens[i : i + size]
            for i in range(0, len(self.tokens), size)
            if i == 0 or len(self.tokens) - i >= LEAST_TOKENS
        ]
        return [array("i", [*self._start, *piece]) for piece in pieces]

    def window(self, number: int, size: int) -> list[int]:
        """Return a prompt of `size` tokens that begins differently for each `number`."""
        n = len(self.tokens)
        begin = number * 37 % n  # a prime number: prompts begin at different words
        body = [self.tokens[(begin + i) % n] for i in range(size - len(self._start))]
        return [*self._start, *body]

    @property
    def _start(self) -> list[int]:
        return [] if self.bos is None else [self.bos]


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """Tokens per second for a long prompt, and for 8 answers generated together."""

    prefill: float
    decode: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Speeds:
    """Medians over rounds in which both models were measured alternately."""

    base: Speed
    other: Speed
    same_answers: float  # share of greedy answers that are equal, in [0, 1]


def sample_of(model: Model, text: str | None) -> Sample:
    """Tokenize the beginning of a text."""
    if text is None:
        novel = files("llamaherd.optimize") / "sample_text.txt"
        text = novel.read_text(encoding="utf-8")
    tokens = array("i", tokenize(model, text[:_MOST_CHARS], add_special=False))
    if len(tokens) < LEAST_TOKENS:
        raise ArgumentError(
            f"must have at least {LEAST_TOKENS} tokens, not {len(tokens)}",
            argument="text",
            code="out_of_range",
        )
    bos = model.info.bos if model.info.add_bos and model.info.bos >= 0 else None
    return Sample(tokens=tokens[:MOST_TOKENS], bos=bos)


def compare(
    base: Model, other: Model, sample: Sample, n_threads: int, stop: Stop
) -> Closeness:
    """Compare the predictions of two models for a text.

    Source: definitions of llama.cpp's perplexity program (`--kl-divergence`). The
        chunks have only 256 tokens, to save memory.
    """
    comparison = Comparison(base.handle, other.handle, n_threads)
    with stop.guarding(comparison.abort):
        for chunk in sample.chunks():
            comparison.add(chunk)
    return comparison.result()


def race(base: Model, other: Model, sample: Sample, n_threads: int, stop: Stop) -> Speeds:
    """Measure the speed of both models alternately, so that load affects both equally."""
    start = monotonic()
    rounds: list[tuple[TimedTurn, TimedTurn]] = []
    with (
        TimedModel(base, n_threads, stop) as first,
        TimedModel(other, n_threads, stop) as second,
    ):
        while len(rounds) < N_ROUNDS and (not rounds or monotonic() - start < _MAX_S):
            number = len(rounds)
            rounds.append((first.turn(sample, number), second.turn(sample, number)))
    of_base, of_other = zip(*rounds, strict=True)
    matches = [
        text == other_text
        for (_, texts), (_, other_texts) in rounds
        for text, other_text in zip(texts, other_texts, strict=True)
    ]
    return Speeds(
        base=_median(of_base),
        other=_median(of_other),
        same_answers=sum(matches) / len(matches),
    )


def _median(turns: Sequence[TimedTurn]) -> Speed:
    return Speed(
        prefill=median(speed.prefill for speed, _ in turns),
        decode=median(speed.decode for speed, _ in turns),
    )


class TimedModel:
    """Context manager that measures one model with small contexts."""

    def __init__(self, model: Model, n_threads: int, stop: Stop) -> None:
        self._stop = stop
        self._n_prefill = min(_N_PREFILL, model.n_ctx_train - 1)
        self._one = Context(model, n_seq_max=1, n_threads=n_threads)
        self._many = Context(model, n_seq_max=_N_SLOTS, n_threads=n_threads)

    def turn(self, sample: Sample, number: int) -> TimedTurn:
        """Run one round, with new prompts, so that no prefix is cached."""
        long = self.run(self._one, [sample.window(number, self._n_prefill)], 1)
        windows = range(number * _N_SLOTS, (number + 1) * _N_SLOTS)
        starts = [sample.window(i, _N_START) for i in windows]
        answers = self.run(self._many, starts, _N_ANSWER)
        prefill = long.stats.prefill_tokens_per_s
        decode = answers.stats.decode_tokens_per_s
        return Speed(prefill=prefill, decode=decode), answers.texts

    def run(self, context: Context, prompts: list[list[int]], n: int) -> Results:
        """Generate n tokens after each prompt, until the end or a stop."""
        self._stop.check()
        greedy = SamplingParams(ignore_eos=True)
        job = start_parallel(
            context, prompts, params=greedy, max_tokens=n, on_error="stop"
        )
        try:
            with self._stop.guarding(job.cancel):
                return job.results()
        finally:  # `guarding` also raises before the job has ended
            job.cancel()
            job.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._one.close()
        self._many.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Throughput:
    """Throughput with one number of concurrent prompts."""

    n_seq_max: int  # number of concurrent prompts
    n_prompts: int  # number of answered prompts
    n_prefill_tokens: int  # number of tokens decoded for prompts
    n_decode_tokens: int  # number of tokens decoded for answers
    wall_s: float  # duration of the measurement, in seconds
    # Number of prompt tokens per second of decoding time spent on prompts.
    prefill_tokens_per_s: float
    # Number of generated tokens of all answers per second of decoding time spent on
    # answers.
    decode_tokens_per_s: float
    prompts_per_s: float  # number of prompts per second of total time


def measure_throughput(
    model: Model,
    n_seq_max: Sequence[int],
    *,
    n_prompt: int = 128,
    n_answer: int = 32,
    n_threads: int | None = None,
    most_s: float = 60.0,
) -> Iterator[Throughput]:
    """Measure the throughput for each number of concurrent prompts, one after the other.

    Prompts are pieces of a novel that share no prefix; answers do not end early.
    """
    longest = max(2, model.n_ctx_train - 1)
    checks.integer("n_prompt", n_prompt, 1, longest)
    checks.integer("n_answer", n_answer, 1, longest - n_prompt)
    sizes = [
        checks.integer(Argument("n_seq_max", (i,)), n, 1, MAX_SLOTS)
        for i, n in enumerate(n_seq_max)
    ]
    checks.real("most_s", most_s, 0, 1e9)
    sample = sample_of(model, None)
    start = monotonic()
    for i, n in enumerate(sizes):
        if i and monotonic() - start > most_s:
            return
        with Context(model, n_seq_max=n, n_threads=n_threads) as context:
            # The first call is not measured, because it has one-time costs: memory,
            # threads, pages of the file.
            generate_parallel(
                context,
                [sample.window(0, n_prompt)] * 2,
                max_tokens=2,
                ignore_eos=True,
            )
            n_prompts = _N_REFILLS * n
            results = generate_parallel(
                context,
                [sample.window(1 + number, n_prompt) for number in range(n_prompts)],
                max_tokens=n_answer,
                ignore_eos=True,
                on_error="stop",
            )
        stats = results.stats
        yield Throughput(
            n_seq_max=n,
            n_prompts=n_prompts,
            n_prefill_tokens=stats.n_prefill_tokens,
            n_decode_tokens=stats.n_decode_tokens,
            wall_s=stats.wall_s,
            prefill_tokens_per_s=stats.prefill_tokens_per_s,
            decode_tokens_per_s=stats.decode_tokens_per_s,
            prompts_per_s=n_prompts / stats.wall_s,
        )
