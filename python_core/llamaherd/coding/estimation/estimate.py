"""Checked settings of an estimate, and its result."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Literal

from llamaherd.coding.annotation.survey import mean_one
from llamaherd.coding.annotation.texts import Source
from llamaherd.coding.codes.coders import REMOVED
from llamaherd.coding.estimation import formulas
from llamaherd.coding.estimation.consensus import agreement_line
from llamaherd.coding.estimation.design_checks import hinted, label_check_of
from llamaherd.coding.estimation.estimate_inputs import (
    Inputs,
    all_values,
    with_outcome,
)
from llamaherd.coding.estimation.estimates import METHODS, Estimates, Method
from llamaherd.coding.estimation.fitting import (
    Compared,
    FitSettings,
    Found,
    at_level,
    by_predictions,
    settings_of,
)
from llamaherd.coding.estimation.fitting_means import fit_outcomes
from llamaherd.coding.estimation.formula_terms import columns_in
from llamaherd.coding.estimation.formulas import fit_regression
from llamaherd.coding.estimation.gold_drawn import GoldSample
from llamaherd.coding.estimation.outcomes import (
    asks_median,
    grouped,
    limits_of,
)
from llamaherd.coding.estimation.population import named
from llamaherd.coding.estimation.predictions import (
    comparable,
    predictions_of,
)
from llamaherd.coding.statistics.intervals import LEVEL
from llamaherd.coding.statistics.sampling import Target
from llamaherd.engine.core import checks
from llamaherd.engine.core.caller import one_warning, removed
from llamaherd.engine.core.errors import ArgumentError
from llamaherd.engine.core.phrases import part_of
from llamaherd.engine.core.words import setting

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llamaherd.coding.estimation.outcomes import Outcome
    from llamaherd.coding.estimation.population import Population
    from llamaherd.coding.estimation.predictions import Predictions
    from llamaherd.coding.statistics.sampling import Ints, Target


Model = Literal["mean", "ols", "logit"]


MODELS: tuple[Model, ...] = ("mean", "ols", "logit")


def result(
    found: Found,
    settings: FitSettings,
    *,
    model: Model,
    formula: str | None,
    n_kept: int,
    texts: Population,
    notes: Sequence[str],
) -> Estimates:
    """Assemble the result with its settings and notes."""
    gold = settings.gold
    n_texts = len(texts)
    notes = [*notes, *gold.notes]
    if n_kept < n_texts:
        why = "they have no label or weight, or a value that is used is missing"
        part = part_of(n_texts - n_kept, n_texts, "text", "is", "are")
        notes.append(f"{part} left out: {why}")
    return Estimates(
        rows=tuple(found.rows),
        model=model,
        formula=formula,
        level=settings.level,
        target=settings.target,
        n_texts=n_kept,
        n_gold=len(gold.rows),
        design=gold.design,
        notes=(*notes, *found.notes),
        covariances=found.covariances,
        alone=found.alone,
        source=Source.of(
            None if texts.text_column is None else texts.texts, texts.labels
        ),
    )


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


@removed(
    consensus=REMOVED,
    n_imputations=REMOVED,
    quantile="outcome 'median' estimates the median, the only quantile",
)
@one_warning()
def estimate(  # noqa: PLR0917 - as in R
    coded: Any,  # noqa: ANN401 - Coded, a data frame, or labels
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
        `llamaherd.coding.statistics.waves`.
    """
    check_model(formula, by=by, model=model)
    checks.choice("simultaneous", simultaneous, (None, "bonferroni"))
    made = Inputs.of(
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
    texts, kept, used, several = made.texts, made.kept, made.used, made.several
    clusters, survey, notes = made.clusters, made.survey, made.notes
    if formula is not None and outcome is not None:
        formula = with_outcome(formula, outcome, texts, several=several)
    predicted = predictions_of(coded, texts, predictions, several=several)
    model = model or ("mean" if formula is None else "ols")

    def settings(own_level: float, own_clusters: Ints | None = clusters) -> FitSettings:
        return settings_of(
            used,
            methods=methods,
            level=own_level,
            target=target,
            clusters=own_clusters,
            weights=None if survey is None else mean_one(survey[kept]),
        )

    settings(level)
    if formula is None:
        in_groups = grouped(texts, by, kept, order or {})
        given = outcome
        used, outcome, is_scale = made.measured(coded, given, label)
        is_median = asks_median(given, all_values(texts, made.used.codes))
        limits = limits_of(given, outcome, texts.names, is_scale=is_scale)

        def fit(own_level: float, *by_cluster: Ints) -> Compared:
            return by_predictions(
                predicted,
                settings(own_level, *by_cluster),
                lambda one, each: fit_outcomes(
                    texts,
                    kept,
                    outcome,
                    in_groups,
                    each,
                    one,
                    several=several,
                    is_median=is_median,
                    limits=limits,
                ),
            )

    else:
        formulas.check_label(formula, texts.label_column or "", several=several)
        kind: Literal["ols", "logit"] = "logit" if model == "logit" else "ols"
        ways = comparable(predicted, texts, used.codes, kept)
        are_labels = [each.kind for each in ways] == ["labels"]
        matrices = formulas.matrices(
            texts, formula, kept, used, () if are_labels else ways
        )
        at = {id(each): one for each, one in zip(ways, matrices, strict=True)}

        def fit(own_level: float, *by_cluster: Ints) -> Compared:
            return by_predictions(
                ways,
                settings(own_level, *by_cluster),
                lambda one, each: fit_regression(kind, at[id(one)], each),
            )

    found = at_level(fit, level, simultaneous)
    if clusters is None and target == "population":
        roles = {texts.text_column, texts.label_column, texts.id_column, *named(by)}
        roles |= set() if formula is None else columns_in(formula)
        notes += hinted(texts, kept, roles, found, lambda c: fit(level, c))
    return dataclasses.replace(
        result(
            found.found,
            settings(level),
            model=model,
            formula=formula,
            n_kept=len(kept),
            texts=texts,
            notes=notes,
        ),
        predictions=predicted[0].kind,
        widths=found.widths,
        grouped_by=tuple(named(by)),
        simultaneous=simultaneous,
        agreement=agreement_line(made.gold) if isinstance(made.gold, GoldSample) else "",
        is_weighted=survey is not None,
        label_check=label_check_of(texts, made.gold, made.prob),
    )
