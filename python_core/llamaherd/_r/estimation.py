"""Estimates for R, from labels, gold samples as JSON, and matrices of formulas."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd._r.boundary import boundary, form_of
from llamaherd._r.forms import (
    Part,
    array,
    items,
    matrix,
    named,
    parts,
    r_object,
    table,
    table_of,
    table_of_objects,
    value,
    vector,
)
from llamaherd._r.gold import with_levels
from llamaherd.coding import frames
from llamaherd.coding.estimation.corrected import corrected
from llamaherd.coding.estimation.corrected import (
    replicate_weights as weights_of_replicates,
)
from llamaherd.coding.estimation.estimate import Estimation, estimate
from llamaherd.coding.estimation.estimates import Estimates
from llamaherd.coding.estimation.formulas import Matrices, averaged
from llamaherd.coding.estimation.inputs import Inputs
from llamaherd.coding.estimation.outcomes import in_one_form
from llamaherd.coding.estimation.predictions import predictions_of
from llamaherd.coding.gold.population import match_sample
from llamaherd.coding.gold.sample import GoldSample
from llamaherd.coding.plots.intervals import METHODS
from llamaherd.coding.selection.robustness_result import estimate_lines
from llamaherd.coding.statistics.intervals import level_of, student_quantile
from llamaherd.coding.validation.dawid_skene import DawidSkene
from llamaherd.coding.validation.dawid_skene import dawid_skene as of_coders
from llamaherd.engine.core import checks
from llamaherd.engine.core.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from llamaherd.coding.estimation.estimates import Estimate
    from llamaherd.coding.statistics.sampling import Floats


_OF_INPUTS = ("label", "text", "prob", "weights", "target")


@boundary
def codes_in_one_form(
    columns: Mapping[str, Sequence[Any]],
    gold: str | Sequence[Any],
    options: Mapping[str, Any],
) -> Part:
    """Convert labels and codes to texts; equal labels become equal texts.

    Args:
        columns: Columns of text, label and id, if present.
        gold: Sample as JSON, or N codes.
        options: `label`, `text`, `several`. `levels`: levels of the label column, or
            None. `ordered`: whether the levels are ordered.

    Returns:
        `labels`: labels of all N texts. `rows`, `codes`: rows with a code, from 1, and
        their codes. `gold`: sample with converted codes.
    """
    several = options["several"]
    texts, sample, _ = match_sample(
        with_levels(columns, options),
        _gold(gold),
        options["label"],
        options["text"],
        several=several,
    )
    texts, read, _ = in_one_form(texts, sample, several=several)
    given: Sequence[str | None] = read.gold if isinstance(read, GoldSample) else read
    rows = read.rows if isinstance(read, GoldSample) else range(len(given))
    coded = [
        (row, code) for row, code in zip(rows, given, strict=True) if code is not None
    ]
    return parts(
        labels=vector("text", texts.labels),
        rows=vector("integer", [row + 1 for row, _ in coded]),
        codes=vector("text", [code for _, code in coded]),
        gold=value(read.to_json() if isinstance(read, GoldSample) else list(given)),
    )


@boundary
def dawid_skene(sample: str, one_coin: bool) -> DawidSkene:
    """Estimate labels and coders' error rates by the model of Dawid and Skene.

    Args:
        sample: Sample as JSON.
        one_coin: See `llamaherd.dawid_skene`.
    """
    return of_coders(GoldSample.from_json(sample), one_coin=one_coin)


@form_of.register
def _(found: DawidSkene) -> Part:
    names, n = found.names, len(found.ids)
    probs = zip(names, found.probs.T, strict=True)
    labels = [
        vector("text", found.ids, "id"),
        vector("text", found.labels, "label"),
        *(vector("number", own, f"p_{name}") for name, own in probs),
    ]
    dims = ("right", "code")
    errors = zip(found.coders, found.errors, strict=True)
    made = {
        "labels": table(labels, n),
        "accuracy": named(found.accuracy),
        "shares": named(dict(zip(names, found.shares.tolist(), strict=True))),
        "errors": parts(
            **{name: matrix(own, names, names, dims) for name, own in errors}
        ),
    }
    return r_object("dawid_skene", made, page=found)


@boundary
def estimate_means(
    columns: Mapping[str, Sequence[Any]],
    gold: str | Sequence[Any],
    options: Mapping[str, Any],
) -> Estimates:
    """Estimate shares, means and differences.

    Args:
        columns: Used columns of the data frame.
        gold: Sample as JSON, or N codes.
        options: Arguments of `estimate`; `levels` and `ordered`, see `codes_in_one_form`;
            `codebook`: JSON or None.
    """
    data = with_levels(columns, options)
    return estimate(data, _gold(gold), **_arguments(options))


@boundary
def corrected_columns(
    columns: Mapping[str, Sequence[Any]],
    gold: str | Sequence[Any],
    options: Mapping[str, Any],
) -> Part:
    """Return the columns that `corrected` adds; arguments as `estimate_means`."""
    data = with_levels(columns, options)
    found = corrected(data, _gold(gold), **_arguments(options))
    names = [name for name in frames.names(found) if name not in columns]
    made = [vector("number", found[name], name) for name in names]
    return table(made, len(found[names[0]]))


@boundary
def replicate_weights(
    columns: Mapping[str, Sequence[Any]],
    gold: str | Sequence[Any],
    options: Mapping[str, Any],
) -> Part:
    """Return replicate weights, a column for each replicate."""
    arguments = _arguments(options)
    if arguments["target"] != "texts" and arguments["predictions"] == "labels":
        del arguments["predictions"]  # R always gives them
    data = with_levels(columns, options)
    return array(weights_of_replicates(data, _gold(gold), **arguments))


def _arguments(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options without those that only R has."""
    only_r = {"levels", "ordered", "codebook"}
    return {name: value for name, value in options.items() if name not in only_r}


@boundary
def estimate_regression(
    columns: Mapping[str, Sequence[Any]],
    gold: str | Sequence[Any],
    matrices: Mapping[str, Any],
    options: Mapping[str, Any],
) -> Estimates:
    """Estimate a regression from matrices that R built from a formula.

    Args:
        columns: Columns of text, label and id, if present, to compare with the sample.
        gold: Sample as JSON, or N codes.
        matrices: `terms`, `outcome`, `has_label_right`, `formula`. `kept`: indices of the
            used rows. `x_hat`, `y_hat`: columns and outcome of all used texts. `x`, `y`:
            columns and outcome of the coded texts. `clusters`: a number for each used
            text, or None. `each`, only for predictions by probabilities: for each label,
            `x_hat` (None if unchanged) and `y_hat`, computed as if all texts had this
            label.
        options: `label`, `text`, `several`, `model`, `methods`, `level`, `target`,
            `prob`, `predictions`, `weights`, `simultaneous`. `cluster`: True with
            clusters. `used`: columns in the formula.
    """
    model, several = options["model"], options["several"]
    checks.choice("model", model, ("ols", "logit"))
    clusters = matrices["clusters"]
    inputs = Inputs.of_rows(
        with_levels(columns, options),
        _gold(gold),
        np.array(matrices["kept"], dtype=np.int64),
        None if clusters is None else np.array(clusters, dtype=np.int64),
        several=several,
        **{name: options[name] for name in _OF_INPUTS},
    )
    texts = inputs.texts
    predicted = predictions_of(
        dict(columns), texts, options["predictions"], several=several
    )
    plain = _matrices(matrices, len(inputs.kept), len(inputs.used.rows))
    by_name = _by_name(matrices.get("each") or {}, plain)
    return Estimation(
        settings=inputs.settings(options["methods"], options["level"], options["target"]),
        model=model,
        formula=matrices["formula"],
        simultaneous=options["simultaneous"],
        columns=options["used"],
    ).regression(
        inputs, predicted, lambda kinds: averaged(plain, kinds, inputs.kept, by_name)
    )


def _matrices(given: Mapping[str, Any], n_texts: int, n_codes: int) -> Matrices:
    made = Matrices(
        x_hat=_columns(given["x_hat"]),
        y_hat=np.array(given["y_hat"], dtype=np.float64),
        x=_columns(given["x"]),
        y=np.array(given["y"], dtype=np.float64),
        terms=tuple(given["terms"]),
        outcome=given["outcome"],
        has_label_right=given["has_label_right"],
    )
    if len(made.y_hat) != n_texts or len(made.y) != n_codes:
        raise ArgumentError(
            "have other rows than the texts and codes", argument="matrices"
        )
    return made


def _by_name(
    each: Mapping[str, Mapping[str, Any]], made: Matrices
) -> Callable[[str], tuple[Floats, Floats]]:
    """Return a function of a label; its result is `x_hat` and `y_hat` of this label."""

    def by_name(name: str) -> tuple[Floats, Floats]:
        own = each[name]
        x_hat = made.x_hat if own["x_hat"] is None else _columns(own["x_hat"])
        return x_hat, np.array(own["y_hat"], dtype=np.float64)

    return by_name


def _gold(gold: str | Sequence[Any]) -> GoldSample | Sequence[Any]:
    return GoldSample.from_json(gold) if isinstance(gold, str) else gold


def _columns(columns: Sequence[Sequence[float]]) -> Floats:
    return np.asarray(np.array(columns, dtype=np.float64).T)


_NAMES = ("outcome", "term", "group", "method")
_NUMBERS = ("estimate", "std_error", "low", "high", "lam", "df")
_ROW = {**dict.fromkeys(_NAMES, "text"), **dict.fromkeys(_NUMBERS, "number")}


@form_of.register(Estimates)
def _(found: Estimates) -> Part:
    rows, methods = found.rows, found.methods
    covariances = [
        parts(
            outcome=value(outcome),
            method=value(method),
            values=matrix(own.tolist(), names := [""] * len(own), names),
        )
        for (outcome, method), own in found.covariances.items()
    ]
    widths = {"predictions": "text", "method": "text", "width": "number"}
    titles = [METHODS[method] for method in methods]
    made = {
        "rows": table_of_objects(rows, _ROW),
        "names": vector("text", [_name(row, found) for row in rows]),
        "covariances": items(covariances),
        "model": value(found.model),
        "methods": vector("text", methods),
        "titles": {**vector("text", titles), "names": list(methods)},
        "level": value(found.level),
        "target": value(found.target),
        "n_texts": vector("number", [found.n_texts]),
        "n_gold": vector("number", [found.n_gold]),
        "design": value(found.design),
        "notes": vector("text", found.notes),
        "grouped_by": vector("text", found.grouped_by),
        "predictions": value(found.predictions),
        "widths": table_of_objects(found.widths, widths),
        "simultaneous": value(found.simultaneous),
        "agreement": value(found.agreement),
        "is_weighted": value(found.is_weighted),
        "label_check": _label_check(found),
    }
    content = json.dumps(found.to_dict(), ensure_ascii=False)
    return r_object("estimates", made, page=found, json=content)


def _name(row: Estimate, found: Estimates) -> str:
    """Return the name of a coefficient, share or mean."""
    if found.model != "mean":
        return row.term
    outcomes = {each.outcome for each in found.rows if each.method == row.method}
    words = [row.outcome] if len(outcomes) > 1 else []
    return " ".join(filter(None, [*words, row.term, row.group]))


def _label_check(found: Estimates) -> Part | None:
    check = found.label_check
    if check is None:
        return None
    columns = [vector("text", check.labels, "label")]
    columns += [
        vector("number", getattr(check, name), name)
        for name in ("n_texts", "n_coded", "expected")
    ]
    made = table(columns, len(check.labels))
    p_value = {**value(check.p_value), "name": "p_value"}
    return {**made, "attributes": [p_value]}


@boundary
def estimate_limits(
    columns: Mapping[str, Sequence[Any]], level: float, own_level: float
) -> Part:
    """Return confidence limits at another level, as a matrix.

    If few label errors were observed, one side of an interval is longer than the other.
    Another level multiplies each side by the ratio of the t quantiles, unless the side
    was cut at a bound of the range: shares are from 0 to 1, differences of shares from
    -1 to 1.

    Args:
        columns: Columns of the rows of one method.
        level: The other level.
        own_level: Level of the limits in `columns`.
    """
    level_of(level)
    rows = {name: np.array(columns[name], dtype=float) for name in _NUMBERS}
    is_share = np.array([term == "share" for term in columns["term"]])
    bound = 1.0 if is_share.any() else math.inf
    least = np.where(is_share, 0.0, -bound)
    far = np.array([student_quantile(level, df) for df in rows["df"]])
    longer = far / np.array([student_quantile(own_level, df) for df in rows["df"]])
    limits = []
    for end, bounds, sign in (
        ("low", least, -1.0),
        ("high", np.full(len(far), bound), 1.0),
    ):
        side = sign * (rows[end] - rows["estimate"]) * longer
        is_cut = sign * rows[end] >= sign * bounds
        side = np.where(is_cut, np.fmax(side, far * rows["std_error"]), side)
        limits.append(np.clip(rows["estimate"] + sign * side, least, bound))
    return array(np.column_stack(limits))


@boundary
def estimates_of_variants(variants: Sequence[str], fits: Sequence[str]) -> Part:
    """Return estimates of several variants, from the JSON of each, as one.

    Returns:
        `estimates`, a table; `notes`; `page`, the printed lines; `json`, for plots and
        reports.
    """
    known = [json.loads(fit) for fit in fits]
    rows = [
        {"variant": variant, **row}
        for variant, fit in zip(variants, known, strict=True)
        for row in fit["rows"]
    ]
    notes = list(dict.fromkeys(note for fit in known for note in fit["notes"]))
    numbers = [
        {k: math.nan if each is None else each for k, each in row.items()} for row in rows
    ]
    return parts(
        estimates=table_of(rows, {"variant": "text", **_ROW}),
        notes=vector("text", notes),
        page=vector("text", estimate_lines(numbers, notes)),
        json=value(json.dumps({**known[0], "notes": notes, "rows": rows})),
    )
