"""Distances between texts."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.core import checks
from llamaherd.core.errors import ArgumentError
from llamaherd.core.plurals import count_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.research.statistics.ratings import Floats

_SIZE = 3  # number of characters of an n-gram
_LEAST_NORM = 1e-12


def text_distances(texts: Sequence[str]) -> Floats:
    """Return 1 - cosine similarity of character trigrams, float64[n, n].

    Case and the length of whitespace are ignored. A trigram that occurs c times in a
    text, and in d of the n texts, has the weight
    (1 + log(c)) * (1 + log((1 + n) / (1 + d))) in this text.

    Source: Salton, Buckley, "Term-weighting approaches in automatic text retrieval", Inf.
    Process. Manag. 24, 1988.
    """
    counts = [Counter(_grams(text)) for text in texts]
    n_with = Counter(gram for each in counts for gram in each)
    column = {gram: j for j, gram in enumerate(n_with)}
    weights = {gram: np.log((1 + len(texts)) / (1 + n)) + 1 for gram, n in n_with.items()}
    vectors = np.zeros((len(texts), len(column)))
    for i, own in enumerate(counts):
        for gram, n in own.items():
            vectors[i, column[gram]] = (1 + np.log(n)) * weights[gram]
    return vector_distances(vectors)


def vector_distances(vectors: Floats) -> Floats:
    """Return 1 - cosine similarity of rows, float64[n, n]; it is 1 for a row of zeros."""
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit = np.divide(
        vectors, norms, out=np.zeros_like(vectors), where=norms > _LEAST_NORM
    )
    return np.asarray(np.clip(1 - unit @ unit.T, 0.0, 2.0))


def _described(given: Any) -> str:  # noqa: ANN401 - array-like
    """Return the form of a value for messages."""
    if isinstance(given, np.ndarray) and given.ndim == 2:
        rows, columns = given.shape
        return f"{count_of(rows, 'row')} of {count_of(columns, 'number')}"
    return checks.shown(given)


def checked_vectors(embeddings: Any, n: int) -> Floats:  # noqa: ANN401 - array-like
    """Return embeddings of n texts as float64[n, d].

    Raises:
        ValueError: The embeddings have another shape, or a number is not finite.
    """
    try:
        found = np.asarray(embeddings, dtype=np.float64)
    except (TypeError, ValueError):
        found = np.zeros(0)
    if found.ndim != 2 or len(found) != n or found.shape[1] == 0:
        raise ArgumentError(
            f"must have a row of numbers for each of the {count_of(n, 'text')} of the "
            f"sample, not {_described(embeddings)}",
            argument="embeddings",
            code="wrong_length",
        )
    if not np.isfinite(found).all():
        raise ArgumentError("must be finite", argument="embeddings", code="out_of_range")
    return found


def _grams(text: str) -> list[str]:
    plain = f" {' '.join(text.casefold().split())} "
    return [plain[i : i + _SIZE] for i in range(max(1, len(plain) - _SIZE + 1))]
