"""Reading of passages marked by people: JSON lines, doccano, Label Studio, brat."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from llamaherd.engine.core import checks
from llamaherd.engine.core.errors import ArgumentError
from llamaherd.engine.core.files import text_of_file
from llamaherd.engine.core.plain import DuplicateKeyError, read_json

Format = Literal["auto", "jsonl", "doccano", "labelstudio", "brat"]
FORMATS: tuple[Format, ...] = ("auto", "jsonl", "doccano", "labelstudio", "brat")
_SPANS = "spans"
_BRAT = re.compile(r"^(T\d+)\t(\S+) ([\d ;]+)\t", re.MULTILINE)


class Unit(NamedTuple):
    """Passage of a text with a label.

    Attributes:
        start: Position of the first character, from 0.
        end: Position after the last character.
        label: Label.
    """

    start: int
    end: int
    label: str


@dataclass(frozen=True, slots=True)
class MarkedText:
    """Text with the passages that one coder marked in it.

    Attributes:
        id: Id of the text in its file.
        text: The text.
        coder: Name of the coder.
        units: Distinct passages in order.
    """

    id: str
    text: str
    coder: str
    units: tuple[Unit, ...]


def marked_texts(
    path: Path, form: Format = "auto", text: str = "text"
) -> list[MarkedText]:
    """Read the texts of a file or folder with passages."""
    if form == "brat" or (form == "auto" and (path.is_dir() or path.suffix == ".ann")):
        return list(_brat(path))
    content = text_of_file("path", path)
    try:
        if form == "labelstudio" or (form == "auto" and content.lstrip()[:1] == "["):
            return list(_label_studio(_parse_json(content, path), path))
        lines = [line for line in content.split("\n") if line.strip()]
        rows = [_parse_json(line, path, i) for i, line in enumerate(lines, 1)]
        return [_of_row(row, path, i, form, text) for i, row in enumerate(rows, 1)]
    except (TypeError, KeyError, AttributeError, IndexError):
        raise _wrong(path, "it is not in the expected format") from None


def _parse_json(text: str, path: Path, line: int | None = None) -> Any:  # JSON
    try:
        return read_json(text)
    except DuplicateKeyError as error:
        raise _wrong(path, str(error), line) from None
    except (ValueError, RecursionError) as error:
        raise _wrong(path, f"this is not JSON: {error}", line) from None


def _wrong(path: Path, problem: str, line: int | None = None) -> ArgumentError:
    return ArgumentError(
        problem, argument="path", form="{problem}", file=str(path), line=line
    )


def _marked_text(
    row: tuple[str, str, str], units: Iterable[Unit], path: Path, line: int | None = None
) -> MarkedText:
    """Check the passages of a text, and return the text with them."""
    key, text, coder = row
    passages = sorted(set(units))
    for unit in passages:
        if not 0 <= unit.start < unit.end <= len(text):
            raise _wrong(
                path,
                f"text {key!r}: a passage from {unit.start} to {unit.end} is not within "
                f"its {len(text)} characters",
                line,
            )
    return MarkedText(key, text, coder, tuple(passages))


# ---- JSON lines and doccano ------------------------------------------------------------


def _of_row(row: Any, path: Path, line: int, form: Format, text: str) -> MarkedText:
    if not isinstance(row, Mapping) or not isinstance(row.get(text), str):
        raise _wrong(path, f"there is no text in the field {text!r}", line)
    passages = row.get(_SPANS)
    if form == "doccano" or (form == "auto" and _SPANS not in row):
        passages = _of_doccano(row)
    if isinstance(passages, str):
        passages = _parse_json(passages, path, line)
    if passages is None:
        raise _wrong(path, f"there are no passages; fields: {', '.join(row)}", line)
    units = [
        Unit(int(passage["start"]), int(passage["end"]), str(passage["label"]))
        for passage in passages
    ]
    for passage, unit in zip(passages, units, strict=True):
        quote = passage.get("quote")
        if quote is not None and row[text][unit.start : unit.end] != quote:
            raise _wrong(
                path,
                f"the text from {unit.start} to {unit.end} is "
                f"{row[text][unit.start : unit.end]!r}, not {quote!r}",
                line,
            )
    coder = row.get("coder") or row.get("annotator") or path.stem
    key = str(row.get("id", line))
    return _marked_text((key, row[text], str(coder)), units, path, line)


def _of_doccano(row: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """Return the passages in a row of doccano's JSONL, of a current or older version."""
    if isinstance(row.get("entities"), list):
        return [
            {"start": entity["start_offset"], "end": entity["end_offset"], **entity}
            for entity in row["entities"]
        ]
    for name in ("label", "labels"):
        if isinstance(row.get(name), list):
            return [{"start": a, "end": b, "label": c} for a, b, c in row[name]]
    return None


# ---- Label Studio ----------------------------------------------------------------------


def _label_studio(tasks: Any, path: Path) -> Iterator[MarkedText]:  # JSON
    for i, task in enumerate(tasks):
        key = str(task.get("id", i))
        if "annotations" not in task:  # JSON-MIN: each entry is one annotator's task
            parts = task.get("label") or []
            text = _text_of(task, path, key)
            units = [unit for part in parts for unit in _units(text, part, path, key)]
            yield _marked_text(
                (key, text, str(task.get("annotator", path.stem))), units, path
            )
            continue
        text = _text_of(task["data"], path, key)
        for annotation in task["annotations"]:
            if annotation.get("was_cancelled"):
                continue
            by = annotation.get("completed_by", path.stem)
            by = by.get("email", by.get("id")) if isinstance(by, Mapping) else by
            units = [
                unit
                for part in annotation["result"]
                if part.get("type") in ("labels", "hypertextlabels")
                for unit in _units(text, part["value"], path, key)
            ]
            yield _marked_text((key, text, str(by)), units, path)


def _text_of(data: Mapping[str, Any], path: Path, key: str) -> str:
    """Return the text of a task: its field "text", else its only field that is a text."""
    if isinstance(data.get("text"), str):
        return str(data["text"])
    texts = [value for value in data.values() if isinstance(value, str)]
    if len(texts) != 1:
        raise _wrong(path, f"task {key!r} has no field 'text'")
    return texts[0]


def _units(text: str, value: Mapping[str, Any], path: Path, key: str) -> Iterator[Unit]:
    """Yield the passages of a result; its positions may count UTF-16 units."""
    start, end, quote = int(value["start"]), int(value["end"]), value.get("text")
    if quote is not None and text[start:end] != quote:
        start, end = _of_utf16(text, start), _of_utf16(text, end)
        if text[start:end] != quote:
            raise _wrong(path, f"task {key!r}: {quote!r} is not at {start} to {end}")
    for label in value.get("labels") or value.get("hypertextlabels") or ():
        yield Unit(start, end, str(label))


def _of_utf16(text: str, place: int) -> int:
    """Convert a position in UTF-16 units to a position in code points."""
    before = text.encode("utf-16-le", "surrogatepass")[: 2 * place]
    return len(before.decode("utf-16-le", "ignore"))


# ---- brat ------------------------------------------------------------------------------


def _brat(path: Path) -> Iterator[MarkedText]:
    """Read an .ann file, or all .ann files of a folder, each with its text file."""
    files = sorted(path.glob("**/*.ann")) if path.is_dir() else [path]
    if not files:
        raise _wrong(path, "the folder has no .ann files")
    coder = path.name if path.is_dir() else path.parent.name
    for file in files:
        beside = file.with_suffix(".txt")
        if not beside.exists():
            raise _wrong(file, f"its text is missing: {checks.brief(beside.name)}")
        text = text_of_file("path", beside, "utf-8")
        content = text_of_file("path", file)
        units = []
        for match in _BRAT.finditer(content):
            for fragment in match[3].split(";"):  # a passage may have several parts
                start, end = map(int, fragment.split())
                units.append(Unit(start, end, match[2]))
        name = file.relative_to(path) if path.is_dir() else Path(file.name)
        yield _marked_text((str(name.with_suffix("")), text, coder), units, file)
