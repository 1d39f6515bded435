"""Inter-coder agreement, validation and coverage."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np

import llamaherd as lh
from llamaherd._r.arguments import codebook
from llamaherd._r.boundary import boundary, form_of, renamed
from llamaherd._r.comparison import COHEN, shown_number
from llamaherd._r.forms import (
    Part,
    attributed,
    counts,
    page_lines,
    parts,
    r_object,
    table,
    table_of,
    table_of_objects,
    value,
    vector,
)
from llamaherd.coding import statistics
from llamaherd.coding.codes import check_comparable, check_names, names_of, read
from llamaherd.coding.estimation.gold_drawn import GoldSample
from llamaherd.coding.statistics.agreement import CoefficientSettings
from llamaherd.coding.statistics.intervals import warn_of_bootstrap
from llamaherd.coding.validation.validation import COLUMNS
from llamaherd.coding.validation.validation_page import page_of
from llamaherd.engine.core import checks
from llamaherd.engine.core.errors import ArgumentError
from llamaherd.engine.core.phrases import count_of, decimals, limits

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llamaherd.coding.statistics.ratings import Agreement, Codes, Scale

_TEXT = ".text"  # name of the column of texts; no other column has this name
_BETWEEN = ("model and people", "between people")
_CURVE = ("threshold", "coverage", "accuracy", "low", "high")
_ROUNDING = 1e-9  # of shares of texts


@dataclasses.dataclass(frozen=True, slots=True)
class _Coded:
    labels: list[Any]
    names: tuple[Any, ...]
    probs: Any
    frame: dict[str, list[Any]]
    text: str | None
    codebook: lh.Codebook | None
    expected: Any


@boundary
def agreement(codes: Codes, options: Mapping[str, Any]) -> Part:
    """Return a table of coefficients of agreement; kappa only for two coders.

    Args:
        codes: For each coder, a list of codes; None for missing codes.
        options: `level`, `n_bootstrap`, `seed`; `scale` and `levels`, which may be None.
            `known`: lists of the levels of factors, which may include further levels.
            `coders`: names of the coders, "" for a coder without a name.
            `weights`: weights of units, or None. `kappa_weights`: a list, a list of rows,
            or None.
    """
    with renamed(weights="kappa_weights", unit_weights="weights"):
        return _agreement(codes, options)


def _agreement(codes: Codes, options: Mapping[str, Any]) -> Part:
    levels = options["levels"]
    scale: Scale = options["scale"] or "nominal"
    known = names_of(options["known"])
    coders = options.get("coders") or [""] * len(codes)
    check_names(coders, "codes")
    declared = levels if levels is not None else known
    reading = read(codes, declared)
    if len(set(map(len, codes))) == 1:
        check_comparable(
            reading.columns,
            coders,
            reading.names,
            are_measures=scale in ("interval", "ratio"),
        )
    if levels is None and known:
        seen = {code for column in reading.columns for code in column}
        other = seen.difference(reading.names, [None])
        if other and scale != "nominal":
            raise ArgumentError(
                f"has the code {checks.shown(min(other, key=str))}, which is not among "
                f"the ordered labels {', '.join(map(str, reading.names))}",
                argument="codes",
                code="unknown_choice",
            )
        codes, levels = reading.columns, [*reading.names, *sorted(other, key=str)]
    how = CoefficientSettings(
        names=levels, scale=scale, w=options["weights"], level=options["level"]
    )
    warn_of_bootstrap(options["n_bootstrap"], options["seed"])
    rows = {each.name: each for each in how.of(codes)}
    kappas = {}
    if len(codes) == 2:
        kappas["kappa"] = rows.pop("kappa")
        given: dict[str, Any] = {"weighted kappa": options["kappa_weights"]}
        if scale != "nominal":
            given = {"linear kappa": "linear", **given}
        kappas |= {
            name: statistics.cohen_kappa(codes, weights=w, levels=levels, **how.common)
            for name, w in given.items()
            if w is not None
        }
        if "weighted kappa" in rows:
            own = kappas.pop("weighted kappa", None)
            kappas["quadratic kappa"] = rows.pop("weighted kappa")
            kappas |= {} if own is None else {"weighted kappa": own}
    rows = {"percent": rows.pop("percent"), **kappas, **rows}
    weights = options["weights"]
    is_weighted = weights is not None and len(set(weights)) > 1
    made = [dataclasses.replace(each, name=name) for name, each in rows.items()]
    return _agreement_table(made, options["level"], scale, is_weighted=is_weighted)


@boundary
def validate(
    coded: Mapping[str, Any], gold: Mapping[str, Any], options: Mapping[str, Any]
) -> lh.Validation:
    """Validate labels.

    Args:
        coded: `labels`. `names`: names of all labels, [] if unknown. `known`: lists of
            the levels of factors. `probs`: rows of probabilities of all labels, a list of
            probabilities of the texts' labels, or None. `texts`: texts or None.
            `codebook`: JSON or None. `expected`: expected values of numeric labels, or
            None.
        gold: `codes`: a list for each coder. `coders`: names of the coders. `json`: the
            sample; None without a sample. `columns`: columns of the data that identify
            the texts of the sample.
        options: Arguments of `validate`; those left out have their defaults.
    """
    texts, content = coded["texts"], coded["codebook"]
    expected, probs = coded.get("expected"), coded["probs"]
    labels = _Coded(
        labels=list(coded["labels"]),
        names=tuple(coded["names"] or names_of(coded["known"])),
        probs=None if probs is None else np.array(probs, dtype=float),
        frame={
            **(gold.get("columns") or {}),
            **({} if texts is None else {_TEXT: list(texts)}),
        },
        text=None if texts is None else _TEXT,
        codebook=None if content is None else codebook(content),
        expected=None if expected is None else np.array(expected, dtype=float),
    )
    check_names(gold["coders"])
    codes: Any = dict(zip(gold["coders"], gold["codes"], strict=True))
    if gold.get("json") is not None:
        codes = dataclasses.replace(
            GoldSample.from_json(gold["json"]),
            codes=[list(each) for each in gold["codes"]],
            coders=list(gold["coders"]),
        )
    with renamed(labels="label_levels", levels="label_levels"):
        return lh.validate(labels, codes, labels=labels.names or None, **options)


@form_of.register
def _(found: lh.Validation) -> Part:
    table_of_labels = table_of(_label_rows(found), {**_LABEL, **_SCORES})
    model = _of_texts(found, found.model_agreement)
    kappas = [each for each in found.model_agreement if each.name == "kappa"]
    cohen = [
        {
            "model_a": "model",
            "model_b": "people",
            "kappa": each.value,
            "observed": each.observed,
            "expected": each.expected,
        }
        for each in kappas
    ]
    alphas = [each.value for each in found.model_agreement if each.name == "alpha"]
    confusion = counts(found.accuracy.confusion.tolist(), found.labels)
    wrong = [
        {"row": each.row + 1, "label": each.label, "truth": each.truth}
        | {"prob": each.prob, "text": each.text}
        for each in found.wrong
    ]
    kinds = {"row": "integer", "label": "text", "truth": "text", "prob": "number"}
    if found.wrong and found.wrong[0].text is not None:
        kinds["text"] = "text"
    coverage, calibration = found.coverage, found.calibration
    made = {
        "n_texts": vector("integer", [found.n_texts]),
        "n_gold": vector("integer", [found.n_gold]),
        "coders": vector("text", found.coders),
        "is_weighted": value(found.is_weighted),
        "several": value(found.several),
        "scale": value(found.scale),
        "level": value(found.level),
        "table": table_of(
            [dict(zip(COLUMNS, r, strict=True)) for r in found.rows()], _ROW
        ),
        "labels": table_of_labels,
        "model_agreement": model,
        "coder_agreement": _of_texts(found, found.coder_agreement),
        "label_agreement": _by_label(found),
        "pairs": _pairs(found),
        "confusion": parts(
            vs_gold=parts(model=None if found.several else confusion), pairwise=None
        ),
        "reliability": parts(
            cohen=table_of(cohen, COHEN),
            krippendorff=parts(alpha=vector("number", alphas)),
        ),
        "bins": None if calibration is None else _bins(calibration),
        "coverage": None if coverage is None else _curve(coverage, found.level),
        "prob": None if found.confidence is None else vector("number", found.confidence),
        "wrong": table_of(wrong, kinds),
        "warnings": vector("text", found.warnings),
    }
    page = page_of(found, "llamaherd_validation", 1)
    return r_object("validation", made, page=page, json=_json(found))


def _label_rows(found: lh.Validation) -> list[dict[str, Any]]:
    """Return a row for each label, with scores and their limits."""
    rows = []
    for scores in found.accuracy.per_label:
        row = {"label": str(scores.label), "n_gold": scores.n_gold}
        row |= {"n_model": scores.n_predicted, "share": scores.share}
        for name in ("precision", "recall", "f1"):
            own = getattr(scores, name)
            row |= {name: own.value, f"{name}_low": own.low, f"{name}_high": own.high}
        rows.append(row)
    return rows


def _json(found: lh.Validation) -> str:
    """Return the validation as JSON, without the data of single texts."""
    told = {name: v for name, v in found.to_dict().items() if name != "confidence"}
    told["wrong"] = [{**each, "text": None} for each in told["wrong"]]
    return json.dumps(told, ensure_ascii=False, default=str)


@boundary
def coverage_curve(
    confidence: Sequence[float],
    correct: Sequence[bool],
    weights: Sequence[float] | None,
    level: float,
) -> Part:
    """Return accuracy by coverage, as a table."""
    curve = statistics.coverage_curve(
        confidence, correct, unit_weights=weights, level=level
    )
    return _curve(curve, level)


@boundary
def for_people(
    curve: Mapping[str, Any],
    confidence: Sequence[float],
    accuracy: float,
    sure: bool,
) -> Part:
    """Return the rows, from 1, of the texts that people should code.

    Args:
        curve: Columns of the result of `coverage_curve`.
        confidence: Confidence of the labels of all texts.
        accuracy: Required accuracy of the labels that are kept.
        sure: True if the lower end of the accuracy's confidence interval must reach
            `accuracy`.
    """
    known = {name: np.array(curve[name], dtype=float) for name in _CURVE}
    threshold = statistics.CoverageCurve(**known, n=0).threshold_for(accuracy, sure=sure)
    rows = statistics.for_people(confidence, threshold)
    return parts(
        rows=vector("integer", [row + 1 for row in rows]), threshold=value(threshold)
    )


_ROW = dict.fromkeys(("part", "measure", "label"), "text")
_ROW |= {**dict.fromkeys(("value", "low", "high"), "number"), "n": "integer"}
_LABEL = {"label": "text", "n_gold": "integer", "n_model": "integer", "share": "number"}
_SCORES = {
    f"{name}{end}": "number"
    for name in ("precision", "recall", "f1")
    for end in ("", "_low", "_high")
}
_AGREEMENT = {"name": "text"}
_AGREEMENT |= dict.fromkeys(
    ("value", "low", "high", "se", "observed", "expected"), "number"
)
_AGREEMENT |= dict.fromkeys(("n_units", "n_coders"), "integer")


def _coefficients(found: Sequence[Agreement]) -> Part:
    """Return a table of coefficients."""
    made = table_of_objects(found, _AGREEMENT)
    made["columns"][0]["name"] = "coefficient"
    return made


def _agreement_table(
    found: Sequence[Agreement], level: float, scale: str, *, is_weighted: bool = False
) -> Part:
    """Return a table of coefficients of the class of agreement(), with its page."""
    n = max((each.n_units for each in found), default=0)
    coders = count_of(max((each.n_coders for each in found), default=0), "coder")
    head = f"{count_of(n, 'unit')} with two codes or more, {coders}, {scale}"
    wide = max((len(each.name) for each in found), default=0)
    values = [shown_number(each.value) for each in found]
    room = max(map(len, values), default=0)
    lines = [f"<Agreement: {head}{', weighted' if is_weighted else ''}>"]
    for each, shown in zip(found, values, strict=True):
        ends = "" if math.isnan(each.low) else limits(each.low, each.high, 3)
        lines.append(f"{each.name:{wide}} {shown:>{room}} {ends}".rstrip())
    return attributed(
        _coefficients(found),
        "agreement",
        level=value(level),
        scale=value(scale),
        is_weighted=value(is_weighted),
        page=vector("text", page_lines("\n".join(lines), "llamaherd_agreement")),
    )


def _of_texts(found: lh.Validation, some: Sequence[Agreement]) -> Part | None:
    """Return the coefficients of a validation; None without any."""
    return _agreement_table(some, found.level, found.scale) if some else None


def _grouped(rows: Sequence[tuple[str, str, Agreement]], *names: str) -> Part | None:
    """Return coefficients after two columns that identify them; None without any."""
    if not rows:
        return None
    made = _coefficients([each for _, _, each in rows])
    of = [vector("text", [row[i] for row in rows], name) for i, name in enumerate(names)]
    return {**made, "columns": [*of, *made["columns"]]}


def _by_label(found: lh.Validation) -> Part | None:
    """Return agreement by label; None with one label per text."""
    rows = [
        (str(of.label), between, each)
        for of in found.label_agreement
        for between, some in zip(_BETWEEN, (of.model, of.people), strict=True)
        for each in some
    ]
    return _grouped(rows, "label", "between")


def _pairs(found: lh.Validation) -> Part | None:
    """Return agreement by pair of coders; None for one coder."""
    rows = [
        (pair.first, pair.second, each)
        for pair in found.pairs
        for each in pair.coefficients
    ]
    return _grouped(rows, "first", "second")


def _curve(curve: statistics.CoverageCurve, level: float) -> Part:
    """Return a curve as a table; its page has the points at each tenth of coverage."""
    columns = [vector("number", getattr(curve, name), name) for name in _CURVE]
    n = len(curve.coverage)
    reached = [curve.coverage >= p / 10 - _ROUNDING for p in range(1, 11)]
    at = [int(is_reached.argmax()) for is_reached in reached if is_reached.any()]
    rows = [
        f"{decimals(curve.coverage[i]):>8} {decimals(curve.threshold[i]):>9}     "
        f"{decimals(curve.accuracy[i])} {limits(curve.low[i], curve.high[i])}"
        for i in dict.fromkeys([*at, n - 1] if n else [])
    ]
    head = ["coverage threshold accuracy"] if n else []
    first = f"<CoverageCurve: of {count_of(curve.n, 'coded text')}>"
    page = "\n".join([first, *head, *rows])
    return attributed(
        table(columns, n),
        "coverage",
        n=vector("integer", [curve.n]),
        level=value(level),
        page=vector("text", page_lines(page, "llamaherd_coverage")),
    )


def _bins(found: statistics.CalibrationError) -> Part:
    """Return the bins of a reliability diagram."""
    names = [f.name for f in dataclasses.fields(found.bins[0])] if found.bins else []
    rows = []
    for each in found.bins:
        own = each.accuracy
        row = {name: getattr(each, name) for name in names if name != "accuracy"}
        row |= {"accuracy": own.value, "accuracy_low": own.low}
        row |= {"accuracy_high": own.high, "n": 0 if math.isnan(own.value) else own.n}
        rows.append(row)
    return table_of(rows, dict.fromkeys(rows[0] if rows else [], "number"))
