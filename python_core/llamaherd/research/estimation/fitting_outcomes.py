"""Shares, means or quantiles of outcomes by one kind of predictions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from llamaherd.research.estimation.fitting_means import fit_means
from llamaherd.research.estimation.outcomes import (
    shares_or_scores,
)
from llamaherd.research.estimation.quantiles import fit_quantiles

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
    known: frozenset[str],
    quantiles: Sequence[float] = (),
) -> Found:
    """Estimate the outcome of all groups from one kind of predictions."""
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
            known=known,
        )

    term, numbers = numbers_of(outcome)
    if quantiles and isinstance(outcome, Mapping):
        scores = {name: float(score) for name, score in outcome.items()}
        values = np.unique(list(scores.values()))

        def up_to(t: float) -> tuple[Floats, Floats]:
            if predicted.probs is None:
                _, of_labels, of_codes = numbers[0]
                return (of_labels <= t).astype(np.float64), (of_codes <= t).astype(
                    np.float64
                )
            under = {name: float(score <= t) for name, score in scores.items()}
            _, of_labels, of_codes = numbers_of(under)[1][0]
            return of_labels, of_codes

        return fit_quantiles(up_to, values, quantiles, groups, names, settings)
    return fit_means(numbers, term, groups, names, settings)
