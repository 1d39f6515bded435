"""Vectors of texts: what is computed together, and what becomes of a text that fails."""

from __future__ import annotations

import math
from array import array
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Lock
from time import perf_counter
from typing import TYPE_CHECKING, Protocol

from llamaherd.core.embeddings import EmbedProgress, EmbedStats
from llamaherd.core.errors import NativeError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

CANCELLED = "the call ended before it was computed"
_NO_NUMBER = (
    "the model computes numbers for it that are not finite, or nothing but zeroes"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """A text to make a vector of.

    Attributes:
        tokens: int32[n], special tokens included.
        problem: Why it fails without being computed; "" if nothing is known to be wrong.
        is_cut: Whether it was truncated.
    """

    tokens: array[int]
    problem: str = ""
    is_cut: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How much is computed together.

    Attributes:
        n_batch: Tokens that are computed at once.
        n_ctx: Tokens of the texts of a run.
        n_texts: Texts of a run.
    """

    n_batch: int
    n_ctx: int
    n_texts: int


class Embedder(Protocol):
    """What computes."""

    @property
    def n_at_once(self) -> int:
        """Threads that may call `run` at the same time."""
        ...

    def run(self, texts: Sequence[array[int]]) -> array[float]:
        """float32[len(texts) * n_embd]; NaN where there is no vector.

        Raises:
            NativeError: A text was refused, or `abort` was called.
        """
        ...

    def abort(self) -> None:
        """Ends a running `run`, and those that follow. From any thread."""


class EmbedCall:
    """Texts on their way to vectors.

    Args:
        texts: All of them.
        pooling: For the statistics.

    Attributes:
        errors: For each text why it has no vector; None if it has one.
        stats: After the run.
    """

    def __init__(self, texts: Sequence[Text], pooling: str) -> None:
        self._texts = texts
        self._pooling = pooling
        self.errors: list[str | None] = [text.problem or None for text in texts]
        self.stats = EmbedStats()
        self._places: dict[bytes, list[int]] = {}  # of equal texts
        for i, text in enumerate(texts):
            if not text.problem:
                self._places.setdefault(text.tokens.tobytes(), []).append(i)
        self._vectors = array("f")
        self._n_embd = 0
        self._embedder: Embedder | None = None
        self._is_cancelled = False
        self._n_rejected = self._n_done = self._n_failed = len(texts) - sum(
            map(len, self._places.values())
        )
        self._n_tokens = 0
        self._n_batches = 0
        self._lock = Lock()  # of what several threads compute
        self._started_s = perf_counter()

    @property
    def longest(self) -> int:
        """Tokens of the longest text; 0: there is nothing to compute."""
        return max((len(key) // 4 for key in self._places), default=0)

    @property
    def progress(self) -> EmbedProgress:
        """How far it is. May be read from any thread."""
        return EmbedProgress(
            n_done=self._n_done,
            n_failed=self._n_failed,
            n_total=len(self._texts),
            n_tokens=self._n_tokens,
            elapsed_s=perf_counter() - self._started_s,
        )

    @property
    def is_cancelled(self) -> bool:
        """Whether `cancel` was called."""
        return self._is_cancelled

    def cancel(self) -> None:
        """Ends it soon; vectors that are there are kept. From any thread."""
        self._is_cancelled = True
        embedder = self._embedder
        if embedder is not None:
            embedder.abort()

    def vectors(self) -> tuple[array[float], int]:
        """float32[n_texts * n_embd], row by row, NaN for a text without one; n_embd."""
        return self._vectors, self._n_embd

    def run(self, n_embd: int, make: Callable[[], Embedder], sizes: Sizes) -> None:
        """Computes all.

        Args:
            n_embd: Numbers of a vector.
            make: Makes what computes; not called if there is nothing to compute.
            sizes: How much is computed together.

        Raises:
            ContextError: There is not enough memory.
        """
        self._started_s = perf_counter()
        self._n_embd = n_embd
        self._vectors = array("f", [math.nan]) * (len(self._texts) * n_embd)
        waiting = {key: places[0] for key, places in self._places.items()}
        if waiting and not self._is_cancelled:
            embedder = make()
            # In this order: a `cancel` in between has set the flag that is looked at.
            self._embedder = embedder
            texts = [self._texts[i].tokens for i in waiting.values()]
            self._run_groups(embedder, groups(texts, sizes))
            self._embedder = None
        for places in self._places.values():
            for i in places:
                if self.errors[i] is None and math.isnan(self._vectors[i * n_embd]):
                    self.errors[i] = CANCELLED
        self.stats = EmbedStats(
            n_texts=len(self._texts),
            n_failed=sum(error is not None for error in self.errors),
            n_truncated=sum(text.is_cut for text in self._texts),
            n_copied=sum(len(places) - 1 for places in self._places.values()),
            n_tokens=self._n_tokens,
            n_batches=self._n_batches,
            pooling=self._pooling,
            wall_s=perf_counter() - self._started_s,
        )

    def _run_groups(
        self, embedder: Embedder, waiting: Iterator[list[array[int]]]
    ) -> None:
        if embedder.n_at_once == 1:
            self._run_next(embedder, waiting)
            return
        with ThreadPoolExecutor(embedder.n_at_once) as pool:
            threads = [
                pool.submit(self._run_next, embedder, waiting)
                for _ in range(embedder.n_at_once)
            ]
        for thread in threads:
            thread.result()

    def _run_next(self, embedder: Embedder, waiting: Iterator[list[array[int]]]) -> None:
        """Computes groups as long as there are any, which other threads take as well."""
        while not self._is_cancelled:
            with self._lock:
                group = next(waiting, None)
            if group is None:
                return
            try:
                self._run_group(embedder, group)
            except BaseException:
                self.cancel()  # the other threads
                raise

    def _run_group(self, embedder: Embedder, group: Sequence[array[int]]) -> None:
        """Computes some texts together, and where that fails each of them alone."""
        try:
            vectors = embedder.run(group)
        except NativeError as error:
            if self._is_cancelled:
                return
            if len(group) == 1:
                with self._lock:
                    self._finish(group[0], None, str(error))
                return
            for text in group:
                if not self._is_cancelled:
                    self._run_group(embedder, [text])
            return
        n = self._n_embd
        with self._lock:
            self._n_batches += 1
            self._n_tokens += sum(map(len, group))
            for i, text in enumerate(group):
                vector = vectors[i * n : (i + 1) * n]
                is_number = not math.isnan(vector[0])
                self._finish(text, vector if is_number else None, _NO_NUMBER)

    def _finish(
        self, text: array[int], vector: array[float] | None, problem: str
    ) -> None:
        places = self._places[text.tobytes()]
        n = self._n_embd
        for i in places:
            if vector is None:
                self.errors[i] = problem
            else:
                self._vectors[i * n : (i + 1) * n] = vector
        self._n_done += len(places)
        self._n_failed += len(places) if vector is None else 0


def groups(texts: Sequence[array[int]], sizes: Sizes) -> Iterator[list[array[int]]]:
    """Texts that are computed together: those of about the same length, short ones first.

    Each in one group, with no more tokens and texts than there is room for; a text that
    is too long for that by itself.
    """
    group: list[array[int]] = []
    n_tokens = 0
    for text in sorted(texts, key=len):
        is_full = len(group) == sizes.n_texts or n_tokens + len(text) > sizes.n_ctx
        if group and is_full:
            yield group
            group, n_tokens = [], 0
        group.append(text)
        n_tokens += len(text)
    if group:
        yield group
