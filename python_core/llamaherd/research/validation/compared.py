"""What is compared: labels of a model, codes of people, in whatever form they come."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.research import frames
from llamaherd.research.coding.joins import Rows, places_of
from llamaherd.research.statistics.ratings import is_missing, listed

if TYPE_CHECKING:
    from llamaherd.research.statistics.ratings import Code, Floats


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Answers:
    """The labels of n texts by a model.

    Attributes:
        labels: n labels; None is missing.
        names: All labels in their order; () if that is not known.
        probs: float64[n, k], a column for each of `names`; None: not known.
        confidence: float64[n], probability of the label given, NaN where there is none;
            None: not known.
        texts: n texts; None: not known.
        examples: Texts whose labels the model was told.
    """

    labels: list[Code]
    names: tuple[Hashable, ...]
    probs: Floats | None
    confidence: Floats | None
    texts: list[Any] | None
    examples: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Codes:
    """What m people said of g of the texts.

    Attributes:
        rows: g places of these texts.
        codes: For each of m coders g codes; None is missing.
        coders: Their m names.
        inclusion: float64[g], probability with which each text was drawn; None: it is not
            known, or all were.
        is_sample: Whether they were drawn, so that probabilities should be known.
        n_without: Texts of the sample that nobody coded.
        design: How they were drawn; None: not known.
    """

    rows: list[int]
    codes: list[list[Code]]
    coders: tuple[str, ...]
    inclusion: Floats | None
    is_sample: bool
    n_without: int = 0
    design: dict[str, Any] | None = None


def answers_of(coded: Any, label: str | None, prob: Any, names: Any) -> Answers:  # noqa: ANN401 - of many kinds
    """The labels in `coded`.

    Args:
        coded: What has `labels`, as `Coded` and `ClassifyResults`; a data frame; or
            labels.
        label: Name of the column of labels, for a data frame.
        prob: Name of the column of their probability, float[n] of these, or float[n, k]
            of all labels; None: those of `coded`, if any.
        names: All labels in their order; None: those of `coded`, if any.

    Raises:
        TypeError: `coded` is nothing of that.
        ValueError: A column is not there, or lengths do not fit.
    """
    frame = getattr(coded, "frame", coded)
    if label is not None:
        labels = frames.column(frame, label, "label")
    elif hasattr(coded, "labels") and not callable(coded.labels):
        labels = list(coded.labels)
    elif isinstance(coded, Mapping) or hasattr(coded, "columns"):
        raise ValueError(
            "label must be the name of the column that has the labels; there are "
            f"{frames.names(coded)[:20]}"
        )
    else:
        labels = _listed("coded", coded)
    labels = [None if is_missing(each) else each for each in labels]
    known = tuple(
        getattr(coded, "names", ()) if names is None else _listed("labels", names)
    )
    frames.check_index(prob, frame, "prob")
    if prob is None:
        prob = getattr(coded, "probs", None)
    elif isinstance(prob, str):
        prob = frames.column(frame, prob, "prob")
    probs, confidence = _probabilities(prob, labels, known)
    text = getattr(coded, "text", None)
    texts = frames.column(frame, text, "text") if isinstance(text, str) else None
    examples = getattr(getattr(coded, "codebook", None), "examples", ())
    return Answers(
        labels=labels,
        names=known,
        probs=probs,
        confidence=confidence,
        texts=texts,
        examples=tuple(each.text for each in examples),
    )


def _probabilities(
    prob: Any,  # noqa: ANN401 - whatever numpy makes an array of
    labels: list[Code],
    names: tuple[Hashable, ...],
) -> tuple[Floats | None, Floats | None]:
    if prob is None:
        return None, None
    values = np.array(prob, dtype=float)  # None becomes NaN
    if values.shape[:1] != (len(labels),) or values.ndim > 2:
        raise ValueError(
            f"prob must have a value, or a row, for each of {len(labels)} texts, not the "
            f"shape {values.shape}"
        )
    if values.ndim == 1:
        return None, values
    if values.shape[1] != len(names):
        raise ValueError(
            f"prob must have a column for each of the labels {list(names)[:10]}, not "
            f"{values.shape[1]}"
        )
    at = {name: j for j, name in enumerate(names)}
    columns = np.array([at.get(label, -1) for label in labels], dtype=int)
    own = values[np.arange(len(labels)), columns] if names else np.zeros(len(labels))
    return values, np.where(columns >= 0, own, np.nan)


def codes_of(
    gold: Any,  # noqa: ANN401 - of many kinds
    truth: Any,  # noqa: ANN401 - of many kinds
    coded: Any,  # noqa: ANN401 - of many kinds
    answers: Answers,
) -> Codes:
    """People's codes in `gold`, or in columns of `coded`.

    Args:
        gold: What has `rows`, `codes` and `probs`, as `GoldSample`; codes of all n texts;
            several people's as a mapping by coder or a list of lists; None: `truth`.
        truth: Name of the column, or columns, of `coded` that have them.
        coded: What `answers_of` takes.
        answers: What that made of it.

    Raises:
        TypeError: `gold` is nothing of that.
        ValueError: A column is not there, or lengths do not fit; or `gold` was drawn from
            other rows than these, or in another order.
    """
    n = len(answers.labels)
    if (gold is None) == (truth is None):
        raise ValueError(
            "gold must have people's codes, or truth the name of the column that has "
            "them: one of both"
        )
    if hasattr(gold, "rows") and hasattr(gold, "codes"):
        frame = getattr(coded, "frame", coded)
        data = Rows.of(gold, frame, n, texts=answers.texts, labels=answers.labels)
        return _of_sample(gold, n, places_of(gold, data))
    frames.check_index(gold, getattr(coded, "frame", coded), "gold")
    if gold is None:
        names = [truth] if isinstance(truth, str) else _listed("truth", truth)
        frame = getattr(coded, "frame", coded)
        by_coder = {name: frames.column(frame, name, "truth") for name in names}
    elif isinstance(gold, Mapping) or hasattr(gold, "columns"):
        by_coder = {
            name: frames.column(gold, name, "gold") for name in frames.names(gold)
        }
    else:
        rows = _listed("gold", gold)
        is_nested = bool(rows) and all(
            isinstance(row, (list, tuple, np.ndarray)) for row in rows
        )
        rows = [_listed("gold", row) for row in rows] if is_nested else [rows]
        by_coder = {f"coder {i + 1}": row for i, row in enumerate(rows)}
    return _of_columns(by_coder, n)


def in_one_form(answers: Answers, codes: Codes) -> tuple[Answers, Codes]:
    """Labels that are numbers beside codes that are texts: as numbers, else as texts.

    Codes that people wrote into a file are texts.
    """
    labels = [label for label in answers.labels if label is not None]
    given = [code for column in codes.codes for code in column if code is not None]
    are_numbers = all(isinstance(label, Real) for label in labels)
    if not labels or not are_numbers or not all(isinstance(c, str) for c in given):
        return answers, codes
    try:
        made = [[_number_or_none(code) for code in column] for column in codes.codes]
    except ValueError:
        texts = [None if label is None else _as_text(label) for label in answers.labels]
        names = tuple(_as_text(name) for name in answers.names)
        return replace(answers, labels=texts, names=names), codes
    return answers, replace(codes, codes=made)


def _as_text(label: Any) -> Code:  # noqa: ANN401 - a number, or True
    if isinstance(label, (bool, np.bool_)) or not isinstance(label, Real):
        return str(label)
    return f"{float(label):g}"


def _number_or_none(code: Code) -> Code:
    """A code as a number, an int where it is whole.

    Raises:
        ValueError: It is none.
    """
    if code is None:
        return None
    number = float(code)  # type: ignore[arg-type]
    return int(number) if number.is_integer() else number


def _of_columns(by_coder: Mapping[Any, Sequence[Any]], n: int) -> Codes:
    for coder, column in by_coder.items():
        if len(column) != n:
            raise ValueError(
                f"gold must have a code, or None, for each of {n} texts, not "
                f"{len(column)} of {coder!r}"
            )
    columns = [
        [None if is_missing(code) else code for code in column]
        for column in by_coder.values()
    ]
    rows = [i for i in range(n) if any(column[i] is not None for column in columns)]
    return Codes(
        rows=rows,
        codes=[[column[i] for i in rows] for column in columns],
        coders=tuple(str(coder) for coder in by_coder),
        inclusion=None,
        is_sample=False,
    )


def _of_sample(
    gold: Any,  # noqa: ANN401 - GoldSample, or what is like it
    n: int,
    places: Sequence[int] | None,
) -> Codes:
    given = [int(row) if places is None else places[int(row)] for row in gold.rows]
    if given and not 0 <= min(given) <= max(given) < n:
        raise ValueError(
            f"gold must be drawn from these {n} texts, but has the row {max(given)}"
        )
    columns = [
        [None if is_missing(code) else code for code in column] for column in gold.codes
    ]
    if not columns:
        raise ValueError("gold must have codes of people; the sample has none yet")
    if any(len(column) != len(given) for column in columns):
        raise ValueError("gold must have as many codes for each coder as it has rows")
    kept = [
        i for i in range(len(given)) if any(column[i] is not None for column in columns)
    ]
    probs = getattr(gold, "probs", None)
    inclusion = None if probs is None else np.asarray(probs, dtype=float)[kept]
    if inclusion is not None and not ((inclusion > 0) & (inclusion <= 1)).all():
        raise ValueError("gold must have inclusion probabilities above 0, up to 1")
    names = getattr(gold, "coders", None) or [
        f"coder {i + 1}" for i in range(len(columns))
    ]
    return Codes(
        rows=[given[i] for i in kept],
        codes=[[column[i] for i in kept] for column in columns],
        coders=tuple(map(str, names)),
        inclusion=inclusion,
        is_sample=True,
        n_without=len(given) - len(kept),
        design=getattr(gold, "design", None),
    )


def _listed(argument: str, values: Any) -> list[Any]:  # noqa: ANN401 - of any kind
    return listed(f"{argument} must be a list", values)
