"""Several labels of a text: each of them is a yes or no of its own."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.research.codes import read_sets
from llamaherd.research.coding.label_sets import (
    BETWEEN,
    in_order,
    joined,
    labels_in,
    majority,
    none_of,
    words_for_none,
)
from llamaherd.research.statistics.agreement import Agreement
from llamaherd.research.validation.compared import with_codes

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from llamaherd.research.codes import Code
    from llamaherd.research.validation.compared import Answers, Codes


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelAgreement:
    """How far coders agree on whether a label applies.

    Attributes:
        label: Which one.
        model: Coefficients between the model and what most people say.
        people: Those between the people; () of one.
    """

    label: Hashable
    model: tuple[Agreement, ...]
    people: tuple[Agreement, ...]


def as_sets(answers: Answers, codes: Codes) -> tuple[Answers, Codes]:
    """Joined labels as tuples, in one order.

    How sure the model is of all labels of a text together is not known.
    """
    names = tuple(map(str, answers.names))

    columns = read_sets(
        [answers.labels, *codes.codes],
        names,
        BETWEEN,
        words_for_none(names),
        argument="gold",
    )
    labels, *made = [
        [None if each is None else in_order(map(str, each), names) for each in column]
        for column in columns
    ]
    answers = replace(
        answers, labels=list(labels), names=names, probs=None, confidence=None
    )
    return answers, with_codes(codes, made)


def names_of(answers: Answers, codes: Codes) -> list[Hashable]:
    """All labels: the known ones, then others that occur."""
    columns: Any = [answers.labels, *codes.codes]
    seen = {label for column in columns for each in column for label in each or ()}
    return [*answers.names, *sorted(seen.difference(answers.names))]


def majority_of(codes: Sequence[Any], names: Sequence[Any]) -> tuple[list[Code], int]:
    """What most coders say of each label; None where that is a tie, and how many are."""
    right: list[Code] = []
    n_ties = 0
    for given in zip(*codes, strict=True):
        said = [each for each in given if each is not None]
        more, half = majority(said)
        n_ties += bool(half)
        right.append(None if half or not said else labels_in(joined(more), names))
    return right, n_ties


def told(label: Any, names: Sequence[Any]) -> Any:  # noqa: ANN401 - a tuple, or None
    """A tuple of labels in words."""
    return None if label is None else joined(label) or none_of(map(str, names))


def yes_or_no(name: Hashable, codes: Sequence[Any]) -> list[list[Code]]:
    """Whether each coder gave each text this label."""
    return [[None if each is None else name in each for each in row] for row in codes]


def by_label(
    given: Sequence[Any],
    right: Sequence[Any],
    people: Sequence[Any],
    names: Sequence[Hashable],
    coefficients: Callable[[Sequence[Sequence[Code]]], tuple[Agreement, ...]],
) -> tuple[LabelAgreement, ...]:
    """Agreement on each label.

    Args:
        given: The model's labels, tuples.
        right: What most people say.
        people: Their codes.
        names: All labels.
        coefficients: Of several coders.
    """
    return tuple(
        LabelAgreement(
            label=name,
            model=coefficients(yes_or_no(name, [given, right])),
            people=coefficients(yes_or_no(name, people)) if len(people) > 1 else (),
        )
        for name in names
    )


def mean_of(found: Sequence[tuple[Agreement, ...]]) -> tuple[Agreement, ...]:
    """Each coefficient's mean over the labels that have one, without an interval."""
    made = []
    for same in zip(*found, strict=True):
        known = [each for each in same if not math.isnan(each.value)]
        means = [
            float(np.mean([getattr(each, name) for each in known])) if known else math.nan
            for name in ("value", "observed", "expected")
        ]
        made.append(
            Agreement(
                name=same[0].name,
                value=means[0],
                low=math.nan,
                high=math.nan,
                se=math.nan,
                observed=means[1],
                expected=means[2],
                n_units=same[0].n_units,
                n_coders=same[0].n_coders,
                interval="none, the mean over labels",
            )
        )
    return tuple(made)
