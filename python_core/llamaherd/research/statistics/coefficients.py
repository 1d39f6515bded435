"""Coefficients of agreement of labels: one entry each, from which all tables follow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from llamaherd.research.statistics.agreement import (
    cohen_kappa,
    gwet_ac1,
    percent_agreement,
)
from llamaherd.research.statistics.krippendorff import krippendorff_alpha

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from llamaherd.research.statistics.agreement import Agreement
    from llamaherd.research.statistics.ratings import Codes, Floats, Scale

    Compute = Callable[[Codes, "CoefficientSettings"], Agreement]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CoefficientSettings:
    """Settings that all coefficients use.

    Attributes:
        names: All labels in their order; None for the labels that occur.
        scale: Scale of measurement.
        w: float64[n], weights of the units.
        level: Confidence level.
    """

    names: Sequence[Hashable] | None
    scale: Scale
    w: Floats
    level: float

    @property
    def common(self) -> dict[str, Any]:
        """Arguments of all coefficients."""
        return {"unit_weights": self.w, "level": self.level}

    def of(self, codes: Codes, *, of_pairs: bool = False) -> tuple[Agreement, ...]:
        """Return all coefficients; with `of_pairs` those of pairs of coders."""
        return tuple(
            each.compute(codes, self)
            for each in COEFFICIENTS.values()
            if each.fits(codes, self.scale) and (each.is_of_pairs or not of_pairs)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Coefficient:
    """Function and words of a coefficient.

    Attributes:
        compute: Function that returns the coefficient with its interval.
        title: Title in tables and plots.
        sentence: Name in a methods paragraph; empty if no paragraph reports it.
        reference: Key of the reference of the methods paragraph.
        is_of_pairs: True if it is also computed for each pair of several coders.
        is_of_two: True if it is defined for two coders only.
        is_ordered: True if it needs an order of labels.
    """

    compute: Compute
    title: str
    sentence: str = ""
    reference: str = ""
    is_of_pairs: bool = False
    is_of_two: bool = False
    is_ordered: bool = False

    def fits(self, codes: Codes, scale: Scale) -> bool:
        """Return True if the coefficient is defined for these codes and this scale."""
        return (not self.is_of_two or len(codes) == 2) and (
            not self.is_ordered or scale != "nominal"
        )


# In the order of tables. The key is `Agreement.name`.
COEFFICIENTS = {
    "percent": Coefficient(
        compute=lambda codes, how: percent_agreement(codes, **how.common),
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
        sentence="Gwet's AC1",
        reference="gwet2008",
    ),
}
