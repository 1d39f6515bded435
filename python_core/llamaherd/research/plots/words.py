"""Words and numbers that several plots show."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from llamaherd.core.decimals import decimals

if TYPE_CHECKING:
    from collections.abc import Sequence

Fields = dict[str, Any]


def cut(text: str, width: int) -> str:
    """Shorten a text to `width` characters, with "..." for the omitted part."""
    return text if len(text) <= width else text[: width - 3].rstrip() + "..."


def short(names: Sequence[str], width: int = 40) -> list[str]:
    """Shorten names to `width` characters, and number names that become equal."""
    made: list[str] = []
    for name in names:
        own, i = cut(name, width), 1
        while own in made:
            i += 1
            own = f"{cut(name, width - 4)} ({i})"
        made.append(own)
    return made


def interval(level: float | None) -> str:
    """Return the name of the confidence intervals for the label of an axis."""
    return "interval" if level is None else f"{100 * level:g}% interval"


def number(value: Any) -> float:  # noqa: ANN401 - JSON
    """Convert a JSON number to a float, null to NaN."""
    return math.nan if value is None else float(value)


def numbers(values: Any) -> list[float]:  # noqa: ANN401 - JSON or arrays
    """Convert JSON numbers to floats."""
    return [number(value) for value in values]


def described(rows: Sequence[str], values: Sequence[float]) -> str:
    """Describe the first values for screen readers."""
    known = [pair for pair in zip(rows, values, strict=True) if not math.isnan(pair[1])]
    return "; ".join(f"{row}: {decimals(value)}" for row, value in known[:40])
