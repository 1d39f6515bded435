"""Passages of texts as a long table, one row per passage."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from llamaherd.calls.structured.quotable import QuoteRule
from llamaherd.calls.structured.quoting import checked_evidence
from llamaherd.coding.annotation import codebook_checks as parts
from llamaherd.coding.frames import table_like
from llamaherd.engine.core import checks
from llamaherd.engine.core.argument import Argument, Field
from llamaherd.engine.core.errors import ArgumentError, ArgumentTypeError
from llamaherd.engine.core.words import words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.engine.core.argument import Name

DEFAULT_MAX_SPANS = 10
_MOST_SPANS = 1000
_LENGTHS = {"unit": "words", "least": 1, "most": 60}
SPANS = "spans"  # field of answers, and name of the column
PLACE = ("start", "end")


@dataclass(frozen=True, slots=True)
class SpanRules:
    """Rules for the passages that a codebook asks for."""

    labels: tuple[str, ...]
    max_spans: int
    quote: Mapping[str, Any]

    @property
    def written(self) -> str:
        """JSON Schema of the model's answer."""
        text = {"type": "string", "quote": dict(self.quote)}
        return _schema(self.max_spans, quote=text, label={"enum": list(self.labels)})

    @property
    def table(self) -> str:
        """JSON Schema of results: passages with their positions."""
        number = {"type": "integer"}
        return _schema(
            self.max_spans,
            label={"type": "string", "enum": list(self.labels)},
            quote={"type": "string"},
            start=number,
            end=number,
        )


def _schema(most: int, **fields: Mapping[str, Any]) -> str:
    item = _object(fields)
    spans = {"type": "array", "items": item, "maxItems": most}
    return json.dumps(_object({SPANS: spans}), ensure_ascii=False)


def _object(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": dict(fields),
        "required": list(fields),
        "additionalProperties": False,
    }


def checked_spans(given: Mapping[str, Any]) -> dict[str, Any]:
    """Check a codebook's labels, and its limits for number and length of passages."""
    labels = parts.checked_labels(given["labels"], "spans", least=1)
    most = given["max_spans"]
    if isinstance(most, str):  # a codebook file contains these limits as text
        number = checks.digits(most)
        most = most if number is None else number
    if most is not None:
        most = checks.integer("max_spans", most, 1, _MOST_SPANS)
    quote = given["quote"]
    if quote is not None:
        found = checked_evidence("quote", quote)
        if isinstance(found, bool):
            raise ArgumentTypeError(
                f"must be a quote such as {words().quote}", argument="quote"
            )
        quote = found
    return {"labels": labels, "max_spans": most, "quote": quote}


def rules_of(own: Mapping[str, Any]) -> SpanRules:
    """Return the rules for passages, from the result of `checked_spans`."""
    quote = own["quote"] or asdict(QuoteRule(**_LENGTHS))  # type: ignore[arg-type] # they fit
    most = own["max_spans"] or DEFAULT_MAX_SPANS
    return SpanRules(tuple(own["labels"]), most, quote)


def checked_example(name: Name, value: object, labels: Sequence[str]) -> dict[str, Any]:
    """Check the passages of an example, each a mapping of quote and label."""
    given = value.get(SPANS) if isinstance(value, Mapping) else value
    if not isinstance(given, (list, tuple)):
        raise ArgumentTypeError(
            f"must be a list of passages, not {checks.shown(value)}", argument=name
        )
    found = []
    for i, each in enumerate(given):
        where = Argument(name) if isinstance(name, str) else name
        if not isinstance(each, Mapping) or set(each) != {"quote", "label"}:
            raise ArgumentTypeError(
                f"must have quote and label, not be {checks.shown(each)}",
                argument=where.at(i),
            )
        quote = parts.not_blank(where.at(i, Field("quote")), each["quote"])
        label = parts.known_label(where.at(i, Field("label")), each["label"], labels)
        found.append({"quote": quote, "label": label})
    return {SPANS: found}


def check_places(name: Argument, text: str, label: Mapping[str, Any]) -> None:
    """Check that the passages of an example are in its text."""
    for i, each in enumerate(label[SPANS]):
        if each["quote"] not in text:
            raise ArgumentError(
                f"is not in the text: {checks.shown(each['quote'])}",
                argument=name.at(i, Field("quote")),
                code="not_found",
            )


def distinct_passages(parsed: object) -> object:
    """Return an answer with its distinct passages in the order of the text."""
    if not isinstance(parsed, Mapping):
        return parsed
    found = {
        (each["quote"]["start"], each["quote"]["end"], each["label"]): each
        for each in parsed[SPANS]
    }
    rows = [
        {"label": each["label"], **each["quote"]}
        for _, each in sorted(found.items(), key=lambda item: item[0])
    ]
    return {SPANS: rows}


COLUMNS = ("label", "quote", "start", "end")


def long_table(
    frame: Any,  # noqa: ANN401 - a data frame of any kind
    name: str,
    ids: Sequence[object],
    spans: Sequence[Mapping[str, Any]],
) -> Any:  # noqa: ANN401 - of the same kind
    """Return a data frame of passages, one row per passage."""
    if name in COLUMNS:
        raise ArgumentError(
            f"must not be {checks.shown(name)}, which is a column of passages",
            argument="id",
            code="conflict",
        )
    columns = {name: list(ids), **{c: [span[c] for span in spans] for c in COLUMNS}}
    whole = {"start", "end"} | ({name} if name == "row" else set())
    return table_like(frame, columns, whole)


def spans_of_cell(cell: object) -> list[dict[str, Any]]:
    """Return the passages in a cell of the column "spans" of a table of coded texts."""
    problem = f"must hold passages, not {checks.shown(cell)}"
    found = cell
    if isinstance(cell, str):
        try:
            found = json.loads(cell) if cell.strip() else None
        except (ValueError, RecursionError):
            raise ArgumentError(problem, argument=SPANS) from None
    if found is None:
        return []
    rows: list[Any] = list(found) if isinstance(found, (list, tuple)) else [found]
    if not all(isinstance(row, dict) and set(COLUMNS) <= set(row) for row in rows):
        raise ArgumentError(problem, argument=SPANS)
    return [{name: row[name] for name in COLUMNS} for row in rows]
