"""Inter-coder agreement, validation and coverage."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np

import llamaherd as lh
from llamaherd._r.boundary import boundary, clean, renamed
from llamaherd._r.forms import Part, table, value, vector
from llamaherd.core import checks
from llamaherd.core.errors import ArgumentError, BadArgumentError
from llamaherd.research import statistics
from llamaherd.research.codes import check_comparable, check_names, names_of, read
from llamaherd.research.estimation.gold_drawn import GoldSample
from llamaherd.research.statistics.agreement import CoefficientSettings
from llamaherd.research.statistics.intervals import warn_of_bootstrap
from llamaherd.research.validation.validation import COLUMNS
from llamaherd.research.validation.validation_page import page_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llamaherd.research.statistics.ratings import Agreement, Codes, Scale

_TEXT = ".text"  # name of the column of texts; no other column has this name
_BETWEEN = ("model and people", "between people")
_CURVE = ("threshold", "coverage", "accuracy", "low", "high")


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
    return _coefficients(
        list(rows.values()),
        list(rows),
        level=value(options["level"]),
        scale=value(scale),
        is_weighted=value(weights is not None and len(set(weights)) > 1),
    )


@boundary
def validate(
    coded: Mapping[str, Any], gold: Mapping[str, Any], options: Mapping[str, Any]
) -> dict[str, Any]:
    """Return a validation as columns.

    Args:
        coded: `labels`. `names`: names of all labels, [] if unknown. `known`: lists of
            the levels of factors. `probs`: rows of probabilities of all labels, a list of
            probabilities of the texts' labels, or None. `texts`: texts or None.
            `codebook`: JSON or None. `expected`: expected values of numeric labels, or
            None.
        gold: `codes`: a list for each coder. `coders`: names of the coders. `json`: the
            sample; None without a sample. `columns`: columns of the data that identify
            the texts of the sample.
        options: `scale`, `level`, `n_bootstrap`, `seed`, `several`. `weights`: numbers
            or None.
    """
    texts, content = coded["texts"], coded["codebook"]
    expected = coded.get("expected")
    labels = _Coded(
        labels=list(coded["labels"]),
        names=tuple(coded["names"] or names_of(coded["known"])),
        probs=None if coded["probs"] is None else np.array(coded["probs"], dtype=float),
        frame={
            **(gold.get("columns") or {}),
            **({} if texts is None else {_TEXT: list(texts)}),
        },
        text=None if texts is None else _TEXT,
        codebook=None if content is None else lh.Codebook.from_dict(json.loads(content)),
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
    found = _validated(
        labels,
        codes,
        labels=labels.names or None,
        scale=options["scale"],
        level=options["level"],
        n_bootstrap=options["n_bootstrap"],
        seed=options["seed"],
        several=options["several"],
        weights=options.get("weights"),
    )
    return _validation(found)


def _validated(*args: Any, **options: Any) -> lh.Validation:  # noqa: ANN401 - of validate()
    """Call `validate`; in errors, rename the argument for labels to `label_levels`."""
    try:
        return lh.validate(*args, **options)
    except BadArgumentError as error:
        if error.argument not in ("labels", "levels"):
            raise
        raise error.moved(argument="label_levels") from None


def _validation(found: lh.Validation) -> dict[str, Any]:
    rows = list(zip(*found.rows(), strict=True))
    per_label = found.accuracy.per_label
    return {
        "n_texts": found.n_texts,
        "n_gold": found.n_gold,
        "coders": [clean(coder) for coder in found.coders],
        "is_weighted": found.is_weighted,
        "several": found.several,
        "scale": found.scale,
        "labels": [clean(str(label)) for label in found.labels],
        "confusion": found.accuracy.confusion.tolist(),
        "table": dict(zip(COLUMNS, map(list, rows), strict=True)),
        "counts": [[s.n_gold, s.n_predicted] for s in per_label],
        "shares": [s.share for s in per_label],
        "model_agreement": _of_texts(found, found.model_agreement),
        "coder_agreement": _of_texts(found, found.coder_agreement),
        "label_agreement": _by_label(found),
        "pairs": _pairs(found),
        "bins": None if found.calibration is None else _bins(found.calibration),
        "coverage": None if found.coverage is None else _curve(found.coverage),
        "confidence": None if found.confidence is None else found.confidence.tolist(),
        "wrong": {
            "row": [each.row + 1 for each in found.wrong],
            "label": [clean(str(each.label)) for each in found.wrong],
            "truth": [clean(str(each.truth)) for each in found.wrong],
            "prob": [each.prob for each in found.wrong],
        },
        "warnings": [clean(warning) for warning in found.warnings],
        "json": _json(found),
        "page": clean(page_of(found, "llamaherd_validation", 1)).splitlines(),
    }


def _json(found: lh.Validation) -> str:
    """Return the validation as JSON, without the data of single texts."""
    told = {name: v for name, v in found.to_dict().items() if name != "confidence"}
    told["wrong"] = [{**each, "text": None} for each in told["wrong"]]
    return clean(json.dumps(told, ensure_ascii=False, default=str))


@boundary
def coverage_curve(
    confidence: Sequence[float],
    correct: Sequence[bool],
    weights: Sequence[float] | None,
    level: float,
) -> dict[str, Any]:
    """Return accuracy by coverage, as columns."""
    curve = statistics.coverage_curve(
        confidence, correct, unit_weights=weights, level=level
    )
    return _curve(curve)


@boundary
def for_people(
    curve: Mapping[str, Any],
    confidence: Sequence[float],
    accuracy: float,
    sure: bool,
) -> dict[str, Any]:
    """Return the row numbers, from 1, of the texts that human coders should code.

    Args:
        curve: Result of `coverage_curve`.
        confidence: Confidence of the labels of all texts.
        accuracy: Required accuracy of the labels that are kept.
        sure: True if the lower end of the accuracy's confidence interval must reach
            `accuracy`.
    """
    made = statistics.CoverageCurve(
        **{name: np.array(curve[name], dtype=float) for name in _CURVE}, n=curve["n"]
    )
    threshold = made.threshold_for(accuracy, sure=sure)
    rows = statistics.for_people(confidence, threshold)
    return {"rows": [row + 1 for row in rows], "threshold": threshold}


@boundary
def confusion_tables(
    columns: Mapping[str, Sequence[Any]], options: Mapping[str, Any]
) -> dict[str, Any]:
    """Compute the tables of R's `compute_confusion_matrices`.

    Args:
        columns: `sample`, `model`, `label` and, if there are human codes, `truth`.
        options: `pairwise`; `levels`, or None.
    """
    found = lh.compute_confusion_matrices(
        dict(columns),
        pairwise=options["pairwise"],
        label_levels=options["levels"],
        sample_col="sample",
        model_col="model",
        label_col="label",
    )
    return {
        "levels": [clean(str(level)) for level in found.levels],
        "vs_gold": [table.tolist() for table in found.vs_gold.values()],
        "vs_gold_names": [clean(name) for name in found.vs_gold],
        "pairwise": [table.tolist() for table in found.pairwise.values()],
        "pairwise_names": [clean(name) for name in found.pairwise],
    }


@boundary
def reliability(
    columns: Mapping[str, Sequence[Any]], options: Mapping[str, Any]
) -> dict[str, Any]:
    """Compute the coefficients of R's `intercoder_reliability`.

    Args:
        columns: `sample`, `model`, `label`.
        options: `method`; `levels`, or None.
    """
    found = lh.intercoder_reliability(
        dict(columns),
        method=options["method"],
        label_levels=options["levels"],
        sample_col="sample",
        model_col="model",
        label_col="label",
    )
    alpha = found.krippendorff
    return {
        "cohen": _columns(found.cohen),
        "krippendorff": None
        if alpha is None
        else {
            "alpha": alpha.alpha,
            "alpha_exact": alpha.alpha_exact,
            "items": [clean(name) for name in alpha.per_item],
            "per_item": list(alpha.per_item.values()),
            "categories": [clean(name) for name in alpha.category_proportions],
            "proportions": list(alpha.category_proportions.values()),
        },
    }


def _columns(found: Sequence[Any]) -> dict[str, list[Any]]:
    """Convert dataclasses of one type to columns; {} for an empty sequence."""
    names = [field.name for field in dataclasses.fields(found[0])] if found else []
    return {name: [getattr(each, name) for each in found] for name in names}


_NUMBERS = ("value", "low", "high", "se", "observed", "expected")


def _coefficients(
    found: Sequence[Agreement], names: Sequence[str] | None = None, **attributes: Part
) -> Part:
    """Return a table of coefficients, of the class of agreement() with attributes."""
    columns = [vector("text", names or [each.name for each in found], "coefficient")]
    kinds = {**dict.fromkeys(_NUMBERS, "number"), "n_units": "integer"}
    columns += [
        vector(kind, [getattr(each, name) for each in found], name)
        for name, kind in {**kinds, "n_coders": "integer"}.items()
    ]
    cls = "agreement" if attributes else ""
    return table(columns, len(found), cls, **attributes)


def _of_texts(found: lh.Validation, some: Sequence[Agreement]) -> Part | None:
    """Return the coefficients of a validation; None without any."""
    level, scale = value(found.level), value(found.scale)
    return _coefficients(some, level=level, scale=scale) if some else None


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


def _curve(curve: statistics.CoverageCurve) -> dict[str, Any]:
    return {**{name: getattr(curve, name).tolist() for name in _CURVE}, "n": curve.n}


def _bins(found: statistics.CalibrationError) -> dict[str, list[float]]:
    columns = _columns(found.bins)
    accuracy = columns.pop("accuracy") if columns else []
    return {
        **columns,
        "accuracy": [each.value for each in accuracy],
        "accuracy_low": [each.low for each in accuracy],
        "accuracy_high": [each.high for each in accuracy],
        "n": [each.n if not math.isnan(each.value) else 0 for each in accuracy],
    }
