"""Principal components of embeddings as features of texts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from llamaherd.research.statistics.sampling import Floats

_MOST_COMPONENTS = 100


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Projection:
    """Principal components of embeddings, from which features of texts are computed.

    Attributes:
        mean: float64[d], mean of the vectors.
        axes: float64[d, at most 100], directions, scaled to a total variance of 1.
    """

    mean: Floats
    axes: Floats

    @classmethod
    def of(cls, vectors: Floats) -> Projection:
        """Compute the components of vectors, float[n, d]."""
        mean = np.asarray(vectors.mean(axis=0, dtype=np.float64))
        centred = vectors - mean
        values, axes = np.linalg.eigh(centred.T @ centred)
        kept = np.argsort(values)[::-1][:_MOST_COMPONENTS]
        kept = kept[values[kept] > values.max() * 1e-10]
        axes = axes[:, kept]
        signs = np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(len(kept))])
        total = float(np.sqrt((centred**2).sum() / len(centred)))
        return cls(mean=mean, axes=axes * signs / (total if total > 0 else 1.0))

    def features(self, vectors: Floats) -> Floats:
        """Return the features of vectors, float64[n, at most 100]."""
        return np.asarray((vectors - self.mean) @ self.axes)
