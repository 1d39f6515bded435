"""Outcomes and groups of estimates: shares of labels, or means of numbers, by columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.coding import frames
from llamaherd.coding.annotation.coded import Coded
from llamaherd.coding.annotation.label_sets import (
    BETWEEN,
    joined_labels,
)
from llamaherd.coding.codes import (
    are_alike,
    are_measured,
    check_coders,
    number_in,
    read,
    text_of,
)
from llamaherd.coding.codes.cells import LARGEST
from llamaherd.coding.estimation.notes import note
from llamaherd.coding.gold.forms import sets_of
from llamaherd.coding.gold.joins import check_relabelled, label_forms, marks_of
from llamaherd.coding.gold.population import Population, by_columns
from llamaherd.coding.gold.sample import GoldSample
from llamaherd.coding.statistics.intervals import NO_LIMITS
from llamaherd.engine.core import checks
from llamaherd.engine.core.argument import Argument
from llamaherd.engine.core.errors import ArgumentError
from llamaherd.engine.core.phrases import with_commas

if TYPE_CHECKING:
    from llamaherd.engine.core.arrays import Floats, Ints

Outcome = str | Sequence[str] | Mapping[str, float]
# Outcomes that ask for the mean or the median of numeric labels.
MEAN, MEDIAN = "mean", "median"
OTHER_QUANTILES = (
    "was removed: the median is the only quantile. For another one, find the number up "
    "to which the share of texts is right: outcome can give 1 to numbers up to a limit, "
    "and 0 to others"
)
Numbers = tuple[str, "Floats", "Floats"]  # name, values of N texts, values of n codes


def labels_of(text: str, *, several: bool) -> frozenset[str]:
    """Return the labels of a text as a set; joined labels are separated."""
    if not several:
        return frozenset((text,))
    return frozenset(part.strip() for part in text.split(BETWEEN)) - {""}


def number_outcome(
    outcome: Outcome | None, values: set[str], *, by_default: bool
) -> Outcome | None:
    """Map labels to numbers if a mean is estimated; otherwise return the outcome."""
    text = _single_text(outcome)
    if text == "quantile" and text not in values:
        raise ArgumentError(
            f"{text!r} {OTHER_QUANTILES}", argument="outcome", code="removed"
        )
    is_asked = text in {MEAN, MEDIAN} and text not in values
    if not is_asked and not (outcome is None and by_default):
        return outcome
    numbers = {label: number_in(label) for label in values}
    odd = sorted(label for label, number in numbers.items() if number is None)
    if odd:
        raise ArgumentError(
            f"{text or MEAN!r} needs labels that are numbers, not "
            f"{checks.quoted(odd[0])}",
            argument="outcome",
            code="wrong_type",
            form="{name} {problem}",
        )
    return scores_of(
        {label: number for label, number in numbers.items() if number is not None}, values
    )


def limits_of(
    outcome: Outcome | None,
    scores: Outcome | None,
    names: Sequence[str],
    *,
    is_scale: bool,
) -> tuple[float, float]:
    """Return the smallest and the largest possible mean; infinite if unknown."""
    if not isinstance(scores, Mapping):
        return NO_LIMITS
    known = [float(score) for score in scores.values()]
    if not isinstance(outcome, Mapping):
        numbers = [number_in(name) for name in names]
        declared = [float(number) for number in numbers if number is not None]
        if not is_scale or len(declared) < max(len(numbers), 1):
            return NO_LIMITS
        known += declared
    return (min(known), max(known))


def asks_median(outcome: Outcome | None, values: set[str]) -> bool:
    """Return True if an outcome asks for the median of numeric labels."""
    return _single_text(outcome) == MEDIAN and MEDIAN not in values


def _single_text(outcome: Outcome | None) -> str:
    """Return the outcome if it is a single text, else ""."""
    outcomes = list(outcome) if isinstance(outcome, (list, tuple)) else [outcome]
    return outcomes[0] if len(outcomes) == 1 and isinstance(outcomes[0], str) else ""


def checked_labels(
    outcome: str | Sequence[str] | None, texts: Population, labels_used: frozenset[str]
) -> list[str]:
    """Return the labels whose shares are estimated; all labels without an outcome."""
    if outcome is None:
        known = [name for name in texts.names if name in labels_used]
        return known + sorted(labels_used.difference(known))
    is_one = isinstance(outcome, str) or not isinstance(outcome, Iterable)
    labels = [outcome] if is_one else list(outcome)
    choices = ", ".join(sorted(labels_used))
    if not labels:
        raise ArgumentError(
            f"must name at least one of the labels {choices}", argument="outcome"
        )
    for label in labels:
        name = text_of(label)
        if name not in labels_used:
            raise ArgumentError(
                f"must be among the labels {choices}, not {checks.brief(label)}"
                f"{checks.meant(name, labels_used)}",
                argument="outcome",
            )
    return [str(text_of(label)) for label in labels]


def scores_of(outcome: Mapping[str, float], values: set[str]) -> dict[str, float]:
    """Return the number of each label as float."""
    scores = {
        text_of(name) or "": checks.real(
            Argument("outcome", (str(name),)), value, -LARGEST, LARGEST
        )
        for name, value in outcome.items()
    }
    if values - set(scores):
        raise ArgumentError(
            "must have a number for each label, also for "
            f"{', '.join(sorted(values - set(scores)))}",
            argument="outcome",
        )
    return scores


def group_numbers(
    texts: Population,
    by: str | Sequence[str] | None,
    kept: Ints,
    order: Mapping[str, Sequence[Any]],
) -> tuple[Ints, list[str]]:
    """Return the group number of each kept row, and the groups' names."""
    names = by_columns(by)
    if set(order) - set(names):
        raise ArgumentError(
            f"must name only columns in by, not {with_commas(sorted(order))}",
            argument="order",
            code="unknown_choice",
        )
    numbers = []
    values_of = []
    for name in names:
        known = order.get(name) or frames.categories(texts.frame, name)
        number, values = value_numbers(texts, name, kept, known)
        numbers.append(number)
        values_of.append([text_of(value) or "" for value in values])
    rows = np.array(numbers, dtype=np.int64).reshape(len(names), len(kept)).T
    keys, groups = np.unique(rows, axis=0, return_inverse=True)
    titles = [
        " / ".join(values[i] for values, i in zip(values_of, key, strict=True))
        for key in keys.tolist()
    ]
    return groups.reshape(-1).astype(np.int64), titles


def value_numbers(
    texts: Population, name: str, kept: Ints, known: Sequence[Any] | None = None
) -> tuple[Ints, list[Any]]:
    """Number the values of a column in the kept rows; return numbers and values."""
    column = frames.column(texts.frame, name, "by")
    values = [column[i] for i in kept]
    ordered = list(dict.fromkeys(values))
    if known is not None:
        missing = [value for value in ordered if value not in known]
        if missing:
            raise ArgumentError(
                f"of {name!r} lacks {checks.brief(missing[0])}", argument="order"
            )
        ordered = [value for value in known if value in ordered]
    else:
        try:
            ordered.sort()
        except TypeError:  # values of several types
            ordered.sort(key=str)
    index_of = {value: i for i, value in enumerate(ordered)}
    return np.array([index_of[value] for value in values], dtype=np.int64), ordered


def in_one_form(
    texts: Population, gold: GoldSample | Sequence[Any], *, several: bool
) -> tuple[Population, GoldSample | list[str | None], bool]:
    """Convert labels and codes to texts; also return True if they are measurements."""
    if isinstance(gold, GoldSample):
        people, coders, allowed = gold.codes, gold.coders, gold.names
    else:
        people, coders, allowed = [list(gold)], ["gold"], texts.names
    _check_coding(texts, gold, people)
    if several:
        sets = sets_of([texts.labels, *people], texts.names, coders, allowed)
        columns: list[list[Any]] = [
            [None if labels is None else joined_labels(labels) for labels in column]
            for column in sets
        ]
        measured = False
    else:
        raw = _raw_labels(texts)
        measured = are_measured(raw)
        known = () if measured else _known_names(texts, gold)
        columns = read([raw, *people], known, argument="gold").columns
        names = () if measured else known or texts.names
        _check_common(columns[0], columns[1:], names, is_measured=measured)
        check_coders(columns[0], columns[1:], coders, [*names, *allowed])
    labels, *codes = [[text_of(value) for value in column] for column in columns]
    texts = replace(texts, labels=labels)
    if isinstance(gold, GoldSample):
        return texts, replace(gold, codes=codes), measured
    return texts, codes[0], measured


def note_on_undeclared(
    texts: Population, gold: GoldSample | Sequence[Any], *, several: bool
) -> list[str]:
    """Return a note on codes that are not among the labels that the user declared."""
    known = {text_of(name) for name in _known_names(texts, gold)}
    if several or not known or are_measured(_raw_labels(texts)):
        return []
    people = gold.codes if isinstance(gold, GoldSample) else [list(gold)]
    rows = list(zip(*people, strict=True))
    other = {code for row in rows for code in row} - known - {None}
    if not other:
        return []
    n = sum(bool(other.intersection(row)) for row in rows)
    return [note("undeclared", n=n, codes=_some(other))]


def _check_coding(
    texts: Population, gold: GoldSample | Sequence[Any], people: Sequence[Sequence[Any]]
) -> None:
    """Refuse labels that were edited for the coded texts after the model gave them.

    For a sample that was drawn with labels, `Join` makes the same check.
    """
    data = texts.data
    if not isinstance(data, Coded) or texts.label_column != data.columns.get("label"):
        return
    rows = gold.rows if isinstance(gold, GoldSample) else range(len(texts))
    check_relabelled(
        marks_of(label_forms(data.labels)),
        marks_of(label_forms(texts.labels)),
        [
            row
            for row, codes in zip(rows, zip(*people, strict=True), strict=True)
            if any(text_of(code) is not None for code in codes)
        ],
        None,
        "in the coding",
    )


def _raw_labels(texts: Population) -> list[Any]:
    if texts.label_column is None:
        return list(texts.labels)
    return frames.column(texts.frame, texts.label_column, "label")


def _known_names(texts: Population, gold: object) -> Sequence[Any]:
    """Return the list of labels that the user declared, () if there is none.

    The list decides whether labels that differ only in case are different labels.
    """
    if isinstance(gold, GoldSample) and gold.names:
        return gold.names
    if isinstance(texts.data, Coded):
        return texts.data.names
    if texts.label_column is None:
        return ()
    return frames.categories(texts.frame, texts.label_column) or ()


def _check_common(
    labels: Sequence[Any],
    people: Sequence[Sequence[Any]],
    known: Sequence[Any],
    *,
    is_measured: bool,
) -> None:
    used = {label for label in labels if label is not None}
    codes = {code for column in people for code in column if code is not None}
    if is_measured:
        odd = sorted(str(code) for code in codes if number_in(str(code)) is None)
        if odd:
            raise ArgumentError(
                f"must have numbers, as the labels are, not {checks.quoted(odd[0])}",
                argument="gold",
            )
    elif used and codes and not are_alike(used, codes, known):
        raise ArgumentError(
            f"has none of the labels {_some(used)} among its codes {_some(codes)}: "
            "write labels and codes alike",
            argument="gold",
        )


def _some(values: set[Any]) -> str:
    return with_commas(sorted(map(str, values)), 6)
