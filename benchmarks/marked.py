"""Text between the marks of a page: what is measured goes into the documents by itself.

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
    """A page with another part behind a mark.

    Args:
        page: Its text.
        mark: What its comment says.
        part: Its last line need not end.

    Raises:
        ValueError: The page has no such mark, or more than one.
    """
    start = re.escape(f"<!-- {mark} -->\n")
    pattern = re.compile(f"({start})(?:(?!<!-- ).)*?({_END})", re.DOTALL)
    text = f"{part.rstrip()}\n"
    made, n = pattern.subn(lambda match: f"{match[1]}{text}{match[2]}", page)
    if n != 1:
        raise ValueError(f"the page has {n or 'no'} places for {mark}")
    return made


def write(page: Path, parts: Mapping[str, str]) -> None:
    """Puts parts behind their marks of a page.

    Raises:
        ValueError: As `replaced` says; nothing is written then.
    """
    text = page.read_text(encoding="utf-8")
    for mark, part in parts.items():
        text = replaced(text, mark, part)
    page.write_text(text, encoding="utf-8")
