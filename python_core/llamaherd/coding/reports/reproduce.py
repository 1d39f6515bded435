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
from llamaherd.coding.reports.report_data import hashed_labels, sha256_of
from llamaherd.coding.reports.report_file import (
    error_of_content,
    errors_of_content,
    read_report,
)
from llamaherd.coding.reports.reproduce_context import (
    context_of,
    later_steps,
    n_gpu_layers_of,
)
from llamaherd.coding.reports.reproduction import Reproduction, Then, compare_labels
from llamaherd.engine.core import checks
from llamaherd.engine.core.errors import ArgumentError, is_cancelled, stored
from llamaherd.engine.core.keeping import keeping
from llamaherd.engine.core.phrases import count_of
from llamaherd.engine.core.words import setting
from llamaherd.engine.native import shim

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from llamaherd.calls.run.host import Host
    from llamaherd.coding.annotation.coded import Coded
    from llamaherd.coding.reports.report_data import Contents
    from llamaherd.engine.core.stats import ProgressOption
    from llamaherd.engine.model.model import Model

_TEXT = ".text"  # column for texts of a report; no field can have this name
_ROUNDING = 1e-9  # relative difference of means that are summed in another order
# Options that do not affect answers of a deterministic context.
_FREE = ("n_ctx", "n_seq_max", "n_threads", "n_threads_batch")


def reproduce(
    path: str | os.PathLike[str],
    model: str | os.PathLike[str] | Model | Host | None = None,
    *,
    data: Any = None,  # noqa: ANN401 - a data frame of any kind
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
    with Replay.of(
        path, model, data=data, text=text, n_seq_max=n_seq_max, n_threads=n_threads
    ) as replay:
        coded = annotate_quietly(
            *replay.arguments, replay.context, progress=progress, **replay.settings
        )
        with keeping(coded):
            return replay.compared(coded)


@dataclass(frozen=True, kw_only=True, eq=False)
class Replay:
    """Prepared run of a report; a context manager that closes what it created.

    Attributes:
        file: Path of the report.
        contents: Content of the report.
        arguments: The first three arguments of `annotate`: data frame, column, codebook.
        settings: Further arguments of `annotate`.
        context: Context to run in.
        own: Objects to close at the end.
    """

    file: Path
    contents: Contents
    arguments: tuple[Any, str, Codebook]
    settings: dict[str, Any]
    context: Host
    own: ExitStack

    @classmethod
    def of(
        cls,
        path: str | os.PathLike[str],
        model: str | os.PathLike[str] | Model | Host | None,
        *,
        data: Any = None,  # noqa: ANN401 - a data frame of any kind
        text: str | None = None,
        n_seq_max: int | None = None,
        n_threads: int | None = None,
    ) -> Replay:
        """Read and check a report, and load its model; arguments as in `reproduce`."""
        file = checks.path("path", path).expanduser()
        contents = read_report(file)
        with errors_of_content(file), ExitStack() as own:
            codebook = _codebook(contents)
            settings = _settings(contents)
            frame, name = _frame(contents, data, text)
            _check_calibration(contents)
            context = context_of(
                contents, model, file.parent, n_seq_max, n_threads, own=own
            )
            folders = [file.parent, Path.cwd()]
            if context.model.path is not None:
                folders.append(context.model.path.parent)
            settings |= later_steps(contents["run"].get("steps"), folders, own)
            return cls(
                file=file,
                contents=contents,
                arguments=(frame, name, codebook),
                settings=settings,
                context=context,
                own=own.pop_all(),
            )

    def compared(self, coded: Coded) -> Reproduction:
        """Compare the new labels with the labels of the report."""
        with errors_of_content(self.file):
            return _compared(self.contents, coded)

    def close(self) -> None:
        """Close the model and the context that were created."""
        self.own.close()

    def __enter__(self) -> Replay:  # noqa: PYI034 - typing.Self is of Python 3.11
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


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
    data: Any,  # noqa: ANN401 - a data frame of any kind
    text: str | None,
) -> tuple[Any, str]:
    """Return a data frame with the report's texts, and the name of its column."""
    recorded = contents["data"]
    if "texts" in recorded:
        known = recorded["texts"]
        blank = dict(recorded.get("blank") or {})  # texts without content, by row
        found = [
            blank.get(str(i)) if index is None else known[index]
            for i, index in enumerate(recorded["rows"])
        ]
        if hash_of_texts(found) != recorded.get("sha256"):
            raise error_of_content("the report's texts were changed: their hash differs")
        if data is None:
            return {_TEXT: found}, _TEXT
    elif data is None:
        raise ArgumentError(
            "must be given: this report contains no texts, only their hashes",
            argument="data",
        )
    name = text or str(recorded["text"])
    given = checked_texts(frames.column(data, name, "text"), name)
    if len(given) != len(recorded["rows"]):
        raise ArgumentError(
            f"has {count_of(len(given), 'row')}, but the report has "
            f"{len(recorded['rows']):,}",
            argument="data",
        )
    hashes = recorded.get("texts_sha256") or [
        sha256_of(each) for each in recorded["texts"]
    ]
    for i, (value, index) in enumerate(zip(given, recorded["rows"], strict=True)):
        now = None if value is None or is_blank(value) else sha256_of(value)
        if now != (None if index is None else hashes[index]):
            raise ArgumentError(
                f"row {i}: the text differs from the coded text",
                argument="data",
                code="changed",
                form="{name}, {problem}",
            )
    return {_TEXT: given}, _TEXT


def _settings(contents: Contents) -> dict[str, Any]:
    """Return the report's settings; raise an error for unknown settings."""
    recorded = contents["run"]["settings"]
    unknown = [name for name in recorded if name not in RECORDED]
    if unknown:
        raise error_of_content(
            f"the report has unknown settings: {', '.join(unknown)}", "unknown_settings"
        )
    return dict(recorded)


def _check_calibration(contents: Contents) -> None:
    run = contents["run"]
    is_all = run.get("texts_sha256") == contents["data"].get("sha256")
    if run.get("steps") is not None and not is_all:
        raise error_of_content(
            "the report has only some of the coded rows, but each step selected its "
            "texts from all rows",
            "missing_rows",
        )
    if run["settings"].get("calibrate") == "batch" and not is_all:
        raise error_of_content(
            "the report has only some of the coded rows, but with "
            f"{setting('calibrate', 'batch')} their probabilities depend on the other "
            "rows",
            "missing_rows",
        )


def _is_summary_same(contents: Contents, codebook: Codebook) -> bool:
    """Return True if the report's counts and shares are those of its labels.

    Also return True for a recalibrated coding, whose labels are not in the report.
    """
    if contents["run"].get("recalibration") is not None:
        return True
    rows = [index for index in contents["data"]["rows"] if index is not None]
    names = contents["labels"]["names"]
    probs = contents.get("probs")
    again = label_summary(
        [contents["labels"]["values"][index] for index in rows],
        names,
        None if probs is None else _array(probs, len(names))[rows],
        several=codebook.kind.is_several,
    )
    try:
        return len(again) == len(contents["summary"]) and all(
            _is_same(then, now)
            for then, now in zip(contents["summary"], again, strict=True)
        )
    except (KeyError, TypeError) as error:
        raise error_of_content(
            f"the report's summary is damaged: {error}", "damaged"
        ) from None


def _is_same(then: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Return True if two entries of a summary are equal, but for rounding."""
    names = ("label", "n", "n_labelled", "bands")
    exact = all(then[name] == now[name] for name in names)
    one, other = (
        [math.nan if each[name] is None else each[name] for name in ("share", "prob")]
        for each in (then, now)
    )
    close = np.allclose(one, other, rtol=_ROUNDING, atol=0, equal_nan=True)
    return exact and bool(close)


def _compared(contents: Contents, coded: Coded) -> Reproduction:
    recorded = contents["labels"]
    values = recorded["values"]
    labels = hashed_labels(coded.labels) if recorded.get("are_hashes") else coded.labels
    errors = contents["errors"]
    k = len(coded.names)
    probs = contents.get("probs")
    then = Then(
        rows=contents["data"]["rows"],
        labels=values,
        probs=None if probs is None else _array(probs, k),
        computed=[
            not is_cancelled(stored(errors.get(str(i)))) for i in range(len(values))
        ],
    )
    run = contents["run"]
    return compare_labels(
        then,
        coded,
        labels,
        is_deterministic=bool(
            run["context"].get("deterministic")
            and coded.run["context"].get("deterministic")
        ),
        versions=_differences(run, coded.run),
        is_summary_same=_is_summary_same(contents, coded.codebook),
    )


def _array(probs: list[list[float | None] | None], k: int) -> Any:  # noqa: ANN401
    rows = [
        [math.nan] * k
        if row is None
        else [math.nan if value is None else value for value in row]
        for row in probs
    ]
    try:
        return np.array(rows, dtype=np.float64).reshape(len(rows), k)
    except (TypeError, ValueError) as error:
        raise error_of_content(
            f"the report's probabilities are damaged: {error}", "damaged"
        ) from None


def _differences(
    run: Mapping[str, Any], again: Mapping[str, Any]
) -> dict[str, tuple[str, str]]:
    """Return differences from the first run: versions, machine, relevant options."""
    context = again["context"]
    pairs = [(run["versions"], versions_here()), (run["machine"], machine())]
    exact = run["context"].get("deterministic") and context.get("deterministic")
    free = _FREE if exact else ()
    pairs.append(
        (
            {name: v for name, v in run["context"].items() if name not in free},
            dict(context),
        )
    )
    found = {}
    for before, now in pairs:
        for name, value in before.items():
            if name in now and now[name] != value:
                found[name] = (str(value), str(now[name]))
    before, after = n_gpu_layers_of(run["model"]), again["model"]["n_gpu_layers"]
    if before != after:
        missing = "" if shim.supports_gpu() else " (no GPU can be used here)"
        found["n_gpu_layers"] = (str(before), f"{after}{missing}")
    return found
