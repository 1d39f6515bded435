"""Telling others: one page with all that was done, from which it can be done again."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llamaherd.core import checks
from llamaherd.research.coding.coded import Coded
from llamaherd.research.estimation.estimates import Estimates
from llamaherd.research.estimation.robustness import Robustness
from llamaherd.research.reports.report_data import (
    contents_of,
    estimates_dict,
    plain,
    robustness_dict,
    to_json,
)
from llamaherd.research.reports.report_page import page_of
from llamaherd.research.validation.validation import Validation

if TYPE_CHECKING:
    from llamaherd.research.reports.report_data import Contents

DEFAULT_TITLE = "Texts coded by a language model"
SUFFIXES = (".html", ".htm", ".json")


def report(
    coded: Coded,
    path: str | os.PathLike[str] = "report.html",
    validation: Validation | None = None,
    estimates: Estimates | None = None,
    robustness: Robustness | None = None,
    *,
    title: str = DEFAULT_TITLE,
    texts: bool = True,
    n_examples: int = 20,
) -> Path:
    """Writes a page that tells how labels came about, and how good they are.

    The page is one file that needs no other, no network and no script: the codebook, the
    exact prompts, the model's file with its SHA-256, settings, versions, machine, tables,
    plots (with matplotlib), texts where model and people disagree. It holds all of that
    as JSON, too, which `reproduce` runs again.

    Args:
        coded: What `annotate` returned.
        path: Where to write: ".html" for the page, ".json" for the JSON alone.
        validation: What `validate` returned.
        estimates: What `estimate` returned.
        robustness: What `robustness` returned.
        title: Of the page.
        texts: Whether texts are in it. False for texts that must not be shared: then
            there are only their hashes, fields that were read out of them included, and
            `reproduce` has to be given the data. The codebook and its examples are in it
            all the same. Who has a short text in mind can tell by its hash whether it is
            there.
        n_examples: Most texts that the page shows.

    Returns:
        The path.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: `path` ends with something else; the data frame was changed after
            coding.
        OSError: The file cannot be written.
    """
    _check("coded", coded, Coded)
    for name, value, kind in (
        ("validation", validation, Validation),
        ("estimates", estimates, Estimates),
        ("robustness", robustness, Robustness),
    ):
        if value is not None:
            _check(name, value, kind)
    told = None if validation is None else plain(validation.to_dict())
    contents = contents_of(
        coded,
        title=checks.text("title", title),
        texts=checks.flag("texts", texts),
        n_examples=checks.integer("n_examples", n_examples, 0),
        validation=told,
        estimates=None if estimates is None else estimates_dict(estimates),
        robustness=None if robustness is None else robustness_dict(robustness),
    )
    return write_report(contents, path)


def write_report(contents: Contents, path: str | os.PathLike[str]) -> Path:
    """Writes a report's page, or its JSON.

    Raises:
        TypeError: `path` is no path.
        ValueError: It ends with something else.
        OSError: The file cannot be written.
    """
    file = checked_report_path(path)
    if file.suffix.lower() == ".json":
        text = to_json(contents, indent=1) + "\n"
    else:
        text = page_of(contents)
    # Beside it first: no half a report where there was a whole one.
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        draft.write_text(text, encoding="utf-8", newline="\n")
        draft.replace(file)
    finally:
        draft.unlink(missing_ok=True)
    return file


def checked_report_path(path: object) -> Path:
    """A path that a report may have.

    Raises:
        TypeError: It is no path.
        ValueError: It ends with something else than ".html" or ".json".
    """
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"path must be a str or a path, not {checks.shown(path)}")
    file = Path(os.fsdecode(path)).expanduser()
    if file.suffix.lower() not in SUFFIXES:
        raise ValueError(
            f"path must end with .html or .json, not {checks.shown(str(file))}"
        )
    return file


def _check(name: str, value: Any, kind: type) -> None:  # noqa: ANN401 - anything
    if not isinstance(value, kind):
        raise TypeError(f"{name} must be a {kind.__name__}, not {checks.shown(value)}")
