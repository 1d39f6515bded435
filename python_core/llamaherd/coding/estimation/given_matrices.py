"""Regressions from matrices that the caller made of a formula; limits at other levels."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.coding.estimation.estimate import Estimation
from llamaherd.coding.estimation.formulas import Matrices, averaged
from llamaherd.coding.estimation.inputs import Inputs
from llamaherd.coding.estimation.predictions import predictions_of
from llamaherd.coding.statistics.intervals import level_of, student_quantile
from llamaherd.engine.core import checks
from llamaherd.engine.core.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from llamaherd.coding.estimation.estimates import Estimates
    from llamaherd.coding.gold.sample import GoldSample
    from llamaherd.coding.statistics.sampling import Floats

_OF_INPUTS = ("label", "text", "prob", "weights", "target")
_NUMBERS = ("estimate", "std_error", "low", "high", "df")


def estimate_of_matrices(
    columns: Mapping[str, Any],
    gold: GoldSample | Sequence[Any],
    matrices: Mapping[str, Any],
    options: Mapping[str, Any],
) -> Estimates:
    """Estimate a regression from the matrices of a formula.

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


def _matrices(parts: Mapping[str, Any], n_texts: int, n_codes: int) -> Matrices:
    matrices = Matrices(
        x_hat=_columns(parts["x_hat"]),
        y_hat=np.array(parts["y_hat"], dtype=np.float64),
        x=_columns(parts["x"]),
        y=np.array(parts["y"], dtype=np.float64),
        terms=tuple(parts["terms"]),
        outcome=parts["outcome"],
        has_label_right=parts["has_label_right"],
    )
    if len(matrices.y_hat) != n_texts or len(matrices.y) != n_codes:
        raise ArgumentError(
            "have other rows than the texts and codes", argument="matrices"
        )
    return matrices


def _by_name(
    by_label: Mapping[str, Mapping[str, Any]], matrices: Matrices
) -> Callable[[str], tuple[Floats, Floats]]:
    """Return a function of a label; its result is `x_hat` and `y_hat` of this label."""

    def by_name(name: str) -> tuple[Floats, Floats]:
        parts = by_label[name]
        x_hat = matrices.x_hat if parts["x_hat"] is None else _columns(parts["x_hat"])
        return x_hat, np.array(parts["y_hat"], dtype=np.float64)

    return by_name


def _columns(columns: Sequence[Sequence[float]]) -> Floats:
    return np.asarray(np.array(columns, dtype=np.float64).T)


def limits_at(
    columns: Mapping[str, Sequence[Any]], level: float, own_level: float
) -> Floats:
    """Return confidence limits at another level, float64[n, 2].

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
    most = 1.0 if is_share.any() else math.inf
    least = np.where(is_share, 0.0, -most)
    far = np.array([student_quantile(level, df) for df in rows["df"]])
    longer = far / np.array([student_quantile(own_level, df) for df in rows["df"]])
    limits = []
    for end, bounds, sign in (
        ("low", least, -1.0),
        ("high", np.full(len(far), most), 1.0),
    ):
        side = sign * (rows[end] - rows["estimate"]) * longer
        is_cut = sign * rows[end] >= sign * bounds
        side = np.where(is_cut, np.fmax(side, far * rows["std_error"]), side)
        limits.append(np.clip(rows["estimate"] + sign * side, least, most))
    return np.column_stack(limits)
