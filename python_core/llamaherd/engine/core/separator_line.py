"""The line `sep=;` that Excel writes and reads before the header of a CSV file.

The line names the character between cells. The header follows it.
"""

from __future__ import annotations

import re

_LINE = re.compile(r'"?sep=([^"\r\n])"?[\r\n]*', re.IGNORECASE)


def separator_in(line: str) -> str | None:
    """Return the separator that the first line of a file names; None without one.

    Args:
        line: First line, without a byte order mark; its line end may be missing.
    """
    found = _LINE.fullmatch(line)
    return None if found is None else found[1]
