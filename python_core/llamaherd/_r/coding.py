"""Codebooks, coded texts and coding by people; data are passed as columns.

Codebooks are passed to Python as JSON, because R's lists have no scalars.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import llamaherd as lh
from llamaherd._r.boundary import clean, form_of
from llamaherd._r.forms import Part, fields, parts, r_object, table, value, vector
from llamaherd.calls.asks.keywords import CodingSettings
from llamaherd.coding.annotation.codebook import page
from llamaherd.coding.annotation.columns import types_of
from llamaherd.coding.annotation.prompts import PromptPreview
from llamaherd.coding.annotation.scales import NumberScale
from llamaherd.coding.annotation.settings import checked_settings
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
    """Start `annotate`, with arguments that the R user gave, and `versions`.

    A missing text is None; `journal` of the result is an absolute path or None.
    """
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


def code_start(data: Any, codebook: Any, options: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ANN401 - see start_coding
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
