"""Samples of texts for human coding, drawn with known probabilities.

An estimate from a part of the texts is valid if the *inclusion probability* pi_i of each
text, its probability of being drawn, is known and above 0. All draws here are without
replacement and of a fixed size, and pi_i is exact:

* simple: pi_i = n / N;
* stratified: simple within strata, pi_i = n_h / N_h;
* unequal: any pi_i that sum to n, by systematic sampling from a random order. Other
  designs with given inclusion probabilities need rejections or joint probabilities; this
  design needs neither, and draws from a million texts in a second.

Sources: Madow, "On the theory of systematic sampling, II", 1949; Hartley, Rao, "Sampling
with unequal probabilities and without replacement", 1962 (systematic draws along a random
order); Särndal, Swensson, Wretman, "Model Assisted Survey Sampling", 1992, chapter 3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from llamaherd.engine.core import checks
from llamaherd.engine.core.argument import Argument
from llamaherd.engine.core.errors import ArgumentError
from llamaherd.engine.core.phrases import with_commas

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

Floats: TypeAlias = "np.ndarray[Any, np.dtype[np.float64]]"
Ints: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"
Allocation = Literal["proportional", "equal"]
ALLOCATIONS: tuple[Allocation, ...] = ("proportional", "equal")
Target = Literal["population", "texts"]
TARGETS: tuple[Target, ...] = ("population", "texts")
_LEAST_OF_STRATUM = 2  # two codes are needed to estimate a variance
_CERTAIN = 1 - 1e-9  # higher probabilities are treated as 1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Draw:
    """Sample and its inclusion probabilities.

    Attributes:
        rows: int64[n], indices of the drawn texts, ascending.
        all_probs: float64[N], inclusion probabilities of all texts.
        strata: int64[N], stratum of every text; from each stratum a fixed number of texts
            was drawn.
    """

    rows: Ints
    all_probs: Floats
    strata: Ints

    @property
    def probs(self) -> Floats:
        """Inclusion probabilities of the drawn texts, float64[n]."""
        return self.all_probs[self.rows]


def draw_simple(n_texts: int, n: int, rng: np.random.Generator) -> Draw:
    """Draw n of n_texts with equal probabilities."""
    checks.integer("n", n, 1, max(n_texts, 1))
    return Draw(
        rows=np.sort(rng.choice(n_texts, size=n, replace=False)).astype(np.int64),
        all_probs=np.full(n_texts, n / n_texts),
        strata=np.zeros(n_texts, dtype=np.int64),
    )


def draw_stratified(
    strata: Sequence[Hashable],
    n: int,
    rng: np.random.Generator,
    allocation: Allocation | Mapping[Any, int] = "proportional",
) -> Draw:
    """Draw n texts, a fixed number from each stratum.

    Args:
        strata: The stratum of each of N texts.
        n: Number of texts to draw.
        rng: Random number generator.
        allocation: "proportional" to stratum sizes, "equal", or the number of texts for
            each stratum. "proportional" and "equal" draw at least 2 texts from each
            stratum that has 2 or more texts.
    """
    names = list(dict.fromkeys(strata))
    codes = {name: h for h, name in enumerate(names)}
    at = np.array([codes[name] for name in strata], dtype=np.int64)
    totals = np.bincount(at, minlength=len(names))
    sizes = _allocated(names, totals, n, allocation)
    rows = [
        rng.choice(np.flatnonzero(at == h), size=size, replace=False)
        for h, size in enumerate(sizes)
    ]
    return Draw(
        rows=np.sort(np.concatenate(rows)).astype(np.int64),
        all_probs=(sizes / totals)[at],
        strata=at,
    )


def draw_unequal(probs: Floats, rng: np.random.Generator) -> Draw:
    """Draw texts with given inclusion probabilities, systematically from a random order.

    The texts form a line in random order; each text is a segment whose length is its
    probability. A text is drawn if its segment contains one of the points u, u + 1,
    u + 2 .., where u is uniform in [0, 1).

    Args:
        probs: float64[N] in [0, 1]; their sum, an integer, is the sample size.
        rng: Random number generator.
    """
    if probs.ndim != 1 or not (np.isfinite(probs) & (probs >= 0) & (probs <= 1)).all():
        raise ArgumentError(
            "must be a probability between 0 and 1 for each text",
            argument="prob",
            code="out_of_range",
        )
    n = round(float(probs.sum()))
    if n < 1 or abs(float(probs.sum()) - n) > 1e-6 * n:
        raise ArgumentError(
            "must sum to the number of texts to draw, a whole number, not to "
            f"{float(probs.sum()):g}",
            argument="prob",
        )
    exact = np.where(probs >= _CERTAIN, 1.0, probs)
    certain = np.flatnonzero(exact == 1.0)
    order = rng.permutation(np.flatnonzero((exact < 1.0) & (exact > 0)))
    n_left = n - len(certain)
    drawn = order[:0]
    if n_left > 0:
        ends = np.cumsum(exact[order])
        ends *= n_left / ends[-1]
        points = rng.random() + np.arange(n_left)
        drawn = order[np.searchsorted(ends, points, side="right")]
    return Draw(
        rows=np.sort(np.concatenate([certain, drawn])).astype(np.int64),
        all_probs=exact,
        strata=np.zeros(len(probs), dtype=np.int64),
    )


def inclusion_probs(sizes: Floats, n: int, floor: float) -> Floats:
    """Return inclusion probabilities that grow with a size and have a lower bound.

    A share `floor` of the sample has equal probabilities, the rest probabilities in
    proportion to the sizes. Probabilities above 1 become 1; the probabilities of the
    other texts are then scaled up:

        pi_i = min(1, c * (floor / N + (1 - floor) * size_i / sum of sizes)),

    where c is such that the pi_i sum to n.

    Args:
        sizes: float64[N], non-negative; if all are 0 they are treated as equal.
        n: Number of texts to draw.
        floor: Share in [0, 1]; pi_i is at least floor * n / N.

    Returns:
        Inclusion probabilities, float64[N], which sum to n.
    """
    checks.integer("n", n, 1, max(len(sizes), 1))
    checks.real("floor", floor, 0, 1)
    if not (np.isfinite(sizes) & (sizes >= 0)).all():
        raise ArgumentError(
            "must be finite and at least 0", argument="sizes", code="out_of_range"
        )
    even = np.full(len(sizes), 1 / len(sizes))
    total = sizes.sum()
    shares = floor * even + (1 - floor) * (sizes / total if total > 0 else even)
    if np.count_nonzero(shares) < n:
        raise ArgumentError(
            f"must be at most {np.count_nonzero(shares)}, the number of texts whose "
            f"size "
            f"is above 0, not {n}; with a floor above 0 all texts can be drawn",
            argument="n",
            code="out_of_range",
        )
    probs = n * shares
    while (probs > 1).any():
        full = probs >= 1
        rest = shares[~full].sum()
        probs[full] = 1.0
        probs[~full] = (n - full.sum()) * shares[~full] / rest
    return np.asarray(probs)


def _allocated(
    names: Sequence[Any],
    totals: Ints,
    n: int,
    allocation: Allocation | Mapping[Any, int],
) -> Ints:
    """Return the number of texts per stratum, int64[n_strata]."""
    least = np.minimum(totals, _LEAST_OF_STRATUM)
    if not isinstance(allocation, str):
        return _given_sizes(names, totals, n, allocation)
    checks.choice("allocation", allocation, ALLOCATIONS)
    if not least.sum() <= n <= totals.sum():
        raise ArgumentError(
            f"must be between {least.sum()} (at least 2 texts, or all, of each of "
            f"{len(names)} strata) and {totals.sum()}, not {n}",
            argument="n",
            code="out_of_range",
        )
    weights = (
        totals.astype(float) if allocation == "proportional" else np.ones(len(names))
    )
    low, high = 0.0, n / weights.min() + float(totals.max())
    for _ in range(200):  # find the scale at which the bounded sizes sum to n
        scale = (low + high) / 2
        if np.clip(scale * weights, least, totals).sum() < n:
            low = scale
        else:
            high = scale
    ideal = np.clip(high * weights, least, totals)
    sizes = np.floor(ideal + 1e-9).astype(np.int64)
    remainders = np.where(sizes < totals, ideal - sizes, -1.0)
    sizes[np.argsort(-remainders, kind="stable")[: n - sizes.sum()]] += 1
    return np.asarray(sizes)


def _given_sizes(
    names: Sequence[Any], totals: Ints, n: int, given: Mapping[Any, int]
) -> Ints:
    if set(given) != set(names):
        raise ArgumentError(
            "must have a number for each stratum "
            f"({with_commas(sorted(map(str, names)))}), "
            f"but has numbers for {with_commas(sorted(map(str, given)))}",
            argument="allocation",
        )
    for name, total in zip(names, totals, strict=True):
        checks.integer(Argument("allocation", (str(name),)), given[name], 1, int(total))
    sizes = np.array([int(given[name]) for name in names], dtype=np.int64)
    if sizes.sum() != n:
        raise ArgumentError(
            f"must sum to n = {n}, not to {sizes.sum()}", argument="allocation"
        )
    return sizes
