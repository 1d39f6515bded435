"""Labels of several models: localLLM's confusion matrices and reliability."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import llamaherd as lh
from llamaherd._r.boundary import form_of
from llamaherd._r.forms import Part, counts, fields, parts, r_object, table_of
from llamaherd.coding.validation.reliability import ConfusionTables, Reliability
from llamaherd.engine.core.phrases import decimals, percents

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_MOST_LABELS = 8  # of printed tables


@form_of.register(ConfusionTables)
def _(found: ConfusionTables) -> Part:
    def tables(made: Mapping[str, Any]) -> Part | None:
        known = {name: counts(each.tolist(), found.levels) for name, each in made.items()}
        return parts(**known) if known else None

    return parts(vs_gold=tables(found.vs_gold), pairwise=tables(found.pairwise))


@form_of.register(Reliability)
def _(found: Reliability) -> Part:
    made: dict[str, Part] = {}
    if found.cohen:
        made["cohen"] = cohen_table(found.cohen)
    alpha = found.krippendorff
    if alpha is not None:
        names = "alpha per_item category_proportions alpha_exact"
        made["krippendorff"] = parts(**fields(alpha, names))
    return parts(**made)


def cohen_table(pairs: Sequence[Any]) -> Part:
    """Return a table of Cohen's kappas."""
    names = "model_a model_b kappa observed expected"
    return table_of(pairs, names, text="model_a model_b")


def compare_models(
    annotations: Mapping[str, Any],
    confusion: bool,
    reliability: bool,
    of_confusion: Mapping[str, Any],
    of_reliability: Mapping[str, Any],
) -> Part:
    """Compare models by both functions of localLLM, or one of them.

    Args:
        annotations: Data frame.
        confusion: Whether to compute confusion matrices.
        reliability: Whether to compute coefficients of reliability.
        of_confusion: Arguments of `compute_confusion_matrices`.
        of_reliability: Arguments of `intercoder_reliability`.
    """
    made: dict[str, Part | None] = {}
    lines = [["<ModelComparison: of models' labels>"]]
    if confusion:
        tables = lh.compute_confusion_matrices(annotations, **of_confusion)
        made["confusion"] = form_of(tables)
        lines.append(_right_lines(tables))
    if reliability:
        coefficients = lh.intercoder_reliability(annotations, **of_reliability)
        made["reliability"] = form_of(coefficients)
        lines += _reliability_lines(coefficients)
    if confusion:
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


def _right_lines(found: ConfusionTables) -> list[str]:
    wide = max(map(len, found.vs_gold), default=0)
    lines = []
    for name, own in found.vs_gold.items():
        equal = percents(own.trace() / max(own.sum(), 1))
        lines.append(f"  {name:{wide}}  {equal:>6} of {own.sum():,}")
    return ["labels that equal the codes of people:", *lines] if lines else []


def _reliability_lines(found: Reliability) -> list[list[str]]:
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
