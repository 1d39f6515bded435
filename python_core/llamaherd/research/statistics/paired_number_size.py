"""Number of texts to code to detect a difference between the errors of two codebooks."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from llamaherd.core import checks
from llamaherd.core.errors import ArgumentError
from llamaherd.core.plurals import count_of, percent
from llamaherd.research.statistics.intervals import LEVEL
from llamaherd.research.statistics.paired_size import (
    LEAST_TEXTS,
    among,
    quantiles_of_pairs,
)

ErrorMeasure = Literal["mae", "rmse"]
ERROR_MEASURES: tuple[ErrorMeasure, ...] = ("mae", "rmse")
_MOST = 1e12
_TITLES = {"mae": "mean absolute error", "rmse": "root mean squared error"}
# Variance of the absolute value of a standard normal number.
_FOLDED = 1 - 2 / math.pi


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberSize:
    """Number of texts to code to detect a difference of two codebooks for numbers.

    Attributes:
        gold: Number of texts on which both codebooks are compared.
        compare: Difference of the errors to detect, in units of the codes.
        measure: "mae" or "rmse".
        spread: Standard deviation, over texts, of the difference of both codebooks'
            absolute errors (for "rmse": of the texts' influences on the difference).
        power: Probability that the interval of the difference excludes 0.
        level: Confidence level.
        candidates: Number of codebooks that are compared.
    """

    gold: int
    compare: float
    measure: ErrorMeasure
    spread: float
    power: float
    level: float
    candidates: int

    def __str__(self) -> str:
        return (
            f"A difference of {self.compare:g} in the {_TITLES[self.measure]}"
            f"{among(self.candidates)}, {percent(self.level)} confidence, "
            f"power {self.power:g}:\n"
            f"  {count_of(self.gold, 'text')} to compare on, if the difference has a "
            f"standard deviation of {self.spread:.3g} over texts"
        )


def number_size(
    compare: float,
    measure: ErrorMeasure = "mae",
    *,
    error: float | None = None,
    correlation: float = 0.5,
    spread: float | None = None,
    power: float = 0.8,
    level: float = LEVEL,
    candidates: int = 2,
) -> NumberSize:
    """Return the size of a simple random sample that detects a difference of errors.

    Both codebooks are compared on the same texts by a t test of the differences d_i,
    whose standard deviation is `spread`:

        n = (z_a + z_b)^2 spread^2 / compare^2 + z_a^2 / 2,

    where z_a and z_b are the normal quantiles of confidence and power, and the last term
    is Guenther's correction for the t distribution. If `spread` is not given, it
    is computed from `error` and `correlation`. For normal errors with mean 0, standard
    deviation s and correlation r,

        mae:  spread^2 = 2 s^2 (1 - 2/pi - 2/pi (sqrt(1 - r^2) + r asin(r) - 1)),
        rmse: spread^2 = s^2 (1 - r^2).

    With more than two candidates, all pairs together have the confidence level, by
    Bonferroni.

    Args:
        compare: Difference of the errors to detect, in units of the codes.
        measure: "mae" for mean absolute errors, "rmse" for root mean squared errors.
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
    checks.choice("measure", measure, ERROR_MEASURES)
    z_a, z_b = quantiles_of_pairs(power, level, candidates)
    if (error is None) == (spread is None):
        raise ArgumentError(
            f"or spread must be given for {measure}: the expected root mean squared "
            "error of the codebooks, or the standard deviation of the differences of "
            "their errors. Give one of the two",
            argument="error",
            code="missing",
        )
    if spread is None:
        s = checks.real("error", error, 1e-9, _MOST)
        r = checks.real("correlation", correlation, -1, 1 - 1e-6)
        spread = s * math.sqrt(_spread_of(measure, r))
    checks.real("spread", spread, 1e-12, _MOST)
    needed = ((z_a + z_b) * spread / compare) ** 2 + z_a**2 / 2
    return NumberSize(
        gold=max(math.ceil(needed - 1e-9), LEAST_TEXTS),
        compare=compare,
        measure=measure,
        spread=spread,
        power=power,
        level=level,
        candidates=candidates,
    )


def _spread_of(measure: ErrorMeasure, r: float) -> float:
    """Return the variance of the differences for errors with standard deviation 1."""
    if measure == "rmse":
        return 1 - r**2
    shared = 2 / math.pi * (math.sqrt(1 - r**2) + r * math.asin(r) - 1)
    return 2 * (_FOLDED - shared)
