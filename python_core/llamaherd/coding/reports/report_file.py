"""Reading of reports from HTML pages or JSON files."""

from __future__ import annotations

import json
from contextlib import contextmanager
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

from jinja2 import TemplateError

from llamaherd.coding.reports.report_data import FORMAT, VERSION
from llamaherd.coding.reports.report_document import JSON_ID
from llamaherd.engine.core.errors import ArgumentError, BadArgumentError, LlamaHerdError
from llamaherd.engine.core.plain import DAMAGED

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from llamaherd.coding.reports.report_data import Contents

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
def damages(path: Path) -> Iterator[None]:
    """Convert errors of code that uses a report with unexpected content."""
    try:
        yield
    except (BadArgumentError, LlamaHerdError):
        raise
    except (*DAMAGED, TemplateError) as error:  # templates are strict about fields
        problem = f"cannot be read ({type(error).__name__}: {error})"
        raise _refused(path, problem, "damaged") from error


def unlike(problem: str, code: str = "changed") -> ArgumentError:
    """Return the error of a report whose content was changed or cannot be repeated."""
    return ArgumentError(problem, argument="path", code=code, form="{name}: {problem}")


def _refused(path: Path, problem: str, code: str = "not_a_report") -> ArgumentError:
    if code == "damaged":
        problem = f"is damaged: it {problem}"
    return ArgumentError(
        f"{path} {problem}", argument="path", code=code, form="{name}: {problem}"
    )


class _ScriptFinder(HTMLParser):
    """Parser that stores the content of the script element with the report's id."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=False)
        self.found: list[str] | None = None
        self._is_inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "script" and dict(attrs).get("id") == JSON_ID and self.found is None:
            self.found = []
            self._is_inside = True

    def handle_endtag(self, tag: str) -> None:
        if tag == "script":
            self._is_inside = False

    def handle_data(self, data: str) -> None:
        if self._is_inside and self.found is not None:
            self.found.append(data)


def _embedded(text: str, path: Path) -> str:
    # Large pages are mostly JSON, so parsing starts at the element that contains it.
    mark = text.rfind(f'id="{JSON_ID}"')
    start = text.rfind("<script", 0, mark) if mark >= 0 else -1
    finder = _ScriptFinder()
    finder.feed(text[max(start, 0) :])
    finder.close()
    if finder.found is None:
        raise _refused(path, f"is not a report: it has no element {JSON_ID!r}")
    return "".join(finder.found)


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
            raise _refused(path, f"has no object {name!r}", code="damaged")
    for name in _RUN:
        if not isinstance(contents["run"].get(name), dict):
            raise _refused(path, f"has no object run.{name}", code="damaged")
    _check_data(contents, path)
    return contents


def _check_data(contents: Contents, path: Path) -> None:
    """Check lengths of lists, and that rows refer to existing texts."""
    data, values = contents["data"], contents["labels"].get("values")
    rows, probs = data.get("rows"), contents.get("probs")
    texts = data.get("texts", data.get("texts_sha256"))
    if not isinstance(rows, list) or not isinstance(texts, list):
        raise _refused(path, "has no list data.rows or data.texts", code="damaged")
    if not all(isinstance(text, str) for text in texts):
        raise _refused(
            path, "has values in data.texts that are not texts", code="damaged"
        )
    n = len(texts)
    for name, column in (("labels.values", values), ("probs", probs)):
        optional = name == "probs" and column is None
        if not optional and (not isinstance(column, list) or len(column) != n):
            raise _refused(path, f"must have {n} values in {name}", code="damaged")
    for row in rows:
        if row is not None and (type(row) is not int or not 0 <= row < n):
            raise _refused(
                path, f"has {row!r} in data.rows: there is no such text", code="damaged"
            )
