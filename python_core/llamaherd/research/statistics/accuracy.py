"""Accuracy of labels against human codes, with confidence intervals."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.core import checks
from llamaherd.research.statistics import missed, unseen
from llamaherd.research.statistics.intervals import (
    LEVEL,
    N_BOOTSTRAP,
    Measure,
    level_of,
    mean_of_parts,
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
    """Precision, recall and F1 of one label.

    Attributes:
        label: Label name.
        n_gold: Number of units that have the label by their human code.
        n_predicted: Number of units to which the model gave the label.
        share: Weighted share of units that have the label by their human code.
        precision: Among units to which the model gave the label, share whose human code
            is the label; NaN if there are no such units.
        recall: Among units whose human code is the label, share to which the model gave
            the label; NaN if there are no such units.
        f1: Harmonic mean of precision and recall, 2 tp / (gold + predicted).
        unfound: Counts of units to which the model did not give the label, and bounds of
            recall and F1. None if the usual intervals are valid: because all units have
            the same weight, or because enough of these units have the label as code.
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
    """Accuracy of labels.

    Shares have Wilson's interval; with weights, this interval uses the effective number
    of units. Means of shares combine these intervals by MOVER. F1 and its mean, and
    means of shares if a unit may have several labels, have percentile intervals from a
    bootstrap of units; with weights, these intervals include errors that few codes could
    show, see `unseen` and `missed`. An interval is NaN if all bootstrap draws give the
    same value, for example if all labels are right and all weights are equal.

    Attributes:
        n: Number of units with both a label and a human code.
        labels: The k labels.
        confusion: int64[k, k], counts of units: a row for each label of the model, a
            column for each human code; int64[0, 0] if units may have several labels.
        accuracy: Share of units whose label equals the human code; with several labels
            per unit, the share of units whose two sets of labels are equal.
        balanced_accuracy: Mean recall over the labels that occur as human codes.
        macro_precision: Mean precision over the labels that occur. A label that the model
            never gave has the precision 0.
        macro_recall: Mean recall over the same labels. A label that does not occur as a
            code has the recall 0.
        macro_f1: Mean F1 over the same labels.
        per_label: Scores of each label.
        majority_label: Most frequent human label; a tuple if units may have several
            labels.
        majority_accuracy: Accuracy of a classifier that always gives the majority label.
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
    level: float = LEVEL,
    n_bootstrap: int = N_BOOTSTRAP,
    seed: int = 0,
    several: bool = False,
) -> Accuracy:
    """Compute the accuracy of labels against human codes.

    Args:
        predicted: n labels; units with None are left out.
        truth: n human codes, taken as correct.
        labels: All labels in their order; None for the labels that occur.
        unit_weights: float[n], for example 1 / inclusion probability; results then
            describe all texts from which the n units were drawn.
        level: Confidence level.
        n_bootstrap: Number of bootstrap draws for intervals that need them; 0 for none.
        seed: Seed of the bootstrap.
        several: True if a unit may have several labels: codes are tuples of labels, and
            each label is scored as present or absent.

    Raises:
        ValueError: An argument is out of range, or the labels do not fit.
    """
    level_of(level)
    checks.integer("n_bootstrap", n_bootstrap, 0)
    checks.integer("seed", seed, 0)
    ratings, names, member = _members(predicted, truth, labels, several=several)
    weights = unit_weights_of(unit_weights, ratings.indices.shape[1])
    used = (ratings.indices >= 0).all(axis=0) & (weights > 0)
    given, gold = ratings.indices[:, used]
    weights, k = unit_weights_of(weights[used], int(used.sum())), len(ratings.values)
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
    for name, (part, ends) in _SHARES.items():
        if several:  # the labels' units are the same, so their errors are not independent
            value, low, high = _composed(_OF_PART[part], ends, sums, draws, level)
            mean = Measure(value=value, low=low, high=high, n=len(gold))
            composed[name] = missed.widened(mean, per_label, part)
        else:
            composed[name] = _mean_of_shares(per_label, part, ends, sums, len(gold))
    macro = missed.widened(composed["macro_f1"], per_label, "f1")
    if not several:
        f1 = [each.f1 for each in per_label]
        f1, macro = unseen.with_f1_limits(f1, macro, given, gold, weights, level)
        per_label = tuple(
            replace(each, f1=own) for each, own in zip(per_label, f1, strict=True)
        )
    composed["macro_f1"] = macro
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
    """Return codes as indices, the k labels, and bool[q, k], labels in each code."""
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
    """Group identical units; return float64[p, 3, k] and the group sizes, int64[p].

    A group has three values for each label. A value is the weight of one unit if the
    units have the label by the model and by the human code (first value), by the model
    (second value), or by the human code (third value); otherwise the value is 0.
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
    """Return the groups' values summed over bootstrap samples, float64[3, n_draws, k]."""
    p, _, k = columns.shape
    if p == 0 or n_draws == 0:
        return np.zeros((3, 0, k))
    flat = columns.reshape(p, 3 * k)
    drawn = [counts @ flat for counts in resampled(kinds, n_draws, seed)]
    together: Floats = np.concatenate(drawn)
    return np.moveaxis(together.reshape(n_draws, 3, k), 1, 0)


def _ratio(above: Floats, below: Floats, without: float = math.nan) -> Floats:
    return np.divide(above, below, out=np.full_like(above, without), where=below > 0)


def _f1(sums: Floats, without: float = 0.0) -> Floats:
    return _ratio(2 * sums[0], sums[1] + sums[2], without)


def _precision(sums: Floats) -> Floats:
    return _ratio(sums[0], sums[1], 0.0)


def _recall(sums: Floats) -> Floats:
    return _ratio(sums[0], sums[2], 0.0)


_OF_PART = {"precision": _precision, "recall": _recall}
# Means over all labels that occur.
_COMPOSED = {"macro_f1": (_f1, (1, 2))}
# Means of shares, over the labels among human codes, or over all labels that occur.
_SHARES = {
    "balanced_accuracy": ("recall", (2,)),
    "macro_precision": ("precision", (1, 2)),
    "macro_recall": ("recall", (1, 2)),
}


def _mean_of_shares(
    per_label: Sequence[LabelScores], part: str, by: Sequence[int], sums: Floats, n: int
) -> Measure:
    """Return the mean of precision or recall over labels, with an interval by MOVER.

    Each unit has one label, so the labels' units are different units. A label that was
    never given has the value 0.
    """
    counted = np.flatnonzero(sums[list(by)].sum(axis=0) > 0)
    return mean_of_parts([getattr(per_label[int(j)], part) for j in counted], n)


def _composed(
    of: Any,  # noqa: ANN401 - from float64[3, ..., k] to float64[..., k]
    by: Sequence[int],
    sums: Floats,
    draws: Floats,
    level: float,
) -> tuple[float, float, float]:
    """Return the mean of a measure over labels, and its interval.

    Every bootstrap draw averages over all labels of the sample; a label that is missing
    in a draw has the value 0. A mean over fewer labels would estimate another quantity.
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
