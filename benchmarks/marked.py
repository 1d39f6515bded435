"""Writes measurements into pages: parts between marks, tables, rounded bounds.

A mark is a comment, `<!-- mark -->`; the part ends at the next `<!-- end of ... -->` or
`<!-- /... -->`.
"""

from __future__ import annotations

import re
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

ROOT = Path(__file__).resolve().parent.parent
_END = r"<!-- (?:end of |/)[^>]* -->"


def table(head: Sequence[str], rows: Iterable[Sequence[object]], n_texts: int = 1) -> str:
    """Return a Markdown table; the columns after the first `n_texts` are numbers."""
    rule = ["---"] * n_texts + ["---:"] * (len(head) - n_texts)
    return "".join(f"| {' | '.join(map(str, row))} |\n" for row in (head, rule, *rows))


def replaced(page: str, mark: str, part: str) -> str:
    """Return a page with a new part after a mark."""
    start = re.escape(f"<!-- {mark} -->\n")
    pattern = re.compile(f"({start})(?:(?!<!-- ).)*?({_END})", re.DOTALL)
    text = f"{part.rstrip()}\n"
    new_page, n = pattern.subn(lambda match: f"{match[1]}{text}{match[2]}", page)
    if n != 1:
        raise ValueError(f"the page must have the mark once, not {n} times: {mark}")
    return new_page


def write(page: str | Path, parts: Mapping[str, str]) -> None:
    """Write parts after their marks in a page of the project, such as docs/chat.md."""
    path = ROOT / page
    text = path.read_text(encoding="utf-8")
    for mark, part in parts.items():
        text = replaced(text, mark, part)
    path.write_text(text, encoding="utf-8")


def at_least(value: float, digits: int, *, as_percent: bool = False) -> str:
    """Round a lower bound down."""
    return _rounded(value, digits, ROUND_FLOOR, as_percent=as_percent)


def at_most(value: float, digits: int, *, as_percent: bool = False) -> str:
    """Round an upper bound up; see `at_least`."""
    return _rounded(value, digits, ROUND_CEILING, as_percent=as_percent)


def _rounded(value: float, digits: int, how: str, *, as_percent: bool) -> str:
    # The shortest decimal of this float: 0.93 is 93.0%, although the float is larger.
    exact = Decimal(repr(float(value))) * (100 if as_percent else 1)
    rounded = exact.quantize(Decimal(1).scaleb(-digits), rounding=how)
    return f"{rounded:f}{'%' if as_percent else ''}"
