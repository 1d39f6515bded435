"""Codebooks and coded texts, with data in columns.

A codebook goes as JSON, both ways: R's lists have no scalars.
"""

from __future__ import annotations

import json
import re
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import llamaherd as lh
from llamaherd._r.boundary import boundary, clean, clean_or_none, numbers_of
from llamaherd.research.coding.codebook import page
from llamaherd.research.coding.columns import roles_of
from llamaherd.research.coding.settings import DEFAULTS, checked_settings
from llamaherd.research.coding.variants import Variant, variants_of
from llamaherd.research.estimation.robustness import compared, drawn_rows
from llamaherd.research.estimation.starting import Start, check_model, start_from

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_TEXT = ".text"  # the column that R's texts are in: no field is called so


@contextmanager
def _from_one() -> Iterator[None]:
    """Has messages count places from 1, as R does."""
    try:
        yield
    except (TypeError, ValueError) as error:
        told = re.sub(r"\[(\d+)\]", lambda m: f"[{int(m[1]) + 1}]", str(error))
        raise type(error)(told) from error


def _codebook(content: str) -> lh.Codebook:
    with _from_one():
        return lh.Codebook.from_dict(json.loads(content))


def _described(codebook: lh.Codebook) -> dict[str, Any]:
    content = codebook.to_dict()
    return {
        "json": clean(json.dumps(content, ensure_ascii=False)),
        "hash": codebook.hash,
        "page": [clean(line) for line in page(codebook)],
        "names": list(codebook.names),
        "definitions": list(codebook.definitions.values()),
        "type": codebook.type,
        "schema": codebook.schema,
    }


@boundary
def codebook_make(content: str) -> dict[str, Any]:
    """A codebook of its content as JSON: its one form, hash, page and names."""
    return _described(_codebook(content))


@boundary
def codebook_read(path: str) -> dict[str, Any]:
    """As `codebook_make`, from a YAML file."""
    with _from_one():
        return _described(lh.read_codebook(path))


@boundary
def codebook_write(content: str, path: str) -> None:
    """Writes a codebook to a YAML file."""
    lh.write_codebook(_codebook(content), path)


@boundary
def codebook_preview(
    content: str, text: str, model: lh.Model | None, chat: bool
) -> dict[str, Any]:
    """What `prompt_preview` tells, its tokens as a list or None."""
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
    """What the new columns will be. Checks settings before anything runs."""
    codebook = _codebook(content)
    settings = checked_settings(codebook, "model", _settings(options))
    return roles_of(codebook, settings.method)


@boundary
def annotate_start(
    context: lh.Context,
    texts: Sequence[str | None],
    content: str,
    options: dict[str, Any],
) -> dict[str, Any]:
    """Starts `annotate`; None is a missing text. `journal` is its whole path, or None.

    Args:
        context: Where to run.
        texts: They are.
        content: Of the codebook, as JSON.
        options: Those arguments of `annotate` that R was told, and `versions`.
    """
    codebook, settings = _codebook(content), _settings(options)
    job = lh.start_annotate(
        {_TEXT: list(texts)},
        _TEXT,
        codebook,
        context,
        **settings,
    )
    file = context.model.file
    name = checked_settings(
        codebook, "model" if file is None else file.name, settings
    ).journal
    return {
        "job": job,
        "journal": None if name is None else clean(str(Path(name).absolute())),
    }


@boundary
def annotate_result(job: lh.Job[lh.Coded]) -> dict[str, Any]:
    """The new columns by role, and how they came about. Waits for the end of the job."""
    coded = _coded(job)
    values = {role: coded.frame[name] for role, name in coded.columns.items()}
    return {
        "columns": {role: _plain(each) for role, each in values.items()},
        "labels": [clean_or_none(label) for label in coded.labels],
        "errors": [clean_or_none(error) for error in coded.errors],
        "names": [clean(name) for name in coded.names],
        "run": clean(json.dumps(coded.run, ensure_ascii=False)),
        "stats": numbers_of(coded.stats),
        "notes": [clean(note) for note in coded.notes],
    }


@boundary
def robustness_plan(
    codebooks: Sequence[str],
    names: Sequence[str],
    contexts: Sequence[str],
    texts: Sequence[bool],
    options: Mapping[str, Any],
) -> dict[str, Any]:
    """The variants to run, and the rows that are coded, from 0.

    Args:
        codebooks: Contents, as JSON.
        names: Of the codebooks.
        contexts: Names.
        texts: For each row whether there is a text.
        options: `orders`, `seeds`, `n_texts`, `seed`, `crossed`; of labels that there are
            `run`, as JSON, and `context`, the first; else None. `settings`: arguments of
            `annotate` that R was told.
    """
    known = {name: _codebook(c) for name, c in zip(names, codebooks, strict=True)}
    seed, seeds = int(options["seed"]), [int(each) for each in options["seeds"]]
    told = dict(options.get("settings") or {})  # R's empty list has no names
    start = Start(codebooks=known, settings=told, seeds=seeds)
    if options.get("run") is not None:
        run = json.loads(options["run"])
        check_model(run, options["context"].model)
        start = start_from(run, known, told, seeds)
    with _from_one():
        made = variants_of(
            start.codebooks,
            list(contexts),
            orders=options["orders"],
            seeds=start.seeds,
            seed=seed,
            crossed=options["crossed"],
            is_drawn=start.is_drawn,
        )
    given = ["" if there else None for there in texts]
    return {
        "names": [clean(each.name) for each in made],
        "codebooks": [_described(each.codebook)["json"] for each in made],
        "contexts": [each.context for each in made],
        "seeds": [None if each.seed is None else float(each.seed) for each in made],
        "rows": drawn_rows(given, options["n_texts"], seed),
        "settings": json.dumps(start.settings),
    }


@boundary
def robustness_compare(
    names: Sequence[str],
    codebooks: Sequence[str],
    labels: Sequence[Sequence[str | None]],
    rows: Sequence[int],
    texts: Sequence[str | None],
) -> dict[str, Any]:
    """What the labels of variants say together, matrices by rows."""
    made = [
        Variant(name=name, codebook=_codebook(content))
        for name, content in zip(names, codebooks, strict=True)
    ]
    found = compared(made, labels, rows, [{} for _ in made], texts)
    return {
        "names": [clean(name) for name in found.names],
        "flips": found.flips.tolist(),
        "pairwise": found.pairwise.tolist(),
        "agreement": found.agreement,
        "alpha": found.alpha,
        "shares": found.shares.tolist(),
        "unstable": found.unstable.tolist(),
        "source": None if found.source is None else json.dumps(found.source.to_dict()),
    }


def _settings(options: Mapping[str, Any]) -> dict[str, Any]:
    started = json.loads(options.get("settings") or "{}")  # of robustness_plan
    options = {**started, **options}
    given = {name: options[name] for name in DEFAULTS if name in options}
    if "seed" in given:
        given["seed"] = int(given["seed"])  # above 2^31 it comes as a float
    return given


def _coded(job: lh.Job[lh.Coded]) -> lh.Coded:
    try:
        return job.results()
    except lh.GenerationError as error:
        results: lh.Coded = error.results
        return results


def _plain(values: Sequence[Any]) -> list[Any]:
    """Numbers as floats, texts that R takes; what is neither stays away: R reads JSON."""
    if all(value is None or isinstance(value, str) for value in values):
        return [clean_or_none(value) for value in values]
    is_number = all(isinstance(value, float) for value in values)
    return list(values) if is_number else []
