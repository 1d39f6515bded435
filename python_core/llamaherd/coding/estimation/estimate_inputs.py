"""Texts, codes and rows that an estimate uses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.coding import frames
from llamaherd.coding.annotation.coded import Coded
from llamaherd.coding.annotation.joins import (
    SampleRows,
    current_rows,
    filtered,
    note_on_left_out,
    relabelled,
)
from llamaherd.coding.annotation.label_sets import has_several, scale_of
from llamaherd.coding.annotation.survey import weights_of
from llamaherd.coding.annotation.texts import locked_note, open_parts
from llamaherd.coding.codes import numbers_of
from llamaherd.coding.estimation import formula_terms
from llamaherd.coding.estimation.consensus import all_codes, averaged_sample
from llamaherd.coding.estimation.design_checks import clusters_of, copies
from llamaherd.coding.estimation.gold_drawn import GoldSample
from llamaherd.coding.estimation.gold_use import used_gold
from llamaherd.coding.estimation.outcomes import (
    checked_labels,
    in_one_form,
    labels_of,
    number_outcome,
    undeclared,
)
from llamaherd.coding.estimation.population import Population, named
from llamaherd.coding.estimation.predictions import cluster_notes
from llamaherd.engine.core import checks
from llamaherd.engine.core.caller import warn_caller
from llamaherd.engine.core.errors import ArgumentError, ArgumentTypeError
from llamaherd.engine.core.phrases import count_of, verb

if TYPE_CHECKING:
    from llamaherd.coding.estimation.gold_use import GoldUsed
    from llamaherd.coding.estimation.outcomes import Outcome
    from llamaherd.coding.statistics.sampling import Floats, Ints, Target


@dataclass(frozen=True, kw_only=True, eq=False)
class Inputs:
    """Texts and codes of a call.

    Attributes:
        texts: N texts, with labels in the form of the codes.
        gold: The sample, or one code for each text.
        prob: Inclusion probabilities of codes that are not a sample.
        several: True if a text may have several labels.
        are_numbers: True if labels are measurements.
        kept: int64[m], rows of the texts that are used.
        used: Codes of these texts.
        survey: float64[N], survey weights; None for equal weights.
        clusters: int64[m], clusters of these texts; None if they are independent.
        notes: Notes for the user.
    """

    texts: Population
    gold: Any
    prob: Any
    several: bool
    are_numbers: bool
    kept: Ints
    used: GoldUsed
    survey: Floats | None
    clusters: Ints | None
    notes: list[str]

    @classmethod
    def of(
        cls,
        coded: Any,  # noqa: ANN401 - see estimate
        gold: Any,  # noqa: ANN401 - see estimate
        *,
        label: str | None,
        text: str | None,
        prob: Any,  # noqa: ANN401 - see estimate
        several: bool | None,
        weights: Any = None,  # noqa: ANN401 - see estimate
        cluster: str | None = None,
        target: Target = "population",
        formula: str | None = None,
        by: str | Sequence[str] | None = None,
    ) -> Inputs:
        """Read the arguments of `estimate` that name texts and codes."""
        several = has_several(coded, gold) if several is None else several
        texts, gold, notes = joined(coded, gold, label, text, several=several)
        gold, prob = columns_of(texts, gold, prob, weights)
        texts, gold, are_numbers = in_one_form(texts, gold, several=several)
        survey = None if weights is None else weights_of(texts.frame, weights, len(texts))
        kept = kept_rows(texts, formula, by, cluster, survey)
        used = used_gold(gold, prob, len(texts), kept, is_clustered=cluster is not None)
        clusters, of_copies = clusters_of(texts, cluster, kept, target)
        return cls(
            texts=texts,
            gold=gold,
            prob=prob,
            several=several,
            are_numbers=are_numbers,
            kept=kept,
            used=used.among(kept, len(texts)),
            survey=survey,
            clusters=clusters,
            notes=[
                *notes,
                *copies(texts, gold),
                *undeclared(texts, gold, several=several),
                *cluster_notes(coded, cluster),
                *of_copies,
            ],
        )

    def measured(
        self,
        coded: Any,  # noqa: ANN401 - see estimate
        outcome: Outcome | None,
        label: str | None,
    ) -> tuple[GoldUsed, Outcome | None, bool]:
        """Return codes and outcome, as numbers if a mean or median is estimated.

        Args:
            coded: See `estimate`.
            outcome: See `estimate`.
            label: See `estimate`.

        Returns:
            The codes, averaged if several people gave numbers; the outcome, a mapping
            from labels to numbers for a mean; True if labels are numbers of a scale.
        """
        there = all_values(self.texts, [*all_codes(self.used)])
        is_scale = scale_of(coded, self.gold, label) in ("interval", "ratio")
        by_default = self.are_numbers or is_scale
        numbers = number_outcome(outcome, there, by_default=by_default)
        used, numbers = averaged_sample(self.used, numbers, several=self.several)
        return used, numbers, is_scale


def columns_of(
    texts: Population,
    gold: Any,  # noqa: ANN401 - see estimate
    prob: Any,  # noqa: ANN401 - see estimate
    weights: object,
) -> tuple[Any, Any]:
    """Return `gold` and `prob`; for the name of a column, return the column's values.

    A pandas object with another index than the data frame raises an error.
    """
    if isinstance(gold, str):
        gold = frames.column(texts.frame, gold, "gold")
    if isinstance(prob, str) and prob in frames.names(texts.frame):
        prob = numbers_of(frames.column(texts.frame, prob, "prob"), "prob")
    for name, values in (("gold", gold), ("prob", prob), ("weights", weights)):
        frames.check_index(values, texts.frame, name)
    return gold, prob


def all_values(texts: Population, codes: Sequence[str]) -> set[str]:
    """Return all labels and codes that occur."""
    return {*codes, *(label for label in texts.labels if label is not None)}


def joined(
    coded: Any,  # noqa: ANN401 - see estimate
    gold: Any,  # noqa: ANN401 - see estimate
    label: str | None,
    text: str | None,
    *,
    several: bool,
) -> tuple[Population, Any, list[str]]:
    """Match a sample to the texts; return both, and notes on texts that do not match."""
    _check_gold(gold)
    gold = open_parts(gold)
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
    note = note_on_left_out(gold, len(texts))
    gold = filtered(gold, rows)
    new_rows = current_rows(gold, rows)
    notes = locked_note(gold)
    notes += [note.format(n_drawn=len(gold))] if note else []
    notes += relabelled(gold, rows, new_rows)
    gold = gold.moved(new_rows)
    return texts, gold.with_labels([texts.labels[row] for row in gold.rows]), notes


def _check_gold(gold: object) -> None:
    if isinstance(gold, (GoldSample, str)):
        return
    is_other = isinstance(gold, (Mapping, Coded, bytes)) or not isinstance(gold, Iterable)
    what = checks.shown(gold) if is_other else checks.no_list(gold)
    if what:
        raise ArgumentTypeError(
            f"must be a GoldSample, the name of a column, or a list of codes, not {what}",
            argument="gold",
        )


def kept_rows(
    texts: Population,
    formula: str | None,
    by: str | Sequence[str] | None,
    cluster: str | None,
    survey: Floats | None,
) -> Ints:
    """Return the rows with a label, a weight above 0 and a value in every used column.

    Warns:
        UserWarning: A column has no value for some texts with a label.
    """
    there = np.array([label is not None for label in texts.labels], dtype=bool)
    if survey is not None:
        there &= survey > 0
    kept = np.flatnonzero(there)
    used = dict.fromkeys(named(by), "by")
    if formula is not None:
        known = formula_terms.columns_in(formula) - {texts.label_column}
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
            listed = (f"{name!r} ({count:,})" for name, count in missing.items())
            which = f"columns {', '.join(listed)} have"
        weighted = "" if survey is None else " and a weight above 0"
        warn_caller(
            f"The {which} no value for {n:,} of {count_of(len(kept), 'text')} with a "
            f"label{weighted}, which {verb(n, 'is', 'are')} left out "
            f"({', '.join(arguments)})"
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
    left, right = formula_terms.split(formula)
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
