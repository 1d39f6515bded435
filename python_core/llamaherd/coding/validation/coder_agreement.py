"""Coefficients of agreement of any number of coders, side by side."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from llamaherd.coding.codes import check_comparable, check_names, names_of, read
from llamaherd.coding.sentences import number
from llamaherd.coding.statistics.agreement import CoefficientSettings, cohen_kappa
from llamaherd.coding.statistics.intervals import warn_of_bootstrap
from llamaherd.engine.core import checks
from llamaherd.engine.core.errors import ArgumentError
from llamaherd.engine.core.phrases import count_of, limits

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from llamaherd.coding.statistics.ratings import Agreement, Codes, Scale


@dataclass(frozen=True, slots=True, kw_only=True)
class CoderAgreement:
    """Coefficients of agreement.

    Attributes:
        coefficients: The coefficients.
        level: Confidence level of their intervals.
        scale: Scale of measurement.
        is_weighted: True if units have different weights.
    """

    coefficients: tuple[Agreement, ...]
    level: float
    scale: str
    is_weighted: bool

    def __str__(self) -> str:
        n = max((coefficient.n_units for coefficient in self.coefficients), default=0)
        most = max((coefficient.n_coders for coefficient in self.coefficients), default=0)
        coders = count_of(most, "coder")
        head = f"{count_of(n, 'unit')} with two codes or more, {coders}, {self.scale}"
        wide = max(
            (len(coefficient.name) for coefficient in self.coefficients), default=0
        )
        values = [number(coefficient.value, 3, "NA") for coefficient in self.coefficients]
        room = max(map(len, values), default=0)
        lines = [f"<Agreement: {head}{', weighted' if self.is_weighted else ''}>"]
        for coefficient, value in zip(self.coefficients, values, strict=True):
            ends = (
                ""
                if math.isnan(coefficient.low)
                else limits(coefficient.low, coefficient.high, 3)
            )
            lines.append(f"{coefficient.name:{wide}} {value:>{room}} {ends}".rstrip())
        return "\n".join(lines)


def coder_agreement(
    codes: Codes,
    *,
    scale: Scale | None,
    levels: Sequence[Hashable] | None,
    known: Sequence[Sequence[Hashable]],
    weights: Any,  # noqa: ANN401 - numbers, or None
    kappa_weights: Any,  # noqa: ANN401 - see `cohen_kappa`
    level: float,
    n_bootstrap: int | None,
    seed: int | None,
    coders: Sequence[str] = (),
) -> CoderAgreement:
    """Compute the coefficients of codes; kappa only for two coders.

    Args:
        codes: For each coder, a list of codes; None for missing codes.
        scale: Scale; None for "nominal".
        levels: All codes in their order; None for those that occur.
        known: Levels of categorical codes, which may include further levels.
        weights: Weights of units; None for equal weights.
        kappa_weights: Weights of a further weighted kappa; None for none.
        level: Confidence level.
        n_bootstrap: Removed, without effect.
        seed: Removed, without effect.
        coders: Names of the coders, "" for a coder without a name; () without names.
    """
    scale = scale or "nominal"
    coders = coders or [""] * len(codes)
    check_names(coders, "codes")
    names = names_of(known)
    if len(set(map(len, codes))) == 1:
        reading = read(codes, names if levels is None else levels)
        check_comparable(
            reading.columns,
            coders,
            reading.names,
            are_measures=scale in ("interval", "ratio"),
        )
    if levels is None and names:
        codes, levels = _among(codes, names, scale)
    how = CoefficientSettings(names=levels, scale=scale, w=weights, level=level)
    warn_of_bootstrap(n_bootstrap, seed)
    rows = {coefficient.name: coefficient for coefficient in how.of(codes)}
    kappas: dict[str, Agreement] = {}
    if len(codes) == 2:
        kappas["kappa"] = rows.pop("kappa")
        further = {"weighted kappa": kappa_weights}
        if scale != "nominal":
            further = {"linear kappa": "linear", **further}
        kappas |= {
            name: cohen_kappa(codes, weights=w, levels=levels, **how.common)
            for name, w in further.items()
            if w is not None
        }
        if "weighted kappa" in rows:
            weighted = kappas.pop("weighted kappa", None)
            kappas["quadratic kappa"] = rows.pop("weighted kappa")
            kappas |= {} if weighted is None else {"weighted kappa": weighted}
    rows = {"percent": rows.pop("percent"), **kappas, **rows}
    return CoderAgreement(
        coefficients=tuple(
            replace(coefficient, name=name) for name, coefficient in rows.items()
        ),
        level=level,
        scale=scale,
        is_weighted=weights is not None and len(set(weights)) > 1,
    )


def _among(codes: Codes, known: Sequence[Any], scale: Scale) -> tuple[Codes, list[Any]]:
    """Read codes of known levels; return them, and all levels in their order."""
    reading = read(codes, known)
    seen = {code for column in reading.columns for code in column}
    other = seen.difference(reading.names, [None])
    if other and scale != "nominal":
        raise ArgumentError(
            f"has the code {checks.shown(min(other, key=str))}, which is not among "
            f"the ordered labels {', '.join(map(str, reading.names))}",
            argument="codes",
            code="unknown_choice",
        )
    return reading.columns, [*reading.names, *sorted(other, key=str)]
