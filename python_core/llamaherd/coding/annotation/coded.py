"""Result of coding: the data frame of the caller with labels and their provenance."""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.coding.annotation.answer_types import JOINED
from llamaherd.coding.annotation.codebook import Codebook
from llamaherd.coding.annotation.spans import SPANS, long_table
from llamaherd.coding.codes import text_of
from llamaherd.coding.frames import column, in_order_of, names, with_rows
from llamaherd.engine.core import checks
from llamaherd.engine.core.errors import ArgumentError, ArgumentTypeError, codes_of
from llamaherd.engine.core.phrases import count_of, printed_notes
from llamaherd.engine.core.stats import Stats
from llamaherd.engine.core.words import number_of, setting, words

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from llamaherd.engine.core.arrays import Floats


_ROUNDING = 1e-6  # of probabilities in a column of single precision
_MOST_COUNTS = 10  # most labels listed by `repr`


@dataclass(frozen=True, kw_only=True, eq=False)
class Coded:
    """Data frame of n texts coded by a model.

    Attributes:
        frame: The caller's data frame, of the same kind, with the new columns.
        text: Name of the column of texts.
        codebook: Codebook of the coding.
        columns: Names of the new columns by role: "label", "prob", "margin", "entropy",
            "coverage", "error", and "p_<label>" for each label.
        names: The k labels; () for fields.
        labels: n labels, None for missing or failed texts. With several labels per text,
            the names joined by "; ", or "" if no label applies; for fields, JSON.
        probs: float64[n, k], probability of each label; NaN for texts without a label;
            None if labels were generated. With several labels per text, each label has
            its own probability.
        errors: n error messages; None for texts without an error.
        run: Provenance as JSON types: codebook, method and settings, model, context,
            versions, machine, time.
        stats: Statistics of the call.
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

    @classmethod
    def of_record(
        cls,
        run: dict[str, Any],
        frame: Any,  # a data frame of any kind
        text: str,
        *,
        labels: Sequence[str | None] = (),
        probs: Any = None,  # float[n, k], or rows of numbers
        errors: Sequence[str | None] | None = None,
        names: Sequence[str] | None = None,
        columns: Mapping[str, str] | None = None,
        stats: Stats | None = None,
    ) -> Coded:
        """Return texts that were coded earlier, from the record of their coding.

        Args:
            run: Provenance, see the attribute.
            frame: Data frame with the texts.
            text: Name of the column of texts.
            labels: n labels.
            probs: float[n, k], probabilities of the labels; None without any.
            errors: n error messages; None if no text has an error.
            names: The k labels; None for those of the codebook.
            columns: Columns by role.
            stats: Statistics of the call; None if unknown.
        """
        codebook = Codebook.from_dict(run["codebook"]["content"])
        known = tuple(codebook.names if names is None else names)
        if probs is not None:
            probs = np.array(probs, dtype=np.float64).reshape(len(labels), len(known))
        return cls(
            frame=frame,
            text=text,
            codebook=codebook,
            columns=dict(columns or {}),
            names=known,
            labels=list(labels),
            probs=probs,
            errors=[None] * len(labels) if errors is None else list(errors),
            run=run,
            stats=Stats() if stats is None else stats,
        )

    @property
    def error_codes(self) -> list[str | None]:
        """Code of each error, such as "too_long"; None for texts without an error."""
        return codes_of(self.errors)

    @property
    def expected(self) -> Floats | None:
        """Expected values in the column "mean", float64[n], if labels are numbers.

        None if `probs` is known, from which they follow.
        """
        name = self.columns.get("mean")
        if name is None or self.probs is not None or self.codebook.numbers is None:
            return None
        return np.array(column(self.frame, name, "mean"), dtype=np.float64)

    def __len__(self) -> int:
        return len(self.labels)

    def check_frame(self) -> None:
        """Check that nobody changed the column of labels in `frame`.

        `frame` belongs to the caller, who may correct labels there; `labels`, `probs` and
        `errors` then describe other labels than the frame.

        Raises:
            ArgumentError: The column has other labels than `labels`.
        """
        self._check_cells("label", self.labels)

    def check_probs(self) -> None:
        """Check that nobody changed the columns of probabilities in `frame`."""
        if self.probs is None:
            return
        for name, probs in zip(self.names, self.probs.T, strict=True):
            self._check_cells(f"p_{name}", probs.tolist())
        if not self.codebook.kind.is_several:
            self._check_cells("prob", self.probs.tolist())

    def _check_cells(self, role: str, answers: Sequence[Any]) -> None:
        """Check that a column, if `frame` has it, has the values that the model gave."""
        name = self.columns.get(role)
        if name is None or name not in names(self.frame):
            return
        column_cells = column(self.frame, name, role)
        if len(column_cells) == len(answers):
            cells = enumerate(zip(column_cells, answers, strict=True))
            i = next((i for i, (a, b) in cells if not _is_same(a, b)), None)
            if i is None:
                return
            answer = answers[i] if isinstance(answers[i], list) else [answers[i]]
            known = " or ".join(map(repr, answer))
            what = (
                f"{column_cells[i]!r} in row {number_of(i)}, where the model gave {known}"
            )
        else:
            what = f"{len(column_cells)} rows, but there are {len(answers)} labels"
        advice = "Write other probabilities to a new column"
        if role == "label":
            advice = (
                f"Give the {words().frame} in place of the result, which then has the "
                f"labels (coded.frame, with {setting('label', name)}), or write "
                "corrected labels to a new column"
            )
        raise ArgumentError(
            f"the column {checks.quoted(name)} of the {words().frame} was changed "
            f"after coding: it has {what}. {advice}",
            argument="coded",
            code="conflict",
            form="{problem}",
        )

    def __getitem__(self, rows: slice | Sequence[int] | Sequence[bool]) -> Coded:
        """Return some rows as a `Coded`; `run` and `stats` still describe all rows.

        Args:
            rows: A slice, indices from 0 (negative ones from the end), or a flag for each
                row. Flags in a pandas Series are matched by its index, as in pandas.
                Select a single row by `coded[[3]]`.

        Raises:
            TypeError: `rows` has another type.
            ValueError: A Series of flags, or a pandas Index, has other labels than the
                index of the data frame.
            IndexError: A row does not exist.
        """
        self.check_frame()
        indices = row_indices(in_order_of(self.frame, rows, "rows"), len(self))
        return replace(
            self,
            frame=with_rows(self.frame, indices),
            labels=[self.labels[i] for i in indices],
            probs=None if self.probs is None else self.probs[indices],
            errors=[self.errors[i] for i in indices],
        )

    def head(self, n: int = 5) -> Any:  # of the caller's kind
        """Return the first n rows of the data frame."""
        return self[: checks.integer("n", n, 0)].frame

    def to_frame(self) -> Any:  # of the caller's kind
        """Return the data frame."""
        return self.frame

    def __repr__(self) -> str:
        n_failed = sum(error is not None for error in self.errors)
        n_missing = sum(label is None for label in self.labels) - n_failed
        parts = [count_of(len(self), "text")]
        if self.codebook.type == "spans":
            n_spans = Counter(span["label"] for span in self._spans())
            counts = ", ".join(f"{name} {n_spans[name]}" for name in self.codebook.names)
            parts.append(f"{sum(n_spans.values())} spans ({counts})")
        if self.names:
            parts.append(f"{count_of(len(self.names), 'label')} ({self._counts})")
        if n_missing:
            parts.append(f"{n_missing} missing")
        head = f"<Coded: {', '.join(parts)}, {n_failed} failed>"
        steps = (self.run.get("steps") or {}).get("methods")
        lines = [head, *([f"Steps: {steps}"] if steps else [])]
        try:
            self.check_frame()
        except (ArgumentError, ArgumentTypeError) as error:
            lines.append(f"Note: {error}")
        return "\n".join([*lines, *printed_notes(self.notes)])

    def spans(self, id: str | None = None) -> Any:  # noqa: A002 - of the caller's kind
        """Return all passages as a long table: one row per passage, in the texts' order.

        Args:
            id: Column of the data frame that identifies the texts; None for a new column
                "row" with the row number, from 0.

        Returns:
            A data frame of the caller's kind: `id`, "label", "quote", "start" and "end",
            so that `text[start:end]` is the quote.

        Raises:
            ValueError: The codebook is not of the type "spans", or the column does not
                exist.
        """
        if self.codebook.type != "spans":
            raise ArgumentError(
                "need a codebook of the type 'spans', not "
                f"{checks.quoted(self.codebook.type)}",
                argument="spans",
                code="conflict",
            )
        rows = list(self._spans())
        at = [span["row"] for span in rows]
        ids = list(range(len(self))) if id is None else column(self.frame, id, "id")
        return long_table(self.frame, id or "row", [ids[i] for i in at], rows)

    def _spans(self) -> Iterator[dict[str, Any]]:
        for row, label in enumerate(self.labels):
            for span in () if label is None else json.loads(label)[SPANS]:
                yield {"row": row, **span}

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on labels with little information, such as one label for most texts."""
        return tuple(self.run.get("notes") or ())

    @property
    def _counts(self) -> str:
        """Return the frequency of each label, most frequent first."""
        label_names = [
            label_name
            for label in self.labels
            if label
            for label_name in self._names_in(label)
        ]
        counts = dict.fromkeys(self.names, 0) | Counter(label_names)
        most_frequent = sorted(counts.items(), key=lambda pair: -pair[1])
        more = len(most_frequent) - _MOST_COUNTS
        end = f", {more} more" if more > 0 else ""
        return ", ".join(f"{name} {n}" for name, n in most_frequent[:_MOST_COUNTS]) + end

    def _names_in(self, label: str) -> list[str]:
        """Split a label into label names; only type "multiple" has several names."""
        return label.split(JOINED) if self.codebook.kind.is_several else [label]


def _is_same(cell: object, answer: object) -> bool:
    """Compare a cell with a label, a probability (NaN: missing), or one of several."""
    if isinstance(answer, list):
        return any(_is_same(cell, prob) for prob in answer)
    if not isinstance(answer, float):
        return text_of(cell) == text_of(answer)
    if not isinstance(cell, (int, float)):
        return cell is None and math.isnan(answer)
    return math.isclose(cell, answer, abs_tol=_ROUNDING)


def row_indices(rows: object, n: int) -> list[int]:
    """Convert a selection to row indices, from 0."""
    if isinstance(rows, slice):
        return list(range(n))[rows]
    try:
        selection = np.asarray(rows)
    except ValueError:
        selection = np.empty(())  # nested lists
    if selection.ndim == 1 and (selection.dtype == bool or not len(selection)):
        if len(selection) not in (0, n):
            raise IndexError(f"rows must have a flag for each of {count_of(n, 'row')}")
        return [int(i) for i in np.flatnonzero(selection)]
    if selection.ndim != 1 or selection.dtype.kind not in "iu":
        raise ArgumentTypeError(
            f"must be a slice, indices or flags, not {checks.brief(rows)}; a single "
            "row is coded[[3]]",
            argument="rows",
        )
    if ((selection < -n) | (selection >= n)).any():
        raise IndexError(f"rows must be between {-n} and {n - 1}")
    return [int(i) % n for i in selection]
