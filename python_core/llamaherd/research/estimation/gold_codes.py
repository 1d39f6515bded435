"""Parsing of codes as coders type them, and messages about invalid codes."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from llamaherd.core import checks
from llamaherd.research.codes import form_of, is_nothing, text_of
from llamaherd.research.coding.label_sets import BETWEEN, is_none, joined, labels_in
from llamaherd.research.estimation import gold_file

if TYPE_CHECKING:
    from collections.abc import Sequence

_MAX_LISTED = 5


class CodeReader:
    """Reader of codes that ignores case and whitespace.

    Args:
        names: The labels; () if every text is a valid code.
        several: True if a text may have several labels, separated by semicolons, or by
            commas if no label contains a comma. The labels are returned joined, in the
            order of `names`.

    Attributes:
        names: See above.
        several: See above.
    """

    def __init__(self, names: Sequence[str], *, several: bool = False) -> None:
        self.names = names
        self.several = several
        has_comma = any("," in name for name in names) or not names
        self._between = re.compile(BETWEEN if has_comma else f"[{BETWEEN},]")
        self._exact = frozenset(names)
        n_alike = Counter(map(form_of, names))  # "A" and "a" may be different labels
        self._by_form = {form_of(n): n for n in names if n_alike[form_of(n)] == 1}

    def read(self, cell: str) -> tuple[str | None, str]:
        """Return the label in a cell, or None; and the problem of the cell, or ""."""
        if not self.several:
            return self._read_one(cell)
        if is_none(cell, self.names):
            return "", ""
        found = [self._read_one(part) for part in self._between.split(cell)]
        problem = next((problem for _, problem in found if problem), "")
        labels = [code for code, _ in found if code is not None]
        if problem or not labels:
            return None, problem
        return joined(labels_in(joined(labels), self.names)), ""

    def _read_one(self, cell: str) -> tuple[str | None, str]:
        written = (text_of(cell) or "").strip()
        if written not in self._exact:
            written = gold_file.unescaped(written)
        if written in self._exact or (not is_nothing(written) and not self._exact):
            return written, ""
        if form_of(written) in self._by_form:
            return self._by_form[form_of(written)], ""
        if is_nothing(written):
            return None, ""
        more = f" and {len(self.names) - 20} more" if len(self.names) > 20 else ""
        there = ", ".join(self.names[:20]) + more
        hint = checks.meant(written, self.names)
        return None, f"{checks.quoted(written)} is none of the labels {there}{hint}"

    def are_notes(self, cells: Sequence[str]) -> bool:
        """Return True if some cell is not empty, and no cell is a label."""
        found = [self.read(cell) for cell in cells]
        is_something = any(problem for _, problem in found)
        return is_something and all(code is None for code, _ in found)


def listed_ids(ids: Sequence[str], rows: Sequence[int]) -> str:
    """List the ids of the first five of these rows, and the number of further rows."""
    more = f" and {len(rows) - 5} more" if len(rows) > 5 else ""
    return ", ".join(ids[i] for i in rows[:5]) + more


def summary_of_problems(problems: Sequence[str]) -> str:
    """Return a message with the first problem of a sheet and the number of problems."""
    if len(problems) == 1:
        return problems[0]
    more = len(problems) - _MAX_LISTED
    first = "; ".join(problems[:_MAX_LISTED])
    return f"{len(problems)} problems: {first}" + (
        f"; and {more} more" if more > 0 else ""
    )
