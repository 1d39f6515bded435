"""Samples drawn in waves, where later waves may depend on the codes of earlier waves.

Wave t draws n_t of the M_t texts that no earlier wave drew, with probabilities pi_t.
These probabilities may depend on everything that is known before the wave: on labels, on
the texts drawn, and on their codes. Given that history, the codes of all earlier waves
plus the weighted codes of wave t estimate the total of all texts without bias:

    T_t = sum of earlier codes + sum_(i in wave t) c_i / pi_t(i).

The differences T_t - T are martingale differences. These differences are uncorrelated,
and

    T = sum_t s_t T_t,    Var(T) = sum_t s_t^2 Var(T_t | history),

for any s_t that sum to 1 and do not depend on codes. Here s_t is proportional to
n_t / (M_t (M_t - n_t)), the inverse of the variance if all probabilities are equal. Then
waves of equal probabilities together are exactly one simple sample. A text of wave t has
the weight s_t / pi_t(i) + s_(t+1) + s_(t+2) + .. in the estimate. If each wave
has one text, the weights equal the weights of the estimator R_LURE (Farquhar and others).

Sources: Des Raj, "Some estimators in sampling with varying probabilities without
replacement", J. Am. Stat. Assoc. 51, 1956 (T_t of single draws); Farquhar, Gal,
Rainforth, "On Statistical Bias In Active Learning: How and When To Fix It", ICLR 2021
(arXiv 2101.11665), for the weights. Zrnic, Candes, "Active Statistical Inference", ICML
2024 (arXiv 2403.03208), also let probabilities depend on earlier codes, but decide once
about each text, in a sequence.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.coding.statistics import sampling
from llamaherd.coding.statistics.dsl import Outside, join_outside
from llamaherd.engine.core.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llamaherd.engine.core.arrays import Flags, Floats, Ints

# Fields of a design that are recorded for each draw.
WAVE_FIELDS = ("kind", "n", "seed", "by", "strata", "drawn", "allocation", "floor")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Wave:
    """Draw from the texts that earlier waves did not draw."""

    rows: Ints  # int64[n_t], indices of the drawn texts
    # float64[N], probabilities of this wave, given the earlier waves; 0 for texts that
    # earlier waves drew
    probs: Floats
    strata: Ints  # int64[N], strata of this wave; -1 for texts that cannot be drawn
    n: int  # Number of texts that the wave drew; unchanged in a subset
    n_left: int  # Number of texts from which the wave was drawn; unchanged in a subset
    # In a subset the drawn texts that do not belong to it; None without any
    outside: Outside | None = None

    def among(self, kept: Ints, new_rows: Ints) -> Wave:
        """Return the wave for a subset of texts."""
        rows = new_rows[self.rows]
        gone = self.rows[rows < 0]
        more = Outside(strata=self.strata[gone], left=1 - self.probs[gone])
        return replace(
            self,
            rows=rows[rows >= 0],
            outside=join_outside([self.outside, more]),
            probs=self.probs[kept],
            strata=self.strata[kept],
        )

    def moved(self, new_rows: Ints) -> Wave:
        """Return the wave for data in another order; see `GoldSample.moved`."""
        old_rows = np.argsort(new_rows)
        return replace(
            self,
            rows=new_rows[self.rows],
            probs=self.probs[old_rows],
            strata=self.strata[old_rows],
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Combined:
    """Drawn texts of all waves, ordered by row."""

    rows: Ints  # int64[n], indices of the drawn texts, ascending
    weights: Floats  # float64[n], weights of the texts in the estimate of a total
    # float64[n], part of the weight that is due to the text's draw: s_t / pi_t
    scale: Floats
    left: Floats  # float64[n], 1 - pi_t of the text's wave
    strata: Ints  # int64[n], strata; each stratum of each wave has its own number
    # float64[N], for drawn texts 1 / weight; for other texts the probability of being
    # drawn by any wave
    all_probs: Floats
    # Drawn texts that do not belong to the N texts; None if there are none
    outside: Outside | None = None

    def of(self, rows: Sequence[int]) -> Combined:
        """Return some of the drawn texts, in the order of `rows`."""
        at = np.searchsorted(self.rows, np.array(rows, dtype=np.int64))
        names = ("rows", "weights", "scale", "left", "strata")
        return replace(self, **{name: getattr(self, name)[at] for name in names})


def shares(sizes: Sequence[int], n_texts: int) -> Floats:
    """Return the weights of the waves in the estimate, which sum to 1, float64[T]."""
    n = np.array(sizes, dtype=np.float64)
    left = n_texts - np.concatenate([[0.0], np.cumsum(n)[:-1]])
    if n[-1] >= left[-1]:  # all texts were drawn: nothing remains to estimate
        return np.asarray((np.arange(len(n)) == len(n) - 1).astype(np.float64))
    raw = n / (left * (left - n))
    return np.asarray(raw / raw.sum())


def bounded_probs(sizes: Floats, n: int, floor: float, most: float) -> Floats:
    """Return probabilities that grow with a size, between a lower and an upper bound."""
    parts = sampling.shares_of(sizes, floor, "prob")
    if (parts <= 0).any():
        raise ArgumentError(
            "must be above 0 for each text that was not drawn yet",
            argument="prob",
            code="probability_0",
        )
    probs = sampling.bounded_shares(parts, n, most)
    return np.asarray(np.minimum(probs * (n / probs.sum()), 1.0))


def combine(waves: Sequence[Wave]) -> Combined:
    """Return the texts of all waves with their weights."""
    of = shares([wave.n for wave in waves], waves[0].n_left)
    later = np.concatenate([np.cumsum(of[::-1])[::-1][1:], [0.0]])
    draws, outside = [], []
    first = 0  # number of the wave's first stratum
    none = np.ones(len(waves[0].probs))
    for t, wave in enumerate(waves):
        probs, strata = wave.probs[wave.rows], wave.strata[wave.rows] + first
        scale = of[t] / probs
        draws.append([wave.rows, strata, scale + later[t], scale, 1 - probs])
        highest = wave.strata.max(initial=-1)
        if wave.outside is not None:
            gone = wave.outside
            outside.append(replace(gone, strata=gone.strata + first))
            highest = max(highest, gone.strata.max())
        first += int(highest) + 1
        none *= 1 - wave.probs
    columns = [np.concatenate(column) for column in zip(*draws, strict=True)]
    order = np.argsort(columns[0], kind="stable")
    rows, strata, weights, scale, left = (column[order] for column in columns)
    all_probs = 1 - none
    all_probs[rows] = 1 / np.maximum(weights, 1.0)
    return Combined(
        rows=rows,
        weights=weights,
        scale=scale,
        left=left,
        strata=strata,
        all_probs=all_probs,
        outside=join_outside(outside),
    )


def with_codes(waves: Sequence[Wave], is_coded: Flags) -> tuple[Wave, ...]:
    """Return the waves up to the last wave that has a code; all waves if none has."""
    known = [t for t, wave in enumerate(waves) if is_coded[wave.rows].any()]
    return tuple(waves[: known[-1] + 1]) if known else tuple(waves)


def draw_record(design: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a design that are recorded for each draw."""
    return {name: design[name] for name in WAVE_FIELDS if name in design}
