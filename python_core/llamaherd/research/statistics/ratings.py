"""Codes that several people, or models, gave to the same units, as numbers."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, Literal

import numpy as np

from llamaherd.core import checks
from llamaherd.research.codes import Code, read

Floats = np.ndarray[Any, np.dtype[np.float64]]
Integers = np.ndarray[Any, np.dtype[np.int64]]
Flags = np.ndarray[Any, np.dtype[np.bool_]]
Codes = Sequence[Sequence[Code]]

Scale = Literal["nominal", "ordinal", "interval", "ratio"]
SCALES: tuple[Scale, ...] = ("nominal", "ordinal", "interval", "ratio")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ratings:
    """What m coders said of n units.

    Attributes:
        indices: int64[m, n], an index into `values`; -1: no code.
        values: The q values that there are, in their order.
    """

    indices: Integers
    values: tuple[Hashable, ...]

    @property
    def counts(self) -> Floats:
        """float64[n, q]: how many coders gave a unit each value."""
        m, n = self.indices.shape
        q = len(self.values)
        flat = np.arange(n) * (q + 1) + self.indices + 1
        counted = np.bincount(flat.ravel(), minlength=n * (q + 1))
        return counted.reshape(n, q + 1)[:, 1:].astype(float) if m else np.zeros((n, q))

    @property
    def numbers(self) -> Floats:
        """float64[q]: the values as numbers.

        Raises:
            ValueError: One is none.
        """
        try:
            return np.array([float(value) for value in self.values])  # type: ignore[arg-type]
        except (TypeError, ValueError):
            raise ValueError(
                f"codes must be numbers for this scale, not {list(self.values)[:6]}"
            ) from None


def ratings_of(
    codes: Codes,
    levels: Sequence[Hashable] | None = None,
    scale: Scale = "nominal",
    least: int = 2,
) -> Ratings:
    """Codes as indices of values.

    Args:
        codes: For each of m coders the codes of n units, or an array [m, n]; None and NaN
            are missing.
        levels: All values that there may be, in their order; None: those that occur,
            numbers by size and others by their text.
        scale: What the order and the distances of values mean.
        least: How many coders there have to be.

    Raises:
        TypeError: `codes` has no codes.
        ValueError: Coders have different numbers of units, a code is not among `levels`,
            their Series have different indexes, or the order that the scale needs is not
            known.
    """
    checks.choice("scale", scale, SCALES)
    must = "codes must be a list for each coder"
    coders = listed(must, codes)
    check_indexes(coders)
    rows = [listed(must, row) for row in coders]
    if len(rows) < least:
        raise ValueError(f"codes must be of at least {least} coders, not {len(rows)}")
    if len({len(row) for row in rows}) > 1:
        raise ValueError(
            "codes must have as many units for each coder, not "
            f"{[len(row) for row in rows]}"
        )
    known = [] if levels is None else listed("levels must be a list", levels)
    reading = read(rows, known)
    rows = reading.columns
    found = {code for row in rows for code in row if code is not None}
    values = _ordered(found, scale) if levels is None else _given(found, reading.names)
    at = {value: i for i, value in enumerate(values)}
    indices = np.array(
        [[at.get(code, -1) for code in row] for row in rows], dtype=np.int64
    )
    return Ratings(indices=indices.reshape(len(rows), -1), values=values)


def unit_weights_of(weights: Sequence[float] | Floats | None, n: int) -> Floats:
    """float64[n], of mean 1 where any is positive; None: ones.

    Raises:
        ValueError: There is another number of them, or one is negative or not finite.
    """
    if weights is None:
        return np.ones(n)
    values = np.asarray(weights, dtype=float)
    if values.shape != (n,):
        raise ValueError(f"unit_weights must be {n} numbers, not {values.shape}")
    if not np.isfinite(values).all() or (values < 0).any():
        raise ValueError("unit_weights must be finite and not negative")
    total = values.sum()
    return values * (n / total) if total > 0 else values


def check_indexes(coders: Sequence[Any]) -> None:
    """Refuses Series of pandas whose indexes differ: their units are not the same."""
    indexes = [each.index for each in coders if hasattr(each, "index")]
    known = [index for index in indexes if hasattr(index, "equals")]
    if any(len(i) == len(known[0]) and not i.equals(known[0]) for i in known[1:]):
        raise ValueError(
            "codes have different indexes, and the order of units counts: give "
            ".reindex() of one by the other, or .to_numpy() if they are in one order"
        )


def listed(must: str, values: Any) -> list[Any]:  # noqa: ANN401 - of any kind
    """Values of any library as a list.

    Raises:
        TypeError: They are none; `must` says what should have been given.
    """
    if isinstance(values, (str, bytes)):
        raise TypeError(f"{must}, not {checks.shown(values)}")
    for method in ("to_list", "tolist", "to_pylist"):
        if hasattr(values, method):
            return list(getattr(values, method)())
    try:
        return list(values)
    except TypeError:
        raise TypeError(f"{must}, not {checks.shown(values)}") from None


def _ordered(found: set[Hashable], scale: Scale) -> tuple[Hashable, ...]:
    if all(isinstance(value, Real) for value in found):
        return tuple(sorted(found))  # type: ignore[type-var]
    if scale == "nominal":
        return tuple(sorted(found, key=str))
    if scale == "ordinal":
        raise ValueError(
            "levels must tell the order of labels that are no numbers, for "
            f"scale='ordinal': there are {sorted(map(str, found))[:6]}"
        )
    return tuple(sorted(found, key=_number))


def _number(value: Hashable) -> float:
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise ValueError(
            f"codes must be numbers for this scale, not {checks.shown(value)}"
        ) from None


def _given(found: set[Hashable], values: tuple[Hashable, ...]) -> tuple[Hashable, ...]:
    if len(set(values)) < len(values):
        raise ValueError(f"levels must be different values, not {list(values)[:10]}")
    other = found.difference(values)
    if other:
        raise ValueError(
            f"codes must be among the levels {list(values)[:10]}, not "
            f"{sorted(map(str, other))[:6]}"
        )
    return values
