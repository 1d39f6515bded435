"""Selection of codebooks: split samples, comparisons, choices, evaluations.

A choice is a selected codebook. R stores samples, comparisons and choices as JSON. R
runs the codings itself, so that Ctrl-C and progress work. One function returns a plan
of the codings, and another function computes the result from the codings that R ran.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

import llamaherd as lh
from llamaherd._r.boundary import boundary, clean, clean_or_none
from llamaherd._r.gold import for_r
from llamaherd.asks.annotate_options import AnnotateOptions
from llamaherd.core.argument import Argument
from llamaherd.core.errors import BadArgumentError
from llamaherd.core.kinds import Whole
from llamaherd.research.coding.settings import checked_settings
from llamaherd.research.estimation.gold_drawn import GoldSample
from llamaherd.research.selection.candidates import check_codebook, checked_names
from llamaherd.research.selection.compare import (
    check_data,
    check_options,
    compared,
    journal_of,
)
from llamaherd.research.selection.evaluation import (
    check_chosen_model,
    check_run,
    evaluated,
    prepared,
)
from llamaherd.research.selection.examples import chosen_examples
from llamaherd.research.selection.given_labels import GivenLabels
from llamaherd.research.selection.measures import checked_measure, is_of_numbers
from llamaherd.research.selection.part_codes import codes_of_part
from llamaherd.research.selection.split import opened_sample

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llamaherd.research.selection.effect import SelectionMeasure
    from llamaherd.research.selection.part_codes import PartCodes

# R sends these numbers as floats
_COUNTS = [
    name
    for name, each in AnnotateOptions.declared.items()
    if isinstance(each.kind, Whole)
]


@boundary
def gold_split(gold: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """Split a sample.

    Args:
        gold: `json` of a sample, or `path` of its CSV file; the other element is None.
        options: `explore`, `select`, `evaluate`, and `seed`, a float or None.
    """
    seed = options["seed"]
    given = gold["path"] if gold["json"] is None else _sample(gold)
    shares = {name: options[name] for name in ("explore", "select", "evaluate")}
    found = lh.gold_split(given, **shares, seed=None if seed is None else int(seed))
    return for_r(found)


@boundary
def gold_part(gold: Mapping[str, Any], part: Any) -> dict[str, Any]:  # noqa: ANN401 - checked
    """Return a part of a split sample."""
    return for_r(lh.gold_part(_sample(gold), part))


@boundary
def candidate_check(settings: Mapping[str, Any]) -> None:
    """Check the names of a candidate's settings."""
    checked_names(dict(settings))


@boundary
def compare_plan(
    data: Mapping[str, Sequence[Any]] | None,
    gold: Mapping[str, Any],
    candidates: Sequence[Mapping[str, Any]],
    options: Mapping[str, Any],
) -> dict[str, Any]:
    """Check all arguments, and return the codings to run for a comparison.

    Args:
        data: Columns of the data that identify texts; None skips the check of the
            texts.
        gold: As in `gold_split`.
        candidates: For each, its `name`, the `content` of its codebook as JSON, and its
            `settings`.
        options: `text`, `measure`, `level`, `adjust`, `journal`, `settings` of all
            candidates.

    Returns:
        `texts`, `measure`, `journal`. `settings`: JSON for each candidate. `gold`: JSON.
    """
    sample = opened_sample(gold["path"] if gold["json"] is None else _sample(gold))
    check_data(data, sample, options["text"])
    check_options(options["level"], options["adjust"])
    shared = checked_names(_settings(options["settings"]))
    made = []
    books = [_codebook(each["content"]) for each in candidates]
    for each, book in zip(candidates, books, strict=True):
        check_codebook(each["name"], book, sample)
        own = {**shared, **_settings(each["settings"])}
        checked_settings(book, "model", own)
        made.append(json.dumps(own))
    measure = checked_measure(options["measure"], books)
    return {
        "texts": [clean(text) for text in _codes(sample, measure).texts],
        "measure": measure,
        "settings": made,
        "journal": journal_of(options["journal"], sample),
        "gold": sample.to_json(),
    }


@boundary
def compare_make(
    sample: str, runs: Sequence[Mapping[str, Any]], options: Mapping[str, Any]
) -> dict[str, Any]:
    """Return a comparison of candidates from their codings.

    Args:
        sample: Sample as JSON.
        runs: For each candidate, its `name` and the elements that `_given` reads.
        options: As in `compare_plan`.
    """
    gold = GoldSample.from_json(sample)
    found = compared(
        gold,
        _codes(gold, options["measure"]),
        [each["name"] for each in runs],
        [_given(each) for each in runs],
        measure=options["measure"],
        level=options["level"],
        adjust=options["adjust"],
        journal=options["journal"],
    )
    return {
        "json": clean(found.to_json()),
        "rows": _columns(found.to_dicts()),
        "pairs": _columns(found.pairs()),
        "page": clean(str(found)),
        "best": clean(found.names[found.best]),
        "tied": [clean(found.names[i]) for i in found.tied],
        "n": float(found.n),
        "notes": [clean(note) for note in found.notes],
    }


@boundary
def best_codebook(comparison: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Choose the best codebook; `options` are `prefer` and `name`."""
    stored = lh.CodebookComparison.from_json(comparison)
    return _choice(lh.best_codebook(stored, **options))


@boundary
def choice_read(choice: str) -> dict[str, Any]:
    """Check the hash of a stored choice, and return the choice."""
    return _choice(lh.CodebookChoice.from_json(choice))


@boundary
def evaluate_plan(
    choice: str,
    gold: Mapping[str, Any],
    context: lh.Context | None,
    coded: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """Check that a choice fits the sample; return the coding to run for its evaluation.

    Args:
        choice: Choice as JSON.
        gold: As in `gold_split`.
        context: Context to run in, or None.
        coded: Labels of a coding, see `_given`, or None.

    Returns:
        `texts`, `content` of the codebook, `settings` as JSON and `gold` as JSON.
    """
    sample = opened_sample(gold["path"] if gold["json"] is None else _sample(gold))
    made = lh.CodebookChoice.from_json(choice)
    codes = prepared(made, sample)
    if coded is not None:
        own = _given(coded)
        own.of_texts(codes.texts)
        check_run(made, own.run)
    elif context is not None:
        check_chosen_model(made, context)
    return {
        "texts": [clean(text) for text in codes.texts],
        "content": json.dumps(made.content),
        "settings": json.dumps(made.settings),
        "gold": sample.to_json(),
    }


@boundary
def evaluate_make(
    choice: str,
    gold: Mapping[str, Any],
    coded: Mapping[str, Any],
    level: float,
) -> dict[str, Any]:
    """Return an evaluation; record that the part "evaluate" was used.

    Args:
        choice: Choice as JSON.
        gold: `json` of the sample; `path` of its CSV file, or None.
        coded: Labels of a coding, see `_given`.
        level: Confidence level.

    Warns:
        UserWarning: "evaluate" was used before, or texts, codes or settings changed
            after the choice.
    """
    made, sample = lh.CodebookChoice.from_json(choice), _sample(gold)
    codes = prepared(made, sample)
    own = _given(coded)
    check_run(made, own.run)
    found = evaluated(
        made, sample, codes, own.of_texts(codes.texts), level=level, path=gold["path"]
    )
    value = found.value
    return {
        "value": {"value": value.value, "low": value.low, "high": value.high},
        "n": float(found.n),
        "n_failed": float(found.n_failed),
        "first": found.is_first,
        "opened": _columns([dict(each) for each in found.opened]),
        "notes": [clean(note) for note in found.notes],
        "page": clean(str(found)),
        "measures": _columns(
            [
                dict(
                    zip(
                        ("part", "measure", "label", "value", "low", "high", "n"),
                        row,
                        strict=True,
                    )
                )
                for row in found.validation.rows()
            ]
        ),
        "gold": for_r(found.gold),
    }


@boundary
def examples_choose(
    gold: Mapping[str, Any], k: float, content: str, options: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the JSON of a codebook with further examples, and their effect.

    Args:
        gold: As in `gold_split`.
        k: Number of examples.
        content: Content of the codebook, as JSON.
        options: `by`. `coded`: as `_given` reads it, or None. `embeddings`: a list of
            rows, or None. `context` and `settings` to measure the effect.

    Returns:
        `content`. `effect`: a sentence, or None without a context. `is_gain`.
    """
    vectors, coded = options["embeddings"], options["coded"]
    context = options["context"]
    book, effect = chosen_examples(
        opened_sample(gold["path"] if gold["json"] is None else _sample(gold)),
        int(k),
        _codebook(content),
        by=options["by"],
        coded=None if coded is None else _given(coded),
        embeddings=None if vectors is None else np.array(vectors, dtype=np.float64),
        context=context,
        settings=checked_names(_settings(options["settings"])),
    )
    note, is_gain = effect or (None, False)
    return {
        "content": clean(json.dumps(book.to_dict(), ensure_ascii=False)),
        "effect": clean_or_none(note),
        "is_gain": is_gain,
    }


@boundary
def disagreements(
    coded: Mapping[str, Any],
    gold: Mapping[str, Any],
    parts: Sequence[str],
    peek: bool,
) -> dict[str, Any]:
    """Return the texts whose label differs from the human code, as columns."""
    sample = opened_sample(gold["path"] if gold["json"] is None else _sample(gold))
    found = lh.disagreements(_given(coded), sample, list(parts), peek=peek)
    return {
        "columns": {name: _cells(values) for name, values in found.columns.items()},
        "n_compared": float(found.n_compared),
        "n_missing": float(found.n_missing),
    }


def _codes(gold: GoldSample, measure: SelectionMeasure) -> PartCodes:
    return codes_of_part(gold, "select", as_numbers=is_of_numbers(measure))


def _given(coded: Mapping[str, Any]) -> GivenLabels:
    """Convert labels from R.

    Args:
        coded: `texts`, `labels`, `names`. The other elements may be None: `probs`, a
            list of rows; `expected`, a list of numbers; `thoughts`; `codebook` and `run`,
            both JSON.
    """
    names = tuple(coded["names"])
    probs, expected = coded["probs"], coded.get("expected")
    return GivenLabels(
        texts=list(coded["texts"]),
        labels=list(coded["labels"]),
        names=names,
        probs=None
        if probs is None
        else np.array(probs, dtype=np.float64).reshape(-1, len(names)),
        expected=None if expected is None else np.array(expected, dtype=np.float64),
        thoughts=None if coded["thoughts"] is None else list(coded["thoughts"]),
        codebook=None if coded["codebook"] is None else _codebook(coded["codebook"]),
        run=json.loads(coded["run"] or "{}"),
    )


def _choice(choice: lh.CodebookChoice) -> dict[str, Any]:
    return {
        "json": clean(choice.to_json()),
        "name": clean(choice.name),
        "hash": choice.hash,
        "content": clean(json.dumps(choice.content, ensure_ascii=False)),
        "settings": clean(json.dumps(choice.settings, ensure_ascii=False)),
        "model": clean_or_none(choice.model.get("file")),
        "measure": choice.measure,
        "value": choice.value,
        "tied": [clean(name) for name in choice.tied],
        "page": clean(str(choice)),
    }


def _sample(gold: Mapping[str, Any]) -> GoldSample:
    try:
        return GoldSample.from_json(gold["json"])
    except BadArgumentError as error:
        raise error.moved(argument=Argument("gold").name) from None


def _codebook(content: str) -> lh.Codebook:
    return lh.Codebook.from_dict(json.loads(content))


def _settings(given: Any) -> dict[str, Any]:  # noqa: ANN401 - an empty named list arrives as []
    made = dict(given or {})
    for name in _COUNTS:
        if isinstance(made.get(name), float) and made[name].is_integer():
            made[name] = int(made[name])
    return made


def _columns(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    names = list(rows[0]) if rows else []
    return {name: _cells([row.get(name) for row in rows]) for name in names}


def _cells(values: Sequence[Any]) -> list[Any]:
    """Return clean texts, and numbers as floats."""
    return [
        float(each)
        if isinstance(each, (int, float)) and not isinstance(each, bool)
        else None
        if each is None
        else clean(str(each))
        for each in values
    ]
