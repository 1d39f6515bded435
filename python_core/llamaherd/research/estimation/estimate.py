"""Valid shares, means and regressions from imperfect labels."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from llamaherd.core import checks
from llamaherd.core.errors import ArgumentError, ArgumentTypeError
from llamaherd.core.words import setting
from llamaherd.research import frames
from llamaherd.research.coding.coded import Coded
from llamaherd.research.coding.joins import (
    SampleRows,
    current_rows,
    filtered,
    n_relabelled,
)
from llamaherd.research.coding.label_sets import has_several, scale_of
from llamaherd.research.coding.source import Source
from llamaherd.research.coding.survey import mean_one, weights_of
from llamaherd.research.estimation import formulas
from llamaherd.research.estimation.cluster_hint import hinted
from llamaherd.research.estimation.code_forms import in_one_form
from llamaherd.research.estimation.comparing import Compared, by_predictions
from llamaherd.research.estimation.consensus import (
    CONSENSUS,
    N_IMPUTATIONS,
    Consensus,
    agreement_line,
    samples_of,
    union_of,
)
from llamaherd.research.estimation.estimates import METHODS, Estimates, Method
from llamaherd.research.estimation.fitting import FitSettings, Found
from llamaherd.research.estimation.fitting_means import fit_means
from llamaherd.research.estimation.fitting_regression import fit_regression
from llamaherd.research.estimation.gold_data import Population
from llamaherd.research.estimation.gold_drawn import GoldSample
from llamaherd.research.estimation.gold_use import used_gold
from llamaherd.research.estimation.groups import grouped, named, numbered
from llamaherd.research.estimation.label_checks import label_check_of
from llamaherd.research.estimation.outcomes import (
    asks_quantiles,
    checked_labels,
    labels_of,
    number_outcome,
    shares_or_scores,
)
from llamaherd.research.estimation.predictions import (
    cluster_notes,
    comparable,
    predictions_of,
)
from llamaherd.research.estimation.quantiles import fit_quantiles, quantiles_of
from llamaherd.research.estimation.repeated import repeated
from llamaherd.research.statistics.sampling import TARGETS, Target
from llamaherd.research.statistics.simultaneous import WAYS, Simultaneous

if TYPE_CHECKING:
    from llamaherd.research.estimation.gold_use import GoldUsed
    from llamaherd.research.estimation.outcomes import Numbers, Outcome
    from llamaherd.research.estimation.predictions import Predicted, Predictions
    from llamaherd.research.statistics.sampling import Floats, Ints

Model = Literal["mean", "ols", "logit"]
MODELS: tuple[Model, ...] = ("mean", "ols", "logit")


def estimate(  # noqa: PLR0917 - as in R
    coded: Any,  # noqa: ANN401 - Coded, a data frame, or labels
    gold: GoldSample | str | Sequence[Any],
    formula: str | None = None,
    outcome: Outcome | None = None,
    by: str | Sequence[str] | None = None,
    model: Model | None = None,
    methods: Sequence[Method] = METHODS,
    *,
    level: float = 0.95,
    label: str | None = None,
    text: str | None = None,
    prob: str | Sequence[float] | None = None,
    target: Target = "population",
    cluster: str | None = None,
    order: Mapping[str, Sequence[Any]] | None = None,
    several: bool | None = None,
    predictions: Predictions | None = None,
    weights: str | Sequence[float] | None = None,
    consensus: Consensus = "majority",
    n_imputations: int = N_IMPUTATIONS,
    simultaneous: Simultaneous | None = None,
    quantile: float | Sequence[float] | None = None,
) -> Estimates:
    """Estimate shares, means, differences or regressions of human codes.

    Methods: "dsl" uses all labels and corrects them by the codes (design-based supervised
    learning); "ppi" also weights the labels by their accuracy (prediction-powered
    inference, PPI++); "gold" uses only the codes; "naive" treats the labels as if they
    were right, for comparison. The first three are valid even if many labels are wrong.
    "ppi" assumes that the coded texts were drawn with equal probabilities; for unequal
    probabilities a weighted form is used, and a note reports this.

    Args:
        coded: Result of `annotate`, a data frame with a column of labels, or a list of
            labels, for all N texts that the sample was drawn from.
        gold: A sample with codes. If several coders coded a text, the majority code is
            used; on a tie the first coder's code is used, and a note reports the number
            of ties: let one more coder decide these texts. Or a column of `coded` or a
            list with N codes, None for uncoded texts; both require `prob`.
        formula: Regression formula over the columns of `coded`, such as "label ==
            'negative' ~ party + age"; the label may be on either side.
        outcome: Without a formula: the label or labels whose share is estimated; a
            mapping from labels to numbers, whose mean is estimated; or for labels that
            are numbers "mean", "median", or "quantile" for the quantiles in `quantile`,
            by default the quartiles. None estimates the share of each label; for a scale
            of numbers, and for labels with fractions or more than 20 different numbers,
            None estimates their mean. With a formula that has no left side, `outcome` is
            the left side.
        by: Columns that define groups. The result has a share or mean for each
            combination of their values, and its difference from that of the first group.
        model: "mean", "ols" or "logit". By default (None) "mean" without a formula, "ols"
            with one.
        methods: Methods, in the order of the result.
        level: Confidence level of the intervals.
        label: Column of labels; None for the column that `annotate` wrote, or "label".
        text: Column of texts; None for that of `coded`, or of `gold`.
        prob: Only for codes that are not a gold sample: "simple" if the texts were drawn
            at random with equal probabilities; otherwise N inclusion probabilities, or
            the column with these probabilities.
        target: "population": estimates describe the population from which these texts are
            a sample; "texts": estimates describe these texts, so that no sampling error
            remains once all texts are coded.
        cluster: Column of clusters. Texts with the same value are dependent, such as
            texts of one speaker.
        order: Order of the groups: a mapping from columns in `by` to their values in
            order. None for the order of categories, or sorted values. Differences are
            computed from the first group.
        several: True if a text may have several labels, joined by "; ". A share is then
            the share of texts that have this label, alone or with others; shares do not
            sum to 1, and formulas use `has_label(label, 'negative')`. None to use the
            setting of `coded` or `gold`.
        predictions: "labels"; or "probs" for the probabilities of all labels in columns
            "p_<label>", or a mapping from labels to columns. None uses the probabilities
            of the result of `recalibrate`, and labels for other data. With probabilities,
            the result also compares interval widths by labels and by probabilities.
        weights: Survey weights: a column, or N numbers of at least 0. Estimates then
            describe the population that the weighted texts stand for. Their scale does
            not matter; texts with weight 0 are left out.
        consensus: The right code of a text whose coders disagree: "majority", see `gold`;
            "dawid_skene" or "one_coin" for a model of coders' errors, see `dawid_skene`.
            With a model, estimates are made with several draws of the right codes and
            combined by Rubin's rules, so that intervals include this uncertainty.
        n_imputations: Number of these draws.
        simultaneous: None: each interval alone covers the true value with probability
            `level`. "bonferroni" or "max_t": all intervals of a method together cover the
            true values with probability `level`; "max_t" uses the correlations of the
            estimates of an outcome, and its intervals are shorter.
        quantile: For `outcome="quantile"`: one quantile or several, such as 0.9.

    Returns:
        Estimates with standard errors and intervals. Texts without a label, or with a
        missing value in a column that is used, are left out; a note gives their number.

    Raises:
        ValueError: Inclusion probabilities are unknown or 0, the sample was drawn from
            other texts, an argument does not fit the data, or no method gives an
            estimate.
        ImportError: A formula is given, but formulaic is not installed.

    Source:
        arXiv 2306.04746 (DSL), arXiv 2311.01453 (PPI++), arXiv 2309.16598
        (cross-prediction-powered inference, after `recalibrate`); see also
        `llamaherd.research.statistics.waves`, `.dawid_skene` and `.simultaneous`.
    """
    _check(formula, by=by, model=model)
    checks.choice("consensus", consensus, CONSENSUS)
    checks.choice("simultaneous", simultaneous, (None, *WAYS))
    several = has_several(coded, gold) if several is None else several
    texts, gold, notes = joined(coded, gold, label, text, several=several)
    gold, prob = _columns_of(texts, gold, prob, weights)
    texts, gold, are_numbers = in_one_form(texts, gold, several=several)
    if formula is not None and quantile is not None:
        raise ArgumentError(
            "goes without a formula", argument="quantile", code="conflict"
        )
    if formula is not None and outcome is not None:
        formula = _with_outcome(formula, outcome, texts, several=several)
    survey = None if weights is None else weights_of(texts.frame, weights, len(texts))
    kept = _kept(texts, formula, by, cluster, survey)
    used = used_gold(gold, prob, len(texts), kept)
    compared = () if consensus == "majority" else _compared(texts, formula, named(by))
    samples, more = samples_of(gold, used, consensus, n_imputations, compared)
    samples = [each.among(kept, len(texts)) for each in samples]
    predicted = predictions_of(coded, texts, predictions, several=several)
    clusters = None if cluster is None else numbered(texts, cluster, kept)[0]
    model = model or ("mean" if formula is None else "ols")
    notes += [*cluster_notes(coded, cluster), *more]

    def settings(
        own: GoldUsed, own_level: float, own_clusters: Ints | None = clusters
    ) -> FitSettings:
        return settings_of(
            own,
            methods=methods,
            level=own_level,
            target=target,
            clusters=own_clusters,
            weights=None if survey is None else mean_one(survey[kept]),
        )

    settings(samples[0], level)
    if formula is None:
        in_groups = grouped(texts, by, kept, order or {})
        there = _there(texts, [*union_of([each.codes for each in samples])])
        known = union_of([each.codes for each in samples[1:]])
        is_scale = scale_of(coded, gold, label) in ("interval", "ratio")
        asked = asks_quantiles(outcome, there)
        ps = quantiles_of(asked, quantile) if asked or quantile is not None else ()
        outcome = number_outcome(outcome, there, by_default=are_numbers or is_scale)
        if asked and consensus != "majority":
            raise ArgumentError(
                f"goes with {setting('consensus', 'majority')}: draws of the right codes "
                "cannot be combined for quantiles",
                argument="outcome",
                code="conflict",
            )

        def fit(_: int, own: GoldUsed, own_level: float, *by_cluster: Ints) -> Compared:
            return by_predictions(
                predicted,
                settings(own, own_level, *by_cluster),
                lambda one, each: _means(
                    texts,
                    kept,
                    outcome,
                    in_groups,
                    each,
                    one,
                    several=several,
                    known=known,
                    quantiles=ps,
                ),
            )

    else:
        formulas.check_label(formula, texts.label_column or "", several=several)
        kind: Literal["ols", "logit"] = "logit" if model == "logit" else "ols"

        def fit(_: int, own: GoldUsed, own_level: float, *by_cluster: Ints) -> Compared:
            ways = comparable(predicted, texts, own.codes, kept)
            are_labels = [each.kind for each in ways] == ["labels"]
            made = formulas.matrices(
                texts, formula, kept, own, () if are_labels else ways
            )
            at = {id(each): one for each, one in zip(ways, made, strict=True)}
            return by_predictions(
                ways,
                settings(own, own_level, *by_cluster),
                lambda one, each: fit_regression(kind, at[id(one)], each),
            )

    made = repeated(samples, fit, level, simultaneous)
    if cluster is None and target == "population":
        roles = {texts.text_column, texts.label_column, texts.id_column, *named(by)}
        roles |= set() if formula is None else formulas.columns_in(formula)
        notes += hinted(texts, kept, roles, made, lambda c: fit(0, samples[0], level, c))
    made_of = result(
        made.found,
        settings(samples[0], level),
        model=model,
        formula=formula,
        n_kept=len(kept),
        texts=texts,
        notes=notes,
    )
    return dataclasses.replace(
        made_of,
        predictions=predicted[0].kind,
        widths=made.widths,
        grouped_by=tuple(named(by)),
        simultaneous=simultaneous,
        agreement=agreement_line(gold) if isinstance(gold, GoldSample) else "",
        consensus=consensus,
        is_weighted=survey is not None,
        label_check=label_check_of(texts, gold, prob),
    )


def _columns_of(
    texts: Population,
    gold: Any,  # noqa: ANN401 - see estimate
    prob: Any,  # noqa: ANN401 - see estimate
    weights: object,
) -> tuple[Any, Any]:
    """Read codes and probabilities from columns, if named; check all pandas indexes."""
    if isinstance(gold, str):
        gold = frames.column(texts.frame, gold, "gold")
    if isinstance(prob, str) and prob in frames.names(texts.frame):
        prob = [float(each) for each in frames.column(texts.frame, prob, "prob")]
    for name, values in (("gold", gold), ("prob", prob), ("weights", weights)):
        frames.check_index(values, texts.frame, name)
    return gold, prob


def _compared(
    texts: Population, formula: str | None, groups: list[str]
) -> list[Sequence[Any]]:
    """Return the labels, and the columns of the groups or, sorted, of the formula."""
    if formula is not None:
        used = formulas.columns_in(formula) - {texts.label_column}
        groups = sorted(used.intersection(frames.names(texts.frame)))
    return [texts.labels, *(frames.column(texts.frame, name, "by") for name in groups)]


def _there(texts: Population, codes: Sequence[str]) -> set[str]:
    """Return all labels and codes that occur."""
    return {*codes, *(label for label in texts.labels if label is not None)}


def settings_of(
    gold: GoldUsed,
    *,
    methods: Sequence[Method],
    level: float,
    target: Target,
    clusters: Ints | None,
    weights: Floats | None = None,
) -> FitSettings:
    """Check the settings of a call, and return them as `FitSettings`.

    Raises:
        ValueError: A setting is invalid, or there are too few codes.
        TypeError: `methods` is not a list.
    """
    if isinstance(methods, str) or not methods:
        raise ArgumentTypeError(
            f"must be a list of {', '.join(METHODS)}", argument="methods"
        )
    for method in methods:
        checks.choice("methods", method, METHODS)
    checks.real("level", level, 1e-6, 1 - 1e-6)
    checks.choice("target", target, TARGETS)
    if clusters is not None and target == "texts":
        raise ArgumentError(
            f"requires {setting('target', 'population')}: else texts are no sample",
            argument="cluster",
        )
    if clusters is not None and np.ptp(clusters) == 0:
        raise ArgumentError(
            "must have two values at least: all texts have one",
            argument="cluster",
            code="out_of_range",
        )
    if len(gold.rows) < 2:
        raise ArgumentError(
            "has fewer than two codes of the texts that are used", argument="gold"
        )
    return FitSettings(
        gold=gold,
        methods=tuple(dict.fromkeys(methods)),
        level=level,
        target=target,
        clusters=clusters,
        weights=weights,
    )


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
        notes.append(f"texts left out: {n_texts - n_kept} of {n_texts}; {why}")
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
        source=Source.of(
            None if texts.text_column is None else texts.texts, texts.labels
        ),
    )


def _check(formula: object, *, by: object, model: object) -> None:
    if model is not None:
        checks.choice("model", model, MODELS)
        if (model == "mean") != (formula is None):
            needs = "without" if model == "mean" else "with"
            raise ArgumentError(
                f"model={model!r} goes {needs} a formula",
                argument="model",
                form="{problem}",
            )
    if formula is not None and by is not None:
        raise ArgumentError(
            "goes without a formula: make it a covariate", argument="by", code="conflict"
        )


def joined(
    coded: Any,  # noqa: ANN401 - see estimate
    gold: Any,  # noqa: ANN401 - see estimate
    label: str | None,
    text: str | None,
    *,
    several: bool,
) -> tuple[Population, Any, list[str]]:
    """Match a sample to the texts; return both, and notes on texts that do not match.

    Raises:
        ValueError: The sample was drawn from other texts, or a column does not exist.
    """
    if isinstance(coded, Sequence) and not isinstance(coded, str):
        coded = {"label": list(coded)}
    design = gold.design if isinstance(gold, GoldSample) else {}
    frame = coded.frame if isinstance(coded, Coded) else coded
    there = frames.names(frame)
    text = text or (design.get("text") if design.get("text") in there else None)
    identifier = design.get("id") if design.get("id") in there else None
    if label is None and frame is coded:
        label = design.get("label") or "label"
    names = gold.names if isinstance(gold, GoldSample) else ()
    texts = Population.of(
        coded, text=text, label=label, id=identifier, names=names, several=several
    )
    if not isinstance(gold, GoldSample):
        return texts, gold, []
    known = texts.texts if texts.text_column is not None else None
    rows = SampleRows.of(gold, frame, len(texts), texts=known, labels=texts.labels)
    n_before = len(gold.all_probs)
    gold = filtered(gold, rows)
    new_rows = current_rows(gold, rows)
    n_other = n_relabelled(gold, rows, new_rows)
    notes = []
    if len(texts) < n_before:
        notes.append(
            f"{len(texts)} of the {n_before} texts from which the sample was drawn are "
            f"used, {len(gold)} of them drawn: estimates describe only the texts used"
        )
    if n_other:
        notes.append(
            f"{n_other} of {len(gold)} texts of the gold sample have another label than "
            "when it was drawn, by another run or an edit: estimates use the new labels"
        )
    return texts, gold.moved(new_rows), notes


def _kept(
    texts: Population,
    formula: str | None,
    by: str | Sequence[str] | None,
    cluster: str | None,
    survey: Floats | None,
) -> Ints:
    """Return the rows with a label, a weight above 0 and a value in every used column."""
    if formula is not None:
        kept = formulas.complete_rows(texts.frame, formula, texts.labels)
    else:
        kept = np.flatnonzero([label is not None for label in texts.labels])
    names = [*named(by), *([] if cluster is None else [cluster])]
    for name in names:
        values = frames.column(texts.frame, name, "by" if name != cluster else "cluster")
        kept = kept[[values[i] is not None for i in kept]]
    if survey is not None:
        kept = kept[survey[kept] > 0]
    if len(kept) == 0:
        raise ArgumentError(
            "must have at least one row with a label and a value in every column used",
            argument="data",
            code="no_rows",
        )
    return kept


def _means(  # noqa: PLR0917 - one caller
    texts: Population,
    kept: Ints,
    outcome: Outcome | None,
    in_groups: tuple[Ints, list[str]],
    settings: FitSettings,
    predicted: Predicted,
    *,
    several: bool,
    known: frozenset[str],
    quantiles: Sequence[float] = (),
) -> Found:
    labels = [predicted.labels[i] or "" for i in kept]
    groups, names = in_groups

    def numbers_of(wanted: Outcome | None) -> tuple[str, list[Numbers]]:
        return shares_or_scores(
            wanted,
            texts,
            labels,
            settings.gold.codes,
            several=several,
            shares=(
                None
                if predicted.probs is None
                else lambda name: predicted.shares(name, kept)
            ),
            known=known,
        )

    term, numbers = numbers_of(outcome)
    if quantiles and isinstance(outcome, Mapping):
        scores = {name: float(score) for name, score in outcome.items()}
        values = np.unique(list(scores.values()))

        def up_to(t: float) -> tuple[Floats, Floats]:
            if predicted.probs is None:
                _, of_labels, of_codes = numbers[0]
                return (of_labels <= t).astype(np.float64), (of_codes <= t).astype(
                    np.float64
                )
            under = {name: float(score <= t) for name, score in scores.items()}
            _, of_labels, of_codes = numbers_of(under)[1][0]
            return of_labels, of_codes

        return fit_quantiles(up_to, values, quantiles, groups, names, settings)
    return fit_means(numbers, term, groups, names, settings)


def _with_outcome(
    formula: str, outcome: Outcome, texts: Population, *, several: bool
) -> str:
    """Return the formula with `outcome` as its left side, if it has none."""
    left, right = formulas.split(formula)
    if left:
        raise ArgumentError(
            f"is for a formula without a left side, not {formula!r}", argument="outcome"
        )
    if not isinstance(outcome, str):
        raise ArgumentTypeError(
            "must be one label where there is a formula", argument="outcome"
        )
    labels = [each for each in texts.labels if each is not None]
    given = [labels_of(each, several=several) for each in labels]
    checked_labels(outcome, texts, frozenset().union(*given))
    name = texts.label_column or ""
    name = name if name.isidentifier() else f"`{name}`"
    has = f"has_label({name}, {outcome!r})" if several else f"{name} == {outcome!r}"
    return f"{has} ~ {right}"
