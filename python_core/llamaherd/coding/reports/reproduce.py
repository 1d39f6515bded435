"""Reproduction of a report: codes its texts again and compares all results."""

from __future__ import annotations

import math
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.coding import frames
from llamaherd.coding.annotation.annotate import annotate_quietly
from llamaherd.coding.annotation.codebook import Codebook
from llamaherd.coding.annotation.record import machine, versions_here
from llamaherd.coding.annotation.settings import RECORDED
from llamaherd.coding.annotation.texts import checked_texts, hash_of_texts, is_blank
from llamaherd.coding.plots.counts import label_summary
from llamaherd.coding.reports.report_data import (
    Contents,
    error_of_content,
    errors_of_content,
    hashed_labels,
    read_report,
    sha256_of_text,
)
from llamaherd.coding.reports.reproduce_context import context_of, later_steps
from llamaherd.engine.core import checks
from llamaherd.engine.core.errors import ArgumentError, is_cancelled, stored_error
from llamaherd.engine.core.keeping import keeping
from llamaherd.engine.core.phrases import count_of, first_rows
from llamaherd.engine.core.words import number_of, setting
from llamaherd.engine.native import shim

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from llamaherd.calls.run.host import Host
    from llamaherd.coding.annotation.coded import Coded
    from llamaherd.engine.core.arrays import Floats
    from llamaherd.engine.core.stats import ProgressOption
    from llamaherd.engine.model.model import Model


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
            if index is not None
            and not is_cancelled(stored_error(errors.get(str(index))))
        ]
        pairs = [(i, recorded["values"][index], labels[i]) for i, index in rows]
        same_label = np.array([then == now for _, then, now in pairs], dtype=bool)
        is_same, largest = same_label, 0.0
        probs = _probs(contents.get("probs"), len(coded.names))
        if probs is not None and coded.probs is not None:
            new_rows, old_rows = [i for i, _ in rows], [index for _, index in rows]
            equal, largest = _equal(probs[old_rows], coded.probs[new_rows])
            is_same = same_label & equal
        elif probs is not None:
            is_same, largest = np.zeros(len(rows), dtype=bool), math.nan
        return cls(
            n=len(rows),
            n_same=int(is_same.sum()),
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
    """Compare the report's counts with its labels; recalibrated ones are not in it."""
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


def _is_near(then: Any, now: Any) -> bool:  # JSON
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


_TEXT = ".text"  # column for texts of a report; no field can have this name


def reproduce(
    path: str | os.PathLike[str],
    model: str | os.PathLike[str] | Model | Host | None = None,
    *,
    data: Any = None,  # a data frame of any kind
    text: str | None = None,
    n_seq_max: int | None = None,
    n_threads: int | None = None,
    progress: ProgressOption = False,
) -> Reproduction:
    """Code the texts of a report again and compare each label and probability.

    Model, codebook and texts must be the same as in the report; differences in versions
    and machines are listed. The files of a model for embeddings and of a larger model
    (`until`, `larger`) are found by name and content in the folder of the report, the
    working directory, the folder of the model's file, and the model cache. The GPU gets
    as many layers as in the report, if a GPU can be used. If the context was
    deterministic, results are identical with the same versions, for any `n_seq_max` and
    `n_threads`.

    Args:
        path: Path of the report's page or JSON file.
        model: The model file; or a model or context to use. None to search for a file of
            the recorded name in the folder of the report, the working directory, and the
            model cache.
        data: A data frame with the texts. Required for a report without texts. For other
            reports, these texts are compared with the texts of the report.
        text: Name of the column of texts; None for the name in the report.
        n_seq_max: Number of prompts that run at once; None for the number in the report.
        n_threads: Number of threads; None for the number in the report, but at most the
            number of cores.
        progress: As in `generate_parallel`.

    Returns:
        The comparison of results; `print` shows it.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The file is not a report; model, codebook or data have changed, or are
            missing; or an argument is out of range.
        FileNotFoundError: The model file does not exist.
        OSError: The report cannot be read.
        ModelLoadError: The model cannot be loaded.
        Interrupted: Ctrl-C was pressed; `results` is the `Coded` of the finished texts.
    """
    file = checks.path("path", path).expanduser()
    contents = read_report(file)
    with ExitStack() as closing:
        with errors_of_content(file):
            codebook, settings = _codebook(contents), _settings(contents)
            frame, name = _frame(contents, data, text)
            context = context_of(
                contents, model, file.parent, n_seq_max, n_threads, closing=closing
            )
            folders = [file.parent, Path.cwd()]
            if context.model.path is not None:
                folders.append(context.model.path.parent)
            settings |= later_steps(contents["run"].get("steps"), folders, closing)
        coded = annotate_quietly(
            frame, name, codebook, context, progress=progress, **settings
        )
        with keeping(coded), errors_of_content(file):
            return Reproduction.of(contents, coded)


def _codebook(contents: Contents) -> Codebook:
    recorded = contents["run"]["codebook"]
    try:
        codebook = Codebook.from_dict(recorded["content"])
    except (KeyError, TypeError, ValueError) as error:
        raise error_of_content(
            f"the report's codebook is damaged: {error}", "damaged"
        ) from None
    if codebook.hash != recorded.get("hash"):
        raise error_of_content(
            f"the report's codebook was changed: its content has the hash "
            f"{codebook.hash[:12]}..., not {str(recorded.get('hash'))[:12]}..."
        )
    return codebook


def _frame(
    contents: Contents,
    data: Any,  # a data frame of any kind
    text: str | None,
) -> tuple[Any, str]:
    """Return a data frame with the report's texts, and the name of its column."""
    recorded = contents["data"]
    if "texts" in recorded:
        different_texts = recorded["texts"]
        blank = dict(recorded.get("blank") or {})  # texts without content, by row
        texts = [
            blank.get(str(i)) if index is None else different_texts[index]
            for i, index in enumerate(recorded["rows"])
        ]
        if hash_of_texts(texts) != recorded.get("sha256"):
            raise error_of_content("the report's texts were changed: their hash differs")
        if data is None:
            return {_TEXT: texts}, _TEXT
    elif data is None:
        raise ArgumentError(
            "must be given: this report contains no texts, only their hashes",
            argument="data",
        )
    name = text or str(recorded["text"])
    new_texts = checked_texts(frames.column(data, name, "text"), name)
    if len(new_texts) != len(recorded["rows"]):
        raise ArgumentError(
            f"has {count_of(len(new_texts), 'row')}, but the report has "
            f"{len(recorded['rows']):,}",
            argument="data",
        )
    hashes = recorded.get("texts_sha256") or [
        sha256_of_text(known_text) for known_text in recorded["texts"]
    ]
    for i, (value, at) in enumerate(zip(new_texts, recorded["rows"], strict=True)):
        now = None if value is None or is_blank(value) else sha256_of_text(value)
        if now != (None if at is None else hashes[at]):
            raise ArgumentError(
                f"row {number_of(i)}: the text differs from the coded text",
                argument="data",
                code="changed",
                form="{name}, {problem}",
            )
    return {_TEXT: new_texts}, _TEXT


def _settings(contents: Contents) -> dict[str, Any]:
    """Return the report's settings; raise an error for those that cannot be repeated."""
    run = contents["run"]
    recorded = run["settings"]
    unknown = [name for name in recorded if name not in RECORDED]
    if unknown:
        raise error_of_content(
            f"the report has unknown settings: {', '.join(unknown)}", "unknown_settings"
        )
    depends = ""
    if run.get("steps") is not None:
        depends = "each step selected its texts from all rows"
    elif recorded.get("calibrate") == "batch":
        depends = (
            f"with {setting('calibrate', 'batch')} their probabilities depend on the "
            "other rows"
        )
    if depends and run.get("texts_sha256") != contents["data"].get("sha256"):
        raise error_of_content(
            f"the report has only some of the coded rows, but {depends}", "missing_rows"
        )
    return dict(recorded)
