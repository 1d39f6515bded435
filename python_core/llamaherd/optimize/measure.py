"""How fast two models are here, and how far the answers of one are from the other's."""

from __future__ import annotations

from array import array
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from statistics import median
from time import monotonic
from typing import TYPE_CHECKING

from llamaherd.api.generate import start_parallel
from llamaherd.core.sampling import SamplingParams
from llamaherd.model.tokens import tokenize
from llamaherd.native.quantize import MAX_CHUNK, Closeness, Comparison
from llamaherd.run.context import Context

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from llamaherd.core.results import Results
    from llamaherd.model.model import Model

LEAST_TOKENS = 64  # of a sample text
MOST_TOKENS = 4096
N_ROUNDS = 5
_MOST_CHARS = 40 * MOST_TOKENS  # more is not tokenized
_MAX_S = 30.0  # no round starts later than this
_N_PREFILL = 512  # tokens of the prompt that measures prefill
_N_SLOTS = 8  # prompts that are answered together to measure decode
_N_START = 16  # tokens of each of them
_N_ANSWER = 32


class Stopped(Exception):  # noqa: N818 - not an error: it was asked for
    """`Stop.set` was called."""


class Stop:
    """Ends in one thread what another one does."""

    def __init__(self) -> None:
        self._is_set = False
        self._abort: Callable[[], object] | None = None

    def set(self) -> None:
        """Ends what is guarded now, and all that would follow."""
        self._is_set = True
        abort = self._abort
        if abort is not None:
            abort()

    def check(self) -> None:
        """Does nothing, or raises Stopped.

        Raises:
            Stopped: `set` was called.
        """
        if self._is_set:
            raise Stopped

    @contextmanager
    def guarding(self, abort: Callable[[], object]) -> Iterator[None]:
        """Has `set` call `abort` while the block runs.

        Raises:
            Stopped: `set` was called, before or meanwhile.
        """
        # In this order: a `set` in between has set the flag that is looked at.
        self._abort = abort
        try:
            self.check()
            yield
        except Exception:
            self.check()  # what an aborted call raises is of no interest
            raise
        finally:
            self._abort = None
        self.check()


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A text in tokens, and how the model wants a text to begin.

    Attributes:
        tokens: LEAST_TOKENS to MOST_TOKENS of them.
        bos: Token that begins every text; None: none does.
    """

    tokens: Sequence[int]
    bos: int | None

    def chunks(self) -> list[array[int]]:
        """The whole text in pieces that a comparison takes."""
        size = MAX_CHUNK - len(self._start)
        pieces = [
            self.tokens[i : i + size]
            for i in range(0, len(self.tokens), size)
            if i == 0 or len(self.tokens) - i >= LEAST_TOKENS
        ]
        return [array("i", [*self._start, *piece]) for piece in pieces]

    def window(self, place: int, size: int) -> list[int]:
        """A prompt of `size` tokens; other places begin with other words."""
        n = len(self.tokens)
        begin = place * 37 % n  # a prime: begins neither together nor at a chunk's edge
        body = [self.tokens[(begin + i) % n] for i in range(size - len(self._start))]
        return [*self._start, *body]

    @property
    def _start(self) -> list[int]:
        return [] if self.bos is None else [self.bos]


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """Tokens per second: of a long prompt, and of 8 answers generated together."""

    prefill: float
    decode: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Speeds:
    """Medians over rounds in which both models took turns.

    Attributes:
        same_answers: Share of greedy answers that are the same text, in [0, 1].
        n_answers: Answers compared.
    """

    base: Speed
    other: Speed
    same_answers: float
    n_answers: int


def sample_of(model: Model, text: str | None) -> Sample:
    """The beginning of a text as the model reads it.

    Args:
        model: Tokenizes it.
        text: None: from a novel in the public domain.

    Raises:
        ValueError: It is too short.
    """
    if text is None:
        text = (
            files("llamaherd.optimize")
            .joinpath("sample_text.txt")
            .read_text(encoding="utf-8")
        )
    tokens = array("i", tokenize(model, text[:_MOST_CHARS], add_special=False))
    if len(tokens) < LEAST_TOKENS:
        raise ValueError(
            f"text must have at least {LEAST_TOKENS} tokens, not {len(tokens)}"
        )
    bos = model.info.bos if model.info.add_bos and model.info.bos >= 0 else None
    return Sample(tokens=tokens[:MOST_TOKENS], bos=bos)


def compare(
    base: Model, other: Model, sample: Sample, n_threads: int, stop: Stop
) -> Closeness:
    """How far the predictions of `other` are from those of `base` on a text.

    Source: the definitions are those of llama.cpp's perplexity program
    (`--kl-divergence`); chunks have 256 tokens here, to take little memory.
    """
    comparison = Comparison(base.handle, other.handle, n_threads)
    with stop.guarding(comparison.abort):
        for chunk in sample.chunks():
            comparison.add(chunk)
    return comparison.result()


def race(base: Model, other: Model, sample: Sample, n_threads: int, stop: Stop) -> Speeds:
    """How fast both are, taking turns, so that a busy machine hinders both alike."""
    start = monotonic()
    rounds: list[tuple[_Turn, _Turn]] = []
    with (
        _Runner(base, n_threads, stop) as first,
        _Runner(other, n_threads, stop) as next_,
    ):
        while len(rounds) < N_ROUNDS and (not rounds or monotonic() - start < _MAX_S):
            place = len(rounds)
            rounds.append((first.turn(sample, place), next_.turn(sample, place)))
    same = [
        one == two
        for turns in rounds
        for one, two in zip(turns[0].texts, turns[1].texts, strict=True)
    ]
    return Speeds(
        base=_median([turns[0].speed for turns in rounds]),
        other=_median([turns[1].speed for turns in rounds]),
        same_answers=sum(same) / len(same),
        n_answers=len(same),
    )


def _median(speeds: list[Speed]) -> Speed:
    return Speed(
        prefill=median(speed.prefill for speed in speeds),
        decode=median(speed.decode for speed in speeds),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Turn:
    speed: Speed
    texts: list[str | None]


class _Runner:
    """Small contexts of one model; a context manager."""

    def __init__(self, model: Model, n_threads: int, stop: Stop) -> None:
        self._stop = stop
        self._n_prefill = min(_N_PREFILL, model.n_ctx_train - 1)
        self._one = Context(model, n_seq_max=1, n_threads=n_threads)
        self._many = Context(model, n_seq_max=_N_SLOTS, n_threads=n_threads)

    def turn(self, sample: Sample, place: int) -> _Turn:
        """One round. Every place has prompts of its own: no prefix is there already."""
        long = self._run(self._one, [sample.window(place, self._n_prefill)], 1)
        places = range(place * _N_SLOTS, (place + 1) * _N_SLOTS)
        starts = [sample.window(i, _N_START) for i in places]
        answers = self._run(self._many, starts, _N_ANSWER)
        speed = Speed(
            prefill=long.stats.prefill_tokens_per_s,
            decode=answers.stats.decode_tokens_per_s,
        )
        return _Turn(speed=speed, texts=answers.texts)

    def _run(self, context: Context, prompts: list[list[int]], n: int) -> Results:
        self._stop.check()
        greedy = SamplingParams(ignore_eos=True)
        job = start_parallel(
            context, prompts, params=greedy, max_tokens=n, on_error="stop"
        )
        with self._stop.guarding(job.cancel):
            return job.results()

    def __enter__(self) -> _Runner:  # noqa: PYI034 - typing.Self is of Python 3.11
        return self

    def __exit__(self, *_: object) -> None:
        self._one.close()
        self._many.close()
