"""Gamma: agreement of several coders on passages, after the best alignment.

Gamma is 1 - observed disorder / expected disorder. A disorder is the total disorder of
the best alignment (see `unit_alignment`), divided by the mean number of units of a coder.

Texts: units of different texts are not aligned; totals and numbers of units are added
up over texts. The expected disorder is the mean over random continua: all texts, one
after the other, form a circle, and each random coder has the units of a coder drawn with
replacement, all shifted by the same random number of characters. Two shifts differ by at
least half of the mean length of a unit, if the text is long enough. A unit that begins
before the end of the circle stays whole.

Source: Mathet, Widlocher and Metivier (2015), The unified and holistic method gamma for
inter-annotator agreement measure and alignment, Computational Linguistics 41, 437-479.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from llamaherd.core.errors import ArgumentError
from llamaherd.research.statistics.unit_alignment import (
    MOST_COLUMNS,
    Units,
    best_alignment,
    units_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.research.codes.span_files import Unit
    from llamaherd.research.statistics.ratings import Integers

PRECISION = 0.02  # largest relative error of the expected disorder, with 95% confidence
_NORMAL = 1.96
_FEWEST, _MOST = 30, 1000  # random continua
_MOST_UNITS = 10_000  # units of the random continua that are aligned together
_MOST_TOGETHER = 30_000  # unitary alignments of continua that are aligned together


class Gamma:
    """Gamma of n texts.

    The expected disorder is estimated from 30 random continua, and then from as many as
    its relative error needs to be at most `precision` with 95% confidence: (1.96 v /
    precision)^2 continua with the coefficient of variation v, and at most 1,000.

    Args:
        coders: For each coder the units of each text; at least two coders.
        lengths: Length of each text.
        labels: Labels whose units are included; None for all labels.
        seed: Seed of the random continua.
        precision: Largest relative error of the expected disorder.

    Attributes:
        n_samples: Number of random continua.
        expected: Expected disorder; NaN if nobody marked a unit.
        error: Relative error of the expected disorder, with 95% confidence.

    Raises:
        ArgumentError: Too many passages overlap.
        ImportError: scipy is not installed.
    """

    def __init__(
        self,
        coders: Sequence[Sequence[Sequence[Unit]]],
        lengths: Sequence[int],
        labels: Sequence[str] | None = None,
        *,
        seed: int = 1,
        precision: float = PRECISION,
    ) -> None:
        units = units_of(coders, labels)
        n = len(lengths)
        self._sizes = np.bincount(units.text, minlength=n) / units.n_coders
        self._disorders = np.zeros(n)
        self.expected, self.n_samples, self.error = math.nan, 0, math.nan
        if not len(units):
            return
        disorder, first = best_alignment(units)
        self._disorders += np.bincount(units.text[first], disorder, minlength=n)
        sizes = np.array(lengths, dtype=np.int64)
        begins = np.cumsum(sizes) - sizes
        rng = np.random.default_rng(seed)
        drawn: list[float] = []
        n_samples = _FEWEST
        while len(drawn) < n_samples:
            n_new = min(n_samples - len(drawn), max(1, _MOST_UNITS // len(units)))
            drawn += _expected(units, begins, int(sizes.sum()), n_new, rng)
            if len(drawn) >= _FEWEST and n_samples == _FEWEST:
                needed = (_error(drawn[:_FEWEST], 1) / precision) ** 2
                n_samples = max(_FEWEST, min(_MOST, math.ceil(needed)))
        self.expected, self.n_samples = float(np.mean(drawn)), len(drawn)
        self.error = _error(drawn, len(drawn))

    def value(self, texts: Integers | None = None) -> float:
        """Return gamma: 1 for perfect agreement, about 0 for chance.

        Args:
            texts: Indices of the texts of the observed disorder; None for each text once.
                The expected disorder is computed from all texts.

        Returns:
            The coefficient; NaN if nobody marked a unit.
        """
        own = slice(None) if texts is None else texts
        size = float(self._sizes[own].sum())
        if not size or not self.expected > 0:
            return math.nan
        return 1 - float(self._disorders[own].sum()) / size / self.expected


def _error(drawn: Sequence[float], n: int) -> float:
    """Return the relative error of a mean of n values, with 95% confidence."""
    if not any(drawn):
        return 0.0
    return float(_NORMAL * np.std(drawn, ddof=1) / np.mean(drawn) / math.sqrt(n))


def _expected(
    units: Units, begins: Integers, length: int, n: int, rng: np.random.Generator
) -> list[float]:
    """Return the disorders of n random continua, which are aligned together."""
    made: list[Units] = []
    while len(made) < n:
        one = shuffled(units, begins, length, rng)
        if len(one):
            made.append(one)
    return _disorders(made)


def _disorders(made: Sequence[Units]) -> list[float]:
    """Return the disorders of continua.

    The continua are aligned together; if they have too many unitary alignments, each half
    of them is aligned separately.
    """
    n, n_coders = len(made), made[0].n_coders
    sizes = np.array([len(each) for each in made])
    together = Units(
        coder=np.concatenate([each.coder for each in made]),
        text=np.repeat(np.arange(n), sizes),
        start=np.concatenate([each.start for each in made]),
        end=np.concatenate([each.end for each in made]),
        label=np.concatenate([each.label for each in made]),
        n_coders=n_coders,
    )
    try:
        limit = _MOST_TOGETHER if n > 1 else MOST_COLUMNS
        disorder, first = best_alignment(together, limit)
    except ArgumentError as error:
        if error.code != "too_large" or n == 1:
            raise
        return _disorders(made[: n // 2]) + _disorders(made[n // 2 :])
    totals = np.bincount(together.text[first], disorder, minlength=n)
    found: list[float] = (totals / (sizes / n_coders)).tolist()
    return found


def shuffled(
    units: Units, begins: Integers, length: int, rng: np.random.Generator
) -> Units:
    """Draw a random continuum, which has one text.

    Args:
        units: Units of the real coders.
        begins: int64[n], position of each text on the continuum.
        length: Length of the continuum.
        rng: Random number generator.
    """
    n = units.n_coders
    mean = float((units.end - units.start).mean())
    shifts = _shifts(n, length, min(mean / 2, length / (2 * n)), rng)
    rows = [np.flatnonzero(units.coder == each) for each in rng.integers(0, n, n)]
    taken = np.concatenate(rows)
    counts = [len(each) for each in rows]
    place = units.start[taken] + begins[units.text[taken]]
    start = (place + np.repeat(shifts, counts)) % length
    return Units(
        coder=np.repeat(np.arange(n), counts),
        text=np.zeros(len(taken), dtype=np.int64),
        start=start,
        end=start + units.end[taken] - units.start[taken],
        label=units.label[taken],
        n_coders=n,
    )


def _shifts(n: int, length: int, apart: float, rng: np.random.Generator) -> Integers:
    """Draw n shifts that differ by at least a number of characters on the circle.

    Each shift is uniform among the positions that are far enough from the shifts before.
    If these could leave no position, the smallest difference is reduced to the largest
    one that always leaves a position; it is 0 if the circle has fewer than n characters.
    """
    least = math.ceil(apart)  # a shift excludes 2 * least - 1 positions
    if n > 1:
        least = min(least, ((length - 1) // (n - 1) + 1) // 2)
    shifts: list[int] = []
    while len(shifts) < n:
        shift = int(rng.integers(0, max(length, 1)))
        away = [abs(shift - each) for each in shifts]
        if all(least <= each <= length - least for each in away):
            shifts.append(shift)
    return np.array(shifts, dtype=np.int64)
