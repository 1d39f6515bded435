"""Codebooks and coded texts; data are passed as columns.

Codebooks are passed to Python as JSON, because R's lists have no scalars.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import llamaherd as lh
from llamaherd._r.arguments import codebook as _codebook
from llamaherd._r.boundary import boundary, clean, form_of
from llamaherd._r.forms import (
    Part,
    r_object,
    table_of,
    table_of_objects,
    value,
    vector,
)
from llamaherd.calls.asks.keywords import CodingSettings
from llamaherd.coding.annotation.codebook import page
from llamaherd.coding.annotation.codebook_file import ready_dicts
from llamaherd.coding.annotation.columns import named as named_columns
from llamaherd.coding.annotation.columns import roles_of
from llamaherd.coding.annotation.prompts import PromptPreview
from llamaherd.coding.annotation.scales import NumberScale
from llamaherd.coding.annotation.settings import checked_settings
from llamaherd.engine.core.phrases import MOST_ROWS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_TEXT = ".text"  # name of the column with R's texts; no field of a codebook has this name


@form_of.register
def _(found: lh.Codebook) -> Part:
    content = found.to_dict()
    names = list(found.names)
    made = {
        "question": value(content["question"]),
        "labels": {**vector("text", found.definitions.values()), "names": names},
        "type": value(found.type),
        "schema": value(found.table_schema if found.kind.is_generated else None),
        "hash": value(found.hash),
        "measured": value(found.kind.measured),
        "is_numeric": value(found.numbers is not None),
        "content": value(json.dumps(content, ensure_ascii=False)),
    }
    lines = "\n".join(page(found, most=MOST_ROWS))
    return r_object("codebook", made, page=lines, is_fixed=True)


@form_of.register(NumberScale)
def _(found: NumberScale) -> Part:
    content = found.to_dict()
    ends = [float(content[name]) for name in ("from", "to", "step")]
    names = {str(number): name for number, name in found.names.items()}
    wide = max(map(len, names), default=0)
    lines = ["<NumberScale: from {:g} to {:g} in steps of {:g}>".format(*ends)]
    lines += [f"  {number:{wide}}  {name}" for number, name in names.items()]
    made = {
        **dict(zip(("low", "high", "step"), map(value, ends), strict=True)),
        "names": {**vector("text", names.values()), "names": list(names)}
        if names
        else None,
        "values": vector("number", found.numbers),
        "content": value(json.dumps(content, ensure_ascii=False)),
    }
    return r_object("scale", made, page="\n".join(lines), is_fixed=True)


@form_of.register(PromptPreview)
def _(found: PromptPreview) -> Part:
    made = {
        "prompt": value(found.prompt),
        "shared": value(found.shared),
        "n_prompts": vector("integer", [found.n_prompts]),
        "tokens": None if found.tokens is None else vector("integer", found.tokens),
        "n_shared": value(found.n_shared),
    }
    return r_object("preview", made, page=found)


@boundary
def codebook_make(content: str) -> lh.Codebook:
    """Return a codebook from JSON."""
    return _codebook(content)


@boundary
def codebook_read(path: str) -> lh.Codebook:
    """Read a codebook from a YAML file."""
    return lh.read_codebook(path)


@boundary
def codebook_ready(name: str, target: str | None) -> lh.Codebook:
    """Return a ready codebook."""
    return lh.ready_codebook(name, target)


@boundary
def codebooks_ready() -> Part:
    """Return the list of ready codebooks as a table."""
    kinds = {"n_labels": "integer", "needs_target": "flag"}
    rows = ready_dicts()
    return table_of(rows, {name: kinds.get(name, "text") for name in rows[0]})


@boundary
def models_recommended(memory_gb: float | None) -> Part:
    """Return recommended models as a table."""
    kinds = {
        "source": "text",
        "memory_gb": "integer",
        "size_bytes": "number",
        "fits": "flag",
        "measured": "text",
        "published": "text",
    }
    return table_of_objects(lh.recommended_models(memory_gb), kinds)


@boundary
def scale_make(
    low: float, high: float, step: float, names: Mapping[str, str] | Sequence[str] | None
) -> NumberScale:
    """Check and return a scale of numbers."""
    return lh.number_scale(low, high, step, names)


@boundary
def codebook_write(content: str, path: str, overwrite: bool) -> None:
    """Write a codebook to a YAML file."""
    lh.write_codebook(_codebook(content), path, overwrite=overwrite)


@boundary
def codebook_preview(
    content: str, text: str, model: lh.Model | None, chat: bool
) -> PromptPreview:
    """Return the prompt for a text."""
    return lh.prompt_preview(_codebook(content), text, model, chat=chat)


@boundary
def annotate_roles(content: str, options: Mapping[str, Any]) -> list[str]:
    """Check the settings of a coding, and return the roles of the new columns."""
    codebook = _codebook(content)
    settings = checked_settings(codebook, "model", _settings(options))
    return roles_of(codebook, settings)


@boundary
def column_names(
    roles: Sequence[str],
    columns: str | Mapping[str, str | None] | None,
    existing: Sequence[str],
) -> dict[str, str]:
    """Return the names of the new columns by role; see `columns.named`."""
    return named_columns(roles, columns, existing)


@boundary
def annotate_start(
    context: lh.Context,
    texts: Sequence[str | None],
    content: str,
    options: dict[str, Any],
) -> dict[str, Any]:
    """Start `annotate`. A missing text is None; `journal` is an absolute path or None.

    Args:
        context: Context to run in.
        texts: Texts.
        content: Content of the codebook, as JSON.
        options: Arguments of `annotate` that the R user gave, and `versions`.
    """
    codebook, settings = _codebook(content), _settings(options)
    name = checked_settings(codebook, context.file_stem, settings).journal
    if settings.get("journal") is True and name is not None:
        settings["journal"] = name  # R reports the path; Python would also print it
    job = lh.start_annotate({_TEXT: list(texts)}, _TEXT, codebook, context, **settings)
    return {
        "job": job,
        "journal": None if name is None else clean(str(Path(name).absolute())),
    }


def _settings(options: Mapping[str, Any]) -> dict[str, Any]:
    names = CodingSettings.__annotations__
    return {name: options[name] for name in names if name in options}
