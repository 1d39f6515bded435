"""Arguments of calls from R.

An object of R arrives as a dict with its type in ".class", and either its "content",
which is JSON or columns, or several fields.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

import numpy as np

import llamaherd as lh
from llamaherd.coding.annotation.spans import PLACE
from llamaherd.coding.annotation.texts import hash_of_texts
from llamaherd.coding.frames import Categories
from llamaherd.coding.gold.sample import GoldSample
from llamaherd.coding.reports.report import Stored
from llamaherd.coding.selection.compare import CodebookCandidate
from llamaherd.engine.core.errors import (
    ArgumentError,
    ArgumentTypeError,
    BadArgumentError,
)
from llamaherd.engine.core.stats import ActorStats

_S = TypeVar("_S", lh.Stats, ActorStats)
_CLASS = ".class"


class Unreadable:
    """A value of R without a counterpart in Python, such as NA: no check accepts it."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


def unreadable(text: str) -> Unreadable:
    """Return a value that R shows as `text`."""
    return Unreadable(text)


def integer64_texts(data: bytes) -> list[str | None]:
    """Return integers of 64 bits, from bytes, as texts; None for R's NA."""
    missing = -(1 << 63)
    rows = range(0, len(data), 8)
    numbers = [int.from_bytes(data[i : i + 8], "little", signed=True) for i in rows]
    return [None if number == missing else str(number) for number in numbers]


def convert_argument(value: Any) -> Any:
    """Return an argument of a call: R's objects as Python's, whole doubles as int."""
    if isinstance(value, Mapping):
        if _CLASS not in value:
            return {name: convert_argument(field) for name, field in value.items()}
        fields = {name: field for name, field in value.items() if name != _CLASS}
        content = [fields.pop("content")] if "content" in fields else []
        return _MAKERS[value[_CLASS]](*content, **fields)
    if isinstance(value, list):
        return [convert_argument(item) for item in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)  # R's numbers are doubles unless the user writes 1L
    return value


def read_argument(value: Any) -> Any:
    """Return an argument like `convert_argument`, but only seeds become whole numbers."""
    if isinstance(value, list) and all(_is_tagged(item) for item in value):
        return [convert_argument(item) for item in value]
    if not isinstance(value, dict):
        return value
    if _CLASS in value:
        return convert_argument(value)
    return {
        name: convert_argument(field) if name == "seed" else read_argument(field)
        for name, field in value.items()
    }


def _is_tagged(value: object) -> bool:
    return isinstance(value, dict) and _CLASS in value


def by_name(argument: str, values: Any) -> dict[str, Any]:
    """Return a named list of R, which arrives as [] when it is empty or None."""
    if not values:
        return {}
    if not isinstance(values, dict) or not all(values):
        raise ArgumentTypeError("must be a list with names", argument=argument)
    return values


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class CodedOfR(lh.Coded):
    """Coded texts, with the model's own labels if these were recalibrated."""

    original: lh.Coded | None = None


class ColumnsOfR(dict[str, Any]):
    """Columns of a data frame, with what is known of its labels, as `Coded` has it."""

    codebook: lh.Codebook | None = None
    names: Sequence[str] = ()
    probs: Any = None
    text: str | None = None
    expected: Any = None
    in_data: Sequence[str] = ()  # all columns of the data, of which some are here


def frame(
    content: Mapping[str, Any],
    *,
    label: str = "",
    levels: Sequence[str] | None = None,
    ordered: bool = False,
    book: str | None = None,
    names: Sequence[str] = (),
    probs: Sequence[str] = (),
    text: str | None = None,
    mean: str | None = None,
    in_data: Sequence[str] = (),
) -> ColumnsOfR:
    """Return a data frame, whose column `label` is categorical if it has `levels`.

    `names` are all labels, `book` is their codebook as JSON, and `probs` and `mean` are
    the columns of their probabilities and expected values.
    """
    columns = ColumnsOfR(content)
    columns.codebook = None if book is None else codebook(book)
    columns.names, columns.text, columns.in_data = tuple(names), text, in_data
    if probs:
        columns.probs = _array([content[name] for name in probs]).T
    if mean is not None:
        columns.expected = _array(content[mean])
    if levels is not None:
        columns[label] = Categories(
            values=columns[label], names=tuple(levels), ordered=ordered
        )
    return columns


def codebook(content: str) -> lh.Codebook:
    """Read the JSON of a codebook."""
    return lh.Codebook.from_dict(json.loads(content))


def sample(content: str) -> GoldSample:
    """Read the JSON of a gold sample, which errors call `gold`."""
    try:
        return GoldSample.from_json(content)
    except BadArgumentError as error:
        raise error.moved(argument="gold") from None


def coded_of_r(
    text: str,
    texts: Sequence[str | None],
    run: str,
    *,
    columns: Mapping[str, Sequence[Any]] | None = None,
    stats: Mapping[str, Any] | None = None,
    original: Mapping[str, Any] | None = None,
    **fields: Any,  # of `Coded.of_record`
) -> CodedOfR:
    """Return coded texts; without labels only their record, the JSON `run`."""
    values = dict(columns or {})
    for role, offset in zip(PLACE, (1, 0), strict=True):
        places = values.get(role, ())
        if places:
            values[role] = [None if n != n else int(n) - offset for n in places]  # noqa: PLR0124
    names = {role: f"{text}: {role}" for role in values}
    coded = CodedOfR.of_record(
        json.loads(run),
        {text: list(texts), **{names[role]: values[role] for role in values}},
        text,
        columns=names,
        stats=None if stats is None else _stats(stats),
        **({"names": ()} | fields),
    )
    # Answers with fields have no column by which rows that were moved could be found.
    by_fields = coded.codebook.kind.is_generated and "labels" in fields
    if by_fields and hash_of_texts(texts) != coded.run["texts_sha256"]:
        raise ArgumentError(
            "must have the rows that were coded, in their order: report it before rows "
            "are sorted or their texts edited",
            argument="x",
        )
    return dataclasses.replace(
        cast("CodedOfR", coded), original=convert_argument(original) if original else None
    )


def _stored_robustness(
    content: str, estimates: str | None = None, title: str | None = None
) -> Stored:
    """Return a result for a report, of robustness() with the `estimates` of variants."""
    more = {
        "estimates": None if estimates is None else json.loads(estimates),
        "title": title,
    }
    known = {name: field for name, field in more.items() if field is not None}
    return Stored({**json.loads(content), **known})


def _stats(numbers: Mapping[str, Any]) -> lh.Stats:
    actors = rows_of(numbers.get("actors") or {})
    return dataclasses.replace(
        _with_numbers(lh.Stats(), numbers),
        actors=tuple(_with_numbers(ActorStats(actor=0, node=""), row) for row in actors),
    )


def _with_numbers(like: _S, numbers: Mapping[str, Any]) -> _S:
    """Return a copy of a dataclass with these numbers, converted to the fields' types."""
    names = [field.name for field in dataclasses.fields(like) if field.name != "actors"]
    changed = {name: type(getattr(like, name))(numbers[name]) for name in names}
    return dataclasses.replace(like, **changed)


def rows_of(columns: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Return the rows of a table from its columns."""
    values = zip(*columns.values(), strict=True)
    return [dict(zip(columns, row, strict=True)) for row in values]


def _array(rows: Any) -> Any:  # float64 of any shape
    return np.array(rows, dtype=np.float64)


def _candidate(book: str, context: Any, settings: Any) -> CodebookCandidate:
    return CodebookCandidate(
        codebook=codebook(book),
        context=context,
        settings=convert_argument(dict(settings or {})),
    )


_MAKERS: dict[str, Callable[..., Any]] = {
    "array": _array,
    "candidate": _candidate,
    "choice": lh.types.CodebookChoice.from_json,
    "codebook": codebook,
    "coded": coded_of_r,
    "comparison": lh.types.CodebookComparison.from_json,
    "frame": frame,
    "gold": sample,
    "pairs": lh.types.PairComparison.from_json,
    "stored": _stored_robustness,
}
