"""Codes to fit a head on: label columns, minimum numbers of codes, units of texts."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.core import checks
from llamaherd.core.errors import ArgumentError
from llamaherd.research import frames
from llamaherd.research.estimation.groups import numbered

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.research.estimation.gold_data import Population
    from llamaherd.research.estimation.gold_use import GoldUsed
    from llamaherd.research.statistics.sampling import Ints

LEAST_CODES = 30  # least number of codes of all labels together
LEAST_OF_LABEL = 5  # least number of codes of each label that occurs
# least number of codes of each label in the data to which the head of a fold is fitted
_LEAST_IN_PART = 2


def columns_of(codes: Sequence[str], names: Sequence[str]) -> Ints:
    """Return each code as the index of its label.

    Raises:
        ValueError: A code is not among the labels.
    """
    at = {name: j for j, name in enumerate(names)}
    for code in codes:
        if code not in at:
            raise ArgumentError(
                f"must have codes among the labels {', '.join(names)}, not "
                f"{checks.quoted(code)}{checks.meant(code, names)}",
                argument="gold",
                code="unknown_choice",
            )
    return np.array([at[code] for code in codes], dtype=np.int64)


def used_labels(
    columns: Ints, folds: Ints, names: Sequence[str], n_folds: int
) -> tuple[Ints, list[str]]:
    """Return the columns of labels that have codes, and notes on labels without codes.

    Raises:
        ValueError: There are too few codes.
    """
    counts = Counter(columns.tolist())
    few = [f"{names[j]!r} {n}" for j, n in sorted(counts.items()) if n < LEAST_OF_LABEL]
    more = "code more texts of the rare labels, or merge labels"
    if len(columns) < LEAST_CODES or few or len(counts) < 2:
        have = ", ".join(f"{names[j]!r} {counts[j]}" for j in sorted(counts))
        raise ArgumentError(
            f"must have at least {LEAST_CODES} codes, {LEAST_OF_LABEL} of each label "
            f"that occurs, and two labels; it has {len(columns)} codes: {have}; {more}",
            argument="gold",
            code="too_few_codes",
        )
    for fold in range(n_folds):
        part = Counter(columns[folds != fold].tolist())
        for j in counts:
            if part[j] < _LEAST_IN_PART or len(columns[folds == fold]) == 0:
                raise ArgumentError(
                    f"must have {_LEAST_IN_PART} codes of each label if any fold is "
                    f"left out; without fold {fold + 1} of {n_folds}, {names[j]!r} has "
                    f"{part[j]}: choose another seed or n_folds, or {more}",
                    argument="gold",
                    code="too_few_codes",
                )
    used = np.array(sorted(counts), dtype=np.int64)
    never = [repr(name) for j, name in enumerate(names) if j not in counts]
    notes = []
    if never:
        notes.append(
            f"No text has the code {', '.join(never)}: its recalibrated probability is 0"
        )
    return used, notes


def units_of(texts: Population, codes: GoldUsed, cluster: str | None) -> list[Any]:
    """Return the unit of each text: its cluster, or the text itself.

    Texts of one unit are in the same fold, so that a copy of a coded text is not
    predicted from that text's code.
    """
    everywhere = np.arange(len(texts))
    if cluster is not None:
        column = frames.column(texts.frame, cluster, "cluster")
        missing = [i for i in codes.rows.tolist() if column[i] is None]
        if missing:
            raise ArgumentError(
                "is missing for a coded text", argument="cluster", place=(missing[0],)
            )
        known = everywhere[[each is not None for each in column]]
        units: list[Any] = [("row", i) for i in range(len(texts))]
        for i, number in zip(known, numbered(texts, cluster, known)[0], strict=True):
            units[i] = ("cluster", int(number))
        return units
    return [
        ("row", i) if each is None else ("text", each)
        for i, each in enumerate(texts.texts)
    ]
