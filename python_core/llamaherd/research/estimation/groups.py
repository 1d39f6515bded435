"""Groups of texts, defined by the values of columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.core import checks
from llamaherd.core.errors import ArgumentError
from llamaherd.core.plurals import with_commas
from llamaherd.research import frames
from llamaherd.research.codes import text_of
from llamaherd.research.estimation.by_columns import named

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llamaherd.research.estimation.gold_data import Population
    from llamaherd.research.statistics.sampling import Ints


def grouped(
    texts: Population,
    by: str | Sequence[str] | None,
    kept: Ints,
    order: Mapping[str, Sequence[Any]],
) -> tuple[Ints, list[str]]:
    """Return the group number of each kept row, and the groups' names.

    Raises:
        ValueError: `order` names columns that are not in `by`, or lacks a value.
    """
    names = named(by)
    if set(order) - set(names):
        raise ArgumentError(
            f"must name only columns in by, not {with_commas(sorted(order))}",
            argument="order",
            code="unknown_choice",
        )
    numbers = []
    values_of = []
    for name in names:
        known = order.get(name) or frames.categories(texts.frame, name)
        number, values = numbered(texts, name, kept, known)
        numbers.append(number)
        values_of.append([text_of(value) or "" for value in values])
    rows = np.array(numbers, dtype=np.int64).reshape(len(names), len(kept)).T
    keys, groups = np.unique(rows, axis=0, return_inverse=True)
    titles = [
        " / ".join(values[i] for values, i in zip(values_of, key, strict=True))
        for key in keys.tolist()
    ]
    return groups.reshape(-1).astype(np.int64), titles


def numbered(
    texts: Population, name: str, kept: Ints, known: Sequence[Any] | None = None
) -> tuple[Ints, list[Any]]:
    """Number the values of a column in the kept rows; return numbers and values.

    Raises:
        ValueError: The column does not exist, or a value is not in `known`.
    """
    column = frames.column(texts.frame, name, "by")
    values = [column[i] for i in kept]
    there = list(dict.fromkeys(values))
    if known is not None:
        missing = [value for value in there if value not in known]
        if missing:
            raise ArgumentError(
                f"of {name!r} lacks {checks.shown(missing[0])}", argument="order"
            )
        there = [value for value in known if value in there]
    else:
        try:
            there.sort()
        except TypeError:  # values of several types
            there.sort(key=str)
    index_of = {value: i for i, value in enumerate(there)}
    return np.array([index_of[value] for value in values], dtype=np.int64), there
