"""What coding texts returns: the caller's data frame, and how its labels came about."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.core import checks
from llamaherd.research.coding.codebook import JOINED
from llamaherd.research.frames import with_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.core.calibration import Floats
    from llamaherd.core.stats import Stats
    from llamaherd.research.coding.codebook import Codebook


_MOST_COUNTS = 10  # labels that `repr` counts


@dataclass(frozen=True, kw_only=True, eq=False)
class Coded:
    """A data frame of n texts that were coded by a model.

    Attributes:
        frame: The caller's data frame, of the same kind, with the new columns.
        text: Name of the column of texts.
        codebook: By which they were coded.
        columns: Names of the new columns by what they are: "label", "prob", "margin",
            "entropy", "coverage", "error", and "p_<label>" for each label.
        names: The k labels; () for fields.
        labels: n labels. Of several at once their names, joined by "; ", and "" for none
            of them; of fields JSON. None: there was no text, or it failed.
        probs: float64[n, k], probability of each label; NaN where there is no label; None
            where labels were generated. Of several at once each one's own.
        errors: n reasons; None where nothing went wrong.
        run: How it came about, JSON-able: codebook, method and settings, model, context,
            versions, machine, time.
        stats: What the call did.
    """

    frame: Any
    text: str
    codebook: Codebook
    columns: dict[str, str]
    names: tuple[str, ...]
    labels: list[str | None]
    probs: Floats | None
    errors: list[str | None]
    run: dict[str, Any]
    stats: Stats

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, rows: slice | Sequence[int] | Sequence[bool]) -> Coded:
        """Some rows, for all that takes a `Coded`; `run` and `stats` stay those of all.

        Args:
            rows: A slice, places from 0 (negative ones from the end), or a flag for each
                row. A single row is `coded[[3]]`.

        Raises:
            TypeError: They are something else.
            IndexError: There is no such row.
        """
        places = _places(rows, len(self))
        return replace(
            self,
            frame=with_rows(self.frame, places),
            labels=[self.labels[i] for i in places],
            probs=None if self.probs is None else self.probs[places],
            errors=[self.errors[i] for i in places],
        )

    def head(self, n: int = 5) -> Any:  # noqa: ANN401 - of the caller's kind
        """The first n rows of the data frame."""
        return self[: checks.integer("n", n, 0)].frame

    def to_frame(self) -> Any:  # noqa: ANN401 - of the caller's kind
        """The data frame."""
        return self.frame

    def __repr__(self) -> str:
        n_failed = sum(error is not None for error in self.errors)
        n_missing = sum(label is None for label in self.labels) - n_failed
        parts = [f"{len(self)} texts"]
        if self.names:
            parts.append(f"{len(self.names)} labels ({self._counts})")
        if n_missing:
            parts.append(f"{n_missing} missing")
        head = f"<Coded: {', '.join(parts)}, {n_failed} failed>"
        return "\n".join([head, *(f"Note: {note}" for note in self.notes)])

    @property
    def notes(self) -> tuple[str, ...]:
        """Signs that labels say little of the texts, such as one label for almost all."""
        return tuple(self.run.get("notes") or ())

    @property
    def _counts(self) -> str:
        """How many texts have each label, the most frequent first."""
        given = [each for label in self.labels if label for each in self._each(label)]
        counts = dict.fromkeys(self.names, 0) | Counter(given)
        told = sorted(counts.items(), key=lambda pair: -pair[1])
        more = len(told) - _MOST_COUNTS
        end = f", {more} more" if more > 0 else ""
        return ", ".join(f"{name} {n}" for name, n in told[:_MOST_COUNTS]) + end

    def _each(self, label: str) -> list[str]:
        """The names in a label: of several at once more than one."""
        return label.split(JOINED) if self.codebook.type == "multiple" else [label]


def _places(rows: object, n: int) -> list[int]:
    """Places of rows, from 0."""
    if isinstance(rows, slice):
        return list(range(n))[rows]
    try:
        found = np.asarray(rows)
    except ValueError:
        found = np.empty(())  # lists in lists
    if found.ndim == 1 and (found.dtype == bool or not len(found)):
        if len(found) not in (0, n):
            raise IndexError(f"rows must have a flag for each of {n} rows")
        return [int(i) for i in np.flatnonzero(found)]
    if found.ndim != 1 or found.dtype.kind not in "iu":
        raise TypeError(
            f"rows must be a slice, places or flags, not {checks.shown(rows)}; a single "
            "row is coded[[3]]"
        )
    if ((found < -n) | (found >= n)).any():
        raise IndexError(f"rows must be between {-n} and {n - 1}")
    return [int(i) % n for i in found]
