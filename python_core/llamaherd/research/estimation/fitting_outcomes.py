"""Shares, means or medians of outcomes by one kind of predictions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from llamaherd.research.estimation.fitting_means import fit_means
from llamaherd.research.estimation.median import fit_median
from llamaherd.research.estimation.outcomes import (
    shares_or_scores,
)
from llamaherd.research.statistics.intervals import NO_LIMITS

if TYPE_CHECKING:
    from llamaherd.research.estimation.fitting import FitSettings, Found
    from llamaherd.research.estimation.gold_data import Population
    from llamaherd.research.estimation.outcomes import Numbers, Outcome
    from llamaherd.research.estimation.predictions import Predicted
    from llamaherd.research.statistics.sampling import Floats, Ints


def fit_outcomes(  # noqa: PLR0917 - one caller
    texts: Population,
    kept: Ints,
    outcome: Outcome | None,
    in_groups: tuple[Ints, list[str]],
    settings: FitSettings,
    predicted: Predicted,
    *,
    several: bool,
    is_median: bool = False,
    limits: tuple[float, float] = NO_LIMITS,
) -> Found:
    """Estimate the outcome of all groups from one kind of predictions.

    Args:
        texts: All texts.
        kept: Rows of the texts that are used.
        outcome: Labels or scores, see `shares_or_scores`.
        in_groups: Group of each text that is used, and the names of the groups.
        settings: Settings shared by all estimates.
        predicted: Predictions.
        several: True if a text may have several labels.
        is_median: True to estimate the median of the scores, not their mean.
        limits: Smallest and largest possible mean.

    Raises:
        ValueError: No method gives an estimate.
    """
    labels = [predicted.labels[i] or "" for i in kept]
    groups, names = in_groups

    def numbers_of(wanted: Outcome | None) -> tuple[str, list[Numbers]]:
        return shares_or_scores(
            wanted,
            texts,
            labels,
            settings.gold.codes,
            several=several,
            shares=(
                None
                if predicted.probs is None
                else lambda name: predicted.shares(name, kept)
            ),
        )

    term, numbers = numbers_of(outcome)
    if not is_median or not isinstance(outcome, Mapping):
        return fit_means(numbers, term, groups, names, settings, limits=limits)

    def up_to(t: float) -> tuple[Floats, Floats]:
        under = {name: float(score <= t) for name, score in outcome.items()}
        _, of_labels, of_codes = numbers_of(under)[1][0]
        return of_labels, of_codes

    scores = np.unique([float(score) for score in outcome.values()])
    return fit_median(up_to, scores, groups, names, settings)
