"""Classifiers on embeddings (heads) that predict a model's labels of texts.

The head is fitted to the model's probabilities in a random sample of texts. To measure
the agreement of head and model, each text is predicted by a head that was fitted without
this text; the penalty of all these heads is the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.research.statistics import heads
from llamaherd.research.statistics.intervals import LEVEL, Measure, share
from llamaherd.research.statistics.projections import Projection

if TYPE_CHECKING:
    from llamaherd.research.statistics.ratings import Flags
    from llamaherd.research.statistics.sampling import Floats

N_FOLDS = 5


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TextHead:
    """Head that predicts a model's labels from embeddings.

    Attributes:
        projection: Components of the sample's embeddings.
        head: Classifier on these components.
        confidence: float64[n], for each sampled text, the highest probability by a head
            that was fitted without this text.
        hits: bool[n], True if the label by that head equals the model's label.
    """

    projection: Projection
    head: heads.Head
    confidence: Floats
    hits: Flags

    def probs(self, vectors: Floats) -> Floats:
        """Return probabilities of the k labels, float64[n, k], of float[n, d] vectors."""
        return self.head.probs(self.projection.features(vectors))

    def agreement(self, above: float = 0.0) -> Measure:
        """Return the share of sampled texts on which head and model agree.

        Args:
            above: Lowest confidence of the texts to include.
        """
        hits = self.hits[self.confidence >= above].astype(np.float64)
        return share(hits, np.ones(len(hits)), LEVEL)

    def to_dict(self) -> dict[str, Any]:
        """Return the head as JSON types; `from_dict` returns the same numbers."""
        return {
            "mean": self.projection.mean.tolist(),
            "axes": self.projection.axes.tolist(),
            "coefficients": self.head.coefficients.tolist(),
            "penalty": self.head.penalty,
            "confidence": self.confidence.tolist(),
            "hits": self.hits.tolist(),
        }

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> TextHead:
        """Restore a head from the result of `to_dict`."""
        axes = np.array(fields["axes"], dtype=np.float64)
        coefficients = np.array(fields["coefficients"], dtype=np.float64)
        return cls(
            projection=Projection(
                mean=np.array(fields["mean"], dtype=np.float64), axes=axes
            ),
            head=heads.Head(
                coefficients=coefficients,
                scales=np.ones(len(coefficients) - 1),
                penalty=float(fields["penalty"]),
            ),
            confidence=np.array(fields["confidence"], dtype=np.float64),
            hits=np.array(fields["hits"], dtype=bool),
        )


def text_head(vectors: Floats, probs: Floats, rng: np.random.Generator) -> TextHead:
    """Fit a head to a model's probabilities; cross-validate its agreement with them.

    Args:
        vectors: float[n, d], embeddings of the sample.
        probs: float64[n, k], the model's probabilities.
        rng: Random number generator for the folds.
    """
    n, k = probs.shape
    projection = Projection.of(vectors)
    x = projection.features(vectors)
    ones = np.ones(n)
    head = heads.chosen([x], probs, ones, rng, n_labels=k)
    labels = probs.argmax(axis=1)
    folds = heads.dealt(range(n), labels.tolist(), N_FOLDS, rng)
    parts = np.where(folds == np.arange(N_FOLDS)[:, None], 0.0, 1.0)
    penalties = np.full(N_FOLDS, head.penalty)
    made = heads.fitted(x, probs, parts, penalties, n_labels=k)
    each = [
        heads.Head(coefficients=one, scales=head.scales, penalty=head.penalty)
        for one in made
    ]
    held = np.zeros((n, k))
    for fold, one in enumerate(each):
        held[folds == fold] = one.probs(x[folds == fold])
    return TextHead(
        projection=projection,
        head=head,
        confidence=held.max(axis=1),
        hits=held.argmax(axis=1) == labels,
    )


def least_sure(probs: Floats, n: int) -> Any:  # noqa: ANN401 - int64[n]
    """Return the sorted positions of the n texts with the lowest best probability.

    Args:
        probs: float64[m, k]; rows of NaN are the least sure.
        n: Number of texts.
    """
    known = np.asarray(np.isfinite(probs).all(axis=1))
    best = np.where(known, np.where(known[:, None], probs, 0.0).max(axis=1), -1.0)
    return np.sort(np.argsort(best, kind="stable")[:n])
