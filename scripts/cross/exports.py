"""Exported functions of a library, compared with the functions that headers declare."""

from __future__ import annotations

import re
from pathlib import Path

_FUNCTION = re.compile(
    r"^(?:LH|NEWRLLAMA)_API [^;]*?\b((?:lh|newrllama)_\w+)\(", re.MULTILINE
)


def declared(headers: list[str]) -> set[str]:
    """Return the names of the functions that headers declare."""
    texts = (Path(header).read_text(encoding="utf-8") for header in headers)
    return {name for text in texts for name in _FUNCTION.findall(text)}


def problems(exported: set[str], headers: list[str]) -> list[str]:
    """Compare exported functions with headers."""
    found = []
    wanted = declared(headers)
    if not wanted:
        found.append("the headers declare no functions")
    if missing := wanted - exported:
        found.append(f"it does not export {', '.join(sorted(missing))}")
    if more := exported - wanted:
        found.append(f"it exports {', '.join(sorted(more))}, which no header declares")
    return found
