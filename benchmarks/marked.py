"""Replaces text between marks in a page, to write measurements into documents.

A mark is a comment, `<!-- mark -->`; the part ends at the next `<!-- end of ... -->` or
`<!-- /... -->`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_END = r"<!-- (?:end of |/)[^>]* -->"


def replaced(page: str, mark: str, part: str) -> str:
    """Return a page with a new part after a mark.

    Args:
        page: Text of the page.
        mark: Text in the comment of the mark.
        part: New part; a final line break is optional.

    Raises:
        ValueError: The page does not have this mark exactly once.
    """
    start = re.escape(f"<!-- {mark} -->\n")
    pattern = re.compile(f"({start})(?:(?!<!-- ).)*?({_END})", re.DOTALL)
    text = f"{part.rstrip()}\n"
    made, n = pattern.subn(lambda match: f"{match[1]}{text}{match[2]}", page)
    if n != 1:
        raise ValueError(f"the page must have the mark once, not {n} times: {mark}")
    return made


def write(page: Path, parts: Mapping[str, str]) -> None:
    """Write parts after their marks in a page.

    Raises:
        ValueError: As in `replaced`; the page is then not written.
    """
    text = page.read_text(encoding="utf-8")
    for mark, part in parts.items():
        text = replaced(text, mark, part)
    page.write_text(text, encoding="utf-8")
