"""Measures by which candidates are compared, for labels or for numbers, with differences.

All measures are functions of the weights of units. The difference of two of them is one,
too: its derivatives are the differences of theirs. Its interval follows from the one rule
for intervals, for any measure and any design.

Sources: see `llamaherd.coding.statistics.uncertainty`; Edwards, Hsu, "Multiple
Comparisons with the Best Treatment", J. Am. Stat. Assoc. 78, 1983, for simultaneous
intervals.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from llamaherd.coding.sentences import Notes
from llamaherd.coding.statistics.accuracy import TITLES as ACCURACIES
from llamaherd.coding.statistics.accuracy import WeightedUnits
from llamaherd.coding.statistics.agreement import COEFFICIENTS, kappa_statistic
from llamaherd.coding.statistics.intervals import (
    LEAST_SPREAD,
    LEVEL,
    Measure,
    bonferroni,
    level_of,
    share,
)
from llamaherd.coding.statistics.number_agreement import NUMBERS
from llamaherd.coding.statistics.ratings import unit_weights_of
from llamaherd.coding.statistics.uncertainty import UnitStatistic
from llamaherd.engine.core import checks
from llamaherd.engine.core.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llamaherd.coding.annotation.codebook import Codebook
    from llamaherd.coding.annotation.coded import Coded
    from llamaherd.coding.selection.parts import PartCodes
    from llamaherd.engine.core.arrays import Flags, Floats

note = Notes("llamaherd.coding.selection")
SelectionMeasure = Literal["accuracy", "balanced_accuracy", "macro_f1", "kappa", "mae"]
LABEL_MEASURES: tuple[SelectionMeasure, ...] = (
    "accuracy",
    "balanced_accuracy",
    "macro_f1",
    "kappa",
)
ERRORS: tuple[SelectionMeasure, ...] = ("mae",)  # of numbers; smaller values are better
MEASURES = (*LABEL_MEASURES, *ERRORS)
TITLES: dict[str, str] = {
    **ACCURACIES,
    "kappa": COEFFICIENTS["kappa"].title,
    "mae": NUMBERS["mae"],
}
Adjust = Literal["bonferroni", "none"]
ADJUST: tuple[Adjust, ...] = ("bonferroni", "none")
Verdict = Literal["better", "worse", "uncertain"]
_SCALE = "scale"  # type of codebooks whose labels are numbers of a scale


def is_of_numbers(measure: SelectionMeasure) -> bool:
    """True for a measure of numbers, False for a measure of labels."""
    return measure in ERRORS


def checked_measure(measure: object, books: Sequence[Codebook]) -> SelectionMeasure:
    """Return a measure that fits all codebooks; None selects the default."""
    if measure is None:
        return "mae" if any(book.type == _SCALE for book in books) else "accuracy"
    chosen = checks.choice("measure", measure, MEASURES)
    of_numbers = is_of_numbers(chosen)
    fits = all(
        book.numbers is not None if of_numbers else book.type != _SCALE for book in books
    )
    if not fits:
        has = "labels that are numbers" if of_numbers else "labels, not for a scale"
        others = LABEL_MEASURES if of_numbers else ERRORS
        raise ArgumentError(
            f"{checks.quoted(chosen)} is for {has}; take "
            f"{', '.join(map(checks.quoted, others))}",
            argument="measure",
            code="conflict",
        )
    return chosen


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedDifference:
    """Difference of a measure between two classifiers on the same texts."""

    first: int  # Index of a classifier
    second: int
    value: float  # Measure of the first classifier minus measure of the second
    low: float
    high: float
    # Weighted share of texts for which exactly one classifier is right, or whose numbers
    # have different absolute errors
    differ: float

    @property
    def is_clear(self) -> bool:
        """True if the interval excludes 0."""
        return self.low > 0 or self.high < 0

    def turned(self) -> PairedDifference:
        """Return the difference with both classifiers exchanged."""
        ends = {"value": -self.value, "low": -self.high, "high": -self.low}
        return replace(self, first=self.second, second=self.first, **ends)

    def verdict(self, measure: SelectionMeasure) -> Verdict:
        """Compare the first classifier with the second."""
        if not self.is_clear:
            return "uncertain"
        return "better" if (self.value > 0) != (measure in ERRORS) else "worse"


@dataclass(frozen=True, slots=True, kw_only=True)
class Paired:
    """Measures of m classifiers and their differences."""

    values: tuple[Measure, ...]  # Each interval alone has the confidence level
    differences: tuple[PairedDifference, ...]  # Of all pairs (i, j), i < j


class _Rated(NamedTuple):
    """A classifier's measure as a function of the weights of texts."""

    statistic: UnitStatistic
    outcomes: Floats  # float64[n], 1 for right labels; or the absolute error of a number


def compare(
    coded: Sequence[Coded],
    codes: PartCodes,
    measure: SelectionMeasure = "accuracy",
    *,
    level: float = LEVEL,
    adjust: Adjust = "bonferroni",
) -> Paired:
    """Compare classifiers on the same n texts.

    A text without a label is counted as wrong; a missing number is replaced by the end of
    the scale that is farther from the right number.

    With "bonferroni" the intervals of all differences together contain the true
    differences with probability `level`. These intervals include the intervals of
    differences from the best classifier, whichever classifier is the best.
    """
    level_of(level)
    checks.choice("measure", measure, MEASURES)
    checks.choice("adjust", adjust, ADJUST)
    rated = [
        _by_numbers(one, codes) if measure == "mae" else _by_labels(one, codes, measure)
        for one in coded
    ]
    pairs = list(combinations(range(len(rated)), 2))
    pair_level = bonferroni(level, len(pairs)) if adjust == "bonferroni" else level
    differences = []
    for i, j in pairs:
        difference = replace(
            rated[i].statistic.minus(rated[j].statistic),
            groups=codes.strata,
            strata=codes.strata,
        )
        low, high = difference.limits(pair_level)
        apart = np.abs(rated[i].outcomes - rated[j].outcomes) > LEAST_SPREAD
        differences.append(
            PairedDifference(
                first=i,
                second=j,
                value=difference.value,
                low=low,
                high=high,
                differ=float(np.average(apart, weights=codes.weights)),
            )
        )
    values = tuple(
        share(one.outcomes, codes.weights, level)
        if measure == "accuracy"
        else one.statistic.measure(level)
        for one in rated
    )
    return Paired(values=values, differences=tuple(differences))


def _by_labels(coded: Coded, codes: PartCodes, measure: SelectionMeasure) -> _Rated:
    should = codes.has_label(codes.right)
    if measure == "kappa" and (should.sum(axis=1) != 1).any():
        raise ArgumentError(
            "'kappa' is for one label per text; use 'accuracy' or 'macro_f1'",
            argument="measure",
            code="conflict",
        )
    sets = codes.sets_of(coded.labels)
    has = codes.has_label(sets)
    hits = (has == should).all(axis=1) & [labels is not None for labels in sets]
    w = codes.weights / codes.weights.sum()
    return _Rated(_statistic(measure, has, hits, should, w), hits + 0.0)


def _by_numbers(coded: Coded, codes: PartCodes) -> _Rated:
    names = [float(name) for name in coded.names or map(str, codes.names)]
    low, high = min(names, default=math.nan), max(names, default=math.nan)
    right = np.array([float(code) for (code,) in codes.right])
    farther = np.where(right - low > high - right, low, high)
    numbers = _numbers(coded)
    errors = abs(np.where(np.isfinite(numbers), numbers, farther) - right)
    w = unit_weights_of(codes.weights, len(errors))  # as `number_agreement` scales them
    return _Rated(UnitStatistic.mean(errors, w), errors)


def _numbers(coded: Coded) -> Floats:
    """Return expected values if they are known, else the labels; NaN for failed texts."""
    if coded.expected is not None:
        return coded.expected
    labels = [math.nan if label is None else float(label) for label in coded.labels]
    if coded.probs is None:
        return np.array(labels)
    expected = coded.probs @ np.array(list(map(float, coded.names)))
    return np.where(np.isnan(labels), np.nan, expected)


def _statistic(
    measure: SelectionMeasure, has: Flags, hits: Flags, should: Flags, w: Floats
) -> UnitStatistic:
    """Return a measure as a function of the units' weights; groups are not known."""
    k = has.shape[1]
    if measure == "accuracy":
        return UnitStatistic.mean(hits.astype(np.float64), w, values=(0.0, 1.0))
    is_one = bool((should.sum(axis=1) == 1).all() and (has.sum(axis=1) <= 1).all())
    labels = np.where(has.any(axis=1), has.argmax(axis=1), k)  # k: no label
    if measure == "kappa":
        indices = np.stack([labels, should.argmax(axis=1)])
        return kappa_statistic(indices, 1 - np.eye(k + 1), w)[0]
    of = WeightedUnits.of(has, should, w, labels if is_one else None)
    part, by = ("recall", (2,)) if measure == "balanced_accuracy" else ("f1", (1, 2))
    labels = of.occurring(by)
    statistic, column = of.statistic(part, labels), np.full(k + 1, len(labels))
    column[labels] = np.arange(len(labels))  # one for each code, as in other classifiers
    return replace(statistic, groups=None, unseen=statistic.unseen[:, column])


def effect_of_examples(
    n: int,
    measure: SelectionMeasure,
    values: Sequence[float],
    difference: PairedDifference,
    *,
    owners: str = "",
    texts: str = "",
) -> str:
    """Return a sentence on the change of a measure by n examples.

    `values` are those without and with the examples, `difference` is the second minus the
    first; `owners` are the words on the codebooks, `texts` those on the texts.
    """
    return note(
        "effect",
        n=n,
        owners=owners,
        texts=texts,
        title=TITLES[measure],
        values=values,
        difference=difference,
        verdict=difference.verdict(measure),
    )


def n_more_examples(book: Mapping[str, Any], other: Mapping[str, Any]) -> int:
    """Return how many examples a codebook has more than another one; 0 if it differs."""
    examples, fewer = book.get("examples") or [], other.get("examples") or []
    rest = [
        {k: v for k, v in content.items() if k != "examples"} for content in (book, other)
    ]
    is_same = rest[0] == rest[1] and list(examples[: len(fewer)]) == list(fewer)
    return max(0, len(examples) - len(fewer)) if is_same else 0
