"""Texts, codes and rows that an estimate uses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.coding import frames
from llamaherd.coding.annotation.label_sets import has_several, scale_of
from llamaherd.coding.codes import are_measured, number_in
from llamaherd.coding.estimation import formulas
from llamaherd.coding.estimation.design_checks import clusters_of, note_on_copies
from llamaherd.coding.estimation.fitting import FitSettings
from llamaherd.coding.estimation.notes import note
from llamaherd.coding.estimation.outcomes import (
    Outcome,
    checked_labels,
    in_one_form,
    labels_of,
    note_on_undeclared,
    number_outcome,
    scores_of,
)
from llamaherd.coding.estimation.predictions import cluster_notes
from llamaherd.coding.frames import Input, weights_of
from llamaherd.coding.gold.codes import Codes, codes_of_texts
from llamaherd.coding.gold.population import (
    Population,
    by_columns,
    codes_and_probs,
    match_sample,
)
from llamaherd.coding.gold.sample import GoldSample
from llamaherd.coding.statistics.many_coders import krippendorff_alpha, percent_agreement
from llamaherd.coding.statistics.ratings import CodesByCoder, Scale
from llamaherd.engine.core.caller import warn_caller
from llamaherd.engine.core.errors import ArgumentError, ArgumentTypeError

if TYPE_CHECKING:
    from llamaherd.coding.estimation.estimates import Method
    from llamaherd.coding.statistics.sampling import Target
    from llamaherd.engine.core.arrays import Floats, Ints


@dataclass(frozen=True, kw_only=True, eq=False)
class Inputs:
    """Texts and codes of a call."""

    texts: Population  # N texts, with labels in the form of the codes
    gold: Any  # The sample, or one code for each text
    prob: Any  # Inclusion probabilities of codes that are not a sample
    several: bool  # True if a text may have several labels
    are_numbers: bool  # True if labels are measurements
    kept: Ints  # int64[m], rows of the texts that are used
    used: Codes  # Codes of these texts
    survey: Floats | None  # float64[N], survey weights; None for equal weights
    # int64[m], clusters of these texts; None if they are independent
    clusters: Ints | None
    notes: list[str]  # Notes for the user

    @classmethod
    def of(
        cls,
        coded: Input,
        gold: Input,
        *,
        label: str | None,
        text: str | None,
        prob: Input,
        several: bool | None,
        weights: Input = None,
        cluster: str | None = None,
        target: Target = "population",
        formula: str | None = None,
        by: str | Sequence[str] | None = None,
        rows: tuple[Ints, Ints | None] | None = None,
    ) -> Inputs:
        """Read the arguments of `estimate` that name texts and codes.

        R has evaluated a formula itself: labels and codes are in one form, and `rows` has
        the rows to use and their clusters.
        """
        several = has_several(coded, gold) if several is None else several
        texts, gold, notes = match_sample(coded, gold, label, text, several=several)
        survey = None if weights is None else weights_of(texts.frame, weights, len(texts))
        are_numbers, clusters = False, None
        of_copies: list[str] = []
        if rows is None:
            gold, prob = codes_and_probs(texts, gold, prob, weights)
            texts, gold, are_numbers = in_one_form(texts, gold, several=several)
            kept = kept_rows(texts, formula, by, cluster, survey)
        else:
            kept, clusters = rows
        is_clustered = cluster is not None or clusters is not None
        used = codes_of_texts(gold, prob, len(texts), kept, is_clustered=is_clustered)
        if clusters is None:
            clusters, of_copies = clusters_of(texts, cluster, kept, target)
        return cls(
            texts=texts,
            gold=gold,
            prob=prob,
            several=several,
            are_numbers=are_numbers,
            kept=kept,
            used=used,
            survey=survey,
            clusters=clusters,
            notes=[
                *notes,
                *note_on_copies(texts, gold),
                *note_on_undeclared(texts, gold, several=several),
                *cluster_notes(coded, cluster),
                *of_copies,
            ],
        )

    def settings(
        self, methods: Sequence[Method], level: float, target: Target
    ) -> FitSettings:
        """Check the settings of estimates from these texts and codes."""
        return FitSettings(
            gold=self.used,
            methods=methods,
            level=level,
            target=target,
            clusters=self.clusters,
            weights=None if self.survey is None else self.survey[self.kept],
        ).checked()

    @property
    def all_values(self) -> set[str]:
        """All labels and codes that occur."""
        labels = {label for label in self.texts.labels if label is not None}
        return {*self.used.decided, *labels}

    def measured(
        self, coded: Input, outcome: Outcome | None, label: str | None
    ) -> tuple[Codes, Outcome | None, bool]:
        """Return codes and outcome, as numbers if a mean or median is estimated."""
        by_coders = {code for column in self.used.columns for code in column} - {None}
        is_scale = scale_of(coded, self.gold, label) in ("interval", "ratio")
        by_default = self.are_numbers or is_scale
        values = self.all_values | by_coders
        numbers = number_outcome(outcome, values, by_default=by_default)
        if self.several or not isinstance(numbers, Mapping):
            return self.used, numbers, is_scale
        used, scores = mean_codes(self.used, scores_of(numbers, by_coders))
        return used, scores, is_scale


def mean_codes(
    used: Codes, scores: Mapping[str, float]
) -> tuple[Codes, dict[str, float]]:
    """Return the sample with the mean number of each text's codes, and all numbers."""
    known = dict(scores)
    means = used.decided
    for i, codes in enumerate(zip(*used.columns, strict=True)):
        numbers = [scores[code] for code in codes if code is not None]
        if len({*numbers}) < 2:
            continue
        mean = sum(numbers) / len(numbers)
        means[i] = _name_of(mean, known)
        known[means[i]] = mean
    return replace(used, columns=[means]), known


def _name_of(number: float, known: Mapping[str, float]) -> str:
    """Return a name of a number that no label with another number has."""
    name = repr(number)
    while known.get(name, number) != number:
        name += " "
    return name


def agreement_line(gold: object) -> str:
    """Return a sentence on the agreement of a sample's coders; "" for one coder."""
    if not isinstance(gold, GoldSample):
        return ""
    n_coders = sum(any(code is not None for code in column) for column in gold.codes)
    if n_coders < 2 or gold.several:
        return ""
    weights = (1 / gold.probs).tolist()
    by_coder = CodesByCoder(gold.codes)
    alike = percent_agreement(by_coder, unit_weights=weights)
    if alike.n_units == 0:
        return note("no_shared_text", n_coders=n_coders)
    codes = {code for column in gold.codes for code in column if code is not None}
    scale: Scale = scale_of(None, gold)
    numbers: dict[str | None, float | None] = {code: number_in(code) for code in codes}
    if None not in numbers.values() and scale != "ordinal":
        by_coder = CodesByCoder([[*map(numbers.get, column)] for column in gold.codes])
        scale = "interval" if are_measured([*numbers.values()]) else scale
    elif scale != "ordinal" or not codes <= set(gold.names):
        scale = "nominal"
    levels = gold.names if scale == "ordinal" else None
    alpha = krippendorff_alpha(by_coder, scale=scale, levels=levels, unit_weights=weights)
    return note("agreement", n_coders=n_coders, alike=alike, alpha=alpha, scale=scale)


def kept_rows(
    texts: Population,
    formula: str | None,
    by: str | Sequence[str] | None,
    cluster: str | None,
    survey: Floats | None,
) -> Ints:
    """Return the rows with a label, a weight above 0 and a value in every used column."""
    is_kept = np.array([label is not None for label in texts.labels], dtype=bool)
    if survey is not None:
        is_kept &= survey > 0
    kept = np.flatnonzero(is_kept)
    used = dict.fromkeys(by_columns(by), "by")
    if formula is not None:
        known = formulas.columns_in(formula) - {texts.label_column}
        columns = sorted(known.intersection(frames.names(texts.frame)))
        used = dict.fromkeys(columns, "formula")
    if cluster is not None:
        used[cluster] = "cluster"
    complete = np.ones(len(kept), dtype=bool)
    missing: dict[str, int] = {}
    for name, argument in used.items():
        values = frames.column(texts.frame, name, argument)
        has_value = np.array([values[i] is not None for i in kept], dtype=bool)
        complete &= has_value
        if not has_value.all():
            missing[name] = int((~has_value).sum())
    if missing:
        n, arguments = int((~complete).sum()), dict.fromkeys(used[k] for k in missing)
        which = f"column {next(iter(missing))!r} has"
        if len(missing) > 1:
            counts = (f"{name!r} ({count:,})" for name, count in missing.items())
            which = f"columns {', '.join(counts)} have"
        warn_caller(
            note(
                "no_column_value",
                columns=which,
                n=n,
                n_kept=len(kept),
                is_weighted=survey is not None,
                arguments=list(arguments),
            )
        )
    kept = kept[complete]
    if len(kept) == 0:
        raise ArgumentError(
            "must have at least one row with a label and a value in every column used",
            argument="data",
            code="no_rows",
        )
    return kept


def with_outcome(
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
    labels = [label for label in texts.labels if label is not None]
    label_sets = [labels_of(label, several=several) for label in labels]
    checked_labels(outcome, texts, frozenset().union(*label_sets))
    name = texts.label_column or ""
    name = name if name.isidentifier() else f"`{name}`"
    has = f"has_label({name}, {outcome!r})" if several else f"{name} == {outcome!r}"
    return f"{has} ~ {right}"
