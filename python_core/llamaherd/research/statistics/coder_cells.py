"""Cells of coded texts; all texts of a cell have the same prior for the right label.

Cells are formed from the columns by which the estimate compares or weights texts: the
strata of the draw, the model's label, groups and covariates. See
`llamaherd.research.statistics.dawid_skene` for the reason.
"""

from __future__ import annotations

from collections import Counter
from numbers import Real
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.research.statistics.sampling import Ints

# least number of texts of a cell; in smaller cells a text would determine its own prior
_LEAST = 10
# If a column has more different values than this, numbers are cut into thirds; other
# columns are left out.
_VALUES = 8


def cells_of(
    strata: Sequence[object],
    labels: Sequence[object],
    compared: Sequence[Sequence[object]] = (),
) -> Ints:
    """Return the cell of each of n coded texts, int64[n]; -1 for a text without a cell.

    Texts of a cell have the same stratum, label and compared values. If fewer than ten
    texts have the same values, the last column is left out, then the column before it,
    and so on.

    Args:
        strata: n strata of the draw.
        labels: n labels of the model.
        compared: Columns of n values: groups or covariates.
    """
    found = [_classes(each) for each in compared]
    classes = [_numbered(strata), _numbered(labels), *(each for each in found if each)]
    keys = list(zip(*classes, strict=True))
    numbers: dict[tuple[int, ...], int] = {}
    cells = np.full(len(keys), -1, dtype=np.int64)
    for length in range(len(classes), -1, -1):
        left = np.flatnonzero(cells < 0)
        counts = Counter(keys[i][:length] for i in left)
        for i in left:
            key = keys[i][:length]
            if counts[key] >= _LEAST:
                cells[i] = numbers.setdefault(key, len(numbers))
    return cells


def _classes(values: Sequence[object]) -> list[int] | None:
    """Return the class of each value; None if the values cannot be divided into classes.

    Up to 8 different values are a class each. If there are more different values,
    numbers are divided into thirds; other values cannot be divided.
    """
    found = _numbered(values)
    if max(found, default=0) < _VALUES:
        return found
    numbers = [v for v in values if isinstance(v, Real) and v == v]  # noqa: PLR0124 - NaN
    if len(numbers) < len(values):
        return None
    ordered = np.array(numbers, dtype=np.float64)
    limits = np.quantile(ordered, [1 / 3, 2 / 3])
    return [int(each) for each in np.searchsorted(limits, ordered)]


def _numbered(values: Sequence[object]) -> list[int]:
    known: dict[object, int] = {}
    return [known.setdefault(_plain(value), len(known)) for value in values]


def _plain(value: object) -> object:
    """Convert numbers to float, so that 1 and 1.0 are the same value."""
    return float(value) if isinstance(value, Real) else value
