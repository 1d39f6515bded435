"""Comparison of the mean widths of intervals from labels and from probabilities."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from llamaherd.core.decimals import decimals

if TYPE_CHECKING:
    from collections.abc import Sequence

TITLES = {
    "labels": "labels",
    "probs": "probabilities",
    "recalibrated": "recalibrated probabilities",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Width:
    """Mean width of a call's intervals by one method and one kind of predictions.

    Attributes:
        predictions: "labels" or "probs" of the model, or "recalibrated"; "" for the
            method "gold", which uses only codes.
        method: "dsl", "ppi" or "gold".
        width: Mean over the estimates of `high - low`; NaN without intervals.
    """

    predictions: str
    method: str
    width: float

    @classmethod
    def of(
        cls, predictions: str, method: str, limits: Sequence[tuple[float, float]]
    ) -> Width:
        """Return the mean width of these intervals; missing intervals are left out."""
        known = [high - low for low, high in limits if not math.isnan(high - low)]
        width = sum(known) / len(known) if known else math.nan
        return cls(predictions=predictions, method=method, width=width)


def described(widths: Sequence[Width]) -> str:
    """Return the widths as a sentence; "" if there are none."""
    parts = []
    for method in ("dsl", "ppi"):
        own = [each for each in widths if each.method == method]
        shown = [
            f"{decimals(each.width, 4)} by {TITLES[each.predictions]}" for each in own
        ]
        parts += [f"{method} {', '.join(shown)}"] if shown else []
    if not parts:
        return ""
    alone = [decimals(each.width, 4) for each in widths if each.method == "gold"]
    end = f"; codes alone {alone[0]}" if alone else ""
    return f"Mean width of the intervals: {'; '.join(parts)}{end}."
