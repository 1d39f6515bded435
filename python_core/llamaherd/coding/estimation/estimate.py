"""Estimates of human codes: the public function, and its parts that R shares."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from llamaherd.coding.annotation.texts import Source
from llamaherd.coding.codes.coders import REMOVED_CONSENSUS
from llamaherd.coding.estimation import formulas
from llamaherd.coding.estimation.design_checks import cluster_hint, label_check_of
from llamaherd.coding.estimation.estimates import METHODS, Estimates, Method, Width
from llamaherd.coding.estimation.fitting import Fits, FitSettings, fit_regression
from llamaherd.coding.estimation.formulas import Matrices, average_matrices, columns_in
from llamaherd.coding.estimation.inputs import Inputs, agreement_line, with_outcome
from llamaherd.coding.estimation.means import fit_outcomes
from llamaherd.coding.estimation.notes import note, wider_than_codes
from llamaherd.coding.estimation.outcomes import (
    Outcome,
    asks_median,
    group_numbers,
    limits_of,
)
from llamaherd.coding.estimation.predictions import (
    Predicted,
    Predictions,
    comparable_predictions,
    predictions_of,
)
from llamaherd.coding.gold.population import by_columns
from llamaherd.coding.statistics.intervals import LEVEL, bonferroni
from llamaherd.engine.core import checks
from llamaherd.engine.core.caller import one_warning, removed_arguments
from llamaherd.engine.core.errors import ArgumentError
from llamaherd.engine.core.phrases import part_of
from llamaherd.engine.core.words import setting

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from llamaherd.coding.gold.sample import GoldSample
    from llamaherd.coding.statistics.sampling import Target
    from llamaherd.engine.core.arrays import Floats

Model = Literal["mean", "ols", "logit"]
MODELS: tuple[Model, ...] = ("mean", "ols", "logit")


@dataclass(frozen=True, kw_only=True, eq=False)
class Estimation:
    """Settings of a call of `estimate` other than its texts, codes and outcome."""

    settings: FitSettings  # Methods, level, target, clusters and weights
    model: Model  # "mean", "ols" or "logit"
    formula: str | None  # Formula of a regression; None for means
    simultaneous: Literal["bonferroni"] | None  # See `estimate`
    columns: Sequence[str]  # Columns in the formula, or that define groups
    grouped_by: tuple[str, ...] = ()  # Columns that define groups

    def regression(
        self,
        inputs: Inputs,
        predicted: Sequence[Predicted],
        matrices_of: Callable[[Sequence[Predicted]], Sequence[Matrices]],
    ) -> Estimates:
        """Estimate a regression."""
        kinds = comparable_predictions(
            predicted, inputs.texts, inputs.used.decided, inputs.kept
        )
        by_kind = dict(zip([k.kind for k in kinds], matrices_of(kinds), strict=True))
        kind: Literal["ols", "logit"] = "logit" if self.model == "logit" else "ols"
        return self.result(
            inputs,
            kinds,
            lambda k, settings: fit_regression(kind, by_kind[k.kind], settings),
        )

    def result(
        self,
        inputs: Inputs,
        predicted: Sequence[Predicted],
        fit: Callable[[Predicted, FitSettings], Fits],
    ) -> Estimates:
        """Estimate by all methods, compare kinds of predictions, and collect notes."""
        settings, texts, kept = self.settings, inputs.texts, inputs.kept

        def fitted(with_settings: FitSettings) -> Fits:
            return by_predictions(predicted, with_settings, fit)

        fits = at_level(fitted, settings, self.simultaneous)
        notes = list(inputs.notes)
        if settings.clusters is None and settings.target == "population":
            roles = {texts.text_column, texts.label_column, texts.id_column}
            notes += cluster_hint(
                texts,
                kept,
                {*roles, *self.columns},
                fits,
                lambda clusters: fitted(replace(settings, clusters=clusters)),
            )
        notes += [*settings.gold.notes, *settings.gold.notes_on_ties]
        n_texts = len(texts)
        if len(kept) < n_texts:
            part = part_of(n_texts - len(kept), n_texts, "text", "is", "are")
            notes.append(note("left_out", part=part))
        can_use_probs = predicted[0].kind == "labels" and not inputs.several
        wider = wider_than_codes(fits.rows, can_use_probs=can_use_probs)
        has_texts = texts.text_column is not None
        return Estimates(
            rows=tuple(fits.rows),
            model=self.model,
            formula=self.formula,
            level=settings.level,
            target=settings.target,
            n_texts=len(kept),
            n_gold=len(settings.gold.rows),
            design=settings.gold.kind,
            notes=(*notes, *fits.notes, *wider),
            covariances=fits.covariances,
            source=Source.of(texts.texts if has_texts else None, texts.labels),
            predictions=predicted[0].kind,
            widths=fits.widths,
            grouped_by=self.grouped_by,
            simultaneous=self.simultaneous,
            agreement=agreement_line(inputs.gold),
            is_weighted=inputs.survey is not None,
            n_clusters=settings.n_clusters,
            label_check=label_check_of(texts, inputs.gold, inputs.prob),
        )


def by_predictions(
    predicted: Sequence[Predicted],
    settings: FitSettings,
    fit: Callable[[Predicted, FitSettings], Fits],
) -> Fits:
    """Estimate with the first predictions, and compare widths with all others."""

    def fitted(kind: Predicted) -> Fits:
        return fit(kind, replace(settings, are_probs=kind.probs is not None))

    first, *others = predicted
    fits = fitted(first)
    if first.probs is None:
        return fits
    by_kind = {first.kind: fits}
    for other in others:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            try:
                by_kind[other.kind] = fitted(other)
            except ArgumentError:  # for example, the labels allow no solution
                continue
    kinds = [kind.kind for kind in reversed(predicted) if kind.kind in by_kind]
    pairs = [("", "gold")] if "gold" in settings.methods else []
    pairs += [(k, m) for m in settings.methods if m in {"dsl", "ppi"} for k in kinds]
    widths = [Width.of(k, m, by_kind.get(k, fits).rows) for k, m in pairs]
    known = tuple(width for width in widths if not math.isnan(width.width))
    return replace(fits, widths=known)


def at_level(
    fit: Callable[[FitSettings], Fits], settings: FitSettings, simultaneous: str | None
) -> Fits:
    """Estimate with intervals of a level, which may hold for all intervals together."""
    fits = fit(settings)
    if simultaneous is None:
        return fits
    methods = [row.method for row in fits.rows if not math.isnan(row.std_error)]
    n_intervals = max(map(methods.count, methods), default=1)
    with warnings.catch_warnings():  # about the same estimates
        warnings.simplefilter("ignore", UserWarning)
        again = fit(replace(settings, level=bonferroni(settings.level, n_intervals)))
    return replace(again, notes=fits.notes)


def check_model(formula: object, *, by: object, model: object) -> None:
    """Check that `model` and `by` fit a call with or without a formula."""
    if model is not None:
        checks.choice("model", model, MODELS)
        if (model == "mean") != (formula is None):
            needs = "cannot be used with" if model == "mean" else "needs"
            raise ArgumentError(
                f"{setting('model', model)} {needs} a formula",
                argument="model",
                form="{problem}",
            )
    if formula is not None and by is not None:
        raise ArgumentError(
            "cannot be used with a formula: make it a covariate",
            argument="by",
            code="conflict",
        )


@removed_arguments(
    **REMOVED_CONSENSUS,
    quantile="outcome 'median' estimates the median, the only quantile",
)
@one_warning()
def estimate(  # noqa: PLR0917 - as in R
    coded: Any,  # Coded, a data frame, or labels
    gold: GoldSample | str | Sequence[Any],
    formula: str | None = None,
    outcome: Outcome | None = None,
    by: str | Sequence[str] | None = None,
    model: Model | None = None,
    methods: Sequence[Method] = METHODS,
    *,
    level: float = LEVEL,
    label: str | None = None,
    text: str | None = None,
    prob: str | Sequence[float] | None = None,
    target: Target = "population",
    cluster: str | None = None,
    order: Mapping[str, Sequence[Any]] | None = None,
    several: bool | None = None,
    predictions: Predictions | None = None,
    weights: str | Sequence[float] | None = None,
    simultaneous: Literal["bonferroni"] | None = None,
) -> Estimates:
    """Estimate shares, means, differences or regressions of human codes.

    Methods: "dsl" uses all labels and corrects them by the codes (design-based supervised
    learning); "ppi" also weights the labels by their accuracy (prediction-powered
    inference, PPI++); "gold" uses only the codes; "naive" treats the labels as if they
    were right, for comparison. All methods except "naive" are valid even if many labels
    are wrong. "ppi" is for shares and means; a regression leaves it out, and a note
    reports this. It assumes that the coded texts were drawn with equal probabilities; for
    unequal probabilities a weighted form is used, and a note reports this.

    Args:
        coded: Result of `annotate`, a data frame with a column of labels, or a list of
            labels, for all N texts that the sample was drawn from.
        gold: A sample with codes. Or the name of a column of `coded` with codes, or a
            list of N codes; both require `prob`, and None marks uncoded texts. If several
            coders coded a text, the most frequent code is used. On a tie the code of the
            first of the tied coders is used, and a note reports the number of ties; let
            one more coder decide these texts. For means and medians, numbers of several
            coders are averaged.
        formula: Regression formula over the columns of `coded`, such as "label ==
            'negative' ~ party + age"; the label may be on either side.
        outcome: Without a formula, one of three forms: the label or labels whose share is
            estimated; a mapping from labels to numbers, whose mean is estimated; or, for
            labels that are numbers, "mean" or "median". None estimates the mean for a
            scale of numbers, and for labels with fractions or more than 20 different
            numbers; for all other labels it estimates the share of each label.
            With a formula that has no left side, `outcome` is the left side.
        by: Columns that define groups. Each combination of their values is a group. The
            result has a share or mean for each group, and the difference of each group
            from the first group.
        model: "mean", "ols" or "logit". By default (None) "mean" without a formula, "ols"
            with one.
        methods: Methods, in the order of the result.
        level: Confidence level of the intervals.
        label: Column of labels; None for the column that `annotate` wrote, or "label".
        text: Column of texts. None uses the column that `coded` records, otherwise the
            column that `gold` records.
        prob: Only for codes that are not a gold sample: "simple" if the texts were drawn
            at random with equal probabilities; otherwise N inclusion probabilities, or
            the column with these probabilities.
        target: "population": estimates describe the population from which these texts are
            a sample; "texts": estimates describe these texts, so that no sampling error
            remains once all texts are coded.
        cluster: Column of clusters. Texts with the same value are dependent, such as
            texts of one speaker. None: if many texts are copies of others, equal texts
            are one cluster, and a note reports this.
        order: Order of the groups: a mapping from columns in `by` to their values in
            order. None: columns of categories have the order of the categories; the
            values of other columns are sorted. Differences are computed from the first
            group.
        several: True if a text may have several labels, joined by "; ". A share is then
            the share of texts that have this label, alone or with others; shares do not
            sum to 1, and formulas use `has_label(label, 'negative')`. None to use the
            setting of `coded` or `gold`.
        predictions: "labels" uses the labels. "probs" uses the probabilities of all
            labels, in columns "p_<label>"; a mapping from labels to columns uses the
            probabilities in these columns. None uses the probabilities if `coded` is a
            result of `recalibrate`, otherwise the labels. With probabilities, the result
            also compares interval widths by labels and by probabilities.
        weights: Survey weights: a column, or N numbers of at least 0. Estimates then
            describe the population that the weighted texts represent. The scale of the
            weights does not matter; texts with weight 0 are left out.
        simultaneous: None: each interval alone covers the true value with probability
            `level`. "bonferroni": all intervals of a method together cover the true
            values with probability `level`, at least.

    Returns:
        Estimates with standard errors and intervals. Texts without a label, or with a
        missing value in a column that is used, are left out; a note gives their number,
        and a warning names the columns.

    Raises:
        ValueError: Inclusion probabilities are unknown or 0, the sample was drawn from
            other texts, an argument does not fit the data, or no method gives an
            estimate.
        ImportError: A formula is given, but formulaic is not installed.

    Source:
        arXiv 2306.04746 (DSL), arXiv 2311.01453 (PPI++), arXiv 2309.16598
        (cross-prediction-powered inference, after `recalibrate`); see also
        `llamaherd.coding.gold.waves`.
    """
    check_model(formula, by=by, model=model)
    checks.choice("simultaneous", simultaneous, (None, "bonferroni"))
    inputs = Inputs.of(
        coded,
        gold,
        label=label,
        text=text,
        prob=prob,
        several=several,
        weights=weights,
        cluster=cluster,
        target=target,
        formula=formula,
        by=by,
    )
    texts, kept, several = inputs.texts, inputs.kept, inputs.several
    if formula is not None and outcome is not None:
        formula = with_outcome(formula, outcome, texts, several=several)
    predicted = predictions_of(coded, texts, predictions, several=several)
    estimation = Estimation(
        settings=inputs.settings(methods, level, target),
        model=model or ("mean" if formula is None else "ols"),
        formula=formula,
        simultaneous=simultaneous,
        columns=by_columns(by) if formula is None else sorted(columns_in(formula)),
        grouped_by=tuple(by_columns(by)),
    )
    if formula is not None:
        formulas.check_label(formula, texts.label_column or "", several=several)
        return estimation.regression(
            inputs,
            predicted,
            lambda kinds: formulas.matrices(texts, formula, kept, inputs.used, kinds),
        )
    in_groups = group_numbers(texts, by, kept, order or {})
    used, numbers, is_scale = inputs.measured(coded, outcome, label)
    is_median = asks_median(outcome, inputs.all_values)
    limits = limits_of(outcome, numbers, texts.names, is_scale=is_scale)
    return replace(estimation, settings=replace(estimation.settings, gold=used)).result(
        inputs,
        predicted,
        lambda kind, settings: fit_outcomes(
            texts,
            kept,
            numbers,
            in_groups,
            settings,
            kind,
            several=several,
            is_median=is_median,
            limits=limits,
        ),
    )


_OF_INPUTS = ("label", "text", "prob", "weights", "target")


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
        inputs,
        predicted,
        lambda kinds: average_matrices(plain, kinds, inputs.kept, by_name),
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
