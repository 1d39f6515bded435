"""Reading of reports from HTML pages or JSON files."""

from __future__ import annotations

import json
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from jinja2 import TemplateError

from llamaherd.coding.reports.page import JSON_ID
from llamaherd.coding.reports.report_data import FORMAT, VERSION
from llamaherd.engine.core.errors import ArgumentError, BadArgumentError, LlamaHerdError
from llamaherd.engine.core.plain import DAMAGED

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from llamaherd.coding.reports.report_data import Contents

_SCRIPT = re.compile(rf"""<script\b[^>]*\bid=["']?{JSON_ID}\b[^>]*>""")
_PARTS: dict[str, type] = {"run": dict, "data": dict, "labels": dict, "errors": dict}
_RUN = ("codebook", "settings", "model", "context", "versions", "machine")


def read_report(path: Path) -> Contents:
    """Read the content of a report."""
    if path.suffix.lower() == ".docx" and path.exists():
        raise _refused(
            path,
            "is a document, which does not contain the data of the report: write the "
            "report as .html or .json, too",
        )
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _refused(path, f"is not a report: not UTF-8 ({error})") from None
    if path.suffix.lower() != ".json":
        text = _embedded(text, path)
    try:
        contents = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _refused(path, f"is not a report, or is cut off: {error}") from None
    return _checked(contents, path)


@contextmanager
def errors_of_content(path: Path) -> Iterator[None]:
    """Convert errors of code that uses a report with unexpected content."""
    try:
        yield
    except (BadArgumentError, LlamaHerdError):
        raise
    except (*DAMAGED, TemplateError) as error:  # templates are strict about fields
        problem = f"cannot be read ({type(error).__name__}: {error})"
        raise _damaged(path, problem) from error


def error_of_content(problem: str, code: str = "changed") -> ArgumentError:
    """Return the error of a report whose content was changed or cannot be repeated."""
    return ArgumentError(problem, argument="path", code=code, form="{name}: {problem}")


def _refused(path: Path, problem: str, code: str = "not_a_report") -> ArgumentError:
    return error_of_content(f"{path} {problem}", code)


def _damaged(path: Path, problem: str) -> ArgumentError:
    return _refused(path, f"is damaged: it {problem}", "damaged")


def _embedded(text: str, path: Path) -> str:
    """Return the content of the last script element with the report's id."""
    *_, start = [None, *_SCRIPT.finditer(text)]
    if start is None:
        raise _refused(path, f"is not a report: it has no element {JSON_ID!r}")
    content, _, _ = text[start.end() :].partition("</script>")
    return content


def _checked(contents: Any, path: Path) -> Contents:  # noqa: ANN401 - JSON
    if not isinstance(contents, dict) or contents.get("format") != FORMAT:
        raise _refused(path, f"is not a report: 'format' is not {FORMAT!r}")
    if contents.get("version") != VERSION:
        raise _refused(
            path,
            f"is a report of version {contents.get('version')!r}; this llamaherd reads "
            f"version {VERSION}",
            code="other_version",
        )
    for name, kind in _PARTS.items():
        if not isinstance(contents.get(name), kind):
            raise _damaged(path, f"has no object {name!r}")
    for name in _RUN:
        if not isinstance(contents["run"].get(name), dict):
            raise _damaged(path, f"has no object run.{name}")
    _check_data(contents, path)
    return contents


def _check_data(contents: Contents, path: Path) -> None:
    """Check lengths of lists, and that rows refer to existing texts."""
    data, values = contents["data"], contents["labels"].get("values")
    rows, probs = data.get("rows"), contents.get("probs")
    texts = data.get("texts", data.get("texts_sha256"))
    if not isinstance(rows, list) or not isinstance(texts, list):
        raise _damaged(path, "has no list data.rows or data.texts")
    if not all(isinstance(text, str) for text in texts):
        raise _damaged(path, "has values in data.texts that are not texts")
    n = len(texts)
    for name, column in (("labels.values", values), ("probs", probs)):
        optional = name == "probs" and column is None
        if not optional and (not isinstance(column, list) or len(column) != n):
            raise _damaged(path, f"must have {n} values in {name}")
    for row in rows:
        if row is not None and (type(row) is not int or not 0 <= row < n):
            raise _damaged(path, f"has {row!r} in data.rows: there is no such text")
