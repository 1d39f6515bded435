"""Conversion of quotes' positions to R: from 1, and including the last character."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any, NamedTuple

from llamaherd.calls.structured.quotable import counted_from_one, quotes_in
from llamaherd.calls.structured.quoting import mapped, text_has_quotes
from llamaherd.coding.annotation.spans import PLACE, SPANS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import llamaherd as lh


def text_of(result: lh.Result) -> str | None:
    """Return the text of an answer, in which quotes are objects with positions."""
    if result.text is None or not quotes_in(result.parsed):
        return result.text
    return json.dumps(counted_from_one(result.parsed), ensure_ascii=False)


def with_places_of_r(
    values: Mapping[str, Sequence[Any]], codebook: lh.Codebook
) -> dict[str, Sequence[Any]]:
    """Return the columns of coded texts, with start and end of quotes as numbers."""
    found = dict(values)
    if codebook.kind.is_generated:
        return found
    for name, offset in zip(PLACE, (1, 0), strict=True):
        if name in found:
            found[name] = [
                math.nan if each is None else float(each + offset) for each in found[name]
            ]
    return found


def labels_of(labels: Sequence[str | None], codebook: lh.Codebook) -> list[str | None]:
    """Return the labels of coded texts, with R's positions of quotes."""
    if codebook.type == "spans":
        return [each and _moved_spans(each) for each in labels]
    schema = codebook.schema
    if schema is None or not text_has_quotes(schema):
        return list(labels)
    root = json.loads(schema)

    def moved(quote: dict[str, Any], _rule: object) -> dict[str, Any]:
        return {**quote, "start": quote["start"] + 1}

    return [
        None
        if each is None
        else json.dumps(mapped(root, json.loads(each), moved), ensure_ascii=False)
        for each in labels
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


class QuoteColumns(NamedTuple):
    """Columns of quotes for `Coded`.

    Attributes:
        frame: Start and end of each quote, with Python's positions, by column name.
        names: Column name of each role.
    """

    frame: dict[str, list[int | None]]
    names: dict[str, str]


def columns_of_quotes(
    text: str, places: Mapping[str, Sequence[float]] | None
) -> QuoteColumns:
    """Convert quotes with R's positions to columns; return no columns without quotes.

    Args:
        text: Name of the column of texts, which the new names contain.
        places: `start` and `end` of each quote, NaN for rows without a quote.
    """
    if places is None:
        return QuoteColumns({}, {})
    names = {role: f"{text}: {role} of the quote" for role in PLACE}
    frame = {
        names[role]: [
            None if math.isnan(each) else int(each) - offset for each in places[role]
        ]
        for role, offset in zip(PLACE, (1, 0), strict=True)
    }
    return QuoteColumns(frame, names)
