"""Codes that several coders gave to the same units, and coefficients of agreement."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from llamaherd.coding.codes import Code, numbers_of, read
from llamaherd.engine.core import checks
from llamaherd.engine.core.caller import warn_caller
from llamaherd.engine.core.errors import ArgumentError, ArgumentTypeError
from llamaherd.engine.core.phrases import shape_of, with_commas
from llamaherd.engine.core.words import setting, words

if TYPE_CHECKING:
    from llamaherd.engine.core.argument import Name
    from llamaherd.engine.core.arrays import Floats, Ints

Codes = Sequence[Sequence[Code]]

Scale = Literal["nominal", "ordinal", "interval", "ratio"]
_MANY_CODERS = 4  # more coders than this, and than units, are rather units
SCALES: tuple[Scale, ...] = ("nominal", "ordinal", "interval", "ratio")
INTERVAL = "influences of units, t"  # method of most intervals


class CodesByCoder(tuple[Sequence[Code], ...]):
    """Codes of one type, as `codes_of_coders` returns them: they are not read again.

    Rows are coders for certain, however few units they coded.
    """

    __slots__ = ()


class ModelAndPerson(CodesByCoder):
    """Codes of a model and of a person: the model's labels of all texts are known."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """A coefficient of agreement and its confidence interval.

    Attributes:
        name: Name of the coefficient, as in `agreement.COEFFICIENTS`.
        value: Coefficient: 1 for perfect agreement, 0 for the agreement expected by
            chance; for "percent" a share in [0, 1]. NaN if it is undefined: no unit has
            two codes, or all codes are equal.
        low: Lower confidence limit; NaN if there is no interval, for one unit.
        high: Upper confidence limit.
        se: Standard error; NaN if the interval does not use one.
        observed: Observed agreement; for alpha the observed disagreement, in distances of
            the scale.
        expected: Agreement expected by chance; for alpha the expected disagreement.
        n_units: Number of units with two codes or more.
        n_coders: Number of coders.
        interval: Method of the interval.
    """

    name: str
    value: float
    low: float = math.nan
    high: float = math.nan
    se: float = math.nan
    observed: float = math.nan
    expected: float = math.nan
    n_units: int
    n_coders: int
    interval: str = INTERVAL

    def __float__(self) -> float:
        return self.value


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ratings:
    """Codes of m coders for n units."""

    indices: Ints  # int64[m, n], indices into `values`; -1 for a missing code
    values: tuple[Hashable, ...]  # The q different values in their order

    @property
    def counts(self) -> Floats:
        """Number of coders who gave each unit each value, float64[n, q]."""
        m, n = self.indices.shape
        q = len(self.values)
        flat = np.arange(n) * (q + 1) + self.indices + 1
        counted = np.bincount(flat.ravel(), minlength=n * (q + 1))
        return counted.reshape(n, q + 1)[:, 1:].astype(float) if m else np.zeros((n, q))

    @property
    def numbers(self) -> Floats:
        """Values as numbers, float64[q]."""
        try:
            return np.array([float(value) for value in self.values])  # type: ignore[arg-type]
        except (TypeError, ValueError):
            raise ArgumentError(
                f"must be numbers for this scale, not {with_commas(self.values, 6)}",
                argument="codes",
            ) from None


def codes_of_coders(
    codes: Codes, levels: Sequence[Hashable] | None = None, least: int = 2
) -> tuple[CodesByCoder, tuple[Hashable, ...] | None]:
    """Convert codes and their levels to one type; codes of one type are only checked."""
    must = "must be a list for each coder"
    if isinstance(codes, Mapping) or hasattr(codes, "columns"):
        raise ArgumentTypeError(
            f"{must}, not a {type(codes).__name__}: take the columns of the coders, such "
            "as [data['anna'], data['ben']]",
            argument="codes",
        )
    coders = as_list("codes", must, codes)
    check_indexes(coders)
    rows = [as_list("codes", must, row) for row in coders]
    if len(rows) < least:
        raise ArgumentError(
            f"must be of at least {least} coders, not {len(rows)}",
            argument="codes",
            code="out_of_range",
        )
    if len({len(row) for row in rows}) > 1:
        raise ArgumentError(
            "must have the same number of units for each coder, not "
            f"{[len(row) for row in rows]}",
            argument="codes",
        )
    known = None if levels is None else as_list("levels", "must be a list", levels)
    if isinstance(codes, CodesByCoder):
        return codes, None if known is None else tuple(known)
    if len(rows) > max(_MANY_CODERS, len(rows[0])):
        warn_caller(
            f"The codes have {len(rows)} coders of {len(rows[0])} units: a row is a "
            "coder, and a column a unit. Transpose a table with a row per unit (codes.T)"
        )
    reading = read(rows, known or ())
    return CodesByCoder(reading.columns), None if known is None else reading.names


def ratings_of(
    codes: Codes,
    levels: Sequence[Hashable] | None = None,
    scale: Scale = "nominal",
    least: int = 2,
) -> Ratings:
    """Convert codes to indices of values, in the order of `levels`, or sorted."""
    checks.choice("scale", scale, SCALES)
    rows, levels = codes_of_coders(codes, levels, least)
    occurring = {code for row in rows for code in row if code is not None}
    values = (
        _order_categories(occurring, scale)
        if levels is None
        else _checked_levels(occurring, levels)
    )
    if scale == "ratio" and any(_is_number(v) and _number(v) < 0 for v in values):
        raise ArgumentError(
            f"must be at least 0 for {setting('scale', 'ratio')}, which has a true zero; "
            f"use {setting('scale', 'interval')} for numbers below 0",
            argument="codes",
            code="out_of_range",
        )
    at = {value: i for i, value in enumerate(values)}
    indices = np.array(
        [[at.get(code, -1) for code in row] for row in rows], dtype=np.int64
    )
    return Ratings(indices=indices.reshape(len(rows), -1), values=values)


def unit_weights_of(weights: Sequence[float] | Floats | None, n: int) -> Floats:
    """Return weights, float64[n], scaled to mean 1 if any is positive; ones for None."""
    if weights is None:
        return np.ones(n)
    values = numbers_of(weights, "unit_weights")
    if values.shape != (n,):
        raise ArgumentError(
            f"must be {n} numbers, not {shape_of(values.shape)}", argument="unit_weights"
        )
    bad = np.flatnonzero(~(np.isfinite(values) & (values >= 0)))
    if len(bad):
        weight = words().number(f"{values[bad[0]]:g}")
        raise ArgumentError(
            f"must be finite and not negative, not {weight}",
            argument="unit_weights",
            place=(int(bad[0]),),
            code="out_of_range",
        )
    total = values.sum()
    return values * (n / total) if total > 0 else values


def check_indexes(coders: Sequence[Any]) -> None:
    """Raise an error if pandas Series have different indexes.

    The codes of one position could then belong to different units.
    """
    indexes = [coder.index for coder in coders if hasattr(coder, "index")]
    known = [index for index in indexes if hasattr(index, "equals")]
    if any(len(i) == len(known[0]) and not i.equals(known[0]) for i in known[1:]):
        raise ArgumentError(
            "have different indexes, so units may not match: give .reindex() of one by "
            "the other, or .to_numpy() if all have the same order",
            argument="codes",
        )


def as_list(name: Name, must: str, values: Any) -> list[Any]:
    """Convert a collection of any library to a list."""
    column: Any = checks.column_as_list(values)
    if isinstance(column, (str, bytes)) or not isinstance(column, Iterable):
        raise ArgumentTypeError(f"{must}, not {checks.brief(values)}", argument=name)
    return list(column)


def _order_categories(occurring: set[Hashable], scale: Scale) -> tuple[Hashable, ...]:
    if all(isinstance(value, Real) for value in occurring):
        return tuple(sorted(occurring))  # type: ignore[type-var]
    if scale == "nominal":
        return tuple(sorted(occurring, key=str))
    if scale == "ordinal" and not all(map(_is_number, occurring)):
        raise ArgumentError(
            "must give the order of labels that are not numbers, for "
            f"{setting('scale', 'ordinal')}: there are "
            f"{with_commas(sorted(map(str, occurring)), 6)}",
            argument="levels",
        )
    return tuple(sorted(occurring, key=_number))


def _is_number(value: Hashable) -> bool:
    """Return True for a finite number, or a text of a finite number."""
    try:
        return math.isfinite(float(value))  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return False


def _number(value: Hashable) -> float:
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise ArgumentError(
            f"must be numbers for this scale, not {checks.brief(value)}",
            argument="codes",
        ) from None


def _checked_levels(
    occurring: set[Hashable], values: tuple[Hashable, ...]
) -> tuple[Hashable, ...]:
    checks.distinct("levels", values)
    other = occurring.difference(values)
    if other:
        raise ArgumentError(
            f"must be among the levels {with_commas(values)}, not "
            f"{with_commas(sorted(map(str, other)), 6)}",
            argument="codes",
        )
    return values
