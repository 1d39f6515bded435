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

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, overload

import numpy as np

from llamaherd.core import checks
from llamaherd.core.errors import ArgumentError
from llamaherd.core.words import setting
from llamaherd.research.statistics.paired_size import PairedSize, paired_size

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

Floats: TypeAlias = "np.ndarray[Any, np.dtype[np.float64]]"
Ints: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"
Allocation = Literal["proportional", "equal"]
ALLOCATIONS: tuple[Allocation, ...] = ("proportional", "equal")
Target = Literal["population", "texts"]
TARGETS: tuple[Target, ...] = ("population", "texts")
_LEAST_OF_STRATUM = 2  # to estimate a variance, two codes are needed
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
    """Draw n of n_texts with equal probabilities.

    Raises:
        ValueError: n is out of range.
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
    """Draw n texts, a fixed number from each stratum.

    Args:
        strata: The stratum of each of N texts.
        n: Number of texts to draw.
        rng: Random number generator.
        allocation: "proportional" to stratum sizes, "equal", or the number of texts for
            each stratum. "proportional" and "equal" draw at least 2 texts from each
            stratum that has 2.

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
    """Draw texts with given inclusion probabilities, systematically from a random order.

    The texts form a line in random order; each text is a segment whose length is its
    probability. Texts that contain one of the points u, u + 1, u + 2 .. are drawn, where
    u is uniform in [0, 1).

    Args:
        probs: float64[N] in [0, 1]; their sum, an integer, is the sample size.
        rng: Random number generator.

    Raises:
        ValueError: A probability is out of range, or the sum is not an integer.
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

    A share `floor` of the sample is allocated evenly, the rest in proportion to the
    sizes. Probabilities above 1 become 1; the probabilities of the other texts are then
    scaled up:

        pi_i = min(1, c * (floor / N + (1 - floor) * size_i / sum of sizes)),

    where c is such that the pi_i sum to n.

    Args:
        sizes: float64[N], non-negative; if all are 0 they are treated as equal.
        n: Number of texts to draw.
        floor: Share in [0, 1]; pi_i is at least floor * n / N.

    Returns:
        Inclusion probabilities, float64[N], which sum to n.

    Raises:
        ValueError: A size is negative or not finite, or n is out of range.
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
            f"must be between {least.sum()} (2 for each of {len(names)} strata where "
            f"they have them) and {totals.sum()}, not {n}",
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
            f"must have a number for each stratum, {sorted(map(str, names))}, "
            f"not {sorted(map(str, given))}",
            argument="allocation",
        )
    for name, total in zip(names, totals, strict=True):
        checks.integer(f"allocation[{name!r}]", given[name], 1, int(total))
    sizes = np.array([int(given[name]) for name in names], dtype=np.int64)
    if sizes.sum() != n:
        raise ArgumentError(
            f"must sum to n = {n}, not to {sizes.sum()}", argument="allocation"
        )
    return sizes


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldSize:
    """Number of texts to code for a confidence interval of a given width.

    Attributes:
        gold: Size of a simple random sample if only human codes are used.
        dsl: Sample size if the codes correct the model's labels (DSL); None if the
            model's accuracy is unknown.
        ppi: Sample size with power tuning (PPI++), never larger than `gold`.
        width: Half the width of the interval.
        level: Confidence level.
        share: Share to estimate.
        kappa: Assumed chance-corrected agreement of model and people.
        population: Number of texts; None for infinitely many.
        target: "population" or "texts", see `gold_size`.
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


@overload
def gold_size(
    width: float,
    *,
    share: float = 0.5,
    level: float = 0.95,
    accuracy: float | None = None,
    kappa: float | None = None,
    population: int | None = None,
    target: Target = "population",
) -> GoldSize: ...


@overload
def gold_size(
    *,
    compare: float,
    differ: float = 0.2,
    power: float = 0.8,
    candidates: int = 2,
    level: float = 0.95,
) -> PairedSize: ...


def gold_size(
    width: float | None = None,
    *,
    share: float = 0.5,
    level: float = 0.95,
    accuracy: float | None = None,
    kappa: float | None = None,
    population: int | None = None,
    target: Target = "population",
    compare: float | None = None,
    differ: float = 0.2,
    power: float = 0.8,
    candidates: int = 2,
) -> GoldSize | PairedSize:
    """Return the size of a simple random sample for an interval or a comparison.

    With `compare` it is the number of texts needed to detect a difference between two
    codebooks, see `paired_size`: n = (z_a sqrt(differ) + z_b sqrt(differ - compare^2))^2
    / compare^2. Without `compare`, the sample gives an interval of a given width.

    n of N texts are drawn. V is the variance per text that is due to the draw. The
    interval of the share among these N texts is estimate +- z sqrt((1 / n - 1 / N) V). If
    the N texts are themselves a sample, share (1 - share) / N is added under the root.
    Therefore

        n = 1 / ((width^2 / z^2 - share (1 - share) / N) / V + 1 / N)

    where target="texts" omits the subtracted term. V depends on the method:

    * human codes alone: share (1 - share);
    * DSL: the variance of code - label, which is 2 (1 - kappa) share (1 - share) if the
      model gives the label as often as people do;
    * PPI++: share (1 - share) (1 - r^2), where r is the correlation of code and label,
      which is then equal to kappa.

    Args:
        width: Half the width of the interval, in (0, 0.5).
        share: Expected share, in (0, 1); 0.5 is the worst case. To measure an accuracy,
            use the expected accuracy.
        level: Confidence level.
        accuracy: Expected share of texts on which model and people agree whether the
            label applies, for example from a pilot study.
        kappa: Cohen's kappa, instead of `accuracy`.
        population: Number of texts; None for infinitely many.
        target: "population": the share in the population from which these texts are a
            sample; "texts": the share among these texts.
        compare: Difference of two codebooks' accuracies to detect, instead of `width`.
        differ: With `compare`: share of texts for which exactly one of both codebooks is
            right.
        power: With `compare`: probability to detect the difference.
        candidates: With `compare`: number of codebooks; with more than two, all pairs are
            compared simultaneously.

    Raises:
        ValueError: An argument is out of range; accuracy and kappa are both given; width
            and compare are both given or both missing; or the interval would be wider
            than `width` even if all texts were coded.
    """
    if (width is None) == (compare is None):
        raise ArgumentError(
            "or compare must be given: half the width of an interval, or the difference "
            "of two codebooks. Give one of the two",
            argument="width",
            code="missing",
        )
    if compare is not None:
        for name, value in (("accuracy", accuracy), ("kappa", kappa)):
            if value is not None:
                raise ArgumentError(
                    "does not go with compare: differ is the share of texts that matters",
                    argument=name,
                    code="conflict",
                )
        return paired_size(
            compare, differ=differ, power=power, level=level, candidates=candidates
        )
    width = checks.real("width", width, 1e-6, 0.5)
    checks.real("share", share, 1e-6, 1 - 1e-6)
    checks.real("level", level, 1e-6, 1 - 1e-6)
    if population is not None:
        checks.integer("population", population, 1)
    checks.choice("target", target, TARGETS)
    agreement = _kappa(share, accuracy, kappa)
    variance = share * (1 - share)
    z = NormalDist().inv_cdf(0.5 + level / 2)
    others = 0.0 if population is None else 1 / population
    left = (width / z) ** 2  # largest allowed variance
    if target == "population":
        left -= variance * others
        if left <= 0:
            best = z * math.sqrt(variance * others)
            raise ArgumentError(
                f"{population} texts are too few for a width of {width:g}: "
                f"it would be {best:.3g} even if all were coded. "
                f"{setting('target', 'texts')} is about these texts only",
                argument="population",
                code="out_of_range",
                form="{name}: {problem}",
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
    """Return the model's expected kappa, if it gives the label as often as people do."""
    if accuracy is not None and kappa is not None:
        raise ArgumentError(
            "give accuracy or kappa, not both",
            argument="accuracy",
            code="conflict",
            form="{problem}",
        )
    if kappa is not None:
        return checks.real("kappa", kappa, 0, 1)
    if accuracy is None:
        return None
    by_chance = share**2 + (1 - share) ** 2
    checks.real("accuracy", accuracy, 0, 1)
    if accuracy < by_chance:
        raise ArgumentError(
            f"must be at least {by_chance:.3g}, the accuracy by chance at a share of "
            f"{share:g}, not {accuracy:g}",
            argument="accuracy",
            code="out_of_range",
        )
    return (accuracy - by_chance) / (1 - by_chance)
