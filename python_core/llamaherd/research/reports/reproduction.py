"""What running a report again found."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llamaherd.core.calibration import Floats
    from llamaherd.research.coding.coded import Coded

_MOST_CHANGED = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """A row whose label is another one.

    Attributes:
        row: Its place, from 0.
        then: Its label in the report; None: it had none.
        now: The one that it has now.
    """

    row: int
    then: str | None
    now: str | None


@dataclass(frozen=True, kw_only=True, eq=False)
class Reproduction:
    """Whether labels and probabilities came out as they are in a report.

    Attributes:
        n: Rows that are compared: those that have a text and were computed then.
        n_same: Those with the same label and the same probabilities, bit by bit.
        n_same_labels: Those with the same label.
        has_probs: Whether there are probabilities to compare.
        largest_difference: Between two probabilities, then and now.
        changed: Rows whose label is another one.
        is_deterministic: Whether the context was, and so is: then all must be the same.
        versions: For what differs (version, machine, context's option): then and now.
        coded: The labels of now.
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

    @property
    def is_same(self) -> bool:
        """Whether everything is the same."""
        return self.n_same == self.n

    def __bool__(self) -> bool:
        return self.is_same

    def __str__(self) -> str:
        what = "labels and probabilities" if self.has_probs else "labels"
        lines = [f"{self.n_same:,} of {self.n:,} {what} are the same"]
        if not self.is_same:
            if self.has_probs:
                lines.append(
                    f"{self.n_same_labels:,} of {self.n:,} labels are the same; "
                    f"probabilities differ by {self.largest_difference:.2g} at most"
                )
            lines += [
                f"  row {each.row + 1}: {each.then!r} then, {each.now!r} now"
                for each in self.changed[:_MOST_CHANGED]
            ]
            if len(self.changed) > _MOST_CHANGED:
                lines.append(f"  and {len(self.changed) - _MOST_CHANGED} more")
        if not self.is_deterministic:
            lines.append(
                "The context was not deterministic: equality is likely, not sure. "
                "deterministic=True makes it sure."
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
    """Labels of different texts in a report.

    Attributes:
        rows: For each row the place of its text; None: it has none.
        labels: Of the texts.
        probs: float64[u, k]; None: there are none.
        computed: For each text whether the run came to it.
    """

    rows: list[int | None]
    labels: list[str | None]
    probs: Floats | None
    computed: list[bool]


def compared(
    then: Then,
    coded: Coded,
    labels: Sequence[str | None],
    *,
    is_deterministic: bool,
    versions: Mapping[str, tuple[str, str]],
) -> Reproduction:
    """Compares row by row.

    Args:
        then: What the report has.
        coded: What was found now, for the same rows.
        labels: Its labels, in the form in which the report has them.
        is_deterministic: See `Reproduction`.
        versions: See there.
    """
    rows = [
        (i, place)
        for i, place in enumerate(then.rows)
        if place is not None and then.computed[place]
    ]
    here = [i for i, _ in rows]
    there = [place for _, place in rows]
    pairs = [(i, then.labels[place], labels[i]) for i, place in rows]
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
    )


def _equal(then: Floats, now: Floats) -> tuple[Any, float]:
    """Which rows are equal bit by bit, and the largest difference."""
    if then.shape != now.shape:
        return np.zeros(len(now), dtype=bool), math.nan
    missing = np.isnan(then) & np.isnan(now)
    bits = np.ascontiguousarray(then).view(np.int64)
    equal = missing | (bits == np.ascontiguousarray(now).view(np.int64))
    apart = np.abs(then - now)
    known = apart[~np.isnan(apart)]
    return equal.all(axis=1), float(known.max(initial=0.0))
