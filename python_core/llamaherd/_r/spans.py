"""Comparison of passages that human coders and a model marked."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import llamaherd as lh
from llamaherd._r.boundary import boundary, clean
from llamaherd.research.codes.span_files import MarkedText, Unit
from llamaherd.research.validation.spans import span_codes
from llamaherd.research.validation.validation import COLUMNS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llamaherd.research.codes.span_files import Format

_OF_NUMBERS = ("value", "low", "high", "n")


@boundary
def spans_read(paths: Sequence[str], form: Format, text: str) -> dict[str, Any]:
    """Read passages; return them as columns, and as JSON for `spans_validate`."""
    return spans_for_r(lh.read_spans(paths, format=form, text=text))


def spans_for_r(codes: lh.SpanCodes) -> dict[str, Any]:
    """Return passages of human coders as columns, with positions that start at 1."""
    rows = codes.rows()
    content = [
        {"id": codes.ids[key], "text": key, "coder": coder, "units": units}
        for coder, texts in codes.coders.items()
        for key, units in texts.items()
    ]
    columns = {
        name: [clean(row[name]) for row in rows]
        for name in ("coder", "id", "label", "quote")
    }
    return {
        **columns,
        "start": [row["start"] + 1 for row in rows],
        "end": [row["end"] for row in rows],
        "coders": [clean(name) for name in codes.coders],
        "labels": [clean(name) for name in codes.labels],
        "n_texts": len(codes.ids),
        "content": clean(json.dumps(content, ensure_ascii=False)),
    }


@boundary
def spans_validate(
    texts: Sequence[str | None],
    spans: Sequence[str | None],
    content: str,
    options: Mapping[str, Any],
) -> dict[str, Any]:
    """Validate passages; return the measures as columns, notes and the printed text.

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
    found = lh.validate_spans(
        model,
        gold,
        **options,
    )
    rows = found.to_dicts()
    return {
        "columns": {
            name: [
                float(row[name]) if name in _OF_NUMBERS else clean(row[name])
                for row in rows
            ]
            for name in COLUMNS
        },
        "notes": [clean(note) for note in found.notes],
    }


def _units(cell: str, first: int) -> tuple[Unit, ...]:
    return tuple(
        sorted(
            Unit(int(each["start"]) - first, int(each["end"]), str(each["label"]))
            for each in json.loads(cell)
        )
    )
