"""What `embed_parallel` returns: `Embeddings`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbedProgress:
    """How far it is.

    Attributes:
        n_done: Texts that have a vector or have failed.
        n_failed: Those of them that failed.
        n_total: Texts in all.
        n_tokens: Tokens read.
        elapsed_s: Seconds since it started.
    """

    n_done: int
    n_failed: int
    n_total: int
    n_tokens: int
    elapsed_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbedStats:
    """Statistics of one call. `str(stats)` is one line for people.

    Attributes:
        n_texts: Texts in all.
        n_failed: Those that have no vector: they failed, or the call ended first.
        n_truncated: Those that were cut.
        n_copied: Those that got the vector of an equal text.
        n_tokens: Tokens read.
        n_batches: Times that texts were computed together.
        pooling: Which tokens a vector is made of.
        wall_s: Seconds that the call took.
    """

    n_texts: int = 0
    n_failed: int = 0
    n_truncated: int = 0
    n_copied: int = 0
    n_tokens: int = 0
    n_batches: int = 0
    pooling: str = ""
    wall_s: float = 0.0

    @property
    def tokens_per_s(self) -> float:
        """Tokens read in a second."""
        return self.n_tokens / self.wall_s if self.wall_s > 0 else 0.0

    def __str__(self) -> str:
        return (
            f"{self.n_texts} texts ({self.n_failed} failed, {self.n_truncated} cut, "
            f"{self.n_copied} copied) in {self.wall_s:.2f} s: {self.n_tokens} tokens at "
            f"{self.tokens_per_s:.0f}/s in {self.n_batches} batches, "
            f"pooling {self.pooling!r}"
        )


class Embeddings:
    """The vectors of some texts, in their order.

    Attributes:
        vectors: float32[n_texts, n_embd]; a row of NaN for a text that has none.
        errors: For each text why it has none; None if it has one.
        stats: What the call did.
    """

    def __init__(
        self,
        vectors: NDArray[np.float32],
        errors: Sequence[str | None],
        stats: EmbedStats,
    ) -> None:
        self.vectors = vectors
        self.errors = list(errors)
        self.stats = stats

    def __len__(self) -> int:
        return len(self.errors)

    def __repr__(self) -> str:
        n, n_embd = self.vectors.shape
        n_good = sum(error is None for error in self.errors)
        return f"<Embeddings: {n_good} of {n} texts, {n_embd} numbers each>"
