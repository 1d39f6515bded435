"""Reading a report back: from its page or its JSON, whoever wrote it."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

from llamaherd.research.reports.report_data import FORMAT, VERSION
from llamaherd.research.reports.report_page import JSON_ID

if TYPE_CHECKING:
    from pathlib import Path

    from llamaherd.research.reports.report_data import Contents

_PARTS: dict[str, type] = {"run": dict, "data": dict, "labels": dict, "errors": dict}
_RUN = ("codebook", "settings", "model", "context", "versions", "machine")


def read_report(path: Path) -> Contents:
    """What a report holds.

    Raises:
        ValueError: It is no report, of a later version, or damaged; the message says how.
        OSError: It cannot be read.
    """
    try:
        text = path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is no report: it is not UTF-8 ({error})") from None
    if path.suffix.lower() != ".json":
        text = _embedded(text, path)
    try:
        contents = json.loads(text)
    except ValueError as error:
        raise ValueError(f"{path} is no report, or is cut off: {error}") from None
    return _checked(contents, path)


class _Finder(HTMLParser):
    """Keeps the inside of the script element with our id."""

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
    # Large pages are mostly JSON; what is before its element need not be parsed.
    mark = text.rfind(f'id="{JSON_ID}"')
    start = text.rfind("<script", 0, mark) if mark >= 0 else -1
    finder = _Finder()
    finder.feed(text[max(start, 0) :])
    finder.close()
    if finder.found is None:
        raise ValueError(f"{path} is no report: it has no element {JSON_ID!r}")
    return "".join(finder.found)


def _checked(contents: Any, path: Path) -> Contents:  # noqa: ANN401 - JSON
    if not isinstance(contents, dict) or contents.get("format") != FORMAT:
        raise ValueError(f"{path} is no report: 'format' is not {FORMAT!r}")
    if contents.get("version") != VERSION:
        raise ValueError(
            f"{path} is a report of version {contents.get('version')!r}; this llamaherd "
            f"reads version {VERSION}"
        )
    for name, kind in _PARTS.items():
        if not isinstance(contents.get(name), kind):
            raise ValueError(f"{path} is damaged: {name!r} is missing or no object")  # noqa: TRY004
    for name in _RUN:
        if not isinstance(contents["run"].get(name), dict):
            raise ValueError(f"{path} is damaged: run.{name} is missing or no object")  # noqa: TRY004
    _check_data(contents, path)
    return contents


def _check_data(contents: Contents, path: Path) -> None:
    """Lists are as long as they have to be, and rows are of texts that there are."""
    data, values = contents["data"], contents["labels"].get("values")
    rows, probs = data.get("rows"), contents.get("probs")
    texts = data.get("texts", data.get("texts_sha256"))
    if not isinstance(rows, list) or not isinstance(texts, list):
        raise ValueError(f"{path} is damaged: data.rows or data.texts is missing")  # noqa: TRY004
    if not all(isinstance(text, str) for text in texts):
        raise ValueError(f"{path} is damaged: data.texts holds something else than texts")
    n = len(texts)
    for name, column in (("labels.values", values), ("probs", probs)):
        optional = name == "probs" and column is None
        if not optional and (not isinstance(column, list) or len(column) != n):
            raise ValueError(f"{path} is damaged: {name} must have {n} values")
    for row in rows:
        if row is not None and (type(row) is not int or not 0 <= row < n):
            raise ValueError(f"{path} is damaged: data.rows has {row!r}")
