"""Texts, codes and rows that an estimate uses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.core import checks
from llamaherd.core.caller import warn_caller
from llamaherd.core.errors import ArgumentError, ArgumentTypeError
from llamaherd.core.plurals import count_of, verb
from llamaherd.research import frames
from llamaherd.research.codes import numbers_of
from llamaherd.research.coding.coded import Coded
from llamaherd.research.coding.joins import (
    SampleRows,
    current_rows,
    filtered,
    note_on_left_out,
    relabelled,
)
from llamaherd.research.coding.parts import locked_note, open_parts
from llamaherd.research.estimation import formula_names
from llamaherd.research.estimation.by_columns import named
from llamaherd.research.estimation.gold_data import Population
from llamaherd.research.estimation.gold_drawn import GoldSample
from llamaherd.research.estimation.outcomes import (
    checked_labels,
    labels_of,
)

if TYPE_CHECKING:
    from llamaherd.research.estimation.outcomes import Outcome
    from llamaherd.research.statistics.sampling import Floats, Ints


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
    """Match a sample to the texts; return both, and notes on texts that do not match.

    Raises:
        TypeError: `gold` is neither a sample, the name of a column, nor a list.
        ValueError: The sample was drawn from other texts, or a column does not exist.
    """
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
        known = formula_names.columns_in(formula) - {texts.label_column}
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
    left, right = formula_names.split(formula)
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
