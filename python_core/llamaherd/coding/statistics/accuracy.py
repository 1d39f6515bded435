"""Accuracy of labels against human codes, with confidence intervals."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.coding.statistics.intervals import (
    ENOUGH,
    LEVEL,
    Measure,
    kish_n,
    level_of,
    mean_of_parts,
    share,
)
from llamaherd.coding.statistics.ratings import (
    CodesByCoder,
    Ratings,
    ratings_of,
    unit_weights_of,
)
from llamaherd.coding.statistics.uncertainty import UnitStatistic, are_equal, heaviest

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from llamaherd.coding.codes import Code
    from llamaherd.engine.core.arrays import Flags, Floats, Ints


# Titles of the measures of all labels together, by the names of `Accuracy`.
TITLES = {
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced accuracy",
    "macro_f1": "macro F1",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfound:
    """Units to which the model did not give a label, few of which show missed cases."""

    n_codes: int
    n_cases: int  # Number of these units whose code is the label
    share: float  # Weighted share of these units among all units


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelScores:
    """Precision, recall and F1 of one label.

    Attributes:
        n_gold: Number of units that have the label by their human code.
        n_predicted: Number of units to which the model gave the label.
        share: Weighted share of units that have the label by their human code.
        precision: Among units to which the model gave the label, share whose human code
            is the label; NaN if there are no such units.
        recall: Among units whose human code is the label, share to which the model gave
            the label; NaN if there are no such units.
        f1: Harmonic mean of precision and recall, 2 tp / (gold + predicted).
        unfound: Units to which the model did not give the label; None if all units have
            the same weight, or if enough of these units, by the effective number, have
            the label as code.
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

    Shares have the interval of `intervals.share`; with weights, this interval uses the
    effective number of units, and recall allows for a missed case that was not seen.
    Means of shares combine these intervals by MOVER. For F1 and its mean, and means of
    shares if a unit may have several labels, see `uncertainty`.

    Attributes:
        n: Number of units with both a label and a human code.
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
        majority_label: Most frequent human label; a tuple if units may have several
            labels.
        majority_accuracy: Accuracy of a classifier that always gives the majority label.
    """

    n: int
    labels: tuple[Hashable, ...]
    confusion: Ints
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
    several: bool = False,
) -> Accuracy:
    """Compute the accuracy of labels against human codes; units with None are left out.

    Labels and codes have one type, as `CodesByCoder`. With `several` they are tuples of
    labels, each of which is present or absent.
    """
    level_of(level)
    ratings, names, member = _members(predicted, truth, labels, several=several)
    weights = unit_weights_of(unit_weights, ratings.indices.shape[1])
    used = (ratings.indices >= 0).all(axis=0) & (weights > 0)
    model_labels, gold = ratings.indices[:, used]
    weights, k = unit_weights_of(weights[used], int(used.sum())), len(ratings.values)
    units = WeightedUnits.of(
        member[model_labels],
        member[gold],
        weights,
        None if several else model_labels,
        level,
    )
    per_label = tuple(units.scores(label, j) for j, label in enumerate(names))
    macro = {
        name: units.mean_of_shares(per_label, part, by)
        for name, (part, by) in _SHARES.items()
    }
    most = int(np.bincount(gold, weights).argmax()) if len(gold) else -1
    table = np.bincount(model_labels * k + gold, minlength=k * k).reshape(k, k)
    return Accuracy(
        n=len(gold),
        labels=names,
        confusion=table[:0, :0] if several else table,
        accuracy=share(model_labels == gold, weights, level),
        per_label=per_label,
        majority_label=ratings.values[most] if most >= 0 else None,
        majority_accuracy=share(gold == most, weights, level),
        macro_f1=units.mean("f1", units.occurring((1, 2))),
        **macro,
    )


def _members(
    predicted: Sequence[Code],
    truth: Sequence[Code],
    labels: Sequence[Hashable] | None,
    *,
    several: bool,
) -> tuple[Ratings, tuple[Hashable, ...], Flags]:
    """Return codes as indices, the k labels, and bool[q, k], labels in each code."""
    codes = CodesByCoder([predicted, truth])
    if not several:
        ratings = ratings_of(codes, labels)
        return ratings, ratings.values, np.eye(len(ratings.values), dtype=bool)
    ratings = ratings_of(codes)
    sets: Any = ratings.values
    labels_of_sets = CodesByCoder([[label for code in sets for label in code]])
    names = ratings_of(labels_of_sets, labels, least=1)
    member = np.array([[name in code for name in names.values] for code in sets])
    shape = (len(sets), len(names.values))
    return ratings, names.values, member.astype(bool).reshape(shape)


# Means of shares, over the labels among human codes, or over all labels that occur: in
# the sums of weights by the model (1) and by the human codes (2).
_SHARES = {
    "balanced_accuracy": ("recall", (2,)),
    "macro_precision": ("precision", (1, 2)),
    "macro_recall": ("recall", (1, 2)),
}
# Weight of the model's labels (1) and of the human codes (2) in the denominator.
_BELOW = {"precision": (1.0, 0.0), "recall": (0.0, 1.0), "f1": (0.5, 0.5)}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WeightedUnits:
    """Labels and codes of n units."""

    has: Flags  # bool[n, k], labels by the model
    should: Flags  # bool[n, k], labels by the human codes
    weights: Floats  # float64[n], weights of the units
    # float64[3, k], weights of the units with each label by both, by the model and by the
    # human codes
    sums: Floats
    # int64[n], label by the model, k if it gave none; None if units may have several
    # labels
    known: Ints | None
    level: float  # Confidence level

    @classmethod
    def of(
        cls,
        has: Flags,
        should: Flags,
        weights: Floats,
        known: Ints | None,
        level: float = LEVEL,
    ) -> WeightedUnits:
        """Sum the weights of labels."""
        sums = np.array([weights @ part for part in (has & should, has, should)])
        return cls(
            has=has, should=should, weights=weights, sums=sums, known=known, level=level
        )

    def occurring(self, by: Sequence[int]) -> Ints:
        """Return the labels with a weight in some of the sums."""
        return np.flatnonzero(self.sums[list(by)].sum(axis=0) > 0)

    def mean(self, part: str, labels: Ints) -> Measure:
        """Return the mean of precision, recall or F1 over labels, with its interval."""
        if len(labels) == 0:
            return Measure(n=len(self.weights))
        return self.statistic(part, labels).measure(self.level)

    def statistic(self, part: str, labels: Ints) -> UnitStatistic:
        """Return the mean of precision, recall or F1 over labels.

        A label without a denominator has the value 0. The mean of no labels is NaN.
        """
        by = _BELOW[part]
        both, of_model, of_codes = self.sums[:, labels]
        below = by[0] * of_model + by[1] * of_codes
        label_weight = 1 / max(len(labels), 1)
        of_hit = np.divide(label_weight, below, out=0 * below, where=below > 0)
        pull = both * of_hit**2 * len(labels)
        parts = (-by[0] * pull, -by[1] * pull, of_hit)
        has, should = self.has[:, labels], self.should[:, labels]
        return UnitStatistic(
            value=float(both @ of_hit) if len(labels) else math.nan,
            weights=self.weights,
            slopes=has @ parts[0] + should @ parts[1] + (has & should) @ of_hit,
            unseen=self._unseen_slopes(labels, *parts),
            groups=self.known,
        )

    def _unseen_slopes(
        self, labels: Ints, of_model: Floats, of_code: Floats, of_hit: Floats
    ) -> Floats:
        """Return slopes of unseen units by label and code, see `UnitStatistic`.

        The columns are the q labels and all others; the rows are all k labels and none,
        or as the columns if units may have several labels. An unseen unit has labels that
        occur. Of several labels it has at most one, by the model, the code, or both.
        """
        q = len(labels)
        slopes = np.add.outer(np.append(of_model, 0.0), np.append(of_code, 0.0))
        slopes[np.arange(q), np.arange(q)] += of_hit
        if self.known is None:
            one = np.zeros((q + 1, q + 1), dtype=bool)
            one[q], one[:, q] = True, True
            return np.where(one | np.eye(q + 1, dtype=bool), slopes, np.nan)
        place = np.full(self.has.shape[1] + 1, q)
        place[labels] = np.arange(q)
        occurs = np.append(self.sums[1:].sum(axis=0) > 0, False)
        codes = np.zeros(q + 1, dtype=bool)
        codes[place[occurs]] = True
        occurs[self.known] = True  # also units without a label
        return np.where(occurs[:, None] & codes, slopes[place], np.nan)

    def mean_of_shares(
        self, per_label: Sequence[LabelScores], part: str, by: Sequence[int]
    ) -> Measure:
        """Return the mean of precision or recall over labels.

        If each unit has one label, the labels' units are different units, and their
        intervals are combined by MOVER.
        """
        labels = self.occurring(by)
        if self.known is None:
            return self.mean(part, labels)
        below = (self.should if part == "recall" else self.has)[:, labels]
        sums = self.weights @ below
        of_units = below @ np.divide(1.0, sums, out=0 * sums, where=sums > 0)
        hits = np.asarray((self.has & self.should).any(axis=1))
        return mean_of_parts(
            [getattr(per_label[int(j)], part) for j in labels],
            share(hits, self.weights * of_units, self.level),
            len(self.weights),
        )

    def scores(self, label: Hashable, j: int) -> LabelScores:
        """Return the scores of the label j."""
        has, should = self.has[:, j], self.should[:, j]
        w, level = self.weights, self.level
        n_either = int((has | should).sum())
        f1 = self.mean("f1", np.array([j])) if n_either else Measure(n=0)
        cases = should & ~has
        n_seen = round(kish_n(w[cases]))  # the effective number
        out = w[:0] if are_equal(w) else w[~has]
        case = heaviest(out, 1 / out, level)
        unfound = None
        if len(out) and should.any() and n_seen < ENOUGH:
            unfound = Unfound(
                n_codes=len(out),
                n_cases=int(cases.sum()),
                share=float(out.sum() / w.sum()),
            )
        return LabelScores(
            label=label,
            n_gold=int(should.sum()),
            n_predicted=int(has.sum()),
            share=float(w @ should / w.sum()) if len(w) else math.nan,
            precision=share(should[has], w[has], level),
            recall=share(has[should], w[should], level, unseen=case),
            f1=replace(f1, n=n_either),
            unfound=unfound,
        )
