"""How good labels are, measured by those of people, with confidence intervals."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.core import checks
from llamaherd.research.statistics import missed
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

    from llamaherd.research.codes import Code
    from llamaherd.research.statistics.missed import Unfound
    from llamaherd.research.statistics.ratings import Flags, Floats, Integers


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
        unfound: What recall and F1 are bounded by, where units were drawn with unequal
            probabilities and few of those without this label show it; None: elsewhere.
    """

    label: Hashable
    n_gold: int
    n_predicted: int
    share: float
    precision: Measure
    recall: Measure
    f1: Measure
    unfound: Unfound | None = None


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
            people gave; int64[0, 0] where units may have several labels.
        accuracy: Share of units that have the label they were given; of several labels
            exactly those.
        balanced_accuracy: Mean recall of the labels that people gave.
        macro_precision: Mean over the labels that occur, 0 for one never given.
        macro_recall: The same; 0 for one that no unit has.
        macro_f1: The same of F1.
        per_label: Of each label.
        majority_label: The most frequent of people's labels; of several the tuple.
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
    several: bool = False,
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
        several: Whether a unit may have several labels: codes are tuples of them, and
            each label is a yes or no of its own.

    Raises:
        ValueError: An argument has no such value, or the labels do not fit.
    """
    level_of(level)
    checks.integer("n_bootstrap", n_bootstrap, 0)
    checks.integer("seed", seed, 0)
    ratings, names, member = _members(predicted, truth, labels, several=several)
    weights = unit_weights_of(unit_weights, ratings.indices.shape[1])
    used = (ratings.indices >= 0).all(axis=0) & (weights > 0)
    given, gold = ratings.indices[:, used]
    weights, k = weights[used], len(ratings.values)
    columns, kinds = _kinds(given, gold, weights, member)
    sums: Floats = np.tensordot(kinds, columns, 1)
    draws = _drawn(columns, kinds, n_bootstrap, seed)
    composed = {}
    for name, (of, by) in _COMPOSED.items():
        value, low, high = _composed(of, by, sums, draws, level)
        composed[name] = Measure(value=value, low=low, high=high, n=len(gold))
    per_label = tuple(
        _of_label(
            label,
            *(member[given, j], member[gold, j], weights),
            sums=sums[:, j],
            draws=draws[:, :, j],
            level=level,
        )
        for j, label in enumerate(names)
    )
    for name, part in _PARTS.items():
        composed[name] = missed.widened(composed[name], per_label, part)
    most = int(np.bincount(gold, weights).argmax()) if len(gold) else -1
    table = np.bincount(given * k + gold, minlength=k * k).reshape(k, k)
    return Accuracy(
        n=len(gold),
        labels=names,
        confusion=table[:0, :0] if several else table,
        accuracy=share(given == gold, weights, level),
        per_label=per_label,
        majority_label=ratings.values[most] if most >= 0 else None,
        majority_accuracy=share(gold == most, weights, level),
        **composed,
    )


def _members(
    predicted: Sequence[Code],
    truth: Sequence[Code],
    labels: Sequence[Hashable] | None,
    *,
    several: bool,
) -> tuple[Ratings, tuple[Hashable, ...], Flags]:
    """Codes as indices; k labels; and bool[q, k], which of these are in each code."""
    if not several:
        ratings = ratings_of([predicted, truth], labels)
        return ratings, ratings.values, np.eye(len(ratings.values), dtype=bool)
    ratings = ratings_of([predicted, truth])
    sets: Any = ratings.values
    names = ratings_of([[label for each in sets for label in each]], labels, least=1)
    member = np.array([[name in each for name in names.values] for each in sets])
    shape = (len(sets), len(names.values))
    return ratings, names.values, member.astype(bool).reshape(shape)


def _kinds(
    given: Integers, gold: Integers, weights: Floats, member: Flags
) -> tuple[Floats, Integers]:
    """Units that are alike put together: float64[p, 3, k] and int64[p], how many.

    By label the weight of the hits, of the labels given, and of people's.
    """
    if len(gold) == 0:
        return np.zeros((0, 3, member.shape[1])), np.zeros(0, dtype=np.int64)
    pairs = given * len(member) + gold
    cells = np.stack([pairs, np.unique(weights, return_inverse=True)[1]])
    _, first, kinds = np.unique(cells, axis=1, return_index=True, return_counts=True)
    has, should = member[given[first]], member[gold[first]]
    columns = np.stack([has & should, has, should], axis=1)
    return columns * weights[first, None, None], kinds


def _drawn(columns: Floats, kinds: Integers, n_draws: int, seed: int) -> Floats:
    """float64[3, n_draws, k]: the same of units drawn with replacement, summed up."""
    p, _, k = columns.shape
    if p == 0 or n_draws == 0:
        return np.zeros((3, 0, k))
    flat = columns.reshape(p, 3 * k)
    drawn = [counts @ flat for counts in resampled(kinds, n_draws, seed)]
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


_PARTS = {"balanced_accuracy": "recall", "macro_recall": "recall", "macro_f1": "f1"}
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


def _of_label(
    label: Hashable,
    is_given: Flags,
    is_gold: Flags,
    weights: Floats,
    *,
    sums: Floats,
    draws: Floats,
    level: float,
) -> LabelScores:
    low, high = percentiles(_f1(draws, math.nan), level)
    f1 = float(_f1(sums[:, None], math.nan)[0])
    recall = share(is_given[is_gold], weights[is_gold], level)
    found = Measure(value=f1, low=low, high=high, n=int((is_given | is_gold).sum()))
    unfound = missed.unfound(is_given, is_gold, weights, level)
    if unfound is not None:
        recall = missed.with_limits(recall, unfound.recall)
        found = missed.with_limits(found, unfound.f1)
    return LabelScores(
        label=label,
        n_gold=int(is_gold.sum()),
        n_predicted=int(is_given.sum()),
        share=float(sums[2] / weights.sum()) if len(weights) else math.nan,
        precision=share(is_gold[is_given], weights[is_given], level),
        recall=recall,
        f1=found,
        unfound=unfound,
    )
