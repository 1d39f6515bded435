"""Reproduction of a report: codes its texts again and compares all results."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llamaherd.coding import frames
from llamaherd.coding.annotation.annotate import annotate_quietly
from llamaherd.coding.annotation.codebook import Codebook
from llamaherd.coding.annotation.settings import RECORDED
from llamaherd.coding.annotation.texts import checked_texts, hash_of_texts, is_blank
from llamaherd.coding.reports.report_data import sha256_of
from llamaherd.coding.reports.report_file import (
    error_of_content,
    errors_of_content,
    read_report,
)
from llamaherd.coding.reports.reproduce_context import context_of, later_steps
from llamaherd.coding.reports.reproduction import Reproduction
from llamaherd.engine.core import checks
from llamaherd.engine.core.errors import ArgumentError
from llamaherd.engine.core.keeping import keeping
from llamaherd.engine.core.phrases import count_of
from llamaherd.engine.core.words import setting

if TYPE_CHECKING:
    import os

    from llamaherd.calls.run.host import Host
    from llamaherd.coding.reports.report_data import Contents
    from llamaherd.engine.core.stats import ProgressOption
    from llamaherd.engine.model.model import Model

_TEXT = ".text"  # column for texts of a report; no field can have this name


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
    data: Any,  # noqa: ANN401 - a data frame of any kind
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
        sha256_of(known_text) for known_text in recorded["texts"]
    ]
    for i, (value, index) in enumerate(zip(new_texts, recorded["rows"], strict=True)):
        now = None if value is None or is_blank(value) else sha256_of(value)
        if now != (None if index is None else hashes[index]):
            raise ArgumentError(
                f"row {i}: the text differs from the coded text",
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
