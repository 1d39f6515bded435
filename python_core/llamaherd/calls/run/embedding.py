"""Computation of embeddings in batches, isolation of texts that fail, and results."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from threading import RLock
from time import perf_counter
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from llamaherd.calls.run.job import Job
from llamaherd.engine.core.errors import (
    Failure,
    ModelClosedError,
    NativeError,
    codes_of,
)
from llamaherd.engine.core.keeping import keep_made
from llamaherd.engine.core.phrases import count_of
from llamaherd.engine.core.progress import JobProgress
from llamaherd.engine.core.table import Framed, set_index

if TYPE_CHECKING:
    from array import array
    from collections.abc import Callable, Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from llamaherd.engine.model.model import Model


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """A text to embed, with special tokens; with a problem, it is not computed."""

    tokens: array[int]
    problem: str = ""
    is_cut: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbedProgress(JobProgress):
    """Progress of `embed_parallel`.

    Attributes:
        n_done: Number of texts with an embedding or a failure.
        n_failed: Number of failed texts.
        n_total: Number of texts.
        n_tokens: Number of tokens read.
        elapsed_s: Seconds since the call started.
    """

    n_done: int
    n_failed: int
    n_total: int
    n_tokens: int
    elapsed_s: float

    unit: ClassVar[str] = "texts"

    @property
    def line(self) -> str:
        """Return a line with the speed in texts and tokens per second."""
        per_s = 1 / max(self.elapsed_s, 0.001)
        text = f"{self.n_done * per_s:.0f} texts/s, {self.n_tokens * per_s:.0f} tokens/s"
        return f"{text}, {self.n_failed} failed" if self.n_failed else text


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbedStats:
    """Statistics of one call. `str(stats)` is a readable line.

    Attributes:
        n_texts: Number of texts.
        n_failed: Number of texts without an embedding, because they failed or the call
            ended before they were computed.
        n_truncated: Number of texts that were truncated because they are too long.
        n_copied: Number of texts whose embedding was copied from an equal text.
        n_tokens: Number of tokens read; the tokens of equal texts are read once.
        n_text_tokens: Number of tokens of all texts with an embedding, also of copies.
        n_batches: Number of batches, each with several texts.
        pooling: Pooling that combines the vectors of a text's tokens.
        wall_s: Duration of the call, in seconds.
    """

    n_texts: int = 0
    n_failed: int = 0
    n_truncated: int = 0
    n_copied: int = 0
    n_tokens: int = 0
    n_text_tokens: int = 0
    n_batches: int = 0
    pooling: str = ""
    wall_s: float = 0.0

    @property
    def tokens_per_s(self) -> float:
        """Tokens read per second."""
        return self.n_tokens / self.wall_s if self.wall_s > 0 else 0.0

    def __str__(self) -> str:
        return (
            f"{count_of(self.n_texts, 'text')} ({self.n_failed} failed, "
            f"{self.n_truncated} cut, {self.n_copied} copied) in {self.wall_s:.2f} s: "
            f"{self.n_tokens} tokens at "
            f"{self.tokens_per_s:.0f}/s in {self.n_batches} batches, "
            f"pooling {self.pooling!r}"
        )


class Embeddings(Framed):
    """Embeddings of texts, in the order of the texts.

    Attributes:
        vectors: float32[n_texts, n_embd]; a row of NaN for a text without an embedding.
        errors: Reason why each text failed; None for a text with an embedding.
        stats: Statistics of the call.
        index_of_prompts: Index of the pandas Series of texts; None for other texts.
    """

    index_of_prompts: Any = None

    def __init__(
        self,
        vectors: NDArray[np.float32],
        errors: Sequence[str | None],
        stats: EmbedStats,
    ) -> None:
        self.vectors = vectors
        self.errors = list(errors)
        self.stats = stats

    @property
    def error_codes(self) -> list[str | None]:
        """Code of each failure, such as "too_long"; None if the text did not fail."""
        return codes_of(self.errors)

    def __len__(self) -> int:
        return len(self.errors)

    def __array__(
        self, dtype: np.dtype[Any] | None = None, copy: bool | None = None
    ) -> NDArray[Any]:
        """Return the vectors, for `numpy.asarray`."""
        vectors = self.vectors if dtype is None else self.vectors.astype(dtype)
        return vectors.copy() if copy else vectors

    def to_pandas(self) -> Any:  # pandas is optional
        """Return a data frame with a row per text and a column per number.

        If the texts were a pandas Series, the data frame has its index.

        Raises:
            ImportError: pandas is not installed.
        """
        import pandas as pd  # optional dependency

        return pd.DataFrame(self.vectors, index=self.index_of_prompts)

    def __repr__(self) -> str:
        n, n_embd = self.vectors.shape
        n_good = sum(error is None for error in self.errors)
        return f"<Embeddings: {n_good} of {n} texts, {n_embd} numbers each>"


CANCELLED = Failure("the call ended before it was computed", "cancelled")
_NO_NUMBER = Failure(
    "the vector that the model computes has NaN or infinite numbers, or only zeros",
    "not_finite",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbedSizes:
    """Maximum numbers of tokens at once, and of tokens and texts in a run."""

    n_batch: int
    n_ctx: int
    n_texts: int


class Embedder(Protocol):
    """Protocol of an embedder."""

    @property
    def n_at_once(self) -> int:
        """Maximum number of threads that may call `run` at the same time."""
        ...

    def run(self, texts: Sequence[array[int]]) -> array[float]:
        """Return float32[len(texts) * n_embd]; NaN for a text without a vector.

        Raises:
            NativeError: A text was refused, or `abort` was called.
        """
        ...

    def abort(self) -> None:
        """Abort the running `run` and all later calls. Thread-safe."""


class EmbedCall:
    """A call that computes the embeddings of texts: the work of an `EmbedJob`.

    `lend` is only called if there is something to compute. Closing `model` ends the call.
    """

    problem = ""

    def __init__(
        self,
        texts: Sequence[Text],
        lend: Callable[[], AbstractContextManager[Embedder]],
        sizes: EmbedSizes,
        *,
        pooling: str,
        n_embd: Callable[[], int],
        model: Model | None = None,
        index: object = None,
    ) -> None:
        self._texts = texts
        self._lend, self._sizes, self._n_embd = lend, sizes, n_embd
        self._pooling = pooling
        self._model = model
        self._index = index
        self._errors: list[str | None] = [text.problem or None for text in texts]
        self._indices_of: dict[bytes, list[int]] = {}  # by text
        for i, text in enumerate(texts):
            if not text.problem:
                self._indices_of.setdefault(text.tokens.tobytes(), []).append(i)
        self._vectors: NDArray[np.float32]  # set by `run`
        self._embedder: Embedder | None = None
        self._is_cancelled = self._is_closed = self._has_ended = False
        self._n_done = self._n_failed = sum(bool(text.problem) for text in texts)
        self._n_tokens = 0
        self._n_batches = 0
        # Protects the results and the embedder. Garbage collection may close the model,
        # and so cancel the call, in a thread that holds the lock.
        self._lock = RLock()
        self._started_s = perf_counter()
        if model is not None:
            model.register(self)

    @property
    def progress(self) -> EmbedProgress:
        """Progress of the call. Thread-safe."""
        return EmbedProgress(
            n_done=self._n_done,
            n_failed=self._n_failed,
            n_total=len(self._texts),
            n_tokens=self._n_tokens,
            elapsed_s=perf_counter() - self._started_s,
        )

    def cancel(self) -> None:
        """End the call soon and keep the computed vectors. Thread-safe."""
        with self._lock:  # an embedder that was given back may run another call
            self._is_cancelled = True
            if self._embedder is not None:
                self._embedder.abort()

    def close(self) -> None:
        """End the call without results, as its model is closed."""
        self._is_closed = True
        self.cancel()

    @property
    def closed(self) -> bool:
        """Whether the call computes nothing any more."""
        return self._has_ended or self._is_closed

    def run(self) -> Embeddings:
        """Compute all vectors."""
        self._started_s = perf_counter()
        try:
            # Closing the model waits for the end of this block.
            with nullcontext() if self._model is None else self._model.using():
                self._compute()
        except Exception as error:
            if self._n_done > self._n_failed:
                keep_made(error, self._embeddings)
            raise
        finally:
            self._has_ended = True
        return self._embeddings()

    def _compute(self) -> None:
        import numpy as np  # calls that generate do without it

        shape = len(self._texts), self._n_embd()
        self._vectors = np.full(shape, np.nan, np.float32)
        texts = [self._texts[indices[0]].tokens for indices in self._indices_of.values()]
        if texts and not self._is_cancelled:
            self._run(groups(texts, self._sizes))
        if self._is_closed:
            raise ModelClosedError("the model was closed during the call")

    def _run(self, waiting: Iterator[list[array[int]]]) -> None:
        with self._lend() as embedder:
            # This order ensures that a `cancel` between the two lines is noticed.
            self._embedder = embedder
            try:
                self._run_groups(embedder, waiting)
            finally:
                with self._lock:
                    self._embedder = None

    def _embeddings(self) -> Embeddings:
        """Return the results; texts that were not computed are cancelled."""
        errors = [
            CANCELLED if error is None and math.isnan(vector[0]) else error
            for error, vector in zip(self._errors, self._vectors, strict=True)
        ]
        stats = EmbedStats(
            n_texts=len(self._texts),
            n_failed=sum(error is not None for error in errors),
            n_truncated=sum(text.is_cut for text in self._texts),
            n_copied=sum(len(indices) - 1 for indices in self._indices_of.values()),
            n_tokens=self._n_tokens,
            n_text_tokens=sum(
                len(text.tokens)
                for text, error in zip(self._texts, errors, strict=True)
                if error is None
            ),
            n_batches=self._n_batches,
            pooling=self._pooling,
            wall_s=perf_counter() - self._started_s,
        )
        embeddings = Embeddings(self._vectors, errors, stats)
        set_index(embeddings, self._index)
        return embeddings

    def _run_groups(
        self, embedder: Embedder, waiting: Iterator[list[array[int]]]
    ) -> None:
        if embedder.n_at_once == 1:
            self._run_next(embedder, waiting)
            return
        # Not above: exit handlers, which use this module, cannot import it.
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(embedder.n_at_once) as pool:
            threads = [
                pool.submit(self._run_next, embedder, waiting)
                for _ in range(embedder.n_at_once)
            ]
        for thread in threads:
            thread.result()

    def _run_next(self, embedder: Embedder, waiting: Iterator[list[array[int]]]) -> None:
        """Compute groups of texts until none is left; several threads run this method."""
        while not self._is_cancelled:
            with self._lock:
                group = next(waiting, None)
            if group is None:
                return
            try:
                self._run_group(embedder, group)
            except BaseException:
                self.cancel()  # this ends the other threads
                raise

    def _run_group(self, embedder: Embedder, group: Sequence[array[int]]) -> None:
        """Compute some texts together; if that fails, compute each text alone."""
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
        n = len(vectors) // len(group)
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
        indices = self._indices_of[text.tobytes()]
        for i in indices:
            if vector is None:
                self._errors[i] = problem
            else:
                self._vectors[i] = vector
        self._n_done += len(indices)
        self._n_failed += len(indices) if vector is None else 0


class EmbedJob(Job[Embeddings]):
    """The `Job` of `start_embed`; its results are `Embeddings`."""

    _work: EmbedCall

    def close(self) -> None:
        """Ends the job without results, as if its model were closed."""
        self._work.close()


def groups(texts: Sequence[array[int]], sizes: EmbedSizes) -> Iterator[list[array[int]]]:
    """Yield groups of texts of similar length, shortest first.

    A text of more than `n_ctx` tokens is a group by itself.
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
