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
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

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
from llamaherd.coding.statistics.number_agreement import NUMBERS, number_agreement
from llamaherd.coding.statistics.uncertainty import UnitStatistic
from llamaherd.engine.core import checks
from llamaherd.engine.core.errors import ArgumentError
from llamaherd.engine.core.phrases import count_of, decimals, limits

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from llamaherd.coding.annotation.codebook import Codebook
    from llamaherd.coding.annotation.coded import Coded
    from llamaherd.coding.selection.part_codes import PartCodes
    from llamaherd.coding.statistics.ratings import Flags, Floats

MeasureName = Literal["accuracy", "balanced_accuracy", "macro_f1", "kappa"]
LABEL_MEASURES: tuple[MeasureName, ...] = (
    "accuracy",
    "balanced_accuracy",
    "macro_f1",
    "kappa",
)
Adjust = Literal["bonferroni", "none"]
ADJUST: tuple[Adjust, ...] = ("bonferroni", "none")


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Paired:
    """Measures of m classifiers and their differences."""

    values: tuple[Measure, ...]  # Each interval alone has the confidence level
    differences: tuple[PairedDifference, ...]  # Of all pairs (i, j), i < j


class _Rated(NamedTuple):
    """A classifier's measure, also as a function of the weights of texts."""

    value: Measure
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
    if measure == "mae":
        rated = _by_numbers(coded, codes, level)
    else:
        rated = _by_labels(coded, codes, measure, level)
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
    values = tuple(classifier.value for classifier in rated)
    return Paired(values=values, differences=tuple(differences))


def _by_labels(
    coded: Sequence[Coded], codes: PartCodes, measure: MeasureName, level: float
) -> list[_Rated]:
    should = codes.has_label(codes.codes)
    if measure == "kappa" and (should.sum(axis=1) != 1).any():
        raise ArgumentError(
            "'kappa' is for one label per text; use 'accuracy' or 'macro_f1'",
            argument="measure",
            code="conflict",
        )
    w = codes.weights / codes.weights.sum()
    rated = []
    for model in coded:
        sets = codes.sets_of(model.labels)
        has = codes.has_label(sets)
        hit = (has == should).all(axis=1) & [labels is not None for labels in sets]
        statistic = _statistic(measure, has, hit, should, w)
        value = (
            share(hit, codes.weights, level)
            if measure == "accuracy"
            else _measure(statistic, level)
        )
        rated.append(_Rated(value, statistic, hit + 0.0))
    return rated


def _by_numbers(coded: Sequence[Coded], codes: PartCodes, level: float) -> list[_Rated]:
    names = [float(name) for name in coded[0].names or codes.names]
    low, high = min(names, default=math.nan), max(names, default=math.nan)
    right, w = codes.numbers, codes.weights
    farther = np.where(right - low > high - right, low, high)
    rated = []
    for model in coded:
        numbers = _numbers(model)
        numbers = np.where(np.isfinite(numbers), numbers, farther)
        agreement = number_agreement(
            np.stack([numbers, right]), unit_weights=w, level=level
        )
        error = abs(numbers - right)
        rated.append(
            _Rated(agreement.measures["mae"], UnitStatistic.mean(error, w), error)
        )
    return rated


def _numbers(coded: Coded) -> Floats:
    """Return expected values if they are known, else the labels; NaN for failed texts."""
    if coded.expected is not None:
        return coded.expected
    labels = [math.nan if label is None else float(label) for label in coded.labels]
    if coded.probs is None:
        return np.array(labels)
    expected = coded.probs @ np.array(list(map(float, coded.names)))
    return np.where(np.isnan(labels), np.nan, expected)


def _measure(statistic: UnitStatistic, level: float) -> Measure:
    low, high = statistic.limits(level)
    return Measure(value=statistic.value, low=low, high=high, n=len(statistic.weights))


def _statistic(
    measure: MeasureName, has: Flags, hit: Flags, should: Flags, w: Floats
) -> UnitStatistic:
    """Return a measure as a function of the units' weights; groups are not known."""
    k = has.shape[1]
    if measure == "accuracy":
        return UnitStatistic.mean(hit.astype(np.float64), w, values=(0.0, 1.0))
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


SelectionMeasure = MeasureName | Literal["mae"]
ERRORS = ("mae",)  # for these measures smaller values are better
TITLES: dict[str, str] = {
    **ACCURACIES,
    "kappa": COEFFICIENTS["kappa"].title,
    "mae": NUMBERS["mae"],
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ExamplesEffect:
    """Change of a measure by examples in the prompt, on the same texts."""

    n_examples: int  # Number of those that one of the codebooks has and the other lacks
    measure: SelectionMeasure
    before: float  # Without these examples
    after: float
    difference: PairedDifference  # `after` minus `before`

    @property
    def verdict(self) -> str:
        """Verdict: "better", "worse", or "uncertain" if the interval includes 0."""
        if math.isnan(self.difference.low) or not self.difference.is_clear:
            return "uncertain"
        less_is_better = self.measure in ERRORS
        return "better" if (self.difference.value > 0) != less_is_better else "worse"

    def told(self, texts: str = "") -> str:
        """Return the effect as the end of a sentence that begins with the examples."""
        change = decimals(self.difference.value, sign="+")
        if not math.isnan(self.difference.low):
            change += f" {limits(self.difference.low, self.difference.high)}"
        verdict = {
            "better": "labels become better",
            "worse": "labels become worse",
            "uncertain": "this may be chance",
        }[self.verdict]
        where = f" {texts}" if texts else ""
        return (
            f"{'changes' if self.n_examples == 1 else 'change'} the "
            f"{TITLES[self.measure]}{where} from {decimals(self.before)} to "
            f"{decimals(self.after)} ({change}): {verdict}"
        )


def n_more_examples(book: Mapping[str, Any], other: Mapping[str, Any]) -> int:
    """Return how many examples a codebook has more than another one; 0 if it differs."""
    examples, fewer = book.get("examples") or [], other.get("examples") or []
    rest = [
        {k: v for k, v in content.items() if k != "examples"} for content in (book, other)
    ]
    is_same = rest[0] == rest[1] and list(examples[: len(fewer)]) == list(fewer)
    return max(0, len(examples) - len(fewer)) if is_same else 0


def examples_of(n: int) -> str:
    """Return "The 4 examples", as the subject of a sentence."""
    return f"The {count_of(n, 'example')}".replace("The 1 ", "The ")


MEASURES: tuple[SelectionMeasure, ...] = (*LABEL_MEASURES, "mae")
_SCALE = "scale"  # type of codebooks whose labels are numbers of a scale


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


def is_of_numbers(measure: SelectionMeasure) -> bool:
    """True for a measure of numbers, False for a measure of labels."""
    return measure in ERRORS
