"""Estimates for R, from labels, gold samples as JSON, and matrices of formulas."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from llamaherd._r.boundary import boundary, clean, clean_or_none
from llamaherd._r.gold import with_levels
from llamaherd.core.errors import ArgumentError
from llamaherd.research import frames
from llamaherd.research.coding.survey import mean_one, weights_of
from llamaherd.research.estimation import consensus as consensuses
from llamaherd.research.estimation.cluster_hint import copied_texts, hinted
from llamaherd.research.estimation.code_forms import in_one_form, undeclared
from llamaherd.research.estimation.comparing import Compared, by_predictions
from llamaherd.research.estimation.estimate import estimate
from llamaherd.research.estimation.estimate_inputs import joined
from llamaherd.research.estimation.estimate_result import result, settings_of
from llamaherd.research.estimation.fitting_regression import fit_regression
from llamaherd.research.estimation.formulas import Matrices, averaged
from llamaherd.research.estimation.gold_drawn import GoldSample
from llamaherd.research.estimation.gold_use import used_gold
from llamaherd.research.estimation.label_checks import copies, label_check_of
from llamaherd.research.estimation.predictions import (
    comparable,
    predictions_of,
)
from llamaherd.research.estimation.repeated import repeated

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from llamaherd.research.estimation.estimates import Estimates
    from llamaherd.research.estimation.fitting import FitSettings
    from llamaherd.research.estimation.gold_data import Population
    from llamaherd.research.estimation.gold_use import GoldUsed
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
            None. `ordered`: whether the levels are ordered. `used`: columns of the
            formula.

    Returns:
        `labels`: labels of all N texts. `rows`, `codes`: indices and codes of the rows
        with a code. `gold`: sample with converted codes. `draws`: lists like `codes`,
        with true codes drawn from a model of the coders; [] without such a model.
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
        "draws": [
            [clean(code) for code in draw]
            for draw in _draws(read, options, _compared(texts, options))
        ],
    }


def _draws(
    gold: GoldSample | Sequence[Any],
    options: Mapping[str, Any],
    compared: Sequence[Sequence[Any]],
) -> list[list[str]]:
    consensus = options.get("consensus", "majority")
    if consensus == "majority" or not isinstance(gold, GoldSample):
        return []
    own = gold.coded_waves()
    n = options["n_imputations"]
    return consensuses.imputed_codes(own, consensus, n, compared)


def _compared(texts: Population, options: Mapping[str, Any]) -> list[Sequence[Any]]:
    """Return the columns of the analysis: labels, and columns of the formula by name."""
    used = set(options["used"]) - {texts.label_column}
    names = sorted(used.intersection(frames.names(texts.frame)))
    return [texts.labels, *(frames.column(texts.frame, name, "used") for name in names)]


@boundary
def dawid_skene(sample: str, one_coin: bool) -> dict[str, Any]:
    """Return labels and coders' error rates, estimated by the model of Dawid and Skene.

    Args:
        sample: Sample as JSON.
        one_coin: See `llamaherd.dawid_skene`.
    """
    found = consensuses.dawid_skene(GoldSample.from_json(sample), one_coin=one_coin)
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
    only_r = {"levels", "ordered", "codebook"}
    arguments = {n: v for n, v in options.items() if n not in only_r}
    data = with_levels(columns, options)
    return _estimates(estimate(data, _gold(gold), **arguments))


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
            label. `draws`, if any: the same elements for each draw of the true codes.
        options: `label`, `text`, `several`, `model`, `methods`, `level`, `target`,
            `prob`, `predictions`, `weights`, `consensus`, `n_imputations`,
            `simultaneous`. `cluster`: True with clusters. `used`: columns in the formula.
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
    consensus, n = options["consensus"], options["n_imputations"]
    columns_used = _compared(texts, options)
    samples, more = consensuses.samples_of(sample, used, consensus, n, columns_used)
    samples = [each.among(kept, len(texts)) for each in samples]
    clusters = matrices["clusters"]
    if clusters is None and options["target"] == "population":
        clusters, of_copies = copied_texts(texts, kept)
        more += of_copies
    weights = options["weights"]
    if weights is not None:
        weights = mean_one(weights_of(None, weights, len(texts))[kept])
    predicted = predictions_of(
        dict(columns), texts, options["predictions"], several=options["several"]
    )
    kind: Literal["ols", "logit"] = "logit" if options["model"] == "logit" else "ols"

    def settings_with(own: GoldUsed, level: float, by: Any) -> FitSettings:  # noqa: ANN401
        return settings_of(
            own,
            methods=options["methods"],
            level=level,
            target=options["target"],
            clusters=None if by is None else np.array(by, dtype=np.int64),
            weights=weights,
        )

    def fit(m: int, own: GoldUsed, level: float, by: Any = clusters) -> Compared:  # noqa: ANN401
        given = (matrices.get("draws") or [matrices])[m]
        made = _matrices(given, len(kept), len(own.rows))
        ways = comparable(predicted, texts, own.codes, kept)
        by_way = [made]
        if ways[0].probs is not None:
            by_way = averaged(made, ways, kept, _by_name(given["each"], made))
        at = {id(each): one for each, one in zip(ways, by_way, strict=True)}
        return by_predictions(
            ways,
            settings_with(own, level, by),
            lambda one, each: fit_regression(kind, at[id(one)], each),
        )

    level = options["level"]
    settings = settings_with(samples[0], level, clusters)
    compared = repeated(samples, fit, level, options["simultaneous"])
    if clusters is None and options["target"] == "population":
        roles = {texts.text_column, texts.label_column, texts.id_column, *options["used"]}
        more += hinted(
            texts, kept, roles, compared, lambda by: fit(0, samples[0], level, by)
        )
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
            agreement=consensuses.agreement_line(sample)
            if isinstance(sample, GoldSample)
            else "",
            consensus=options["consensus"],
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
        "consensus": found.consensus,
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
