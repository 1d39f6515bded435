"""Numbers and nouns in messages and on pages: "1 text is", "2 texts are", "0.998".

Only an exact share of 0 or 1 is shown as 0 or 1: 499 of 500 is 0.998, not 1.00, and 1 of
500 is 0.002, not 0.00. A number that would be rounded to 0, 1 or -1 gets as many decimals
as it needs to differ from them. Numbers of other kinds, such as log-odds, are rounded. No
number is shown as -0.
"""

from __future__ import annotations

import math
import textwrap
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


MOST_ROWS = 20  # rows of a list that is printed
_IRREGULAR = {"person": "people", "stratum": "strata"}


def count_of(n: int, what: str) -> str:
    """Return a number with its noun, in the plural unless the number is 1."""
    before, _, noun = what.rpartition(" ")
    if n != 1:
        is_y = noun.endswith("y") and noun[-2:-1] not in "aeiou"
        regular = f"{noun[:-1]}ies" if is_y else f"{noun}s"
        noun = _IRREGULAR.get(noun, regular)
    return " ".join(part for part in (f"{n:,}", before, noun) if part)


def part_of(  # noqa: PLR0917 - a clause, read from left to right
    n: int, whole: int, what: str, one: str = "has", other: str = "have", of: str = ""
) -> str:
    """Return the subject and verb of a sentence on a part: "1 of 20 texts has"."""
    words = [f"{n:,} of {count_of(whole, what)}", of, one if 1 in {n, whole} else other]
    return " ".join(word for word in words if word)


def verb(n: int, one: str, other: str) -> str:
    """Return the form of a verb that fits a number, such as "is" or "are"."""
    return one if n == 1 else other


def percent(share: float) -> str:
    """Return a share in percent with all its digits: "95%", "97.5%", "99.9%"."""
    return f"{100 * share:.6g}%"


def with_commas(values: Iterable[object], most: int = 10) -> str:
    """Return values with commas: "a, b, c"; the values after `most` are counted."""
    texts = [str(value) for value in values]
    more = f" and {len(texts) - most:,} more" if len(texts) > most else ""
    return ", ".join(texts[:most]) + more


def first_rows(
    rows: Sequence[str], most: int = MOST_ROWS, n: int | None = None
) -> list[str]:
    """Return the first lines of a list, and the number of the others of all n."""
    n = len(rows) if n is None else n
    if n <= most:
        return list(rows)
    return [*rows[:most], f"... and {n - most:,} more"]


def as_sentence(note: str) -> str:
    """Return a note with a period at its end, unless it has another end."""
    return note if note.endswith((".", "!", "?", ":")) else f"{note}."


def printed_notes(notes: Iterable[str]) -> list[str]:
    """Return notes as sentences, each in lines of at most 88 characters."""
    lines = (f"Note: {as_sentence(note)}" for note in notes)
    return [textwrap.fill(line, 88, subsequent_indent="  ") for line in lines]


def shape_of(shape: Sequence[int]) -> str:
    """Return the shape of an array: "3 values", "2 x 3 values", "a single value"."""
    if not shape:
        return "a single value"
    if len(shape) == 1:
        return count_of(shape[0], "value")
    return " x ".join(map(str, shape)) + " values"


Sign = Literal["", "+"]
_MOST = 9  # largest number of decimals
_SMALL_ERROR = 0.05  # largest relative error of a number that needs more decimals
_ROUNDING = 1e-9  # smaller distances from 0, 1 and -1 are rounding errors


def decimals(value: float, digits: int = 2, *, sign: Sign = "") -> str:
    """Format a share, a coefficient or a difference; round numbers beyond -1 and 1."""
    return rounded(value, _enough(value, digits), sign=sign)


def rounded(value: float, digits: int = 2, *, sign: Sign = "") -> str:
    """Format a number of any kind, such as log-odds; see `decimals` for shares."""
    text = f"{value:{sign}.{digits}f}"
    return text if float(text) != 0 else f"{0:{sign}.{digits}f}"  # never -0.00


def limits(low: float, high: float, digits: int = 2, *, sign: Sign = "") -> str:
    """Format an interval, such as "[0.93, 0.98]"."""
    ends = (decimals(end, digits, sign=sign) for end in (low, high))
    return f"[{', '.join(ends)}]"


def percents(share: float, digits: int = 1) -> str:
    """Format a share in percent with `digits` decimals, such as "99.8%"."""
    return f"{rounded(100 * share, _enough(share, digits, whole=100))}%"


def _enough(value: float, digits: int, whole: int = 1) -> int:
    """Return the decimals that tell a value from 0 and `whole`, or show it to 5%."""
    size = abs(value)
    gap = min(size, 1 - size)
    if not gap > _ROUNDING or not math.isfinite(size):
        return digits
    is_small = whole * size < 10**-digits

    def tells(n: int) -> bool:
        displayed = float(rounded(whole * size, n))
        is_near = abs(displayed / (whole * size) - 1) <= _SMALL_ERROR
        return displayed not in {0, whole} and (is_near or not is_small)

    while digits < _MOST and not tells(digits):
        digits += 1
    return digits


INSTALL_ADDRESS = "git+https://github.com/llamaherd/llamaherd"


def install_command(*extras: str, options: str = "") -> str:
    """Return a command that installs llamaherd and works in any shell."""
    what = (
        f"llamaherd[{','.join(extras)}] @ {INSTALL_ADDRESS}"
        if extras
        else INSTALL_ADDRESS
    )
    return " ".join(filter(None, ("pip install", options, f'"{what}"')))
