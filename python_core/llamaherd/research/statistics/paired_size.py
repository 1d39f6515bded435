"""Number of texts to code to detect a difference between two classifiers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

from llamaherd.core import checks
from llamaherd.core.decimals import percents
from llamaherd.core.errors import ArgumentError
from llamaherd.core.plurals import count_of, percent
from llamaherd.research.statistics.intervals import LEVEL

LEAST_TEXTS = 10


def among(candidates: int) -> str:
    """Return words that name the number of compared codebooks; "" for two codebooks."""
    return "" if candidates == 2 else f", two of {candidates} codebooks"


def quantiles_of_pairs(
    power: float, level: float, candidates: int
) -> tuple[float, float]:
    """Return the normal quantiles of confidence and power for all pairs of codebooks.

    All pairs together have the confidence level, by Bonferroni.

    Raises:
        ValueError: An argument is out of range.
    """
    checks.real("power", power, 1e-6, 1 - 1e-6)
    checks.real("level", level, 1e-6, 1 - 1e-6)
    checks.integer("candidates", candidates, 2, 1000)
    pairs = candidates * (candidates - 1) / 2
    confidence = 1 - (1 - level) / (2 * pairs)
    return NormalDist().inv_cdf(confidence), NormalDist().inv_cdf(power)


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedSize:
    """Number of texts to code to detect a difference between two codebooks.

    Attributes:
        gold: Number of texts on which both codebooks are compared.
        compare: Difference of their accuracies to detect.
        differ: Share of texts for which exactly one of both codebooks is right.
        power: Probability that the interval of the difference excludes 0.
        level: Confidence level.
        candidates: Number of codebooks that are compared.
    """

    gold: int
    compare: float
    differ: float
    power: float
    level: float
    candidates: int

    def __str__(self) -> str:
        return (
            f"A difference of {self.compare:g} in accuracy{among(self.candidates)}, "
            f"{percent(self.level)} confidence, power {self.power:g}:\n"
            f"  {count_of(self.gold, 'text')} to compare on, if exactly one codebook is "
            f"right in {percents(self.differ, 0)} of the texts"
        )


def paired_size(
    compare: float,
    *,
    differ: float = 0.2,
    power: float = 0.8,
    level: float = LEVEL,
    candidates: int = 2,
) -> PairedSize:
    """Return the size of a simple random sample that detects a difference in accuracy.

    Let d be the difference of the accuracies of two classifiers, and s the share of texts
    for which exactly one of the two is right. Then

        n = (z_a sqrt(s) + z_b sqrt(s - d^2))^2 / d^2,

    where z_a and z_b are the normal quantiles of confidence and power. With more than two
    candidates, all pairs together have the confidence level, by Bonferroni.

    Args:
        compare: Difference d to detect, in (0, 1).
        differ: Share s, at least d. Codebooks that differ in a few words disagree on few
            texts; codebooks with different models disagree on many.
        power: Probability to detect the difference.
        level: Confidence level.
        candidates: Number of codebooks that are compared.

    Raises:
        ValueError: An argument is out of range.

    Source: Connett, Smith, McHugh, "Sample size and power for pair-matched case-control
    studies", Stat. Med. 6, 1987.
    """
    checks.real("compare", compare, 1e-6, 1)
    checks.real("differ", differ, 0, 1)
    z_a, z_b = quantiles_of_pairs(power, level, candidates)
    if differ < compare:
        raise ArgumentError(
            f"must be at least the difference {compare:g}, not {differ:g}: accuracies "
            "differ by no more than the share of texts that exactly one labels right",
            argument="differ",
            code="out_of_range",
        )
    root = z_a * math.sqrt(differ) + z_b * math.sqrt(differ - compare**2)
    needed = math.ceil(root**2 / compare**2 - 1e-9)
    return PairedSize(
        gold=max(needed, LEAST_TEXTS),
        compare=compare,
        differ=differ,
        power=power,
        level=level,
        candidates=candidates,
    )
