"""Codebooks, coded texts, coding by people, quotes and passages.

Codebooks are passed to Python as JSON, because R's lists have no scalars. In R, positions
count from 1 and include the last character.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import llamaherd as lh
from llamaherd._r.boundary import clean, form_of
from llamaherd._r.forms import (
    Part,
    factor,
    fields,
    parts,
    r_object,
    table,
    table_of,
    value,
    vector,
    with_class,
)
from llamaherd.calls.asks.keywords import CodingSettings
from llamaherd.calls.structured.quotable import counted_from_one, quotes_in
from llamaherd.calls.structured.quoting import map_quotes, text_has_quotes
from llamaherd.coding.annotation.codebook import page
from llamaherd.coding.annotation.columns import types_of
from llamaherd.coding.annotation.prompts import PromptPreview
from llamaherd.coding.annotation.scales import NumberScale
from llamaherd.coding.annotation.settings import checked_settings
from llamaherd.coding.annotation.spans import PLACE, SPANS
from llamaherd.coding.codes.span_files import MarkedText, Unit
from llamaherd.coding.validation.spans import span_codes
from llamaherd.coding_page.code_texts import start_coding
from llamaherd.coding_page.results import CodingResult
from llamaherd.engine.core.phrases import MOST_ROWS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


_TEXT = ".text"  # name of the column with R's texts; no field of a codebook has this name


@form_of.register
def _(codebook: lh.Codebook) -> Part:
    content = codebook.to_dict()
    names = list(codebook.names)
    elements = {
        "question": content["question"],
        "labels": {**vector("text", codebook.definitions.values()), "names": names},
        "type": codebook.type,
        "schema": codebook.table_schema if codebook.kind.is_generated else None,
        "hash": codebook.hash,
        "measured": codebook.kind.measured,
        "is_numeric": codebook.numbers is not None,
        "content": json.dumps(content, ensure_ascii=False),
    }
    lines = "\n".join(page(codebook, most=MOST_ROWS))
    return r_object("codebook", elements, page=lines, is_fixed=True)


@form_of.register(NumberScale)
def _(scale: NumberScale) -> Part:
    content = scale.to_dict()
    ends = [float(content[name]) for name in ("from", "to", "step")]
    names = {str(number): name for number, name in scale.names.items()}
    named = {**vector("text", names.values()), "names": list(names)}
    elements = {
        **dict(zip(("low", "high", "step"), ends, strict=True)),
        "names": named if names else None,
        "values": vector("number", scale.numbers),
        "content": json.dumps(content, ensure_ascii=False),
    }
    return r_object("scale", elements, page=scale, is_fixed=True)


@form_of.register(PromptPreview)
def _(preview: PromptPreview) -> Part:
    elements = fields(preview, "prompt shared n_prompts")
    elements["tokens"] = value(None)
    if preview.tokens is not None:
        elements["tokens"] = vector("integer", preview.tokens)
    return r_object("preview", elements | fields(preview, "n_shared"), page=preview)


def annotate_roles(codebook: lh.Codebook, options: Mapping[str, Any]) -> list[str]:
    """Check the settings of a coding, and return the roles of the new columns."""
    settings = checked_settings(codebook, "model", _settings(options))
    return list(types_of(codebook, settings))


def annotate_start(
    context: lh.Context,
    texts: Sequence[str | None],
    codebook: lh.Codebook,
    options: dict[str, Any],
) -> dict[str, Any]:
    """Start `annotate`; `journal` of the result is an absolute path or None."""
    settings = _settings(options)
    name = checked_settings(codebook, context.file_stem, settings).journal
    if settings.get("journal") is True and name is not None:
        settings["journal"] = name  # R reports the path; Python would also print it
    job = lh.start_annotate({_TEXT: list(texts)}, _TEXT, codebook, context, **settings)
    path = None if name is None else clean(str(Path(name).absolute()))
    return {"job": job, "journal": path}


def _settings(options: Mapping[str, Any]) -> dict[str, Any]:
    names = CodingSettings.__annotations__
    return {name: options[name] for name in names if name in options}


def code_start(data: Any, codebook: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """Serve a coding page; return `job`, the `lines` with all links, and the `link`."""
    return start_coding(data, codebook, **options)._asdict()


@form_of.register(CodingResult)
def _(result: CodingResult) -> Part:
    """Return `codes`: a sample, passages, or samples by field; or `columns` by name."""
    codes, notes = result
    elements: dict[str, Part | None] = dict.fromkeys(("codes", "columns"))
    if isinstance(codes, lh.GoldSample | lh.types.SpanCodes):
        elements["codes"] = form_of(codes)
    elif all(isinstance(sample, lh.GoldSample) for sample in codes.values()):
        elements["codes"] = parts(
            **{name: form_of(sample) for name, sample in codes.items()}
        )
    else:
        elements["columns"] = parts(
            **{k: vector("text", cells) for k, cells in codes.items()}
        )
    columns = [vector("text", cells, name) for name, cells in notes.items()]
    return parts(**elements, notes=table(columns, len(notes["id"])))


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
        else json.dumps(map_quotes(root, json.loads(label), moved), ensure_ascii=False)
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
    return with_class(
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
    return with_class(
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
