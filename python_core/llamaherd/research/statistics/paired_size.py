"""Number of texts to code to detect a difference between two codebooks."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

from llamaherd.core import checks
from llamaherd.core.decimals import percents
from llamaherd.core.errors import ArgumentError
from llamaherd.core.plurals import count_of, percent
from llamaherd.research.statistics.intervals import LEVEL

_LEAST_TEXTS = 10
_MOST = 1e12
# Variance of the absolute value of a standard normal number.
_FOLDED = 1 - 2 / math.pi


def _among(candidates: int) -> str:
    """Return words that name the number of compared codebooks; "" for two codebooks."""
    return "" if candidates == 2 else f", two of {candidates} codebooks"


def _quantiles_of_pairs(
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
            f"A difference of {self.compare:g} in accuracy{_among(self.candidates)}, "
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
    z_a, z_b = _quantiles_of_pairs(power, level, candidates)
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
        gold=max(needed, _LEAST_TEXTS),
        compare=compare,
        differ=differ,
        power=power,
        level=level,
        candidates=candidates,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberSize:
    """Number of texts to code to detect a difference of two codebooks for numbers.

    Attributes:
        gold: Number of texts on which both codebooks are compared.
        compare: Difference of the mean absolute errors to detect, in units of the codes.
        spread: Standard deviation, over texts, of the difference of both codebooks'
            absolute errors.
        power: Probability that the interval of the difference excludes 0.
        level: Confidence level.
        candidates: Number of codebooks that are compared.
    """

    gold: int
    compare: float
    spread: float
    power: float
    level: float
    candidates: int

    def __str__(self) -> str:
        return (
            f"A difference of {self.compare:g} in the mean absolute error"
            f"{_among(self.candidates)}, {percent(self.level)} confidence, "
            f"power {self.power:g}:\n"
            f"  {count_of(self.gold, 'text')} to compare on, if the difference has a "
            f"standard deviation of {self.spread:.3g} over texts"
        )


def number_size(
    compare: float,
    *,
    error: float | None = None,
    correlation: float = 0.5,
    spread: float | None = None,
    power: float = 0.8,
    level: float = LEVEL,
    candidates: int = 2,
) -> NumberSize:
    """Return the size of a sample that detects a difference of mean absolute errors.

    The codebooks are compared on the same texts of a simple random sample by a t test of
    the differences d_i, whose standard deviation is `spread`:

        n = (z_a + z_b)^2 spread^2 / compare^2 + z_a^2 / 2,

    where z_a and z_b are the normal quantiles of confidence and power, and the last term
    is Guenther's correction for the t distribution. If `spread` is not given, it
    is computed from `error` and `correlation`. For normal errors with mean 0, standard
    deviation s and correlation r,

        spread^2 = 2 s^2 (1 - 2/pi - 2/pi (sqrt(1 - r^2) + r asin(r) - 1)).

    With more than two candidates, all pairs together have the confidence level, by
    Bonferroni.

    Args:
        compare: Difference of the mean absolute errors to detect, in units of the codes.
        error: Expected root mean squared error s of the codebooks.
        correlation: Expected correlation r of both codebooks' errors, in [-1, 1).
            Codebooks that differ in a few words make similar errors.
        spread: Instead of `error` and `correlation`: standard deviation of the paired
            differences, for example from a pilot study.
        power: Probability to detect the difference.
        level: Confidence level.
        candidates: Number of codebooks that are compared.

    Raises:
        ValueError: An argument is out of range; or `error` and `spread` are both given or
            both missing.

    Source: Guenther, "Sample Size Formulas for Normal Theory T Tests", The American
    Statistician 35, 1981; Kamat, "Incomplete and Absolute Moments of the Multivariate
    Normal Distribution", Biometrika 40, 1953 (absolute errors).
    """
    checks.real("compare", compare, 1e-9, _MOST)
    z_a, z_b = _quantiles_of_pairs(power, level, candidates)
    if (error is None) == (spread is None):
        raise ArgumentError(
            "or spread must be given for mae: the expected root mean squared "
            "error of the codebooks, or the standard deviation of the differences of "
            "their errors. Give one of the two",
            argument="error",
            code="missing",
        )
    if spread is None:
        s = checks.real("error", error, 1e-9, _MOST)
        r = checks.real("correlation", correlation, -1, 1 - 1e-6)
        spread = s * math.sqrt(_spread_of(r))
    checks.real("spread", spread, 1e-12, _MOST)
    needed = ((z_a + z_b) * spread / compare) ** 2 + z_a**2 / 2
    return NumberSize(
        gold=max(math.ceil(needed - 1e-9), _LEAST_TEXTS),
        compare=compare,
        spread=spread,
        power=power,
        level=level,
        candidates=candidates,
    )


def _spread_of(r: float) -> float:
    """Return the variance of the differences for errors with standard deviation 1."""
    shared = 2 / math.pi * (math.sqrt(1 - r**2) + r * math.asin(r) - 1)
    return 2 * (_FOLDED - shared)
