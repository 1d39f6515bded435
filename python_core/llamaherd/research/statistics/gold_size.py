"""Number of texts to code for an interval of a given width, or for a comparison."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Literal, TypeAlias, overload

from llamaherd.core import checks
from llamaherd.core.decimals import decimals
from llamaherd.core.errors import ArgumentError
from llamaherd.core.plurals import count_of, percent
from llamaherd.core.words import setting
from llamaherd.research.statistics.intervals import LEVEL
from llamaherd.research.statistics.paired_size import (
    NumberSize,
    PairedSize,
    number_size,
    paired_size,
)
from llamaherd.research.statistics.planned_width import half_width
from llamaherd.research.statistics.sampling import TARGETS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from llamaherd.research.statistics.sampling import Target

SizeMeasure: TypeAlias = Literal["accuracy", "mae"]
SIZE_MEASURES: tuple[SizeMeasure, ...] = ("accuracy", "mae")
_LEAST, _MOST = 10, 10**9  # codes
_LARGE = 20_000  # codes, from which on the textbook's number is exact
_MANY = 100  # cases, such as wrong labels, expected among the codes: it is exact, too
# Arguments that have an effect only with `width`, or only with `compare`, and their
# defaults. An argument that has no effect in a call must have its default value.
_DEFAULTS: dict[str, object] = {
    "share": 0.5,
    "population": None,
    "target": "population",
    "differ": 0.2,
    "power": 0.8,
    "candidates": 2,
    "correlation": 0.5,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldSize:
    """Number of texts to code for a confidence interval of a given width.

    Attributes:
        gold: Size of a simple random sample if only human codes are used, with which the
            interval of `estimate` is expected to have the width.
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
        sure = percent(self.level)
        lines = [
            f"A share of {self.share:g} +- {self.width:g}, {sure} confidence:",
            f"  {count_of(self.gold, 'text')} by people's codes alone",
        ]
        if self.kappa is not None:
            known = f"if model and people agree with kappa {decimals(self.kappa)}"
            sizes = {"DSL": self.dsl, "PPI++": self.ppi}
            lines += [
                f"  {count_of(n, 'text')} by {name}, {known}"
                for name, n in sizes.items()
                if n is not None
            ]
        return "\n".join(lines)


@overload
def gold_size(
    width: float,
    *,
    share: float = 0.5,
    level: float = LEVEL,
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
    level: float = LEVEL,
    measure: Literal["accuracy"] = "accuracy",
) -> PairedSize: ...


@overload
def gold_size(
    *,
    compare: float,
    measure: Literal["mae"],
    error: float | None = None,
    correlation: float = 0.5,
    spread: float | None = None,
    power: float = 0.8,
    candidates: int = 2,
    level: float = LEVEL,
) -> NumberSize: ...


def gold_size(
    width: float | None = None,
    *,
    share: float = 0.5,
    level: float = LEVEL,
    accuracy: float | None = None,
    kappa: float | None = None,
    population: int | None = None,
    target: Target = "population",
    compare: float | None = None,
    differ: float = 0.2,
    power: float = 0.8,
    candidates: int = 2,
    measure: SizeMeasure = "accuracy",
    error: float | None = None,
    correlation: float = 0.5,
    spread: float | None = None,
) -> GoldSize | PairedSize | NumberSize:
    """Return the size of a simple random sample for an interval or a comparison.

    With `compare` the sample detects a difference of this size between two codebooks, see
    `paired_size`: n = (z_a sqrt(differ) + z_b sqrt(differ - compare^2))^2 / compare^2.
    For codebooks whose codes are numbers, `measure` is "mae", see `number_size`:
    n = (z_a + z_b)^2 spread^2 / compare^2 + z_a^2 / 2. Without `compare`, the sample
    gives an interval of a given width.

    The sizes are those at which the interval of `estimate` is expected to have the width:
    a t interval that allows for skewness and, if few errors are expected, for one unseen
    error. For many errors they approach

        n = 1 / ((width^2 / z^2 - share (1 - share) / N) / V + 1 / N)

    where N is the number of texts, target="texts" omits the subtracted term, and V is the
    variance per text that is due to the draw:

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
        compare: Instead of `width`: the difference of the accuracies, or errors, of two
            codebooks to detect.
        differ: With `compare`: share of texts for which exactly one of both codebooks is
            right.
        power: With `compare`: probability to detect the difference.
        candidates: With `compare`: number of codebooks; with more than two, all pairs are
            compared simultaneously.
        measure: With `compare`: "accuracy"; "mae" for mean absolute errors of numbers.
        error: For numbers: expected root mean squared error of the codebooks.
        correlation: For numbers: expected correlation of both codebooks' errors.
        spread: For numbers, instead of `error` and `correlation`: standard deviation of
            the differences of both codebooks' absolute errors over texts.

    Raises:
        ValueError: An argument is out of range; accuracy and kappa are both given; width
            and compare are both given or both missing; or the interval would be wider
            than `width` even if all texts were coded.
    """
    checks.choice("measure", measure, SIZE_MEASURES)
    given = {"accuracy": accuracy, "kappa": kappa, "error": error, "spread": spread}
    _check_use(width, compare, measure, {n for n, v in given.items() if v is not None})
    of_interval = {"share": share, "population": population, "target": target}
    of_pairs = {"power": power, "candidates": candidates}
    _check_defaults(of_interval, with_compare=False, compare=compare)
    _check_defaults({"differ": differ, **of_pairs}, with_compare=True, compare=compare)
    if measure != "accuracy" and differ != _DEFAULTS["differ"]:
        raise ArgumentError(
            "is for accuracies: errors of numbers have error or spread",
            argument="differ",
            code="conflict",
        )
    if correlation != _DEFAULTS["correlation"] and error is None:
        raise ArgumentError(
            "has no effect without error, the expected root mean squared error",
            argument="correlation",
            code="conflict",
        )
    if compare is not None:
        both = {"power": power, "level": level}
        if measure == "accuracy":
            return paired_size(compare, differ=differ, candidates=candidates, **both)
        return number_size(
            compare,
            error=error,
            correlation=correlation,
            spread=spread,
            candidates=candidates,
            **both,
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
                f"{count_of(population or 0, 'text')} are too few for a width of "
                f"{width:g}: the width is {best:.3g} even if all texts are coded. "
                f"{setting('target', 'texts')} gives an interval for these texts only",
                argument="population",
                code="out_of_range",
                form="{name}: {problem}",
            )

    def size(method: Literal["dsl", "ppi", "gold"], factor: float) -> int:
        needed = 1 / (left / max(variance * factor, 1e-300) + others)
        most = _MOST if population is None else population
        textbook = min(max(math.ceil(needed - 1e-9), _LEAST), most)
        if textbook > _LARGE or textbook * variance * factor > _MANY:
            return textbook
        kappa_used = 1.0 if agreement is None else agreement
        return _least_n(
            textbook,
            most,
            lambda n: (
                half_width(n, method, share, kappa_used, population, target, level)
                <= width
            ),
        )

    return GoldSize(
        gold=size("gold", 1.0),
        dsl=None if agreement is None else size("dsl", 2 * (1 - agreement)),
        ppi=None if agreement is None else size("ppi", 1 - agreement**2),
        width=width,
        level=level,
        share=share,
        kappa=agreement,
        population=population,
        target=target,
    )


def _least_n(first: int, most: int, is_enough: Callable[[int], bool]) -> int:
    """Return about the least number that is enough, to half a percent; at most `most`."""
    low, high = min(_LEAST, most) - 1, first
    while high < most and not is_enough(high):
        low, high = high, min(math.ceil(1.25 * high), most)
    while high - low > 1 + high // 200:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high


def _check_use(
    width: float | None, compare: float | None, measure: SizeMeasure, given: set[str]
) -> None:
    """Check that the given arguments are all for a width, or all for a comparison."""
    if (width is None) == (compare is None):
        raise ArgumentError(
            "or compare must be given: half the width of an interval, or the difference "
            "of two codebooks. Give one of the two",
            argument="width",
            code="missing",
        )
    if compare is None and measure != "accuracy":
        raise ArgumentError(
            f"{measure!r} needs compare, the difference of errors to detect",
            argument="measure",
            code="conflict",
        )
    of_numbers = ("error", "spread")
    unused = () if compare is None else ("accuracy", "kappa")
    for name in (*unused, *(of_numbers if measure == "accuracy" else ())):
        if name in given:
            problem = (
                "is for the errors of numbers: set measure to mae"
                if name in of_numbers
                else "cannot be combined with compare: set differ, the share of texts "
                "that exactly one codebook labels right"
            )
            raise ArgumentError(problem, argument=name, code="conflict")


def _check_defaults(
    given: Mapping[str, object], *, with_compare: bool, compare: float | None
) -> None:
    """Check that arguments that would have no effect have their defaults."""
    if (compare is not None) is with_compare:
        return
    other = "width" if compare is None else "compare"
    own = "compare" if with_compare else "width"
    for name, value in given.items():
        if value != _DEFAULTS[name]:
            raise ArgumentError(
                f"has no effect with {other}: it is for {own}",
                argument=name,
                code="conflict",
            )


def _kappa(share: float, accuracy: float | None, kappa: float | None) -> float | None:
    """Return the expected kappa of a model that gives the label as often as people do."""
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
