"""Number of texts to code for an interval of a given width, or for a comparison."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Literal, TypeAlias, overload

from llamaherd.coding.statistics.intervals import LEVEL
from llamaherd.coding.statistics.label_weight import half_width
from llamaherd.coding.statistics.sampling import TARGETS, Target
from llamaherd.engine.core import checks
from llamaherd.engine.core.errors import ArgumentError
from llamaherd.engine.core.phrases import count_of, decimals, percent, percents
from llamaherd.engine.core.words import name_of, setting

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


SizeMeasure: TypeAlias = Literal["accuracy", "mae"]
SIZE_MEASURES: tuple[SizeMeasure, ...] = ("accuracy", "mae")
_LEAST, _MOST = 10, 10**9  # codes
_LARGE = 20_000  # codes, from which on the textbook's number is exact
_MANY = 100  # cases, such as wrong labels, expected among the codes: it is exact, too
_MOST_ERROR = 1e12
# What each argument is for: an interval, or a comparison of accuracies or of errors.
_WIDTH, _ACCURACIES, _ERRORS = "width", "compare", "mae"
_USES = {
    **dict.fromkeys(("share", "accuracy", "kappa", "population", "target"), (_WIDTH,)),
    **dict.fromkeys(("measure", "power", "candidates"), (_ACCURACIES, _ERRORS)),
    **dict.fromkeys(("differ",), (_ACCURACIES,)),
    **dict.fromkeys(("error", "correlation", "spread"), (_ERRORS,)),
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


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedSize:
    """Number of texts to code to detect a difference between two codebooks.

    Attributes:
        gold: Number of texts on which both codebooks are compared.
        compare: Difference to detect, of accuracies or of mean absolute errors.
        differ: Share of texts for which exactly one of both codebooks is right; None for
            numbers.
        spread: Standard deviation, over texts, of the difference of both codebooks'
            absolute errors; None for accuracies.
        power: Probability that the interval of the difference excludes 0.
        level: Confidence level.
        candidates: Number of codebooks that are compared.
    """

    gold: int
    compare: float
    differ: float | None
    spread: float | None
    power: float
    level: float
    candidates: int

    def __str__(self) -> str:
        among = "" if self.candidates == 2 else f", two of {self.candidates} codebooks"
        if self.differ is None:
            measure = "the mean absolute error"
            has = f"has a standard deviation of {self.spread:.3g} over texts"
            condition = f"the difference {has}"
        else:
            measure = "accuracy"
            share = f"in {percents(self.differ, 0)} of the texts"
            condition = f"exactly one codebook is right {share}"
        return (
            f"A difference of {self.compare:g} in {measure}{among}, "
            f"{percent(self.level)} confidence, power {self.power:g}:\n"
            f"  {count_of(self.gold, 'text')} to compare on, if {condition}"
        )


@overload
def gold_size(
    width: float,
    *,
    share: float = ...,
    level: float = ...,
    accuracy: float | None = ...,
    kappa: float | None = ...,
    population: int | None = ...,
    target: Target = ...,
) -> GoldSize: ...


@overload
def gold_size(
    *,
    compare: float,
    measure: SizeMeasure = ...,
    differ: float = ...,
    error: float | None = ...,
    correlation: float = ...,
    spread: float | None = ...,
    power: float = ...,
    candidates: int = ...,
    level: float = ...,
) -> PairedSize: ...


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
) -> GoldSize | PairedSize:
    """Return the size of a simple random sample for an interval or a comparison.

    Without `compare`, the sample gives an interval of a given width. With `compare` it
    detects a difference d of the accuracies of two codebooks, of which exactly one is
    right in a share s of the texts:

        n = (z_a sqrt(s) + z_b sqrt(s - d^2))^2 / d^2,

    where z_a and z_b are the normal quantiles of confidence and power; or, if codes are
    numbers, a difference of mean absolute errors by a paired t test:

        n = (z_a + z_b)^2 spread^2 / d^2 + z_a^2 / 2,

    where the last term is Guenther's correction for the t distribution. If `spread` is
    not given, it is that of normal errors with mean 0, standard deviation e (`error`) and
    correlation r: spread^2 = 2 e^2 (1 - 2/pi - 2/pi (sqrt(1 - r^2) + r asin(r) - 1)).

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
        differ: With `compare`: share s of texts, at least d. Codebooks that differ in a
            few words disagree on few texts; codebooks with different models disagree on
            many.
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

    Source: Connett, Smith, McHugh, "Sample size and power for pair-matched case-control
    studies", Stat. Med. 6, 1987; Guenther, "Sample Size Formulas for Normal Theory T
    Tests", The American Statistician 35, 1981; Kamat, "Incomplete and Absolute Moments of
    the Multivariate Normal Distribution", Biometrika 40, 1953 (absolute errors).
    """
    arguments = dict(locals())
    checks.choice("measure", measure, SIZE_MEASURES)
    _check_use(arguments)
    if compare is not None:
        z_a, z_b = _quantiles_of_pairs(power, level, candidates)
        if measure == "accuracy":
            needed = _of_accuracies(compare, differ, z_a, z_b)
        else:
            spread = _spread_of(error, correlation, spread)
            checks.real("compare", compare, 1e-9, _MOST_ERROR)
            needed = ((z_a + z_b) * spread / compare) ** 2 + z_a**2 / 2
        if needed > _MOST:
            raise _too_small("compare", compare, compare * math.sqrt(needed / _MOST))
        return PairedSize(
            gold=max(math.ceil(needed - 1e-9), _LEAST),
            compare=compare,
            differ=differ if measure == "accuracy" else None,
            spread=spread,
            power=power,
            level=level,
            candidates=candidates,
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
        if population is None and needed > _MOST:
            best = width * math.sqrt(needed / _MOST)
            raise _too_small("width", width, best)
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


def _too_small(argument: str, value: float, best: float) -> ArgumentError:
    """Return the error of a width or difference; `best` needs `_MOST` codes."""
    return ArgumentError(
        f"must be at least {best:.2g}, which needs {_MOST:,} texts, not {value:g}",
        argument=argument,
        code="out_of_range",
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


def _check_use(arguments: Mapping[str, object]) -> None:
    """Check that the arguments of `gold_size` are all for the same number of texts."""
    if (arguments["width"] is None) == (arguments["compare"] is None):
        raise ArgumentError(
            f"or {name_of('compare')} must be given: half the width of an interval, or "
            "the difference of two codebooks. Give one of the two",
            argument="width",
            code="missing",
        )
    use = _ERRORS if arguments["measure"] == "mae" else _ACCURACIES
    use = _WIDTH if arguments["compare"] is None else use
    for name, uses in _USES.items():
        is_given = arguments[name] != (gold_size.__kwdefaults__ or {})[name]
        if is_given and use not in uses:
            raise ArgumentError(
                f"has no effect with {_wording(use)}: it is for {_wording(uses[0])}",
                argument=name,
                code="conflict",
            )


def _wording(use: str) -> str:
    return setting("measure", use) if use == _ERRORS else name_of(use)


def _kappa(share: float, accuracy: float | None, kappa: float | None) -> float | None:
    """Return the expected kappa of a model that gives the label as often as people do."""
    if accuracy is not None and kappa is not None:
        raise ArgumentError(
            f"give {name_of('accuracy')} or {name_of('kappa')}, not both",
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


def _quantiles_of_pairs(
    power: float, level: float, candidates: int
) -> tuple[float, float]:
    """Return normal quantiles of confidence and power for all pairs (Bonferroni)."""
    checks.real("power", power, 1e-6, 1 - 1e-6)
    checks.real("level", level, 1e-6, 1 - 1e-6)
    checks.integer("candidates", candidates, 2, 1000)
    pairs = candidates * (candidates - 1) / 2
    confidence = 1 - (1 - level) / (2 * pairs)
    return NormalDist().inv_cdf(confidence), NormalDist().inv_cdf(power)


def _of_accuracies(compare: float, differ: float, z_a: float, z_b: float) -> float:
    """Return the number of texts for a difference of accuracies."""
    checks.real("compare", compare, 1e-6, 1)
    checks.real("differ", differ, 0, 1)
    if differ < compare:
        raise ArgumentError(
            f"must be at least the difference {compare:g}, not {differ:g}: accuracies "
            "differ by no more than the share of texts that exactly one labels right",
            argument="differ",
            code="out_of_range",
        )
    root = z_a * math.sqrt(differ) + z_b * math.sqrt(differ - compare**2)
    return root**2 / compare**2


def _spread_of(error: float | None, correlation: float, spread: float | None) -> float:
    """Return the standard deviation of the differences of absolute errors."""
    if (error is None) == (spread is None):
        raise ArgumentError(
            f"or {name_of('spread')} must be given for {_wording(_ERRORS)}: the expected "
            "root mean squared error of the codebooks, or the standard deviation of the "
            "differences of their errors. Give one of the two",
            argument="error",
            code="missing",
        )
    if error is None and correlation != (gold_size.__kwdefaults__ or {})["correlation"]:
        raise ArgumentError(
            f"has no effect without {name_of('error')}, the expected root mean squared "
            "error",
            argument="correlation",
            code="conflict",
        )
    if spread is None:
        e = checks.real("error", error, 1e-9, _MOST_ERROR)
        r = checks.real("correlation", correlation, -0.99, 1 - 1e-6)
        shared = math.sqrt(1 - r**2) + r * math.asin(r) - 1
        spread = e * math.sqrt(2 * (1 - 2 / math.pi * (1 + shared)))
    return checks.real("spread", spread, 1e-12, _MOST_ERROR)
