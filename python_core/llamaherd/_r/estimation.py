"""Estimates for R, from labels, gold samples, and matrices of formulas."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np

import llamaherd as lh
from llamaherd._r.boundary import form_of
from llamaherd._r.forms import (
    Part,
    array,
    fields,
    items,
    matrix,
    named,
    parts,
    r_object,
    table,
    table_of,
    value,
    vector,
)
from llamaherd.coding import frames
from llamaherd.coding.estimation.estimate import Estimation
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
from llamaherd.coding.validation.dawid_skene import DawidSkene  # noqa: TC001 - form_of
from llamaherd.engine.core import checks
from llamaherd.engine.core.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from llamaherd.coding.estimation.estimates import Estimate
    from llamaherd.coding.statistics.sampling import Floats

    Gold = GoldSample | Sequence[Any]

_OF_INPUTS = ("label", "text", "prob", "weights", "target")


def codes_in_one_form(
    data: Mapping[str, Any], gold: Gold, label: str, text: str | None, several: bool
) -> Part:
    """Convert labels and codes to texts; equal labels become equal texts.

    Returns:
        `labels`: labels of all N texts. `rows`, `codes`: rows with a code, from 1, and
        their codes. `gold`: sample with converted codes, as JSON, or N codes.
    """
    texts, sample, _ = match_sample(data, gold, label, text, several=several)
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


def corrected(data: Mapping[str, Any], gold: Gold, **options: Any) -> Part:  # noqa: ANN401
    """Return the columns that `lh.corrected` adds."""
    found = lh.corrected(data, gold, **options)
    names = [name for name in frames.names(found) if name not in data]
    made = [vector("number", found[name], name) for name in names]
    return table(made, len(found[names[0]]))


def replicate_weights(data: Mapping[str, Any], gold: Gold, **options: Any) -> Part:  # noqa: ANN401
    """Return replicate weights, a column for each replicate."""
    if options["target"] != "texts" and options["predictions"] == "labels":
        del options["predictions"]  # R always gives them
    return array(lh.replicate_weights(data, gold, **options))


def estimate_regression(
    columns: Mapping[str, Any],
    gold: Gold,
    matrices: Mapping[str, Any],
    options: Mapping[str, Any],
) -> Estimates:
    """Estimate a regression from matrices that R built from a formula.

    Args:
        columns: Columns of text, label and id, if present, to compare with the sample.
        gold: Sample, or N codes.
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
    inputs = Inputs.of(
        columns,
        gold,
        rows=(
            np.array(matrices["kept"], dtype=np.int64),
            None if clusters is None else np.array(clusters, dtype=np.int64),
        ),
        several=several,
        **{name: options[name] for name in _OF_INPUTS},
    )
    predicted = predictions_of(
        columns, inputs.texts, options["predictions"], several=several
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


def _columns(columns: Sequence[Sequence[float]]) -> Floats:
    return np.asarray(np.array(columns, dtype=np.float64).T)


_NAMES = "outcome term group method"
_NUMBERS = "estimate std_error low high lam df"


@form_of.register(Estimates)
def _(found: Estimates) -> Part:
    rows, methods = found.rows, found.methods
    covariances = [
        parts(
            outcome=outcome,
            method=method,
            values=matrix(own.tolist(), names := [""] * len(own), names),
        )
        for (outcome, method), own in found.covariances.items()
    ]
    titles = [METHODS[method] for method in methods]
    made = {
        "rows": table_of(rows, f"{_NAMES} {_NUMBERS}", text=_NAMES),
        "names": [_name(row, found) for row in rows],
        "covariances": items(covariances),
        **fields(found, "model methods"),
        "titles": {**vector("text", titles), "names": list(methods)},
        **fields(found, "level target"),
        "n_texts": float(found.n_texts),
        "n_gold": float(found.n_gold),
        **fields(found, "design notes grouped_by predictions"),
        "widths": table_of(
            found.widths, "predictions method width", text="predictions method"
        ),
        **fields(found, "simultaneous agreement is_weighted"),
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
    names = ("labels", "n_texts", "n_coded", "expected")
    rows = zip(*(getattr(check, name) for name in names), strict=True)
    columns = "label n_texts n_coded expected"
    dicts = [dict(zip(columns.split(), row, strict=True)) for row in rows]
    p_value = {**value(check.p_value), "name": "p_value"}
    return {**table_of(dicts, columns, text="label"), "attributes": [p_value]}


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
    rows = {name: np.array(columns[name], dtype=float) for name in _NUMBERS.split()}
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
    columns = f"variant {_NAMES} {_NUMBERS}"
    return parts(
        estimates=table_of(rows, columns, text=f"variant {_NAMES}"),
        notes=notes,
        page=estimate_lines(numbers, notes),
        json=json.dumps({**known[0], "notes": notes, "rows": rows}),
    )
