"""Estimates by the chosen predictions, and interval widths by the other predictions."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from llamaherd.core.errors import ArgumentError
from llamaherd.research.estimation.widths import Width

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from llamaherd.research.estimation.fitting import FitSettings, Found
    from llamaherd.research.estimation.predictions import Predicted


@dataclass(frozen=True, kw_only=True, eq=False)
class Compared:
    """Estimates by the chosen predictions, and interval widths by all predictions."""

    found: Found
    widths: tuple[Width, ...]


def by_predictions(
    predicted: Sequence[Predicted],
    settings: FitSettings,
    fit: Callable[[Predicted, FitSettings], Found],
) -> Compared:
    """Estimate with the first predictions, and compare widths with all other predictions.

    Args:
        predicted: Predictions, the chosen predictions first; recalibrated probabilities
            are followed by the model's own predictions.
        settings: Settings of the estimates.
        fit: Function that estimates with one kind of predictions.
    """
    first, *others = predicted
    found = fit(first, _with(settings, first))
    if first.probs is None:
        return Compared(found=found, widths=())
    methods = [each for each in settings.methods if each in {"dsl", "ppi"}]
    widths = [_width(found, "", "gold")] if "gold" in settings.methods else []
    own = {first.kind: found}
    for each in others:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            try:
                own[each.kind] = fit(each, _with(settings, each))
            except ArgumentError:  # for example, the labels allow no solution
                continue
    order = [each.kind for each in reversed(predicted) if each.kind in own]
    widths += [_width(own[kind], kind, method) for method in methods for kind in order]
    known = tuple(each for each in widths if not math.isnan(each.width))
    return Compared(found=found, widths=known)


def _with(settings: FitSettings, predicted: Predicted) -> FitSettings:
    return replace(settings, are_probs=predicted.probs is not None)


def _width(found: Found, kind: str, method: str) -> Width:
    rows = [row for row in found.rows if row.method == method]
    return Width.of(kind, method, [(row.low, row.high) for row in rows])
