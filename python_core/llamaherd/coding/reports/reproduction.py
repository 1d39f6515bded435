"""Result of reproducing a report."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.engine.core.phrases import count_of, first_rows
from llamaherd.engine.core.words import setting

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llamaherd.calls.asks.calibration import Floats
    from llamaherd.coding.annotation.coded import Coded

_MOST_CHANGED = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """Row with a changed label.

    Attributes:
        row: Index of the row, from 0.
        then: Label in the report; None without a label.
        now: New label; None without a label.
    """

    row: int
    then: str | None
    now: str | None


@dataclass(frozen=True, kw_only=True, eq=False)
class Reproduction:
    """Comparison of new labels and probabilities with a report.

    Attributes:
        n: Number of compared rows: rows with a text and a result in the report.
        n_same: Number of rows with the same label and bit-identical probabilities.
        n_same_labels: Number of rows with the same label.
        has_probs: True if there are probabilities to compare.
        largest_difference: Largest difference between an old and a new probability.
        changed: Rows with changed labels.
        is_deterministic: True if both contexts were deterministic, so that all results
            must be equal.
        versions: Old and new value of every version, context option or machine property
            that has changed.
        coded: The new labels.
        is_summary_same: True if the report's counts and shares are those of its labels.
    """

    n: int
    n_same: int
    n_same_labels: int
    has_probs: bool
    largest_difference: float
    changed: tuple[Changed, ...]
    is_deterministic: bool
    versions: dict[str, tuple[str, str]]
    coded: Coded
    is_summary_same: bool = True

    @property
    def is_same(self) -> bool:
        """True if all results are equal, and the report's summary fits them."""
        return self.n_same == self.n and self.is_summary_same

    def __bool__(self) -> bool:
        return self.is_same

    def __str__(self) -> str:
        what = "labels and probabilities" if self.has_probs else "labels"
        lines = [f"{self.n_same:,} of {self.n:,} {what} are the same"]
        if self.n_same < self.n:
            if self.has_probs:
                lines.append(
                    f"{self.n_same_labels:,} of {count_of(self.n, 'label')} are the "
                    f"same; probabilities differ by {self.largest_difference:.2g} at most"
                )
            rows = [
                f"  row {each.row + 1}: {each.then!r} then, {each.now!r} now"
                for each in self.changed
            ]
            lines += first_rows(rows, _MOST_CHANGED)
        if not self.is_summary_same:
            lines.append(
                "The report's counts and shares of labels are not those of its labels."
            )
        if not self.is_deterministic:
            lines.append(
                "The context was not deterministic: equal results are likely, not "
                f"certain. {setting('deterministic', True)} guarantees them."
            )
        if self.versions:
            lines.append("Different now:")
            lines += [
                f"  {name}: {then} then, {now} now"
                for name, (then, now) in self.versions.items()
            ]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<Reproduction: {self.n_same} of {self.n} the same>"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Then:
    """Labels of the unique texts of a report."""

    rows: list[int | None]
    labels: list[str | None]
    probs: Floats | None
    computed: list[bool]


def compare_labels(
    then: Then,
    coded: Coded,
    labels: Sequence[str | None],
    *,
    is_deterministic: bool,
    versions: Mapping[str, tuple[str, str]],
    is_summary_same: bool,
) -> Reproduction:
    """Compare old and new results row by row."""
    rows = [
        (i, index)
        for i, index in enumerate(then.rows)
        if index is not None and then.computed[index]
    ]
    here = [i for i, _ in rows]
    there = [index for _, index in rows]
    pairs = [(i, then.labels[index], labels[i]) for i, index in rows]
    same_label = np.array([a == b for _, a, b in pairs], dtype=bool)
    same, largest = same_label, 0.0
    if then.probs is not None and coded.probs is not None:
        equal, largest = _equal(then.probs[there], coded.probs[here])
        same = same_label & equal
    elif then.probs is not None:
        same, largest = np.zeros(len(rows), dtype=bool), math.nan
    return Reproduction(
        n=len(rows),
        n_same=int(same.sum()),
        n_same_labels=int(same_label.sum()),
        has_probs=then.probs is not None,
        largest_difference=largest,
        changed=tuple(Changed(row=i, then=a, now=b) for i, a, b in pairs if a != b),
        is_deterministic=is_deterministic,
        versions=dict(versions),
        coded=coded,
        is_summary_same=is_summary_same,
    )


def _equal(then: Floats, now: Floats) -> tuple[Any, float]:
    """Return bool[n], True for bit-identical rows, and the largest difference."""
    if then.shape != now.shape:
        return np.zeros(len(now), dtype=bool), math.nan
    missing = np.isnan(then) & np.isnan(now)
    bits = np.ascontiguousarray(then).view(np.int64)
    equal = missing | (bits == np.ascontiguousarray(now).view(np.int64))
    apart = np.abs(then - now)
    known = apart[~np.isnan(apart)]
    return equal.all(axis=1), float(known.max(initial=0.0))
