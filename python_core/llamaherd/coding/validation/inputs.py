"""Inputs of a validation: model labels and human codes, read from any format."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.coding import frames
from llamaherd.coding.codes import (
    Code,
    check_coders,
    check_names,
    is_missing,
    numbers_of,
    read,
    text_of,
)
from llamaherd.coding.gold.codes import Codes, codes_of_sample, texts_with_code
from llamaherd.coding.gold.forms import sets_of
from llamaherd.coding.gold.joins import Join, open_parts
from llamaherd.coding.gold.sample import GoldSample
from llamaherd.coding.statistics.ratings import as_list
from llamaherd.engine.core import checks
from llamaherd.engine.core.errors import ArgumentError
from llamaherd.engine.core.phrases import count_of, shape_of, with_commas
from llamaherd.engine.core.words import words

_ROUNDING = 1e-9  # tolerance of sums of probabilities

if TYPE_CHECKING:
    from llamaherd.coding.frames import Input
    from llamaherd.engine.core.arrays import Floats


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ModelLabels:
    """Labels that a model gave to n texts."""

    labels: list[Code]  # n labels; None if a label is missing
    names: tuple[Hashable, ...]  # All labels in their order; () if unknown
    # float64[n, k], label probabilities, one column for each of `names`; None if unknown
    probs: Floats | None
    # float64[n], probability of the given label; NaN if there is no label; None if
    # unknown
    confidence: Floats | None
    texts: list[Any] | None  # n texts; None if unknown
    # float64[n], expected values of labels that are numbers; NaN if there is no label;
    # None if unknown
    expected: Floats | None = None
    examples: tuple[str, ...] = ()  # Texts whose labels the prompt contained as examples


def label_column_of(coded: Input, gold: Input, label: str | None) -> str | None:
    """Return the column of labels; None if `coded` is not a data frame.

    Without `label`, this is the column of labels of the gold sample, else "label", as in
    `estimate`.
    """
    is_frame = isinstance(coded, Mapping) or hasattr(coded, "columns")
    is_result = hasattr(coded, "frame") or hasattr(coded, "names")
    if label is not None or not is_frame or is_result:
        return label
    columns = frames.names(coded)
    design = getattr(gold, "design", None) or {}
    for name in (design.get("label"), "label"):
        if name in columns:
            return str(name)
    raise ArgumentError(
        f"must be the name of the column that has the labels; there are "
        f"{frames.list_columns(coded)}",
        argument="label",
    )


def answers_of(
    coded: Input,
    label: str | None,
    prob: Input,
    names: Input,
    *,
    gold: Input = None,
    several: bool = False,
) -> ModelLabels:
    """Read labels and probabilities from `coded`; `gold` may name the labels, too."""
    frame = getattr(coded, "frame", coded)
    if label is not None:
        labels = frames.column(frame, label, "label")
    elif hasattr(coded, "labels") and not callable(coded.labels):
        if hasattr(coded, "check_frame"):
            coded.check_frame()
        labels = list(coded.labels)
    else:
        labels = _list_of("coded", coded)
    declared = _names_in(coded)
    known = _known_names(names, declared, frame, None if several else label)
    if several:
        labels = [None if is_missing(value) else value for value in labels]
    else:
        reading = read(
            [labels, declared], known, distinct=_names_in(gold), argument="coded"
        )
        labels, known = reading.columns[0], reading.names
        declared = tuple(reading.columns[1])
    if names is not None:
        checks.distinct("labels", known)
    frames.check_index(prob, frame, "prob")
    if isinstance(prob, str):
        prob = frames.column(frame, prob, "prob")
    of = declared if prob is None and declared else known
    prob = getattr(coded, "probs", None) if prob is None else prob
    probs, confidence = _probabilities(prob, labels, of)
    if probs is not None and of != known:
        probs = _in_order_of(known, of, probs)
    text = getattr(coded, "text", None)
    texts = frames.column(frame, text, "text") if isinstance(text, str) else None
    examples = getattr(getattr(coded, "codebook", None), "examples", ())
    return ModelLabels(
        labels=labels,
        names=known,
        probs=probs,
        confidence=confidence,
        texts=texts,
        expected=getattr(coded, "expected", None),
        examples=tuple(example.text for example in examples),
    )


def _names_in(coded: Input) -> tuple[Any, ...]:
    """Return the labels that `coded` defines, or ()."""
    names = getattr(coded, "names", ())
    return tuple(names) if isinstance(names, (tuple, list)) else ()


def _known_names(
    names: Input, declared: tuple[Any, ...], frame: Input, label: str | None
) -> tuple[Any, ...]:
    """Return all labels: those given, those of `coded`, or the column's categories."""
    if names is not None:
        return tuple(_list_of("labels", names))
    if declared or label is None:
        return declared
    return tuple(frames.categories(frame, label) or ())


def _in_order_of(
    known: Sequence[Hashable], declared: Sequence[Hashable], probs: Floats
) -> Floats | None:
    """Return probabilities of `declared` as those of `known`; None if labels differ."""
    if set(known) != set(declared):
        return None
    return probs[:, [declared.index(name) for name in known]]


def _probabilities(
    prob: Input, labels: list[Code], names: tuple[Hashable, ...]
) -> tuple[Floats | None, Floats | None]:
    if prob is None:
        return None, None
    values = numbers_of(prob, "prob")
    if values.shape[:1] != (len(labels),) or values.ndim > 2:
        raise ArgumentError(
            f"must have a value, or a row, for each of {count_of(len(labels), 'text')}, "
            f"not {shape_of(values.shape)}",
            argument="prob",
        )
    is_bad = (values < -_ROUNDING) | (values > 1 + _ROUNDING)
    for row in np.flatnonzero(is_bad.any(axis=tuple(range(1, values.ndim))))[:1]:
        raise ArgumentError(
            f"must be between 0 and 1, not {values[row][is_bad[row]].flat[0]:g}",
            argument="prob",
            place=(int(row),),
            code="out_of_range",
        )
    if values.ndim == 1:
        return None, values
    if values.shape[1] != len(names):
        raise ArgumentError(
            f"must have a column for each label ({with_commas(names) or 'none'}), not "
            f"{values.shape[1]}",
            argument="prob",
        )
    at = {name: j for j, name in enumerate(names)}
    columns = np.array([at.get(label, -1) for label in labels], dtype=int)
    of_labels = (
        values[np.arange(len(labels)), columns] if names else np.zeros(len(labels))
    )
    return values, np.where(columns >= 0, of_labels, np.nan)


def codes_of(gold: Input, truth: Input, coded: Input, answers: ModelLabels) -> Codes:
    """Read human codes from `gold`, or from columns of `coded`."""
    if isinstance(gold, Codes):
        return gold
    n = len(answers.labels)
    if (gold is None) == (truth is None):
        raise ArgumentError(
            "must have people's codes, or truth must name the column that has "
            "them; give one of the two",
            argument="gold",
        )
    if isinstance(gold, str):
        gold, truth = None, gold
    if isinstance(gold, GoldSample):
        frame, labels = getattr(coded, "frame", coded), answers.labels
        gold = open_parts(gold)
        gold = gold.coded_waves() if gold.waves else gold
        join = Join.of(gold, frame, n, texts=answers.texts, labels=labels)
        return _of_sample(*join.matched(list(map(text_of, labels))))
    frames.check_index(gold, getattr(coded, "frame", coded), "gold")
    if gold is None:
        names = [truth] if isinstance(truth, str) else _list_of("truth", truth)
        frame = getattr(coded, "frame", coded)
        by_coder = {name: frames.column(frame, name, "truth") for name in names}
    elif isinstance(gold, Mapping) or hasattr(gold, "columns"):
        by_coder = {
            name: frames.column(gold, name, "gold") for name in frames.names(gold)
        }
    else:
        rows = _list_of("gold", gold)
        is_nested = bool(rows) and all(
            isinstance(row, (list, tuple, np.ndarray)) for row in rows
        )
        rows = [_list_of("gold", row) for row in rows] if is_nested else [rows]
        by_coder = {f"coder {i + 1}": row for i, row in enumerate(rows)}
    return _of_columns(by_coder, n)


def in_one_form(
    answers: ModelLabels, codes: Codes, *, several: bool
) -> tuple[ModelLabels, Codes]:
    """Convert labels and codes so that equal values compare equal and have one type.

    Several labels become tuples in a fixed order, without the confidence: the probability
    of a set of labels is unknown.
    """
    if several:
        names = tuple(map(str, answers.names))
        columns = [answers.labels, *codes.columns]
        sets, *people = sets_of(columns, names, codes.coders, codes.names)
        answers = replace(
            answers, labels=list(sets), names=names, probs=None, confidence=None
        )
        return answers, codes.with_columns(people)
    reading = read(
        [answers.labels, *codes.columns],
        answers.names,
        distinct=codes.names,
        argument="gold",
    )
    labels, *columns = reading.columns
    check_coders(labels, columns, codes.coders, [*reading.names, *codes.names])
    answers = replace(answers, labels=labels, names=reading.names)
    return answers, codes.with_columns(columns)


def _of_columns(by_coder: Mapping[Any, Sequence[Any]], n: int) -> Codes:
    if not by_coder:
        raise ArgumentError("must have codes of people", argument="gold", code="missing")
    check_names(by_coder)
    for coder, column in by_coder.items():
        if len(column) != n:
            raise ArgumentError(
                f"must have a code, or {words().missing}, for each of "
                f"{count_of(n, 'text')}, not {len(column)} of {checks.quoted(coder)}",
                argument="gold",
            )
    columns = [
        [None if is_missing(code) else code for code in column]
        for column in by_coder.values()
    ]
    rows = texts_with_code(columns)
    return Codes(
        rows=rows,
        probs=np.ones(len(rows)),
        columns=[[column[i] for i in rows] for column in columns],
        coders=tuple(str(coder) for coder in by_coder),
    )


def _of_sample(gold: GoldSample, notes: list[str]) -> Codes:
    if not gold.codes:
        raise ArgumentError(
            "must have codes of people; the sample has none yet", argument="gold"
        )
    if any(len(column) != len(gold) for column in gold.codes):
        raise ArgumentError(
            "must have as many codes for each coder as it has rows", argument="gold"
        )
    codes = codes_of_sample(gold, has_empty_strata=True)
    # A validation has its own sentence on codes that are missing at random.
    response = codes.notes if codes.is_by_label else codes.notes[1:]
    return replace(codes, notes=[*response, *notes])


def _list_of(argument: str, values: Input) -> list[Any]:
    return as_list(argument, "must be a list", values)
