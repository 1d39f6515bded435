"""Quotes and passages; in R positions count from 1 and include the last character."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import llamaherd as lh
from llamaherd._r.boundary import form_of
from llamaherd._r.forms import Part, attributed, factor, fields, table, table_of, vector
from llamaherd.calls.structured.quotable import counted_from_one, quotes_in
from llamaherd.calls.structured.quoting import mapped, text_has_quotes
from llamaherd.coding.annotation.spans import PLACE, SPANS
from llamaherd.coding.codes.span_files import MarkedText, Unit
from llamaherd.coding.validation.spans import span_codes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def text_of(result: lh.Result) -> str | None:
    """Return the text of an answer, in which quotes are objects with positions."""
    if result.text is None or not quotes_in(result.parsed):
        return result.text
    return json.dumps(counted_from_one(result.parsed), ensure_ascii=False)


def with_places_of_r(
    values: Mapping[str, Sequence[Any]], codebook: lh.Codebook
) -> dict[str, Sequence[Any]]:
    """Return the columns of coded texts, with start and end of quotes as numbers."""
    columns = dict(values)
    if codebook.kind.is_generated:
        return columns
    for name, offset in zip(PLACE, (1, 0), strict=True):
        if name in columns:
            columns[name] = [
                math.nan if position is None else float(position + offset)
                for position in columns[name]
            ]
    return columns


def labels_of(labels: Sequence[str | None], codebook: lh.Codebook) -> list[str | None]:
    """Return the labels of coded texts, with R's positions of quotes."""
    if codebook.type == "spans":
        return [label and _moved_spans(label) for label in labels]
    schema = codebook.schema
    if schema is None or not text_has_quotes(schema):
        return list(labels)
    root = json.loads(schema)

    def moved(quote: dict[str, Any], _rule: object) -> dict[str, Any]:
        return {**quote, "start": quote["start"] + 1}

    return [
        None
        if label is None
        else json.dumps(mapped(root, json.loads(label), moved), ensure_ascii=False)
        for label in labels
    ]


def _moved_spans(label: str) -> str:
    """Return the passages of a text with R's positions."""
    content = json.loads(label)
    for span in content[SPANS]:
        span["start"] += 1
    return json.dumps(content, ensure_ascii=False)


def spans_label(rows: str) -> str:
    """Return a text's label from JSON of its passages with R's positions."""
    spans = [{**span, "start": span["start"] - 1} for span in json.loads(rows)]
    return json.dumps({SPANS: spans}, ensure_ascii=False)


@form_of.register
def _(codes: lh.types.SpanCodes) -> Part:
    """Return a row for each passage, with positions that start at 1, and JSON."""
    rows = [{**row, "start": row["start"] + 1} for row in codes.rows()]
    content = [
        {"id": codes.ids[key], "text": key, "coder": coder, "units": units}
        for coder, texts in codes.coders.items()
        for key, units in texts.items()
    ]
    columns = [
        vector("text", [row[name] for row in rows], name) for name in ("coder", "id")
    ]
    columns += [
        factor([row["label"] for row in rows], codes.labels, "label"),
        vector("text", [row["quote"] for row in rows], "quote"),
        *(vector("integer", [row[name] for row in rows], name) for name in PLACE),
    ]
    return attributed(
        table(columns, len(rows)),
        "spans",
        coders=vector("text", codes.coders),
        n_texts=len(codes.ids),
        content=json.dumps(content, ensure_ascii=False),
    )


def spans_validate(
    texts: Sequence[str | None],
    spans: Sequence[str | None],
    content: str,
    options: Mapping[str, Any],
) -> lh.types.SpanValidation:
    """Validate passages."""
    model = span_codes(
        MarkedText(str(i), text, "model", _units(cell))
        for i, (text, cell) in enumerate(zip(texts, spans, strict=True))
        if text is not None and cell is not None
    )
    gold = span_codes(
        MarkedText(
            row["id"], row["text"], row["coder"], tuple(Unit(*u) for u in row["units"])
        )
        for row in json.loads(content)
    )
    if not model.coders:
        model = lh.types.SpanCodes({"model": {}}, {})
    return lh.validate_spans(model, gold, **options)


@form_of.register
def _(validation: lh.types.SpanValidation) -> Part:
    rows = [{**row, "label": row["label"] or None} for row in validation.to_dicts()]
    return attributed(
        table_of(rows, "part measure label value low high n"),
        "span_validation",
        **fields(validation, "notes level"),
    )


def _units(cell: str) -> tuple[Unit, ...]:
    return tuple(
        sorted(
            Unit(int(passage["start"]) - 1, int(passage["end"]), str(passage["label"]))
            for passage in json.loads(cell)
        )
    )
