"""Conversion of labels and codes to one form, in which equal values are equal texts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from llamaherd.core import checks
from llamaherd.core.errors import ArgumentError
from llamaherd.core.plurals import count_of
from llamaherd.research import frames
from llamaherd.research.codes import (
    are_alike,
    are_measured,
    check_coders,
    check_spelling,
    number_in,
    read,
    read_sets,
    text_of,
)
from llamaherd.research.coding.coded import Coded
from llamaherd.research.coding.joins import label_forms
from llamaherd.research.coding.label_sets import (
    BETWEEN,
    in_order,
    joined,
    words_for_none,
)
from llamaherd.research.coding.source import check_relabelled, marks_of
from llamaherd.research.estimation.gold_drawn import GoldSample

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.research.estimation.population import Population


def in_one_form(
    texts: Population,
    gold: GoldSample | Sequence[Any],
    *,
    several: bool,
) -> tuple[Population, GoldSample | list[str | None], bool]:
    """Convert labels and codes to texts; also return True if they are measurements.

    Args:
        texts: Texts with their labels.
        gold: A sample of these texts, or a list with one code for each text.
        several: True if a text may have several labels, joined to one string.

    Raises:
        ValueError: A code differs from a label only in case or whitespace; or labels and
            codes, or the codes of one of several coders, have no value in common.
    """
    people = gold.codes if isinstance(gold, GoldSample) else [list(gold)]
    _check_coding(texts, gold, people)
    if several:
        made = read_sets(
            [texts.labels, *people],
            texts.names,
            BETWEEN,
            words_for_none(texts.names),
            argument="gold",
        )
        columns: list[list[Any]] = [
            [
                None if each is None else joined(in_order(map(str, each), texts.names))
                for each in column
            ]
            for column in made
        ]
        measured = False
        _check_parts(made, texts, gold)
    else:
        raw = _raw_labels(texts)
        measured = are_measured(raw)
        known = () if measured else _known_names(texts, gold)
        columns = read([raw, *people], known, argument="gold").columns
        names = () if measured else known or texts.names
        _check_common(columns[0], columns[1:], names, is_measured=measured)
        if isinstance(gold, GoldSample):
            check_coders(columns[0], columns[1:], gold.coders, names)
        elif not measured:
            check_spelling(columns[1:], {*columns[0], *names, *texts.names})
    labels, *codes = [[text_of(each) for each in column] for column in columns]
    texts = replace(texts, labels=labels)
    if isinstance(gold, GoldSample):
        return texts, replace(gold, codes=codes), measured
    return texts, codes[0], measured


def undeclared(
    texts: Population, gold: GoldSample | Sequence[Any], *, several: bool
) -> list[str]:
    """Return a note on codes that are not among the labels that the user declared.

    Args:
        texts: Texts with their labels.
        gold: See `in_one_form`, which has converted the codes.
        several: See `in_one_form`.
    """
    known = {text_of(name) for name in _known_names(texts, gold)}
    if several or not known or are_measured(_raw_labels(texts)):
        return []
    people = gold.codes if isinstance(gold, GoldSample) else [list(gold)]
    rows = list(zip(*people, strict=True))
    other = {code for row in rows for code in row} - known - {None}
    if not other:
        return []
    n = sum(bool(other.intersection(row)) for row in rows)
    note = (
        f"People gave {count_of(n, 'text')} a code that is not among the labels "
        f"({_some(other)}): estimates treat it as one more label, which the model never "
        "gives"
    )
    return [note]


def _check_coding(
    texts: Population, gold: GoldSample | Sequence[Any], people: Sequence[Sequence[Any]]
) -> None:
    """Refuse labels that were edited for the coded texts after the model gave them.

    For a sample that was drawn with labels, `current_rows` makes the same check.
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


def _check_parts(
    columns: Sequence[Sequence[tuple[Any, ...] | None]],
    texts: Population,
    gold: GoldSample | Sequence[Any],
) -> None:
    """Check codes with several labels each, by their single labels."""
    if isinstance(gold, GoldSample):
        labels, *people = [
            [label for each in column for label in each or ()] for column in columns
        ]
        check_coders(labels, people, gold.coders, [*texts.names, *gold.names])


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
    there = {each for each in labels if each is not None}
    codes = {code for column in people for code in column if code is not None}
    if is_measured:
        odd = sorted(str(each) for each in codes if number_in(str(each)) is None)
        if odd:
            raise ArgumentError(
                f"must have numbers, as the labels are, not {checks.quoted(odd[0])}",
                argument="gold",
            )
    elif there and codes and not are_alike(there, codes, known):
        raise ArgumentError(
            f"has none of the labels {_some(there)} among its codes {_some(codes)}: "
            "write labels and codes alike",
            argument="gold",
        )


def _some(values: set[Any]) -> str:
    texts = sorted(map(str, values))
    return ", ".join(texts[:6]) + (" ..." if len(texts) > 6 else "")
