"""Agreement on passages: precision and recall, and Krippendorff's alpha for unitizing.

A text is a continuum of characters. A coder marks units in the text, each with a label;
the parts between units are gaps.

Source: Krippendorff (2004), Measuring the reliability of qualitative text analysis data,
Quality & Quantity 38, 787-800.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from llamaherd.coding.statistics.uncertainty import UnitStatistic

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from llamaherd.coding.codes.span_files import Unit
    from llamaherd.engine.core.arrays import Floats, Ints

_NO_CASE = np.full((1, 1), math.nan)  # of a statistic without unseen cases
_MOST_LEFT_OUT = 1000  # largest number of times that texts are left out


@dataclass(frozen=True, slots=True)
class Matches:
    """Counts of matching passages in n texts, by several rules."""

    evaluated: Ints  # int64[n], number of passages to evaluate
    true: Ints  # int64[n], number of reference passages, which are taken as right
    exact: Ints  # int64[n], number of passages with equal begin, end and label
    # int64[n], number of evaluated passages that overlap a reference passage with the
    # same label
    right: Ints
    # int64[n], number of reference passages that overlap an evaluated passage with the
    # same label
    recalled: Ints


def matches(
    evaluated: Sequence[Sequence[Unit]], true: Sequence[Sequence[Unit]]
) -> Matches:
    """Count matching passages of n texts; equal passages in a text are counted once."""
    rows = []
    for first, second in zip(evaluated, true, strict=True):
        a, b = sorted(set(first)), sorted(set(second))
        rows.append(
            (
                len(a),
                len(b),
                len(set(a) & set(b)),
                _count_touched(a, b),
                _count_touched(b, a),
            )
        )
    counts = np.array(rows, dtype=np.int64).reshape(len(rows), 5)
    return Matches(*(counts[:, j] for j in range(5)))


def _count_touched(units: Iterable[Unit], others: Sequence[Unit]) -> int:
    return sum(
        any(
            unit.label == other.label
            and unit.start < other.end
            and other.start < unit.end
            for other in others
        )
        for unit in units
    )


# Counts that a further passage adds to `Matches`, in the order of its fields: one that
# both marked, a false alarm, a missed one.
_PASSAGES = np.array([[1, 1, 1, 1, 1], [1, 0, 0, 0, 0], [0, 1, 0, 0, 0]])


def f1_of(counts: Matches) -> dict[str, UnitStatistic]:
    """Return precision, recall and F1 as functions of the weights of the texts.

    An unseen text has one further passage. Overlap F1 is the harmonic mean of overlap
    precision and recall; 0 if no passages overlap, or one side has none.
    """
    of_texts = np.stack(
        [counts.evaluated, counts.true, counts.exact, counts.right, counts.recalled],
        axis=1,
    ).astype(np.float64)
    evaluated, true, exact, right, recalled = np.eye(5)
    ratios = {
        name: _ratio(of_texts, part, whole)
        for name, part, whole in (
            ("exact precision", exact, evaluated),
            ("exact recall", exact, true),
            ("exact f1", 2 * exact, evaluated + true),
            ("overlap precision", right, evaluated),
            ("overlap recall", recalled, true),
        )
    }
    precision, recall = ratios["overlap precision"], ratios["overlap recall"]
    total = precision.value + recall.value
    if total > 0:
        # Derivatives of F1 by precision and by recall
        by_precision = 2 * (recall.value / total) ** 2
        by_recall = 2 * (precision.value / total) ** 2
        f1 = replace(
            precision,
            value=2 * precision.value * recall.value / total,
            slopes=by_precision * precision.slopes + by_recall * recall.slopes,
            unseen=by_precision * precision.unseen + by_recall * recall.unseen,
        )
    else:
        value = 0.0 if of_texts[:, :2].any() else math.nan
        f1 = replace(
            precision, value=value, slopes=0 * precision.weights, unseen=_NO_CASE
        )
    return {**ratios, "overlap f1": f1}


def _ratio(counts: Floats, part: Floats, whole: Floats) -> UnitStatistic:
    """Return a quotient of two sums of counts over the texts; NaN without any."""
    total = float((counts @ whole).sum())
    n, value = len(counts), math.nan
    slopes, unseen = np.zeros(n), _NO_CASE
    if total > 0:
        value = float((counts @ part).sum()) / total
        slopes = counts @ (part - value * whole) / total
        unseen = (_PASSAGES @ (part - value * whole) / total)[:, None]
    return UnitStatistic(value=value, weights=np.ones(n), slopes=slopes, unseen=unseen)


class Unitizing:
    """Krippendorff's alpha for unitizing of n texts, which form one continuum.

    Overlapping units of one coder with the same label are treated as one unit. `coders`
    has the units of each text for each coder, `lengths` the length of each text; only
    units with `labels` are included, or all.
    """

    def __init__(
        self,
        coders: Sequence[Sequence[Sequence[Unit]]],
        lengths: Sequence[int],
        labels: Sequence[str] | None = None,
    ) -> None:
        known = {unit.label for texts in coders for text in texts for unit in text}
        labels_compared = sorted(known if labels is None else known & set(labels))
        self._n_coders = len(coders)
        self._lengths = np.array(lengths, dtype=np.int64)
        self._parts = [
            _Part.of_texts(coders, lengths, label) for label in labels_compared
        ]

    def alpha(self, order: Ints | None = None) -> float:
        """Return alpha: 1 for perfect agreement, about 0 for chance."""
        texts = np.arange(len(self._lengths)) if order is None else order
        ends = np.cumsum(self._lengths[texts])
        begins, length = ends - self._lengths[texts], int(ends[-1])
        m = self._n_coders
        observed = expected = 0.0
        for part in self._parts:
            observed += float(part.observed[texts].sum()) / (m * (m - 1) * length**2)
            placed = [units.placed(texts, begins) for units in part.units]
            expected += _expected_disagreement(placed, length)
        return 1 - observed / expected if expected > 0 else float("nan")

    def statistic(self) -> UnitStatistic:
        """Return alpha as a function of the weights of the texts.

        The influence of a text is the change of alpha if it is left out (jackknife). More
        than 1,000 texts are left out in as many groups of neighbours.
        """
        n = len(self._lengths)
        value, groups = self.alpha(), min(n, _MOST_LEFT_OUT)
        place = np.arange(n) * groups // max(n, 1)
        slopes = np.zeros(groups)
        if groups > 1:
            without = [self.alpha(np.flatnonzero(place != g)) for g in range(groups)]
            slopes = (value - np.array(without)) * (1 - 1 / groups)
        return UnitStatistic(
            value=value,
            weights=np.ones(groups),
            slopes=slopes - slopes.mean(),
            unseen=_NO_CASE,
            least=-1.0,
        )


@dataclass(frozen=True, slots=True)
class _Units:
    """Units of one label that a coder marked, in the order of the texts."""

    starts: Ints  # int64[u], begin of each unit in its text
    sizes: Ints  # int64[u], length of each unit
    # int64[n + 1], index of the first unit of each text; the last element is u
    first: Ints

    def placed(self, texts: Ints, begins: Ints) -> tuple[Ints, Ints]:
        """Return begin and length of the units of these texts on a continuum."""
        counts = self.first[texts + 1] - self.first[texts]
        n_before = np.cumsum(counts) - counts
        index = np.arange(counts.sum()) + np.repeat(self.first[texts] - n_before, counts)
        return self.starts[index] + np.repeat(begins, counts), self.sizes[index]


@dataclass(frozen=True, slots=True)
class _Part:
    """Units of one label, by all coders."""

    observed: Floats  # float64[n], sum of squared differences in each text
    units: tuple[_Units, ...]  # Units, for each coder

    @classmethod
    def of_texts(
        cls,
        coders: Sequence[Sequence[Sequence[Unit]]],
        lengths: Sequence[int],
        label: str,
    ) -> _Part:
        """Collect the units of a label and compare them."""
        units = [[_merged_units(text, label) for text in texts] for texts in coders]
        rows = list(zip(*units, strict=True))
        observed = [
            _observed_disagreement(row, n) for row, n in zip(rows, lengths, strict=True)
        ]
        return cls(np.array(observed), tuple(map(_units_of, units)))


def _units_of(texts: Sequence[Sequence[tuple[int, int]]]) -> _Units:
    every = [unit for units in texts for unit in units]
    starts, sizes = np.array(every, dtype=np.int64).reshape(-1, 2).T
    first = np.cumsum([0, *map(len, texts)])
    return _Units(starts, sizes, first)


def _expected_disagreement(placed: Sequence[tuple[Ints, Ints]], length: int) -> float:
    """Return the disagreement expected by chance."""
    size = np.concatenate([sizes for _, sizes in placed]).astype(float)
    gaps = np.concatenate(
        [
            np.append(starts, length) - np.insert(starts + sizes, 0, 0)
            for starts, sizes in placed
        ]
    )
    gaps = np.sort(gaps[gaps > 0]).astype(float)
    # Sums over the gaps into which a unit fits.
    first = np.searchsorted(gaps, size)
    n_gaps = len(gaps) - first
    sum_gaps = np.append(np.cumsum(gaps[::-1])[::-1], 0.0)[first]
    room = sum_gaps - n_gaps * (size - 1)
    among = (len(size) - 1) / 3 * (2 * size**3 - 3 * size**2 + size)
    places = len(placed) * length
    pairs = places * (places - 1) - float((size * (size - 1)).sum())
    total = float((among + size**2 * room).sum())
    return 2 / length * total / pairs if pairs > 0 else 0.0


def _merged_units(units: Iterable[Unit], label: str) -> list[tuple[int, int]]:
    """Return begin and length of the units with a label; overlapping units are merged."""
    joined: list[tuple[int, int]] = []
    for start, end, _ in sorted(unit for unit in units if unit.label == label):
        if joined and start < joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return [(start, end - start) for start, end in joined]


def _gaps(units: Sequence[tuple[int, int]], length: int) -> list[tuple[int, int]]:
    """Return begin and length of the gaps between units."""
    ends = [0, *(begin + size for begin, size in units)]
    begins = [*(begin for begin, _ in units), length]
    return [(a, b - a) for a, b in zip(ends, begins, strict=True) if b > a]


def _observed_disagreement(
    coders: Sequence[Sequence[tuple[int, int]]], length: int
) -> float:
    """Return the sum of squared differences between all pairs of coders in a text."""
    total = 0.0
    for i, first in enumerate(coders):
        for j, second in enumerate(coders):
            if i != j:
                total += _differences(first, second, _gaps(second, length))
    return total


def _differences(
    units: Sequence[tuple[int, int]],
    others: Sequence[tuple[int, int]],
    gaps: Sequence[tuple[int, int]],
) -> float:
    """Return the sum of squared differences of one coder's units from another coder's.

    The units of one coder are compared with the units and gaps of the other coder.

    Overlapping units differ by the distances of their begins and of their ends; a unit
    within a gap differs by its length. The caller adds the sums for both orders of the
    two coders. Two overlapping units are in both sums, but a unit within a gap is in one
    sum only, so its squared length is counted twice.
    """
    total = 0.0
    for begin, size in units:
        for start, length in others:
            if -size < begin - start < length:
                total += (begin - start) ** 2 + (begin + size - start - length) ** 2
        for start, length in gaps:
            if length - size >= begin - start >= 0:
                total += 2 * size**2
    return total
