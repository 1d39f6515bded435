"""Comparison of passages that human coders and a model marked."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import llamaherd as lh
from llamaherd._r.boundary import boundary, form_of
from llamaherd._r.forms import Part, attributed, factor, table, table_of, value, vector
from llamaherd.coding.annotation.spans import PLACE
from llamaherd.coding.codes.span_files import MarkedText, Unit
from llamaherd.coding.validation.spans import span_codes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llamaherd.coding.codes.span_files import Format


@boundary
def spans_read(paths: Sequence[str], form: Format, text: str) -> lh.SpanCodes:
    """Read passages."""
    return lh.read_spans(paths, format=form, text=text)


@form_of.register
def _(found: lh.SpanCodes) -> Part:
    """Return a row for each passage, with positions that start at 1, and JSON."""
    rows = [{**row, "start": row["start"] + 1} for row in found.rows()]
    content = [
        {"id": found.ids[key], "text": key, "coder": coder, "units": units}
        for coder, texts in found.coders.items()
        for key, units in texts.items()
    ]
    made = [vector("text", [row[name] for row in rows], name) for name in ("coder", "id")]
    made += [
        factor([row["label"] for row in rows], found.labels, "label"),
        vector("text", [row["quote"] for row in rows], "quote"),
        *(vector("integer", [row[name] for row in rows], name) for name in PLACE),
    ]
    return attributed(
        table(made, len(rows)),
        "spans",
        coders=vector("text", found.coders),
        n_texts=vector("integer", [len(found.ids)]),
        content=value(json.dumps(content, ensure_ascii=False)),
    )


@boundary
def spans_validate(
    texts: Sequence[str | None],
    spans: Sequence[str | None],
    content: str,
    options: Mapping[str, Any],
) -> lh.SpanValidation:
    """Validate passages.

    Args:
        texts: Texts coded by the model.
        spans: For each text, its passages as JSON, with positions from 1; None without an
            answer.
        content: Passages of human coders, as JSON from `spans_read`.
        options: `gamma`, `level`, `n_bootstrap`, `seed`.
    """
    model = span_codes(
        MarkedText(str(i), text, "model", _units(cell, 1))
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
        model = lh.SpanCodes({"model": {}}, {})
    return lh.validate_spans(model, gold, **options)


@form_of.register
def _(found: lh.SpanValidation) -> Part:
    kinds = dict.fromkeys(("part", "measure", "label"), "text")
    kinds |= {**dict.fromkeys(("value", "low", "high"), "number"), "n": "integer"}
    rows = [{**row, "label": row["label"] or None} for row in found.to_dicts()]
    return attributed(
        table_of(rows, kinds),
        "span_validation",
        notes=vector("text", found.notes),
        level=value(found.level),
    )


def _units(cell: str, first: int) -> tuple[Unit, ...]:
    return tuple(
        sorted(
            Unit(int(each["start"]) - first, int(each["end"]), str(each["label"]))
            for each in json.loads(cell)
        )
    )
