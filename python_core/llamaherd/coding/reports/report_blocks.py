"""Blocks of a report's page: tables, texts and the words for numbers in them."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING, Any

from llamaherd.coding.plots import drawing
from llamaherd.coding.plots.description import WIDTH
from llamaherd.engine.core.phrases import as_sentence, decimals, percents

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from llamaherd.coding.plots.description import Plot

    Block = dict[str, Any]

MOST_ROWS = 100  # rows that a table shows
LONGEST = 4000  # maximum number of characters shown of a text
_CONTROLS = {i: 0x2400 + i for i in range(32) if chr(i) not in "\n\t"} | {127: 0x2421}


class Drawn:
    """Draws the plots of a report, if matplotlib is installed.

    Args:
        draw: Function that returns content of a block from a plot, its number and its
            description for screen readers.

    Attributes:
        missing: Message if matplotlib is not installed; otherwise "".
    """

    def __init__(self, draw: Callable[[Plot, int, str], Block]) -> None:
        self.missing = ""
        self._draw = draw
        self._n = 0

    def block(self, make: Callable[[], Plot]) -> Block | None:
        """Draw the plot that a function returns; None without matplotlib."""
        if self.missing:
            return None
        self._n += 1
        plot = make()
        try:
            content = self._draw(plot, self._n, f"{plot.title}. {plot.alt}")
        except ImportError:
            self.missing = f"There are no plots in this report: {drawing.MISSING}"
            return None
        return {"kind": "picture", "narrow": plot.width < WIDTH, **content}


def shown(text: object) -> str:
    """Make control characters visible, and replace invalid characters."""
    found = str(text).translate(_CONTROLS)
    found = "".join(
        "\ufffd" if unicodedata.category(c) == "Cs" or 0x80 <= ord(c) < 0xA0 else c
        for c in found
    )
    if len(found) <= LONGEST:
        return found
    return f"{found[:LONGEST]} ... ({len(found):,} characters)"


def table_block(
    head: list[str],
    rows: Sequence[Sequence[str]],
    *,
    caption: str = "",
    numbers: set[int] | None = None,
    texts: int = -1,
    part: str = "",
) -> Block:
    """Return a table.

    Args:
        head: Names of the columns.
        rows: Cells of the rows.
        caption: Text above the table.
        numbers: Indices of the right-aligned columns; None for all but the first.
        texts: Index of the wide column of texts.
        part: Key of the report's JSON that has all rows. With a key the table shows the
            first `MOST_ROWS` rows, and its caption says how many are left out.
    """
    at = set(range(1, len(head))) if numbers is None else numbers
    if part and len(rows) > MOST_ROWS:
        n = len(rows)
        left_out = (
            f"The first {MOST_ROWS:,} of {n:,} rows; {n - MOST_ROWS:,} are left out. The "
            "report's JSON, which is in a report with a path that ends with .html or "
            f".json, has all rows: {part!r}"
        )
        rows = rows[:MOST_ROWS]
        caption = f"{caption}. {left_out}" if caption else left_out
    return {
        "kind": "table",
        "caption": caption,
        "head": head,
        "rows": rows,
        "numbers": at,
        "texts": texts,
    }


def facts_block(rows: Sequence[Sequence[str]]) -> Block:
    """Return a table of names and values."""
    return {
        "kind": "facts",
        "caption": "",
        "head": [],
        "rows": [[shown(cell) for cell in row] for row in rows],
        "numbers": set(),
        "texts": 1,
    }


def text_block(text: str) -> Block:
    """Return a paragraph."""
    return {"kind": "text", "text": text}


def note_block(text: str) -> Block:
    """Return a paragraph in the style of a note, as a sentence."""
    return {"kind": "note", "text": as_sentence(text)}


def pre_block(title: str, before: str, *, marked: str = "", after: str = "") -> Block:
    """Return a text in a fixed-width font, with its part `marked` highlighted."""
    return {
        "kind": "pre",
        "title": title,
        "before": long_text(before),
        "marked": shown(marked),
        "after": long_text(after),
    }


def long_text(text: str) -> str:
    """Return a whole text as `shown` formats it; prompts must not be shortened."""
    return "".join(shown(text[i : i + LONGEST]) for i in range(0, len(text), LONGEST))


def key_name(key: str) -> str:
    """Return the name of a setting as the page shows it."""
    return key.replace("_", " ") if key.islower() and "-" not in key else key


def value_text(value: object) -> str:
    """Return the value of a setting as the page shows it."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return shown(value)


def number_text(value: float | None, digits: int) -> str:
    """Return a number with the given decimals; a dash for None."""
    return "\u2013" if value is None else decimals(value, digits)


def share_text(value: float | None) -> str:
    """Return a share in percent; a dash for None."""
    return "\u2013" if value is None else percents(value)


def or_dash(value: object) -> str:
    """Return `shown(value)`; a dash for None."""
    return "\u2013" if value is None else shown(value)


def ends_text(found: Mapping[str, Any], digits: int) -> str:
    """Return the ends of an interval; "" without an interval."""
    low, high = found.get("low"), found.get("high")
    if low is None or high is None:
        return ""
    return f"{decimals(low, digits)} to {decimals(high, digits)}"


def interval_text(found: Mapping[str, Any]) -> str:
    """Return a value with its interval."""
    ends = ends_text(found, 2)
    return number_text(found["value"], 2) + (f" ({ends})" if ends else "")


def duration_text(seconds: float) -> str:
    """Return a duration in seconds, minutes or hours."""
    if seconds < 120:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"
