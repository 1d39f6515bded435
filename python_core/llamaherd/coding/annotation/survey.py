"""Survey weights of texts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.coding import frames
from llamaherd.coding.codes import numbers_of
from llamaherd.engine.core.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.coding.statistics.sampling import Floats


def weights_of(
    frame: Any,  # noqa: ANN401 - a data frame of any kind
    weights: str | Sequence[float] | None,
    n_texts: int,
) -> Floats:
    """Return the survey weights of N texts, float64[N].

    Args:
        frame: The data.
        weights: A column, or N numbers.
        n_texts: N.
    """
    if weights is None:
        raise ArgumentError(
            "must be a column, or N numbers: the survey weights", argument="weights"
        )
    given: object = weights
    if isinstance(weights, str):
        given = frames.column(frame, weights, "weights")
    values: Floats = numbers_of(given, "weights")
    if values.shape != (n_texts,):
        raise ArgumentError(
            f"must have {n_texts} values, one for each text, not "
            + " x ".join(map(str, values.shape)),
            argument="weights",
            code="wrong_length",
        )
    bad = np.flatnonzero(~(np.isfinite(values) & (values >= 0)))
    if len(bad) > 0:
        raise ArgumentError(
            f"must be finite and at least 0, not {_shown(values[bad[0]])}",
            argument="weights",
            place=(int(bad[0]),),
            code="out_of_range",
        )
    if values.sum() <= 0:
        raise ArgumentError(
            "must be above 0 for some texts", argument="weights", code="out_of_range"
        )
    return np.asarray(values, dtype=np.float64)


def mean_one(weights: Floats) -> Floats:
    """Return weights that have the mean 1."""
    return np.asarray(weights / weights.mean())


def _shown(value: float) -> str:
    return "missing" if np.isnan(value) else f"{value:g}"
