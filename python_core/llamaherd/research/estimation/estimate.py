"""Shares, means and regressions that are right although labels are not."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from llamaherd.core import checks
from llamaherd.research import frames
from llamaherd.research.coding.coded import Coded
from llamaherd.research.coding.joins import Rows, n_relabelled, places_of
from llamaherd.research.coding.label_sets import has_several
from llamaherd.research.coding.source import Source
from llamaherd.research.estimation import formulas
from llamaherd.research.estimation.estimates import METHODS, Estimates, Method
from llamaherd.research.estimation.fitting import (
    Found,
    Settings,
    fit_means,
    fit_regression,
)
from llamaherd.research.estimation.gold_data import Population
from llamaherd.research.estimation.gold_drawn import GoldSample
from llamaherd.research.estimation.gold_use import used_gold
from llamaherd.research.estimation.groups import grouped, named, numbered
from llamaherd.research.estimation.one_form import in_one_form
from llamaherd.research.estimation.outcomes import labels_of, shares_or_scores, wanted
from llamaherd.research.statistics.sampling import TARGETS, Target

if TYPE_CHECKING:
    from llamaherd.research.estimation.gold_use import GoldUsed
    from llamaherd.research.estimation.outcomes import Outcome
    from llamaherd.research.statistics.sampling import Ints

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
) -> Estimates:
    """Estimates shares, means, differences or regressions of what people would code.

    Methods: "dsl": all labels, corrected by the codes (design-based supervised learning);
    "ppi": the same, with labels counting as much as they are worth (PPI++); "gold": the
    codes alone; "naive": the labels as if they were right, to compare. The first three
    are right however wrong the labels are. For "ppi" codes must be those of texts drawn
    with equal probabilities; with others it is weighted, as a note says.

    Args:
        coded: What `annotate` returned, or a data frame with a column of labels, or a
            list of labels; N texts, all that the sample was drawn from.
        gold: A sample with codes; of several coders what most of them say. Where equally
            many say one thing and another, the first of them decides, as a note says: let
            somebody decide these texts, as one more coder. Or a column of `coded` or a
            list with N codes, None where there is none; these need `prob`.
        formula: Of a regression over the columns of `coded`, such as
            "label == 'negative' ~ party + age"; the label may be on either side.
        outcome: Without a formula: the label, or labels, whose share is estimated, or a
            number for each label, whose mean is; None: the share of each label, but of
            labels that are numbers with fractions, or more than 20 different ones, their
            mean. With a formula that has no left side: that.
        by: Columns; shares or means for each of their values, or combinations of values,
            and differences from the first.
        model: "mean", "ols" or "logit"; None: "mean" without a formula, "ols" with one.
        methods: Which, in this order.
        level: Confidence level of the intervals.
        label: Column of labels; None: that of `coded`, or "label".
        text: Column of texts; None: that of `coded`, or of `gold`.
        prob: For codes without a design: "simple", if texts were drawn at random with the
            same probability; N inclusion probabilities, or the column that has them.
        target: "population": estimates are about what these texts are a sample of;
            "texts": about these texts, so that with all of them coded nothing is left to
            chance.
        cluster: Column; texts with the same value depend on each other, as those of one
            speaker.
        order: For columns in `by` their values in the order that groups should have;
            None: that of categories, others sorted. Differences are from the first.
        several: Whether a text may have several labels, joined by "; ": then shares are
            of the texts that have a label among others, and do not sum to 1, and formulas
            have `has_label(label, 'negative')` for it. None: as `coded` or `gold` know.

    Returns:
        Estimates with standard errors and intervals. Texts without a label, or with a
        missing value in a column that is used, are left out, with a note.

    Raises:
        ValueError: The sample's inclusion probabilities are unknown or 0, or it is one of
            other texts; an argument does not fit the data; no method gives an estimate.
        ImportError: A formula needs formulaic, which is not installed.

    Source:
        arXiv 2306.04746 (DSL), arXiv 2311.01453 (PPI++).
    """
    _check(formula, by=by, model=model)
    several = has_several(coded, gold) if several is None else several
    texts, gold, notes = joined(coded, gold, label, text, several=several)
    if isinstance(gold, str):
        gold = frames.column(texts.frame, gold, "gold")
    if isinstance(prob, str) and prob in frames.names(texts.frame):
        prob = [float(each) for each in frames.column(texts.frame, prob, "prob")]
    frames.check_index(gold, texts.frame, "gold")
    frames.check_index(prob, texts.frame, "prob")
    texts, gold, are_numbers = in_one_form(texts, gold, several=several)
    if formula is not None and outcome is not None:
        formula = _with_outcome(formula, outcome, texts, several=several)
    kept = _kept(texts, formula, by, cluster)
    used = used_gold(gold, prob, len(texts), kept)
    settings = settings_of(
        used.among(kept, len(texts)),
        methods=methods,
        level=level,
        target=target,
        clusters=None if cluster is None else numbered(texts, cluster, kept)[0],
    )
    model = model or ("mean" if formula is None else "ols")
    if formula is None:
        in_groups = grouped(texts, by, kept, order or {})
        if outcome is None and are_numbers:
            outcome = {each: float(each) for each in _there(texts, settings.gold.codes)}
        found = _means(texts, kept, outcome, in_groups, settings, several=several)
    else:
        formulas.check_label(formula, texts.label_column or "", several=several)
        made = formulas.matrices(texts, formula, kept, settings.gold)
        found = fit_regression("logit" if model == "logit" else "ols", made, settings)
    made_of = result(
        found,
        settings,
        model=model,
        formula=formula,
        n_kept=len(kept),
        texts=texts,
        notes=notes,
    )
    return dataclasses.replace(made_of, grouped_by=tuple(named(by)))


def _there(texts: Population, codes: Sequence[str]) -> set[str]:
    """All labels and codes that there are."""
    return {*codes, *(label for label in texts.labels if label is not None)}


def settings_of(
    gold: GoldUsed,
    *,
    methods: Sequence[Method],
    level: float,
    target: Target,
    clusters: Ints | None,
) -> Settings:
    """Settings of a call, checked.

    Raises:
        ValueError: One is none, or there are too few codes.
        TypeError: Methods are no list.
    """
    if isinstance(methods, str) or not methods:
        raise TypeError(f"methods must be a list of {', '.join(METHODS)}")
    for method in methods:
        checks.choice("methods", method, METHODS)
    checks.real("level", level, 1e-6, 1 - 1e-6)
    checks.choice("target", target, TARGETS)
    if clusters is not None and target == "texts":
        raise ValueError("cluster is for target='population': these texts are no sample")
    if clusters is not None and np.ptp(clusters) == 0:
        raise ValueError("cluster must have two values at least: all texts have one")
    if len(gold.rows) < 2:
        raise ValueError("gold has fewer than two codes of the texts that are used")
    return Settings(
        gold=gold,
        methods=tuple(dict.fromkeys(methods)),
        level=level,
        target=target,
        clusters=clusters,
    )


def result(
    found: Found,
    settings: Settings,
    *,
    model: Model,
    formula: str | None,
    n_kept: int,
    texts: Population,
    notes: Sequence[str],
) -> Estimates:
    """What was found, with how it was found."""
    gold = settings.gold
    n_texts = len(texts)
    notes = [*notes, *gold.notes]
    if n_kept < n_texts:
        why = "they have no label, or a value that is used is missing"
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
            raise ValueError(f"model={model!r} goes {needs} a formula")
    if formula is not None and by is not None:
        raise ValueError("by goes without a formula: make it a covariate")


def joined(
    coded: Any,  # noqa: ANN401 - see estimate
    gold: Any,  # noqa: ANN401 - see estimate
    label: str | None,
    text: str | None,
    *,
    several: bool,
) -> tuple[Population, Any, list[str]]:
    """The texts, a sample whose rows are theirs, and notes on the join.

    Raises:
        ValueError: They are not those that the sample was drawn from, or there is no such
            column.
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
    rows = Rows.of(gold, frame, len(texts), texts=known, labels=texts.labels)
    places = places_of(gold, rows)
    n_other = n_relabelled(gold, rows, places)
    notes = []
    if n_other:
        notes.append(
            f"{n_other} of {len(gold)} texts of the gold sample have another label than "
            "when it was drawn: labels of another run, or edited ones, are estimated"
        )
    return texts, gold.moved(places), notes


def _kept(
    texts: Population,
    formula: str | None,
    by: str | Sequence[str] | None,
    cluster: str | None,
) -> Ints:
    """Rows with a label and all that is used."""
    if formula is not None:
        kept = formulas.complete_rows(texts.frame, formula, texts.labels)
    else:
        kept = np.flatnonzero([label is not None for label in texts.labels])
    names = [*named(by), *([] if cluster is None else [cluster])]
    for name in names:
        values = frames.column(texts.frame, name, "by" if name != cluster else "cluster")
        kept = kept[[values[i] is not None for i in kept]]
    if len(kept) == 0:
        raise ValueError("there is no text with a label and all that is used")
    return kept


def _means(
    texts: Population,
    kept: Ints,
    outcome: Outcome | None,
    in_groups: tuple[Ints, list[str]],
    settings: Settings,
    *,
    several: bool,
) -> Found:
    labels = [texts.labels[i] or "" for i in kept]
    groups, names = in_groups
    term, numbers = shares_or_scores(
        outcome, texts, labels, settings.gold.codes, several=several
    )
    return fit_means(numbers, term, groups, names, settings)


def _with_outcome(
    formula: str, outcome: Outcome, texts: Population, *, several: bool
) -> str:
    """A formula without a left side gets one."""
    left, right = formulas.split(formula)
    if left:
        raise ValueError(f"outcome is for a formula without a left side, not {formula!r}")
    if not isinstance(outcome, str):
        raise TypeError("outcome must be one label where there is a formula")
    labels = [each for each in texts.labels if each is not None]
    given = [labels_of(each, several=several) for each in labels]
    wanted(outcome, texts, frozenset().union(*given))
    name = texts.label_column or ""
    name = name if name.isidentifier() else f"`{name}`"
    has = f"has_label({name}, {outcome!r})" if several else f"{name} == {outcome!r}"
    return f"{has} ~ {right}"
