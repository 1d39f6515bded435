"""How good labels are, measured by those of people, with confidence intervals."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.core import checks
from llamaherd.research.statistics.intervals import (
    Measure,
    level_of,
    percentiles,
    resampled,
    share,
)
from llamaherd.research.statistics.ratings import Ratings, ratings_of, unit_weights_of

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from llamaherd.research.statistics.ratings import Code, Floats, Integers


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelScores:
    """How good one label is.

    Attributes:
        label: Which one.
        n_gold: Units that have it.
        n_predicted: Units to which it was given.
        share: Of the units, by people's codes, weighted.
        precision: Of those to which it was given, the share that has it; NaN for none.
        recall: Of those that have it, the share to which it was given; NaN for none.
        f1: Harmonic mean of both, 2 tp / (gold + predicted).
    """

    label: Hashable
    n_gold: int
    n_predicted: int
    share: float
    precision: Measure
    recall: Measure
    f1: Measure


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Accuracy:
    """How good labels are.

    Shares have Wilson's interval, by effective numbers of units if these have weights;
    what is made of several shares has percentiles of a bootstrap of units. Where its
    draws do not vary, as where all labels are right, there is none: NaN.

    Attributes:
        n: Units that have both codes.
        labels: The k labels.
        confusion: int64[k, k], units: a row for each label given, a column for each that
            people gave.
        accuracy: Share of units that have the label they were given.
        balanced_accuracy: Mean recall of the labels that people gave.
        macro_precision: Mean over the labels that occur, 0 for one never given.
        macro_recall: The same; 0 for one that no unit has.
        macro_f1: The same of F1.
        per_label: Of each label.
        majority_label: The most frequent of people's labels.
        majority_accuracy: Accuracy of who gives always that.
    """

    n: int
    labels: tuple[Hashable, ...]
    confusion: Integers
    accuracy: Measure
    balanced_accuracy: Measure
    macro_precision: Measure
    macro_recall: Measure
    macro_f1: Measure
    per_label: tuple[LabelScores, ...]
    majority_label: Hashable
    majority_accuracy: Measure


def accuracy_of(
    predicted: Sequence[Code],
    truth: Sequence[Code],
    *,
    labels: Sequence[Hashable] | None = None,
    unit_weights: Sequence[float] | Floats | None = None,
    level: float = 0.95,
    n_bootstrap: int = 2000,
    seed: int = 0,
) -> Accuracy:
    """Measures labels by those of people.

    Args:
        predicted: n labels; None is missing, and the unit left out.
        truth: n labels that count as right.
        labels: All labels in their order; None: those that occur.
        unit_weights: float[n], as 1 / inclusion probability: what comes out is of the
            texts that the n were drawn from.
        level: Of the intervals.
        n_bootstrap: Draws for the intervals that need them; 0: none.
        seed: Of the draws.

    Raises:
        ValueError: An argument has no such value, or the labels do not fit.
    """
    level_of(level)
    checks.integer("n_bootstrap", n_bootstrap, 0)
    checks.integer("seed", seed, 0)
    ratings = ratings_of([predicted, truth], labels)
    weights = unit_weights_of(unit_weights, ratings.indices.shape[1])
    used = (ratings.indices >= 0).all(axis=0) & (weights > 0)
    given, gold = ratings.indices[:, used]
    weights = weights[used]
    k = len(ratings.values)
    draws = _drawn(given, gold, weights, k=k, n_draws=n_bootstrap, seed=seed)
    sums = _sums(given, gold, weights, k)
    hits = share(given == gold, weights, level)
    composed = {}
    for name, (of, by) in _COMPOSED.items():
        value, low, high = _composed(of, by, sums, draws, level)
        composed[name] = Measure(value=value, low=low, high=high, n=len(gold))
    most = int(sums[2].argmax()) if len(gold) else -1
    return Accuracy(
        n=len(gold),
        labels=ratings.values,
        confusion=np.bincount(given * k + gold, minlength=k * k).reshape(k, k),
        accuracy=hits,
        per_label=_per_label(ratings, given, gold, weights, draws=draws, level=level),
        majority_label=ratings.values[most] if most >= 0 else None,
        majority_accuracy=share(gold == most, weights, level),
        **composed,
    )


def _sums(given: Integers, gold: Integers, weights: Floats, k: int) -> Floats:
    """float64[3, k]: weight of the hits, of the labels given, and of people's."""
    hit = given == gold
    sums = [
        np.bincount(gold[hit], weights[hit], minlength=k),
        np.bincount(given, weights, minlength=k),
        np.bincount(gold, weights, minlength=k),
    ]
    return np.stack(sums).astype(float)  # of no units they are integers


def _drawn(
    given: Integers, gold: Integers, weights: Floats, *, k: int, n_draws: int, seed: int
) -> Floats:
    """float64[3, n_draws, k]: the same of units drawn with replacement."""
    if len(gold) == 0 or n_draws == 0:
        return np.zeros((3, 0, k))
    cells = np.stack([given * k + gold, np.unique(weights, return_inverse=True)[1]])
    _, first, kinds = np.unique(cells, axis=1, return_index=True, return_counts=True)
    given, gold, weights = given[first], gold[first], weights[first]
    columns = np.zeros((len(first), 3, k))
    at = np.arange(len(first))
    columns[at, 0, gold] = weights * (given == gold)
    columns[at, 1, given] = weights
    columns[at, 2, gold] = weights
    drawn = [
        counts @ columns.reshape(len(first), 3 * k)
        for counts in resampled(kinds, n_draws, seed)
    ]
    together: Floats = np.concatenate(drawn)
    return np.moveaxis(together.reshape(n_draws, 3, k), 1, 0)


def _ratio(above: Floats, below: Floats, without: float = math.nan) -> Floats:
    return np.divide(above, below, out=np.full_like(above, without), where=below > 0)


def _precision(sums: Floats) -> Floats:
    return _ratio(sums[0], sums[1], 0.0)


def _recall(sums: Floats) -> Floats:
    return _ratio(sums[0], sums[2], 0.0)


def _f1(sums: Floats, without: float = 0.0) -> Floats:
    return _ratio(2 * sums[0], sums[1] + sums[2], without)


# Means over the labels that people gave, or that occur at all.
_COMPOSED = {
    "balanced_accuracy": (_recall, (2,)),
    "macro_precision": (_precision, (1, 2)),
    "macro_recall": (_recall, (1, 2)),
    "macro_f1": (_f1, (1, 2)),
}


def _composed(
    of: Any,  # noqa: ANN401 - from float64[3, ..., k] to float64[..., k]
    by: Sequence[int],
    sums: Floats,
    draws: Floats,
    level: float,
) -> tuple[float, float, float]:
    """A mean over labels and its interval.

    Draws have the labels of the sample: one that a draw has not counts 0 there. A mean
    over fewer labels would be another number.
    """
    counted = sums[list(by)].sum(axis=0) > 0
    if not counted.any():
        return math.nan, math.nan, math.nan
    low, high = percentiles(of(draws)[:, counted].mean(axis=1), level)
    return float(of(sums)[counted].mean()), low, high


def _per_label(
    ratings: Ratings,
    given: Integers,
    gold: Integers,
    weights: Floats,
    *,
    draws: Floats,
    level: float,
) -> tuple[LabelScores, ...]:
    scores = []
    drawn_f1 = _f1(draws, math.nan)
    for j, label in enumerate(ratings.values):
        is_given, is_gold = given == j, gold == j
        sums = _sums(given, gold, weights, len(ratings.values))[:, None, j]
        n_either = int((is_given | is_gold).sum())
        low, high = percentiles(drawn_f1[:, j], level)
        f1 = float(_f1(sums, math.nan)[0])
        scores.append(
            LabelScores(
                label=label,
                n_gold=int(is_gold.sum()),
                n_predicted=int(is_given.sum()),
                share=float(sums[2, 0] / weights.sum()) if len(gold) else math.nan,
                precision=share(is_gold[is_given], weights[is_given], level),
                recall=share(is_given[is_gold], weights[is_gold], level),
                f1=Measure(value=f1, low=low, high=high, n=n_either),
            )
        )
    return tuple(scores)
