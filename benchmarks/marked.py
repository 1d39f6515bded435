"""Replaces text between marks in a page, to write measurements into documents.

A mark is a comment, `<!-- mark -->`; the part ends at the next `<!-- end of ... -->` or
`<!-- /... -->`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

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


def write(page: Path, parts: Mapping[str, str]) -> None:
    """Write parts after their marks in a page."""
    text = page.read_text(encoding="utf-8")
    for mark, part in parts.items():
        text = replaced(text, mark, part)
    page.write_text(text, encoding="utf-8")
