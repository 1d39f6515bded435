"""Inter-coder agreement, validation, coverage, and labels of several models."""

from __future__ import annotations

import json
import math
from dataclasses import fields as fields_of
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

import llamaherd as lh
from llamaherd._r.boundary import form_of
from llamaherd._r.forms import (
    Part,
    counts,
    fields,
    page_lines,
    parts,
    r_object,
    table,
    table_of,
    vector,
    with_class,
)
from llamaherd.coding.codes import check_names, names_of
from llamaherd.coding.statistics import calibration
from llamaherd.coding.validation.agreement import CoderAgreement, coder_agreement
from llamaherd.coding.validation.page import page_of
from llamaherd.coding.validation.reliability import (
    ConfusionTables,
    ModelComparison,
    Reliability,
)
from llamaherd.coding.validation.validation import COLUMNS
from llamaherd.engine.core.errors import renamed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llamaherd._r.arguments import ColumnsOfR
    from llamaherd.coding.statistics.ratings import Agreement, Codes

_BETWEEN = ("model and people", "between people")
_CURVE = ("threshold", "coverage", "accuracy", "low", "high")


def agreement(codes: Codes, options: Mapping[str, Any]) -> CoderAgreement:
    """Compute coefficients of agreement; arguments as in `coder_agreement`."""
    with renamed(codes="...", weights="kappa_weights", unit_weights="weights"):
        return coder_agreement(codes, **options)


def validate(  # noqa: PLR0917 - R's arguments
    data: ColumnsOfR,
    gold: Any,  # a sample, or columns
    coders: Sequence[str] | None,
    levels: Sequence[Any] | None,
    known: Sequence[Sequence[Any]],
    options: Mapping[str, Any],
) -> lh.types.Validation:
    """Validate labels.

    `gold` is a sample, a list of codes for each of `coders`, or None for the columns that
    the option `truth` names. `known` are levels of factors, which need not be all labels.
    """
    if coders is not None:
        check_names(coders)
        gold = dict(zip(coders, gold, strict=True))
    data.names = data.names or tuple(names_of(known))
    names = dict.fromkeys(("labels", "levels"), "label_levels")
    with renamed(**names, coded="annotations", label="label_col", truth="gold"):
        return lh.validate(data, gold, labels=levels, **options)


@form_of.register
def _(validation: lh.types.Validation) -> Part:
    of_model = validation.model_agreement
    kappas = [
        ("model", "people", kappa.value, kappa.observed, kappa.expected)
        for kappa in of_model
        if kappa.name == "kappa"
    ]
    alphas = [alpha.value for alpha in of_model if alpha.name == "alpha"]
    confusion = counts(validation.accuracy.confusion.tolist(), validation.labels)
    wrong = [(e.row + 1, e.label, e.truth, e.prob, e.text) for e in validation.wrong]
    has_text = validation.wrong and validation.wrong[0].text is not None
    coverage, calibration = validation.coverage, validation.calibration
    elements = {
        **fields(validation, "n_texts n_gold coders is_weighted several scale level"),
        "table": table_of(validation.rows(), COLUMNS),
        "labels": table_of(_label_rows(validation), _LABEL),
        "model_agreement": _of_texts(validation, validation.model_agreement),
        "coder_agreement": _of_texts(validation, validation.coder_agreement),
        "label_agreement": _by_label(validation),
        "pairs": _pairs(validation),
        "confusion": parts(
            vs_gold=parts(model=None if validation.several else confusion), pairwise=None
        ),
        "reliability": parts(
            cohen=_cohen_table(kappas),
            krippendorff=parts(alpha=vector("number", alphas)),
        ),
        "bins": None if calibration is None else _bins(calibration),
        "coverage": None if coverage is None else _curve(coverage, validation.level),
        "prob": None
        if validation.confidence is None
        else vector("number", validation.confidence),
        "wrong": table_of(
            wrong,
            f"row label truth prob{' text' if has_text else ''}",
        ),
        "warnings": vector("text", validation.warnings),
    }
    page = page_of(validation, "llamaherd_validation", 1)
    return r_object("validation", elements, page=page, json=_json(validation))


def _label_rows(validation: lh.types.Validation) -> list[dict[str, Any]]:
    """Return a row for each label, with scores and their limits."""
    rows = []
    for scores in validation.accuracy.per_label:
        row = {"label": str(scores.label), "n_gold": scores.n_gold}
        row |= {"n_model": scores.n_predicted, "share": scores.share}
        for name in ("precision", "recall", "f1"):
            score = getattr(scores, name)
            row |= {
                name: score.value,
                f"{name}_low": score.low,
                f"{name}_high": score.high,
            }
        rows.append(row)
    return rows


def _json(validation: lh.types.Validation) -> str:
    """Return the validation as JSON, without the data of single texts."""
    content = {
        name: v for name, v in validation.to_dict().items() if name != "confidence"
    }
    content["wrong"] = [{**row, "text": None} for row in content["wrong"]]
    return json.dumps(content, ensure_ascii=False, default=str)


def coverage_curve(
    confidence: Sequence[float],
    correct: Sequence[bool],
    weights: Sequence[float] | None,
    level: float,
) -> Part:
    """Return accuracy by coverage, as a table."""
    with renamed(confidence="x", unit_weights="weights"):
        curve = calibration.coverage_curve(
            confidence, correct, unit_weights=weights, level=level
        )
    return _curve(curve, level)


def for_people(
    curve: Mapping[str, Any],
    confidence: Sequence[float],
    accuracy: float,
    sure: bool,
) -> Part:
    """Return the rows, from 1, of the texts that people should code."""
    known = {name: np.array(curve[name], dtype=float) for name in _CURVE}
    threshold = calibration.CoverageCurve(**known, n=0).threshold_for(accuracy, sure=sure)
    with renamed(confidence="prob"):
        rows = calibration.for_people(confidence, threshold)
    return parts(rows=vector("integer", [row + 1 for row in rows]), threshold=threshold)


_LABEL = "label n_gold n_model share precision precision_low precision_high"
_LABEL += " recall recall_low recall_high f1 f1_low f1_high"
_NUMBERS = ("value", "low", "high", "se", "observed", "expected", "n_units", "n_coders")
_COEFFICIENT = ("coefficient", *_NUMBERS)
_cells = attrgetter("name", *_NUMBERS)


@form_of.register
def _agreement_table(result: CoderAgreement) -> Part:
    """Return a table of coefficients of the class of agreement(), with its page."""
    return with_class(
        table_of(map(_cells, result.coefficients), _COEFFICIENT),
        "agreement",
        level=result.level,
        scale=result.scale,
        is_weighted=result.is_weighted,
        page=page_lines(str(result), "llamaherd_agreement"),
    )


def _of_texts(validation: lh.types.Validation, some: Sequence[Agreement]) -> Part | None:
    """Return the coefficients of a validation; None without any."""
    if not some:
        return None
    result = CoderAgreement(
        coefficients=tuple(some),
        level=validation.level,
        scale=validation.scale,
        is_weighted=False,
    )
    return _agreement_table(result)


def _by_label(validation: lh.types.Validation) -> Part | None:
    """Return agreement by label; None with one label per text."""
    rows = [
        (str(of.label), between, *_cells(coefficient))
        for of in validation.label_agreement
        for between, some in zip(_BETWEEN, (of.model, of.people), strict=True)
        for coefficient in some
    ]
    return table_of(rows, ("label", "between", *_COEFFICIENT)) if rows else None


def _pairs(validation: lh.types.Validation) -> Part | None:
    """Return agreement by pair of coders; None for one coder."""
    rows = [
        (pair.first, pair.second, *_cells(coefficient))
        for pair in validation.pairs
        for coefficient in pair.coefficients
    ]
    return table_of(rows, ("first", "second", *_COEFFICIENT)) if rows else None


def _curve(curve: calibration.CoverageCurve, level: float) -> Part:
    """Return a curve as a table."""
    columns = [vector("number", getattr(curve, name), name) for name in _CURVE]
    n = len(curve.coverage)
    return with_class(
        table(columns, n),
        "coverage",
        n=curve.n,
        level=level,
        page=page_lines(str(curve), "llamaherd_coverage"),
    )


def _bins(calibration: calibration.CalibrationError) -> Part:
    """Return the bins of a reliability diagram."""
    rows = []
    for calibration_bin in calibration.bins:
        row = {
            f.name: getattr(calibration_bin, f.name) for f in fields_of(calibration_bin)
        }
        accuracy = row.pop("accuracy")
        row |= {"accuracy": accuracy.value, "accuracy_low": accuracy.low}
        n = 0 if math.isnan(accuracy.value) else accuracy.n
        rows.append({**row, "accuracy_high": accuracy.high, "n": n})
    return table_of(rows, numbers="n")


@form_of.register(ConfusionTables)
def _(confusion: ConfusionTables) -> Part:
    def tables(matrices: Mapping[str, Any]) -> Part | None:
        known = {
            name: counts(matrix.tolist(), confusion.levels)
            for name, matrix in matrices.items()
        }
        return parts(**known) if known else None

    return parts(vs_gold=tables(confusion.vs_gold), pairwise=tables(confusion.pairwise))


@form_of.register(Reliability)
def _(reliability: Reliability) -> Part:
    elements: dict[str, Part] = {}
    if reliability.cohen:
        elements["cohen"] = _cohen_table(reliability.cohen)
    alpha = reliability.krippendorff
    if alpha is not None:
        names = "alpha per_item category_proportions alpha_exact"
        elements["krippendorff"] = parts(**fields(alpha, names))
    return parts(**elements)


@form_of.register(ModelComparison)
def _(comparison: ModelComparison) -> Part:
    known = {"confusion": comparison.confusion, "reliability": comparison.reliability}
    elements = {
        name: form_of(result) for name, result in known.items() if result is not None
    }
    return r_object("comparison", elements, page=comparison)


def _cohen_table(pairs: Sequence[Any]) -> Part:
    """Return a table of Cohen's kappas."""
    names = "model_a model_b kappa observed expected"
    return table_of(pairs, names)
