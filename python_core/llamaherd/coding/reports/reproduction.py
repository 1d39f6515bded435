"""Result of reproducing a report: differences between old and new labels."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.coding.annotation.record import machine, versions_here
from llamaherd.coding.plots.counts import label_summary
from llamaherd.coding.reports.report_data import hashed_labels
from llamaherd.engine.core.errors import is_cancelled, stored
from llamaherd.engine.core.phrases import count_of, first_rows
from llamaherd.engine.core.words import setting
from llamaherd.engine.native import shim

if TYPE_CHECKING:
    from collections.abc import Mapping

    from llamaherd.calls.asks.calibration import Floats
    from llamaherd.coding.annotation.coded import Coded
    from llamaherd.coding.reports.report_data import Contents

_MOST_CHANGED = 10
_ROUNDING = 1e-9  # relative difference of means that are summed in another order
# Options that do not affect answers of a deterministic context.
_FREE = ("n_ctx", "n_seq_max", "n_threads", "n_threads_batch")


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

    @classmethod
    def of(cls, contents: Contents, coded: Coded) -> Reproduction:
        """Compare the labels of a report with new labels, row by row."""
        run, recorded, errors = contents["run"], contents["labels"], contents["errors"]
        is_hidden = recorded.get("are_hashes")
        labels = hashed_labels(coded.labels) if is_hidden else coded.labels
        rows = [
            (i, index)
            for i, index in enumerate(contents["data"]["rows"])
            if index is not None and not is_cancelled(stored(errors.get(str(index))))
        ]
        pairs = [(i, recorded["values"][index], labels[i]) for i, index in rows]
        same_label = np.array([then == now for _, then, now in pairs], dtype=bool)
        same, largest = same_label, 0.0
        probs = _probs(contents.get("probs"), len(coded.names))
        if probs is not None and coded.probs is not None:
            here, there = [i for i, _ in rows], [index for _, index in rows]
            equal, largest = _equal(probs[there], coded.probs[here])
            same = same_label & equal
        elif probs is not None:
            same, largest = np.zeros(len(rows), dtype=bool), math.nan
        return cls(
            n=len(rows),
            n_same=int(same.sum()),
            n_same_labels=int(same_label.sum()),
            has_probs=probs is not None,
            largest_difference=largest,
            changed=tuple(
                Changed(row=i, then=then, now=now)
                for i, then, now in pairs
                if then != now
            ),
            is_deterministic=_are_deterministic(run, coded.run),
            versions=_differences(run, coded.run),
            coded=coded,
            is_summary_same=_is_summary_same(
                contents, probs, several=coded.codebook.kind.is_several
            ),
        )

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
                f"  row {change.row + 1}: {change.then!r} then, {change.now!r} now"
                for change in self.changed
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


def _probs(values: list[list[float | None] | None] | None, k: int) -> Floats | None:
    """Return probabilities, float64[n, k]; NaN for missing ones."""
    if values is None:
        return None
    rows = [[None] * k if row is None else row for row in values]
    return np.array(rows, dtype=np.float64).reshape(len(rows), k)


def _is_summary_same(contents: Contents, probs: Floats | None, *, several: bool) -> bool:
    """Return True if the report's counts and shares are those of its labels.

    Also return True for a recalibrated coding, whose labels are not in the report.
    """
    if contents["run"].get("recalibration") is not None:
        return True
    rows = [index for index in contents["data"]["rows"] if index is not None]
    again = label_summary(
        [contents["labels"]["values"][index] for index in rows],
        contents["labels"]["names"],
        None if probs is None else probs[rows],
        several=several,
    )
    return len(again) == len(contents["summary"]) and all(
        _is_near(then[name], value)
        for then, now in zip(contents["summary"], again, strict=True)
        for name, value in now.items()
    )


def _is_near(then: Any, now: Any) -> bool:  # noqa: ANN401 - JSON
    """Return True for equal values, and for numbers that only rounding tells apart."""
    are_floats = isinstance(then, float) and isinstance(now, float)
    return then == now or (are_floats and math.isclose(then, now, rel_tol=_ROUNDING))


def _are_deterministic(*runs: Mapping[str, Any]) -> bool:
    return all(run["context"].get("deterministic") for run in runs)


def _differences(
    run: Mapping[str, Any], again: Mapping[str, Any]
) -> dict[str, tuple[str, str]]:
    """Return differences from the first run: versions, machine, relevant options."""
    free = _FREE if _are_deterministic(run, again) else ()
    options = {name: v for name, v in run["context"].items() if name not in free}
    before = {**run["versions"], **run["machine"], **options}
    now = {**versions_here(), **machine(), **again["context"]}
    differences = {
        name: (str(value), str(now[name]))
        for name, value in before.items()
        if name in now and now[name] != value
    }
    then, layers = (record["model"].get("n_gpu_layers", 0) for record in (run, again))
    if then != layers:
        missing = "" if shim.supports_gpu() else " (no GPU can be used here)"
        differences["n_gpu_layers"] = (str(then), f"{layers}{missing}")
    return differences
