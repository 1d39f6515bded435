"""Agreement of two coders: Cohen's kappa; and the table of all coefficients.

All tables of coefficients follow from
`COEFFICIENTS`, which has one entry for each.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.coding.statistics.intervals import LEAST_SPREAD, LEVEL, level_of
from llamaherd.coding.statistics.many_coders import (
    gwet_ac1,
    krippendorff_alpha,
    percent_agreement,
)
from llamaherd.coding.statistics.ratings import (
    Agreement,
    Codes,
    CodesByCoder,
    ModelAndPerson,
    Scale,
    as_list,
    check_indexes,
    codes_of_coders,
    ratings_of,
    unit_weights_of,
)
from llamaherd.coding.statistics.uncertainty import UnitStatistic, possible_pairs
from llamaherd.engine.core import checks
from llamaherd.engine.core.errors import ArgumentError
from llamaherd.engine.core.phrases import shape_of

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from llamaherd.coding.codes import Code
    from llamaherd.engine.core.arrays import Floats, Ints

    Compute = Callable[[Codes, "CoefficientSettings"], Agreement]


def cohen_kappa(
    first: Sequence[Code] | Sequence[Sequence[Code]],
    second: Sequence[Code] | None = None,
    *,
    weights: str | Sequence[float] | Sequence[Sequence[float]] | Floats = "none",
    levels: Sequence[Hashable] | None = None,
    unit_weights: Sequence[float] | Floats | None = None,
    level: float = LEVEL,
) -> Agreement:
    """Return Cohen's kappa of two coders: 1 - observed / expected disagreement.

    Units that only one coder has coded are left out. Kappa may be weighted.

    Sources: Cohen, Educ. Psychol. Meas. 20, 1960, and Psychol. Bull. 70, 1968; standard
    error: Fleiss, Cohen and Everitt, Psychol. Bull. 72, 1969. For the interval see
    `uncertainty`.

    Args:
        first: First coder's codes of n units; None marks a missing code. Or a list with
            the codes of both coders, as the other coefficients take it.
        second: Second coder's codes; None if `first` has both.
        weights: Disagreement weights. "none": all disagreements have the same weight;
            "linear" or "quadratic": the distance between the ranks of both labels, or its
            square; q numbers: the weights of distances 0, 1, 2 and so on; or a matrix of
            weights, [q, q].
        levels: All q labels in their order; None for the labels that occur: numbers
            sorted by size, other labels sorted alphabetically. Labels that do not occur
            have a rank only if they are listed here.
        unit_weights: float[n], for example 1 / inclusion probability.
        level: Confidence level.

    Raises:
        ValueError: An argument is out of range, or coders have different numbers of
            units.
    """
    level_of(level)
    is_model, is_read = (isinstance(first, t) for t in (ModelAndPerson, CodesByCoder))
    if second is None:
        both_coders = as_list("first", "must be a list of two lists of codes", first)
        if len(both_coders) != 2:
            raise ArgumentError(
                f"must be codes of two coders, not {len(both_coders)}, if second is not "
                "given",
                argument="first",
            )
        first, second = both_coders
    check_indexes([first, second])
    pair = [
        as_list("first", "must be a list of codes", first),
        as_list("second", "must be a list of codes", second),
    ]
    if len(pair[0]) != len(pair[1]):
        raise ArgumentError(
            f"must have {len(pair[0])} units, as first has, not {len(pair[1])}",
            argument="second",
        )
    coders, levels = codes_of_coders(CodesByCoder(pair) if is_read else pair, levels)
    both = [
        (a, b, i)
        for i, (a, b) in enumerate(zip(*coders, strict=True))
        if a is not None and b is not None
    ]
    kept = CodesByCoder([[a for a, _, _ in both], [b for _, b, _ in both]])
    is_ordered = not (isinstance(weights, str) and weights == "none")
    ratings = ratings_of(kept, levels, "ordinal" if is_ordered else "nominal")
    w = unit_weights_of(unit_weights, len(coders[0]))[[i for _, _, i in both]]
    q = len(ratings.values)
    distance = _distances(weights, q)
    return _kappa(
        ratings.indices, distance, w, level, is_weighted=is_ordered, is_model=is_model
    )


def _distances(weights: Any, q: int) -> Floats:  # a name, or numbers
    """Return disagreement weights, float64[q, q], 0 on the diagonal."""
    apart = np.abs(np.subtract.outer(np.arange(q), np.arange(q)))
    if isinstance(weights, str):
        checks.choice("weights", weights, ("none", "linear", "quadratic"))
        power = {"none": 0, "linear": 1, "quadratic": 2}[weights]
        return np.where(apart > 0, apart.astype(float) ** power, 0.0)
    numbers = np.asarray(weights, dtype=float)
    if numbers.shape not in {(q,), (q, q)}:
        raise ArgumentError(
            f"must be {q} numbers by distance, or {q} x {q}, for {q} labels, not "
            f"{shape_of(numbers.shape)}",
            argument="weights",
        )
    distance = numbers[apart] if numbers.ndim == 1 else numbers
    is_good = np.isfinite(distance).all() and (distance >= 0).all()
    if not is_good or np.diag(distance).any():
        raise ArgumentError(
            "must be finite, not negative, and 0 for the same label", argument="weights"
        )
    return distance


def _kappa(
    indices: Ints,
    distance: Floats,
    w: Floats,
    level: float,
    *,
    is_weighted: bool,
    is_model: bool,
) -> Agreement:
    """Compute kappa from both coders' labels, int64[2, n], and the units' weights."""
    name, n = "weighted kappa" if is_weighted else "kappa", int((w > 0).sum())
    agreement = Agreement(name=name, value=math.nan, n_units=n, n_coders=2)
    if not n or not len(distance):
        return agreement
    indices, w = indices[:, w > 0], w[w > 0] / w.sum()
    kappa, po, pe = kappa_statistic(
        indices, distance, w, is_ordered=is_weighted, is_model=is_model
    )
    low, high = kappa.limits(level)
    se = math.sqrt(float(((w * kappa.slopes) ** 2).sum()))
    return replace(
        agreement,
        value=kappa.value,
        low=low,
        high=high,
        se=math.nan if math.isnan(kappa.value) else se,
        observed=po,
        expected=pe,
    )


def kappa_statistic(
    indices: Ints,
    distance: Floats,
    w: Floats,
    *,
    is_ordered: bool = False,
    is_model: bool = False,
) -> tuple[UnitStatistic, float, float]:
    """Return kappa by the weights, whose sum is 1; observed and expected agreement."""
    q, worst = len(distance), distance.max()
    p = np.bincount(indices[0] * q + indices[1], w, q * q).reshape(q, q)
    rows, columns = p.sum(axis=1), p.sum(axis=0)
    agree = 1 - distance / worst if worst > 0 else np.ones_like(distance)
    po, pe = float((agree * p).sum()), float(rows @ agree @ columns)
    value, slopes, moves = math.nan, np.zeros((q, q)), np.zeros((q, q))
    if 1 - pe > LEAST_SPREAD:
        value = (po - pe) / (1 - pe)
        by_row, by_column = agree @ columns, agree.T @ rows
        by_both = by_row[:, None] + by_column[None, :]
        slopes = (agree * (1 - pe) - by_both * (1 - po)) / (1 - pe) ** 2
        slopes -= (p * slopes).sum()
        apart, added = 1 - agree, float(w.mean())
        expected = 1 - pe + added * (2 - by_both) + added**2 * apart
        with_unit = 1 - (1 - po + added * apart) * (1 + added) / expected
        moves = (with_unit - value) / added
    pairs = possible_pairs(rows + columns > 0, is_ordered=is_ordered)
    kappa = UnitStatistic(
        value=value,
        weights=w,
        slopes=slopes[indices[0], indices[1]],
        unseen=np.where(pairs, moves, np.nan),
        groups=indices[0] if is_model else None,
        least=-1.0,
    )
    return kappa, po, pe


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CoefficientSettings:
    """Settings that all coefficients use."""

    # All labels in their order; None for the labels that occur
    names: Sequence[Hashable] | None
    scale: Scale  # Scale of measurement
    w: Floats  # float64[n], weights of the units
    level: float  # Confidence level

    @property
    def common(self) -> dict[str, Any]:
        """Arguments of all coefficients."""
        return {"unit_weights": self.w, "level": self.level}

    def of(self, codes: Codes, *, of_pairs: bool = False) -> tuple[Agreement, ...]:
        """Return all coefficients; with `of_pairs` those of pairs of coders."""
        return tuple(
            coefficient.compute(codes, self)
            for coefficient in COEFFICIENTS.values()
            if coefficient.fits(codes, self.scale)
            and (coefficient.is_of_pairs or not of_pairs)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Coefficient:
    """Function and words of a coefficient."""

    compute: Compute  # Function that returns the coefficient with its interval
    title: str  # Title in tables and plots
    sentence: str = ""  # Name in a methods paragraph; empty if no paragraph reports it
    reference: str = ""  # Key of the reference of the methods paragraph
    # True if it is also computed for each pair of several coders
    is_of_pairs: bool = False
    is_of_two: bool = False  # True if it is defined for two coders only
    is_ordered: bool = False  # True if it needs an order of labels

    def fits(self, codes: Codes, scale: Scale) -> bool:
        """Return True if the coefficient is defined for these codes and this scale."""
        return (not self.is_of_two or len(codes) == 2) and (
            not self.is_ordered or scale != "nominal"
        )


# In the order of tables. The key is `Agreement.name`.
COEFFICIENTS = {
    "percent": Coefficient(
        compute=lambda codes, how: percent_agreement(
            codes, levels=how.names, **how.common
        ),
        title="percent agreement",
        is_of_pairs=True,
    ),
    "kappa": Coefficient(
        compute=lambda codes, how: cohen_kappa(codes, levels=how.names, **how.common),
        title="Cohen's kappa",
        sentence="Cohen's kappa",
        reference="cohen1960",
        is_of_pairs=True,
        is_of_two=True,
    ),
    "weighted kappa": Coefficient(
        compute=lambda codes, how: cohen_kappa(
            codes, weights="quadratic", levels=how.names, **how.common
        ),
        title="quadratic kappa",
        sentence="Cohen's kappa with quadratic weights",
        reference="cohen1968",
        is_of_pairs=True,
        is_of_two=True,
        is_ordered=True,
    ),
    "alpha": Coefficient(
        compute=lambda codes, how: krippendorff_alpha(
            codes, scale=how.scale, levels=how.names, **how.common
        ),
        title="Krippendorff's alpha",
        sentence="Krippendorff's alpha",
        reference="hayes2007",
    ),
    "ac1": Coefficient(
        compute=lambda codes, how: gwet_ac1(codes, levels=how.names, **how.common),
        title="Gwet's AC1",
    ),
}
