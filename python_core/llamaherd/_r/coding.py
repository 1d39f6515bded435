"""Codebooks and coded texts; data are passed as columns.

Codebooks are passed as JSON in both directions, because R's lists have no scalars.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import llamaherd as lh
from llamaherd._r.arguments import given
from llamaherd._r.boundary import (
    boundary,
    clean,
    clean_or_none,
    numbers_of,
    thoughts_of,
)
from llamaherd._r.quotes import labels_of, with_places_of_r
from llamaherd.asks.keywords import CodingSettings
from llamaherd.core.failure import codes_of
from llamaherd.core.plurals import MOST_ROWS
from llamaherd.core.results import THOUGHT_COLUMNS
from llamaherd.research.coding.codebook import page
from llamaherd.research.coding.columns import named, roles_of
from llamaherd.research.coding.settings import checked_settings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_TEXT = ".text"  # name of the column with R's texts; no field of a codebook has this name
_TEXTS = {"label", "step", "quote", "error"}  # roles of columns of texts


def _codebook(content: str) -> lh.Codebook:
    return lh.Codebook.from_dict(json.loads(content))


def described_codebook(codebook: lh.Codebook) -> dict[str, Any]:
    content = codebook.to_dict()
    return {
        "json": clean(json.dumps(content, ensure_ascii=False)),
        "hash": codebook.hash,
        "page": [clean(line) for line in page(codebook, most=MOST_ROWS)],
        "names": list(codebook.names),
        "definitions": list(codebook.definitions.values()),
        "type": codebook.type,
        "measured": codebook.kind.measured,
        "is_numeric": codebook.numbers is not None,
        "schema": codebook.table_schema if codebook.kind.is_generated else None,
    }


@boundary
def codebook_make(content: str) -> dict[str, Any]:
    """Return canonical form, hash, printed text and names of a codebook from JSON."""
    return described_codebook(_codebook(content))


@boundary
def codebook_read(path: str) -> dict[str, Any]:
    """Read a codebook from a YAML file, see `codebook_make`."""
    return described_codebook(lh.read_codebook(path))


@boundary
def scale_make(
    low: float, high: float, step: float, names: Mapping[str, str] | Sequence[str] | None
) -> dict[str, Any]:
    """Check a scale of numbers; return its content as JSON, and the numbers."""
    scale = lh.number_scale(low, high, step, names)
    content = json.dumps(scale.to_dict(), ensure_ascii=False)
    return {"json": clean(content), "values": [float(each) for each in scale.numbers]}


@boundary
def codebook_write(content: str, path: str, overwrite: bool) -> None:
    """Write a codebook to a YAML file."""
    lh.write_codebook(_codebook(content), path, overwrite=overwrite)


@boundary
def codebook_preview(
    content: str, text: str, model: lh.Model | None, chat: bool
) -> dict[str, Any]:
    """Return the fields of `prompt_preview`, with the tokens as a list or None."""
    preview = lh.prompt_preview(_codebook(content), text, model, chat=chat)
    return {
        "prompt": clean(preview.prompt),
        "shared": clean(preview.shared),
        "n_prompts": preview.n_prompts,
        "tokens": preview.tokens,
        "n_shared": preview.n_shared,
    }


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
    return named(roles, columns, existing)


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


@boundary
def annotate_result(job: lh.Job[lh.Coded]) -> dict[str, Any]:
    """Wait until the job ends; return new columns by role, and their provenance.

    `thoughts` has the columns about thoughts (see `thoughts_of`), `thought_roles` the
    roles of these columns.
    """
    coded = _coded(job)
    values = {role: coded.frame[name] for role, name in coded.columns.items()}
    values = with_places_of_r(values, coded.codebook)
    # The columns about thoughts come directly before the column of errors.
    roles = list(values)[-4:-1] if coded.run["settings"].get("thinking") else []
    cells: dict[str, Any] = {}
    if roles:
        cells = dict(zip(THOUGHT_COLUMNS, map(values.__getitem__, roles), strict=True))
    return {
        "columns": {
            role: [] if role in roles else _plain(role, each)
            for role, each in values.items()
        },
        "thoughts": thoughts_of(cells),
        "thought_roles": roles,
        "labels": [clean_or_none(label) for label in coded.labels],
        "located": [
            clean_or_none(label) for label in labels_of(coded.labels, coded.codebook)
        ],
        "numbers": _numbers(coded),
        "errors": [clean_or_none(error) for error in coded.errors],
        "error_codes": codes_of(coded.errors),
        "names": [clean(name) for name in coded.names],
        "run": clean(json.dumps(coded.run, ensure_ascii=False)),
        "stats": numbers_of(coded.stats),
        "notes": [clean(note) for note in coded.notes],
    }


def _settings(options: Mapping[str, Any]) -> dict[str, Any]:
    names = CodingSettings.__annotations__
    settings = {name: options[name] for name in names if name in options}
    if "seed" in settings:
        settings["seed"] = given(settings["seed"])  # R sends seeds above 2^31 as floats
    return settings


def _coded(job: lh.Job[lh.Coded]) -> lh.Coded:
    try:
        return job.results()
    except lh.GenerationError as error:
        results: lh.Coded = error.results
        return results


def _numbers(coded: lh.Coded) -> list[float] | None:
    """Return the labels of an ordinal codebook of numbers; None for other codebooks."""
    known = coded.codebook.numbers
    if known is None:
        return None
    number_of = dict(zip(coded.codebook.names, map(float, known), strict=True))
    return [math.nan if each is None else number_of[each] for each in coded.labels]


def _plain(role: str, values: Sequence[Any]) -> list[Any]:
    """Return clean texts, or numbers with NaN for missing ones.

    [] for other values, which R reads from JSON. A column without any value has texts if
    its role is one of `_TEXTS`.
    """
    there = [value for value in values if value is not None]
    if (there or role in _TEXTS) and all(isinstance(each, str) for each in there):
        return [clean_or_none(value) for value in values]
    is_number = all(isinstance(each, float) for each in there)
    return [math.nan if x is None else x for x in values] if is_number else []
