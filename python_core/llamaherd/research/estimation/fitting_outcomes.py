"""Shares, means or quantiles of outcomes by one kind of predictions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from llamaherd.research.estimation.fitting_means import fit_means
from llamaherd.research.estimation.outcomes import (
    shares_or_scores,
)
from llamaherd.research.estimation.quantiles import fit_quantiles
from llamaherd.research.statistics.intervals import NO_LIMITS

if TYPE_CHECKING:
    from llamaherd.research.estimation.fitting import FitSettings, Found
    from llamaherd.research.estimation.gold_data import Population
    from llamaherd.research.estimation.gold_use import GoldUsed
    from llamaherd.research.estimation.outcomes import Numbers, Outcome
    from llamaherd.research.estimation.predictions import Predicted
    from llamaherd.research.estimation.quantiles import UpTo
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
    known: frozenset[str],
    quantiles: Sequence[float] = (),
    draws: Sequence[GoldUsed] = (),
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
        known: Labels that occur in draws of the right codes.
        quantiles: Orders of quantiles; () for shares and means.
        draws: For quantiles: one sample for each draw of the right codes; a single sample
            without a model of coders.
        limits: Smallest and largest possible mean.

    Raises:
        ValueError: No method gives an estimate.
    """
    labels = [predicted.labels[i] or "" for i in kept]
    groups, names = in_groups

    def numbers_of(
        wanted: Outcome | None, codes: Sequence[str]
    ) -> tuple[str, list[Numbers]]:
        return shares_or_scores(
            wanted,
            texts,
            labels,
            codes,
            several=several,
            shares=(
                None
                if predicted.probs is None
                else lambda name: predicted.shares(name, kept)
            ),
            known=known,
        )

    if quantiles and isinstance(outcome, Mapping):
        scores = {name: float(score) for name, score in outcome.items()}

        def by_draw(codes: Sequence[str]) -> UpTo:
            numbers = numbers_of(outcome, codes)[1]

            def up_to(t: float) -> tuple[Floats, Floats]:
                if predicted.probs is None:
                    _, of_labels, of_codes = numbers[0]
                    below = [each <= t for each in (of_labels, of_codes)]
                    return below[0].astype(np.float64), below[1].astype(np.float64)
                under = {name: float(score <= t) for name, score in scores.items()}
                _, of_labels, of_codes = numbers_of(under, codes)[1][0]
                return of_labels, of_codes

            return up_to

        return fit_quantiles(
            [(by_draw(each.codes), replace(settings, gold=each)) for each in draws],
            np.unique(list(scores.values())),
            quantiles,
            groups,
            names,
        )
    term, numbers = numbers_of(outcome, settings.gold.codes)
    return fit_means(numbers, term, groups, names, settings, limits=limits)
