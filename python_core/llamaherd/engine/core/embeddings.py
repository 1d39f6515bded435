"""Result of `embed_parallel`: `Embeddings`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from llamaherd.engine.core.failure import codes_of
from llamaherd.engine.core.plurals import count_of
from llamaherd.engine.core.progress import JobProgress

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray


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


class Embeddings:
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
        self,
        dtype: np.dtype[Any] | None = None,
        copy: bool | None = None,
    ) -> NDArray[Any]:
        """Return the vectors, for `numpy.asarray`."""
        vectors = self.vectors if dtype is None else self.vectors.astype(dtype)
        return vectors.copy() if copy else vectors

    def to_pandas(self) -> Any:  # noqa: ANN401 - pandas is optional
        """Return a data frame with a row per text and a column per number.

        If the texts were a pandas Series, the data frame has its index.

        Raises:
            ImportError: pandas is not installed.
        """
        import pandas as pd  # noqa: PLC0415 - optional dependency

        return pd.DataFrame(self.vectors, index=self.index_of_prompts)

    def __repr__(self) -> str:
        n, n_embd = self.vectors.shape
        n_good = sum(error is None for error in self.errors)
        return f"<Embeddings: {n_good} of {n} texts, {n_embd} numbers each>"
