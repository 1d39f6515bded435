"""Estimates for R, from labels, gold samples as JSON, and matrices of formulas."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from llamaherd._r.arguments import given
from llamaherd._r.boundary import boundary, clean, clean_or_none
from llamaherd._r.gold import with_levels
from llamaherd.core.errors import ArgumentError
from llamaherd.research import frames
from llamaherd.research.coding.survey import mean_one, weights_of
from llamaherd.research.estimation.consensus import agreement_line
from llamaherd.research.estimation.consensus import dawid_skene as of_coders
from llamaherd.research.estimation.corrected import corrected
from llamaherd.research.estimation.corrected import (
    replicate_weights as weights_of_replicates,
)
from llamaherd.research.estimation.design_checks import (
    copied_texts,
    copies,
    hinted,
    label_check_of,
)
from llamaherd.research.estimation.estimate import estimate, result
from llamaherd.research.estimation.estimate_inputs import joined
from llamaherd.research.estimation.fitting import (
    Compared,
    at_level,
    by_predictions,
    settings_of,
)
from llamaherd.research.estimation.formulas import Matrices, averaged, fit_regression
from llamaherd.research.estimation.gold_drawn import GoldSample
from llamaherd.research.estimation.gold_use import used_gold
from llamaherd.research.estimation.outcomes import in_one_form, undeclared
from llamaherd.research.estimation.predictions import (
    comparable,
    predictions_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from llamaherd.research.estimation.estimates import Estimates
    from llamaherd.research.estimation.fitting import FitSettings
    from llamaherd.research.statistics.sampling import Floats


@boundary
def codes_in_one_form(
    columns: Mapping[str, Sequence[Any]],
    gold: str | Sequence[Any],
    options: Mapping[str, Any],
) -> dict[str, Any]:
    """Convert labels and codes to texts; equal labels become equal texts.

    Args:
        columns: Columns of text, label and id, if present.
        gold: Sample as JSON, or N codes.
        options: `label`, `text`, `several`. `levels`: levels of the label column, or
            None. `ordered`: whether the levels are ordered.

    Returns:
        `labels`: labels of all N texts. `rows`, `codes`: indices and codes of the rows
        with a code. `gold`: sample with converted codes.
    """
    several = options["several"]
    texts, sample, _ = joined(
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
    return {
        "labels": [clean_or_none(each) for each in texts.labels],
        "rows": [float(row) for row, _ in coded],
        "codes": [clean(code) for _, code in coded],
        "gold": read.to_json() if isinstance(read, GoldSample) else list(given),
    }


@boundary
def dawid_skene(sample: str, one_coin: bool) -> dict[str, Any]:
    """Return labels and coders' error rates, estimated by the model of Dawid and Skene.

    Args:
        sample: Sample as JSON.
        one_coin: See `llamaherd.dawid_skene`.
    """
    found = of_coders(GoldSample.from_json(sample), one_coin=one_coin)
    return {
        "ids": [clean(each) for each in found.ids],
        "labels": [clean(each) for each in found.labels],
        "names": [clean(each) for each in found.names],
        "coders": [clean(each) for each in found.coders],
        "probs": found.probs.T.tolist(),
        "shares": found.shares.tolist(),
        "accuracy": list(found.accuracy.values()),
        "errors": [matrix.T.ravel().tolist() for matrix in found.errors],
        "line": str(found),
    }


@boundary
def estimate_means(
    columns: Mapping[str, Sequence[Any]],
    gold: str | Sequence[Any],
    options: Mapping[str, Any],
) -> dict[str, Any]:
    """Estimate shares, means and differences.

    Args:
        columns: Used columns of the data frame.
        gold: Sample as JSON, or N codes.
        options: Arguments of `estimate`; `levels` and `ordered`, see `codes_in_one_form`;
            `codebook`: JSON or None.
    """
    data = with_levels(columns, options)
    return _estimates(estimate(data, _gold(gold), **_arguments(options)))


@boundary
def corrected_columns(
    columns: Mapping[str, Sequence[Any]],
    gold: str | Sequence[Any],
    options: Mapping[str, Any],
) -> dict[str, list[float]]:
    """Return the columns that `corrected` adds; arguments as `estimate_means`."""
    data = with_levels(columns, options)
    found = corrected(data, _gold(gold), **_arguments(options))
    return {
        name: [math.nan if each is None else float(each) for each in found[name]]
        for name in frames.names(found)
        if name not in columns
    }


@boundary
def replicate_weights(
    columns: Mapping[str, Sequence[Any]],
    gold: str | Sequence[Any],
    options: Mapping[str, Any],
) -> bytearray:
    """Return replicate weights as bytes of float64, column by column."""
    arguments = {name: given(value) for name, value in _arguments(options).items()}
    if arguments["target"] != "texts" and arguments["predictions"] == "labels":
        del arguments["predictions"]  # R always gives them
    data = with_levels(columns, options)
    found = weights_of_replicates(data, _gold(gold), **arguments)
    return bytearray(found.astype("<f8").tobytes(order="F"))


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
) -> dict[str, Any]:
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
    texts, sample, notes = joined(
        with_levels(columns, options),
        _gold(gold),
        options["label"],
        options["text"],
        several=options["several"],
    )
    kept = np.array(matrices["kept"], dtype=np.int64)
    used = used_gold(
        sample,
        options["prob"],
        len(texts),
        kept,
        is_clustered=matrices["clusters"] is not None,
    )
    used = used.among(kept, len(texts))
    clusters = matrices["clusters"]
    more: list[str] = []
    if clusters is None and options["target"] == "population":
        clusters, more = copied_texts(texts, kept)
    weights = options["weights"]
    if weights is not None:
        weights = mean_one(weights_of(None, weights, len(texts))[kept])
    predicted = predictions_of(
        dict(columns), texts, options["predictions"], several=options["several"]
    )
    kind: Literal["ols", "logit"] = "logit" if options["model"] == "logit" else "ols"
    level = options["level"]

    def settings_with(own_level: float, by: Any) -> FitSettings:  # noqa: ANN401
        return settings_of(
            used,
            methods=options["methods"],
            level=own_level,
            target=options["target"],
            clusters=None if by is None else np.array(by, dtype=np.int64),
            weights=weights,
        )

    made = _matrices(matrices, len(kept), len(used.rows))
    ways = comparable(predicted, texts, used.codes, kept)
    by_way = [made]
    if ways[0].probs is not None:
        by_way = averaged(made, ways, kept, _by_name(matrices["each"], made))
    at = {id(each): one for each, one in zip(ways, by_way, strict=True)}

    def fit(own_level: float, by: Any = clusters) -> Compared:  # noqa: ANN401
        return by_predictions(
            ways,
            settings_with(own_level, by),
            lambda one, each: fit_regression(kind, at[id(one)], each),
        )

    settings = settings_with(level, clusters)
    compared = at_level(fit, level, options["simultaneous"])
    if clusters is None and options["target"] == "population":
        roles = {texts.text_column, texts.label_column, texts.id_column, *options["used"]}
        more += hinted(texts, kept, roles, compared, lambda by: fit(level, by))
    found = result(
        compared.found,
        settings,
        model=options["model"],
        formula=matrices["formula"],
        n_kept=len(kept),
        texts=texts,
        notes=[
            *notes,
            *copies(texts, sample),
            *undeclared(texts, sample, several=options["several"]),
            *more,
        ],
    )
    return _estimates(
        replace(
            found,
            predictions=predicted[0].kind,
            widths=compared.widths,
            simultaneous=options["simultaneous"],
            agreement=agreement_line(sample) if isinstance(sample, GoldSample) else "",
            is_weighted=options["weights"] is not None,
            label_check=label_check_of(texts, sample, options["prob"]),
        )
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


def _estimates(found: Estimates) -> dict[str, Any]:
    rows = found.rows
    names = ("outcome", "term", "group", "method")
    numbers = ("estimate", "std_error", "low", "high", "lam", "df")
    return {
        "rows": {
            **{name: [getattr(row, name) for row in rows] for name in names},
            **{name: [float(getattr(row, name)) for row in rows] for name in numbers},
        },
        "covariances": [
            {"outcome": outcome, "method": method, "values": matrix.tolist()}
            for (outcome, method), matrix in found.covariances.items()
        ],
        "n_texts": float(found.n_texts),
        "n_gold": float(found.n_gold),
        "design": found.design,
        "notes": list(found.notes),
        "line": str(found),
        "predictions": found.predictions,
        "widths": {
            "predictions": [each.predictions for each in found.widths],
            "method": [each.method for each in found.widths],
            "width": [each.width for each in found.widths],
        },
        "simultaneous": found.simultaneous,
        "agreement": found.agreement,
        "is_weighted": found.is_weighted,
        "label_check": _label_check(found),
        "source": None if found.source is None else json.dumps(found.source.to_dict()),
    }


def _label_check(found: Estimates) -> dict[str, Any] | None:
    check = found.label_check
    if check is None:
        return None
    return {
        "label": [clean_or_none(each) for each in check.labels],
        "n_texts": [float(each) for each in check.n_texts],
        "n_coded": [float(each) for each in check.n_coded],
        "expected": list(check.expected),
        "p_value": check.p_value,
    }
