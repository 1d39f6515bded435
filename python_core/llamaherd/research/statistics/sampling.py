"""Samples of texts that people are to code, drawn with known probabilities.

An estimate from a part of the texts is valid if the probability pi_i with which each text
came into it, its *inclusion probability*, is known and above 0. All draws here are
without replacement and of a fixed size, and pi_i is exact:

* simple: pi_i = n / N;
* stratified: simple within strata, pi_i = n_h / N_h;
* unequal: any pi_i that sum to n, by systematic sampling along a random order. Of the
  designs that keep given first-order probabilities it is the one without rejections or
  joint probabilities to compute, so that it draws from a million texts in a second.

Sources: Madow, "On the theory of systematic sampling, II", 1949; Hartley, Rao, "Sampling
with unequal probabilities and without replacement", 1962 (systematic draws along a random
order); Särndal, Swensson, Wretman, "Model Assisted Survey Sampling", 1992, chapter 3.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from llamaherd.core import checks

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

Floats: TypeAlias = "np.ndarray[Any, np.dtype[np.float64]]"
Ints: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"
Allocation = Literal["proportional", "equal"]
ALLOCATIONS: tuple[Allocation, ...] = ("proportional", "equal")
Target = Literal["population", "texts"]
TARGETS: tuple[Target, ...] = ("population", "texts")
_LEAST_OF_STRATUM = 2  # a variance needs two
_CERTAIN = 1 - 1e-9  # from here on a probability is 1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Draw:
    """A sample and the probabilities that it was drawn with.

    Attributes:
        rows: int64[n], indices of the texts drawn, ascending.
        all_probs: float64[N], the inclusion probability of every text.
        strata: int64[N], the stratum of every text; of each a fixed number is drawn.
    """

    rows: Ints
    all_probs: Floats
    strata: Ints

    @property
    def probs(self) -> Floats:
        """float64[n]: the inclusion probabilities of the texts drawn."""
        return self.all_probs[self.rows]


def draw_simple(n_texts: int, n: int, rng: np.random.Generator) -> Draw:
    """Draws n of n_texts, all equally probable.

    Raises:
        ValueError: There are not that many.
    """
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
    """Draws n texts, a fixed number from each stratum.

    Args:
        strata: The stratum of each of N texts.
        n: Texts to draw.
        rng: What draws.
        allocation: "proportional" to the strata's sizes, "equal", or the number for each
            stratum. Each stratum gets 2 at least where it has them.

    Raises:
        ValueError: n is too small or too large, or the numbers do not fit.
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
    """Draws texts with given inclusion probabilities: systematic, in a random order.

    The texts are laid end to end in a random order, each as long as its probability;
    drawn are those under the points u, u + 1, u + 2 .. with u uniform in [0, 1).

    Args:
        probs: float64[N] in [0, 1]; their sum is the size of the sample, a whole number.
        rng: What draws.

    Raises:
        ValueError: They are no such probabilities.
    """
    if probs.ndim != 1 or not (np.isfinite(probs) & (probs >= 0) & (probs <= 1)).all():
        raise ValueError("prob must be a probability between 0 and 1 for each text")
    n = round(float(probs.sum()))
    if n < 1 or abs(float(probs.sum()) - n) > 1e-6 * n:
        raise ValueError(
            "prob must sum to the number of texts to draw, a whole number, not to "
            f"{float(probs.sum()):g}"
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
    """Inclusion probabilities that grow with a size, and are nowhere too small.

    A share `floor` of the sample is given out evenly, the rest in proportion to the
    sizes; what would be above 1 becomes 1, and the others get what that leaves:

        pi_i = min(1, c * (floor / N + (1 - floor) * size_i / sum of sizes)), sum of pi =
        n

    Args:
        sizes: float64[N], at least 0; all 0 counts as all equal.
        n: Texts to draw.
        floor: In [0, 1]; then pi_i is at least floor * n / N.

    Returns:
        float64[N] that sum to n.

    Raises:
        ValueError: A size is negative or not finite, or n is out of range.
    """
    checks.integer("n", n, 1, max(len(sizes), 1))
    checks.real("floor", floor, 0, 1)
    if not (np.isfinite(sizes) & (sizes >= 0)).all():
        raise ValueError("sizes must be finite and at least 0")
    even = np.full(len(sizes), 1 / len(sizes))
    total = sizes.sum()
    shares = floor * even + (1 - floor) * (sizes / total if total > 0 else even)
    if np.count_nonzero(shares) < n:
        raise ValueError(
            f"n must be at most {np.count_nonzero(shares)}, the number of texts whose "
            f"size "
            f"is above 0, not {n}; a floor above 0 lets all be drawn"
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
    """How many texts each stratum gives, int64[n_strata]."""
    least = np.minimum(totals, _LEAST_OF_STRATUM)
    if not isinstance(allocation, str):
        return _given_sizes(names, totals, n, allocation)
    checks.choice("allocation", allocation, ALLOCATIONS)
    if not least.sum() <= n <= totals.sum():
        raise ValueError(
            f"n must be between {least.sum()} (2 for each of {len(names)} strata where "
            f"they have them) and {totals.sum()}, not {n}"
        )
    weights = (
        totals.astype(float) if allocation == "proportional" else np.ones(len(names))
    )
    low, high = 0.0, n / weights.min() + float(totals.max())
    for _ in range(200):  # the scale at which the sizes, kept in bounds, sum to n
        scale = (low + high) / 2
        if np.clip(scale * weights, least, totals).sum() < n:
            low = scale
        else:
            high = scale
    wanted = np.clip(high * weights, least, totals)
    sizes = np.floor(wanted + 1e-9).astype(np.int64)
    remainders = np.where(sizes < totals, wanted - sizes, -1.0)
    sizes[np.argsort(-remainders, kind="stable")[: n - sizes.sum()]] += 1
    return np.asarray(sizes)


def _given_sizes(
    names: Sequence[Any], totals: Ints, n: int, given: Mapping[Any, int]
) -> Ints:
    if set(given) != set(names):
        raise ValueError(
            f"allocation must have a number for each stratum, {sorted(map(str, names))}, "
            f"not {sorted(map(str, given))}"
        )
    for name, total in zip(names, totals, strict=True):
        checks.integer(f"allocation[{name!r}]", given[name], 1, int(total))
    sizes = np.array([int(given[name]) for name in names], dtype=np.int64)
    if sizes.sum() != n:
        raise ValueError(f"allocation must sum to n = {n}, not to {sizes.sum()}")
    return sizes


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldSize:
    """How many texts people have to code for a confidence interval of a wanted width.

    Attributes:
        gold: With their codes alone, a simple sample.
        dsl: With the model's labels corrected by them; None if nothing is known of how
            often it is right.
        ppi: The same with power tuning, which is never more than `gold`.
        width: Half of the interval's width.
        level: Its confidence level.
        share: The share that is estimated.
        kappa: Chance-corrected agreement of model and people that was supposed.
        population: Texts that there are; None: endlessly many.
        target: "population" or "texts": what the share is of.
    """

    gold: int
    dsl: int | None
    ppi: int | None
    width: float
    level: float
    share: float
    kappa: float | None
    population: int | None
    target: Target = "population"

    def __str__(self) -> str:
        lines = [
            f"A share of {self.share:g} +- {self.width:g}, {self.level:.0%} confidence:",
            f"  {self.gold} texts by people's codes alone",
        ]
        if self.kappa is not None:
            known = f"if model and people agree with kappa {self.kappa:.2f}"
            lines.append(f"  {self.dsl} texts by DSL, {known}")
            lines.append(f"  {self.ppi} texts by PPI++, {known}")
        return "\n".join(lines)


def gold_size(
    width: float,
    *,
    share: float = 0.5,
    level: float = 0.95,
    accuracy: float | None = None,
    kappa: float | None = None,
    population: int | None = None,
    target: Target = "population",
) -> GoldSize:
    """The size of a simple sample that gives an interval of a wanted width.

    Of N texts n are drawn. With V the variance that the draw has to average out, the
    interval of the share among these texts is estimate +- z sqrt((1 / n - 1 / N) V); if
    they are a sample themselves, share (1 - share) / N is added under the root. So

        n = 1 / ((width^2 / z^2 - share (1 - share) / N) / V + 1 / N)

    without the subtraction for target="texts". V is share (1 - share) for people's codes
    alone; for DSL the variance of code - label, and for PPI++ share (1 - share) (1 - r^2)
    with r the correlation of code and label. For a label that the model gives as often as
    people do r is kappa, and the variance of code - label is
    2 (1 - kappa) share (1 - share).

    Args:
        width: Half of the interval's width, in (0, 0.5).
        share: The share expected, in (0, 1): 0.5 is the worst case. An accuracy that is
            to be measured is a share, too.
        level: Confidence level.
        accuracy: Share of texts where model and people are expected to agree on whether
            the label applies, from a pilot.
        kappa: Cohen's kappa instead.
        population: Number of texts; None: endlessly many.
        target: As in `estimate`. "population": the share in what these texts are a sample
            of; "texts": among these texts.

    Raises:
        ValueError: An argument is out of range, both accuracy and kappa are given, or the
            interval would be wider even if all texts were coded.
    """
    checks.real("width", width, 1e-6, 0.5)
    checks.real("share", share, 1e-6, 1 - 1e-6)
    checks.real("level", level, 1e-6, 1 - 1e-6)
    if population is not None:
        checks.integer("population", population, 1)
    checks.choice("target", target, TARGETS)
    agreement = _kappa(share, accuracy, kappa)
    variance = share * (1 - share)
    z = NormalDist().inv_cdf(0.5 + level / 2)
    others = 0.0 if population is None else 1 / population
    left = (width / z) ** 2  # what the variance may be
    if target == "population":
        left -= variance * others
        if left <= 0:
            best = z * math.sqrt(variance * others)
            raise ValueError(
                f"population: {population} texts are too few for a width of {width:g}: "
                f"it would be {best:.3g} even if all were coded. target='texts' is about "
                "these texts only"
            )

    def size(factor: float) -> int:
        needed = 1 / (left / max(variance * factor, 1e-300) + others)
        least = 10 if population is None else min(10, population)
        return max(math.ceil(needed - 1e-9), least)

    return GoldSize(
        gold=size(1.0),
        dsl=None if agreement is None else size(2 * (1 - agreement)),
        ppi=None if agreement is None else size(1 - agreement**2),
        width=width,
        level=level,
        share=share,
        kappa=agreement,
        population=population,
        target=target,
    )


def _kappa(share: float, accuracy: float | None, kappa: float | None) -> float | None:
    """What was expected of the model as a kappa; labels are as frequent as codes."""
    if accuracy is not None and kappa is not None:
        raise ValueError("give accuracy or kappa, not both")
    if kappa is not None:
        return checks.real("kappa", kappa, 0, 1)
    if accuracy is None:
        return None
    by_chance = share**2 + (1 - share) ** 2
    checks.real("accuracy", accuracy, 0, 1)
    if accuracy < by_chance:
        raise ValueError(
            f"accuracy must be at least {by_chance:.3g}, what chance gives at a share of "
            f"{share:g}, not {accuracy:g}"
        )
    return (accuracy - by_chance) / (1 - by_chance)
