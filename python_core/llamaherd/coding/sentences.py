"""Sentences of notes in Jinja templates, and numbers in sentences and in tables."""

from __future__ import annotations

import math
import re
from collections import Counter
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import jinja2

from llamaherd.engine.core.phrases import (
    count_of,
    decimals,
    limits,
    part_of,
    percent,
    percents,
    verb,
)
from llamaherd.engine.core.words import call, name_of, setting

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


def enumeration(names: Sequence[str]) -> str:
    """Join names with commas, and the last two with "and"."""
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def number(value: float | None, digits: int = 2, missing: str = "-") -> str:
    """Format a share or a coefficient; `missing` for None and NaN."""
    return missing if value is None or math.isnan(value) else decimals(value, digits)


def with_interval(
    measure: Mapping[str, Any],
    digits: int = 2,
    form: str = "[{}, {}]",
    missing: str = "-",
) -> str:
    """Format a value with its interval, if it has one, such as 0.74 [0.67, 0.80]."""
    value, low, high = (
        number(measure.get(name), digits, "") for name in ("value", "low", "high")
    )
    if not (value and low and high):
        return value or missing
    return f"{value} {form.format(low, high)}"


def range_of(least: str, most: str) -> str:
    """Return the ends of a range of values; one value if both look the same."""
    return f"all {least}" if least == most else f"from {least} to {most}"


def table(rows: Sequence[Sequence[str]], left: int = 1) -> list[str]:
    """Align columns: the first `left` columns to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if j < left else cell.rjust(width)
            for j, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def shorten_names(names: Sequence[str], room: int) -> list[str]:
    """Cut names in the middle to `room` characters; equal results get numbers."""
    head = (room - 3) // 2
    short = [
        name
        if len(name) <= room
        else f"{name[: room - 3 - head]}...{name[len(name) - head :]}"
        for name in names
    ]
    counts = Counter(short)
    return [
        f"({i}) {name[: room - 4 - len(str(i))]}" if counts[name] > 1 else name
        for i, name in enumerate(short, 1)
    ]


def quoted_name(value: object) -> str:
    """Return a label or a name in quotes, cut in the middle if it is long."""
    return shorten_names([repr(value)], 60)[0]


WORDS: dict[str, Any] = {
    "call": call,
    "count": count_of,
    "decimals": decimals,
    "enumeration": enumeration,
    "limits": limits,
    "name_of": name_of,
    "part": part_of,
    "percent": percent,
    "percents": percents,
    "setting": setting,
    "verb": verb,
}
FILTERS: dict[str, Callable[..., Any]] = {"big": "{:,}".format, "repr": quoted_name}


class Notes:
    """Sentences of one template in the folder `templates` of a package, by name.

    The template has a macro for each. A line that begins with spaces continues the last.
    """

    def __init__(self, package: str, template: str = "notes.txt.j2") -> None:
        self._macros = partial(_macros, package, template)

    def __call__(self, name: str, /, **values: object) -> str:
        """Return a sentence with these values."""
        macro: Callable[..., str] = getattr(self._macros(), name)
        return macro(**values).strip()


@cache
def _macros(package: str, template: str) -> object:
    loader = jinja2.PackageLoader(package)

    def source(name: str) -> str:
        text, _, _ = loader.get_source(environment, name)
        return re.sub(r"\n +", " ", text)

    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(source),
        autoescape=False,  # noqa: S701 - no HTML
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
    )
    environment.globals |= WORDS
    environment.filters |= FILTERS
    return environment.get_template(template).module
