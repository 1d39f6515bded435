"""Labels of several models: localLLM's confusion matrices and reliability."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import llamaherd as lh
from llamaherd._r.boundary import boundary
from llamaherd._r.forms import (
    Part,
    counts,
    named,
    parts,
    r_object,
    table_of_objects,
    vector,
)
from llamaherd.engine.core.phrases import decimals, percents

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_MOST_LABELS = 8  # of printed tables
_Models = Any  # result of one of localLLM's functions
_MODEL_COLUMNS = {"sample_col": "sample", "model_col": "model", "label_col": "label"}
COHEN = dict.fromkeys(("model_a", "model_b"), "text")
COHEN |= dict.fromkeys(("kappa", "observed", "expected"), "number")


@boundary
def confusion_tables(
    columns: Mapping[str, Sequence[Any]], options: Mapping[str, Any]
) -> Part:
    """Compute the tables of R's `compute_confusion_matrices`.

    Args:
        columns: `sample`, `model`, `label` and, if there are human codes, `truth`.
        options: `pairwise`; `levels`, or None.
    """
    return _confusion(_confusion_of(columns, options))


@boundary
def reliability(columns: Mapping[str, Sequence[Any]], options: Mapping[str, Any]) -> Part:
    """Compute the coefficients of R's `intercoder_reliability`.

    Args:
        columns: `sample`, `model`, `label`.
        options: `method`; `levels`, or None.
    """
    return _reliability(_reliability_of(columns, options))


@boundary
def compare_models(
    columns: Mapping[str, Sequence[Any]], options: Mapping[str, Any]
) -> Part:
    """Compare models by both functions.

    Args:
        columns: As in `confusion_tables`.
        options: As in both functions; `confusion` and `reliability`, flags.
    """
    made: dict[str, Part | None] = {}
    lines = [["<ModelComparison: of models' labels>"]]
    if options["confusion"]:
        tables = _confusion_of(columns, options)
        made["confusion"] = _confusion(tables)
        lines.append(_right_lines(tables))
    if options["reliability"]:
        coefficients = _reliability_of(columns, options)
        made["reliability"] = _reliability(coefficients)
        lines += _reliability_lines(coefficients)
    if options["confusion"]:
        lines += [
            _table_lines(own, tables.levels, name, "people")
            for name, own in tables.vs_gold.items()
        ]
        lines += [
            _table_lines(own, tables.levels, *name.split(" vs ", 1))
            for name, own in tables.pairwise.items()
        ]
    page = "\n\n".join("\n".join(part) for part in lines if part)
    return r_object("comparison", made, page=page)


def _confusion_of(columns: Mapping[str, Any], options: Mapping[str, Any]) -> _Models:
    return lh.compute_confusion_matrices(
        dict(columns),
        pairwise=options["pairwise"],
        label_levels=options["levels"],
        **_MODEL_COLUMNS,
    )


def _reliability_of(columns: Mapping[str, Any], options: Mapping[str, Any]) -> _Models:
    return lh.intercoder_reliability(
        dict(columns),
        method=options["method"],
        label_levels=options["levels"],
        **_MODEL_COLUMNS,
    )


def _confusion(found: _Models) -> Part:
    def tables(made: Mapping[str, Any]) -> Part | None:
        known = {name: counts(each.tolist(), found.levels) for name, each in made.items()}
        return parts(**known) if known else None

    return parts(vs_gold=tables(found.vs_gold), pairwise=tables(found.pairwise))


def _reliability(found: _Models) -> Part:
    made: dict[str, Part] = {}
    if found.cohen:
        made["cohen"] = table_of_objects(found.cohen, COHEN)
    alpha = found.krippendorff
    if alpha is not None:
        made["krippendorff"] = parts(
            alpha=vector("number", [alpha.alpha]),
            per_item=named(alpha.per_item),
            category_proportions=named(alpha.category_proportions),
            alpha_exact=vector("number", [alpha.alpha_exact]),
        )
    return parts(**made)


def _right_lines(found: _Models) -> list[str]:
    wide = max(map(len, found.vs_gold), default=0)
    lines = []
    for name, own in found.vs_gold.items():
        equal = percents(own.trace() / max(own.sum(), 1))
        lines.append(f"  {name:{wide}}  {equal:>6} of {own.sum():,}")
    return ["labels that equal the codes of people:", *lines] if lines else []


def _reliability_lines(found: _Models) -> list[list[str]]:
    pairs = [f"{each.model_a} and {each.model_b}" for each in found.cohen]
    wide = max(map(len, pairs), default=0)
    lines = [
        f"  {pair:{wide}}  Cohen's kappa {shown_number(own.kappa, 2)}, "
        f"alike {percents(own.observed)}"
        for pair, own in zip(pairs, found.cohen, strict=True)
    ]
    parts_of = [["between models:", *lines]] if lines else []
    alpha = found.krippendorff
    if alpha is not None:
        number = shown_number(alpha.alpha, 2)
        parts_of.append([f"Krippendorff's alpha of all models: {number}"])
    return parts_of


def _table_lines(
    own: Any,  # noqa: ANN401 - counts
    levels: Sequence[object],
    rows: str,
    columns: str,
) -> list[str]:
    """Return a table of few labels; `rows` and `columns` name who gave the labels."""
    if len(levels) > _MOST_LABELS:
        return []
    names = [str(level) for level in levels]
    cells = [[f"{rows} \\ {columns}", *names]]
    cells += [
        [name, *map(str, row)] for name, row in zip(names, own.tolist(), strict=True)
    ]
    wide = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        "  ".join([row[0].ljust(wide[0]), *map(str.rjust, row[1:], wide[1:])]).rstrip()
        for row in cells
    ]


def shown_number(number: float, digits: int = 3) -> str:
    """Return a number as text, "NA" for NaN."""
    return "NA" if math.isnan(number) else decimals(number, digits)
