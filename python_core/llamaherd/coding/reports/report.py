"""Writes reports, which suffice to reproduce a coding, and methods paragraphs."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from llamaherd.coding.annotation.coded import Coded
from llamaherd.coding.annotation.record import plain
from llamaherd.coding.estimation.estimates import Estimates
from llamaherd.coding.reports.document import document_of, is_unedited
from llamaherd.coding.reports.methods import MethodsText, methods_of
from llamaherd.coding.reports.page import page_of
from llamaherd.coding.reports.report_data import (
    FORMAT,
    JSON_ID,
    Contents,
    contents_of,
    errors_of_content,
    evaluation_dict,
    read_report,
    to_json,
)
from llamaherd.coding.selection.evaluation import Evaluation
from llamaherd.coding.selection.robustness import Robustness
from llamaherd.coding.validation.spans import SpanValidation
from llamaherd.coding.validation.validation import Validation
from llamaherd.engine.core import checks, files
from llamaherd.engine.core.argument import Argument
from llamaherd.engine.core.errors import ArgumentError, ArgumentTypeError, renamed
from llamaherd.engine.core.words import call, words

if TYPE_CHECKING:
    EstimatesGiven = Estimates | Sequence[Estimates] | Mapping[str, Estimates] | None

DEFAULT_TITLE = "Texts coded by a language model"
SUFFIXES = (".html", ".htm", ".docx", ".json")


def report(
    coded: Coded,
    path: str | os.PathLike[str] = "report.html",
    validation: Validation | None = None,
    estimates: EstimatesGiven = None,
    robustness: Robustness | None = None,
    *,
    evaluation: Evaluation | None = None,
    title: str = DEFAULT_TITLE,
    texts: bool = True,
    n_examples: int = 20,
) -> Path:
    """Write a page that documents how labels were made and how accurate they are.

    The page is a single file without links to other files, network or scripts. The page
    contains a methods paragraph with references, a checklist of reviewers' questions, the
    codebook, the exact prompts, the name and the SHA-256 of the model file, settings,
    versions, machine, tables, plots (with matplotlib), and texts on which model and
    people disagree. The page also contains the same data as JSON, from which `reproduce`
    repeats the coding.

    Args:
        coded: Result of `annotate`.
        path: Path of the file: ".html" for the page; ".docx" for a document of Word or
            LibreOffice with the same parts, without the JSON; ".json" for the JSON alone.
            An existing file is replaced.
        validation: Result of `validate`. A report does not show results of
            `validate_spans`; print or plot them.
        estimates: Result of `estimate`; or a list of results, each with its own section.
            The keys of a dict are the titles of the sections; without keys a title is the
            formula, or such as "Shares by party".
        robustness: Result of `robustness`.
        evaluation: Result of `evaluate_codebook` for the codebook, settings and model of
            the coding.
        title: Title of the page.
        texts: Include texts. Use False for texts that must not be shared: the report then
            has only hashes of texts and of extracted fields, and `reproduce` needs the
            data. The codebook and its examples are always included. Someone who guesses a
            short text can check by its hash whether the report contains it.
        n_examples: Maximum number of texts that the page shows.

    Returns:
        Path of the report.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: `path` has another extension, or the data frame was changed after
            coding.
        ImportError: ".docx" needs python-docx, which is not installed.
        OSError: The file cannot be written.
    """
    results = {
        "validation": validation,
        "estimates": estimates,
        "robustness": robustness,
        "evaluation": evaluation,
    }
    contents = _contents(coded, results, title=title, texts=texts, n_examples=n_examples)
    return write_report(contents, path)


def methods_text(
    coded: Coded | str | os.PathLike[str],
    validation: Validation | None = None,
    estimates: EstimatesGiven = None,
    robustness: Robustness | None = None,
    *,
    evaluation: Evaluation | None = None,
) -> MethodsText:
    """Write a methods paragraph, with BibTeX entries of the works that it cites.

    All sentences come from the data: model, codebook, temperature, thinking, calibration,
    sampling of the coded texts, agreement, estimators. Missing steps, such as a
    validation, are not mentioned; the checklist of `report` marks them as open.

    Args:
        coded: Result of `annotate`; or path of a report, which contains all other
            results.
        validation: Result of `validate`.
        estimates: Result of `estimate`; or several results, as in `report`.
        robustness: Result of `robustness`.
        evaluation: Result of `evaluate_codebook` for the codebook, settings and model of
            the coding.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: Results belong to other texts or labels; the file is not a report; or
            results were passed together with a report.
        OSError: The report cannot be read.
    """
    results = {
        "validation": validation,
        "estimates": estimates,
        "robustness": robustness,
        "evaluation": evaluation,
    }
    if not isinstance(coded, (str, os.PathLike)):
        return methods_of(_contents(coded, results, texts=False, n_examples=0))
    for name, value in results.items():
        if value is not None:
            raise ArgumentError(
                "must be omitted: the report has its own results", argument=name
            )
    path = Path(os.fsdecode(coded)).expanduser()
    with renamed(path="coded"), errors_of_content(path):
        return methods_of(read_report(path))


@dataclass(frozen=True, slots=True)
class Stored:
    """Content of a result as JSON types, in place of the result, as R keeps it."""

    content: dict[str, Any]


_KINDS = {"validation": Validation, "robustness": Robustness, "evaluation": Evaluation}


def _contents(
    coded: Coded,
    results: Mapping[str, Any],
    *,
    title: str = DEFAULT_TITLE,
    texts: bool,
    n_examples: int,
) -> Contents:
    """Return the content of a report; see `report` for the arguments."""
    _check("coded", coded, Coded)
    validation, robustness, evaluation = (
        _content_of(name, results[name]) for name in _KINDS
    )
    if "codebook" not in coded.run:
        raise ArgumentError(
            f"must be the result of {call('annotate')}, or of {call('recalibrate')} with "
            f"it: a {words().frame} has no record of how its labels were made",
            argument="coded",
            code="no_record",
        )
    return contents_of(
        coded,
        original=getattr(coded, "original", None),  # if it was recalibrated
        title=checks.text("title", title),
        texts=checks.flag("texts", texts),
        n_examples=checks.integer("n_examples", n_examples, 0),
        validation=validation,
        estimates=_estimates(results["estimates"]),
        robustness=robustness,
        evaluation=evaluation,
    )


def _content_of(name: str, result: Any) -> dict[str, Any] | None:
    if result is None:
        return None
    if isinstance(result, Stored):
        return result.content
    _check(name, result, _KINDS[name])
    is_evaluation = isinstance(result, Evaluation)
    content = evaluation_dict(result) if is_evaluation else result.to_dict()
    return cast("dict[str, Any]", plain(content))


def _estimates(results: EstimatesGiven) -> list[dict[str, Any]]:
    """Convert one or several results of `estimate` to JSON types, with their titles."""
    where = Argument("estimates")
    titled: list[tuple[Argument, str, Any]] = [(where, "", results)]
    if results is None:
        titled = []
    elif isinstance(results, Mapping):
        titled = [
            (where.at(str(title)), checks.text(where.at(str(title)), title), estimates)
            for title, estimates in results.items()
        ]
    elif isinstance(results, (list, tuple)):
        titled = [
            (where.at(place), "", estimates) for place, estimates in enumerate(results)
        ]
    for name, _, estimates in titled:
        if not isinstance(estimates, (Estimates, Stored)):
            what = " or a list of several," if name is where else ""
            raise ArgumentTypeError(
                f"must be the result of {call('estimate')},{what} not "
                f"{checks.brief(estimates)}",
                argument=name,
            )
    return [
        estimates.content if isinstance(estimates, Stored) else estimates.to_dict(title)
        for _, title, estimates in titled
    ]


def write_report(contents: Contents, path: str | os.PathLike[str]) -> Path:
    """Write a report's page, its document for Word, or its JSON."""
    file = checked_report_path(path)
    _check_replaceable(file)
    kind = file.suffix.lower()
    if kind == ".docx":
        content = document_of(contents)
    elif kind == ".json":
        content = f"{to_json(contents, indent=1)}\n".encode()
    else:
        content = page_of(contents).encode("utf-8", "replace")
    files.write_whole(file, content, argument="path")
    return file


def _check_replaceable(file: Path) -> None:
    """Check that a file is a report of llamaherd, if it exists."""
    if not file.is_file() or not file.stat().st_size:
        return
    if file.suffix.lower() == ".docx":
        is_report = is_unedited(file)
    else:
        content = file.read_bytes()
        is_report = any(f'"{mark}"'.encode() in content for mark in (JSON_ID, FORMAT))
    if not is_report:
        raise ArgumentError(
            f"{str(file)!r} already exists and is no report of llamaherd, or was "
            "edited: choose another name, or remove it",
            argument="path",
            code="exists",
            form="{name}: {problem}",
        )


def checked_report_path(path: object) -> Path:
    """Check the path of a report."""
    file = checks.path("path", path).expanduser()
    if file.suffix.lower() not in SUFFIXES:
        raise ArgumentError(
            f"must end with .html, .docx or .json, not {checks.brief(str(file))}",
            argument="path",
        )
    return file


def _check(name: str, value: Any, kind: type) -> None:
    if isinstance(value, SpanValidation):
        raise ArgumentTypeError(
            f"must be the result of {call('validate')}, not of "
            f"{call('validate_spans')}: a report "
            "highlights the passages, but has no table that compares them with people's; "
            f"print or {call('plot')} this result",
            argument=name,
        )
    checks.instance(name, value, kind, f"a {kind.__name__}")
