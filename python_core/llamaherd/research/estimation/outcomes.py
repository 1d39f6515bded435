"""Outcomes and groups of estimates: shares of labels, or means of numbers, by columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.core import checks
from llamaherd.core.argument import Argument
from llamaherd.core.errors import ArgumentError
from llamaherd.core.plurals import with_commas
from llamaherd.research import frames
from llamaherd.research.codes import number_in, text_of
from llamaherd.research.coding.label_sets import BETWEEN
from llamaherd.research.estimation.population import named
from llamaherd.research.statistics.intervals import NO_LIMITS

if TYPE_CHECKING:
    from llamaherd.research.estimation.population import Population
    from llamaherd.research.statistics.sampling import Floats, Ints


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
    outcome: Outcome | None, there: set[str], *, by_default: bool
) -> Outcome | None:
    """Map labels to numbers if a mean is estimated; otherwise return the outcome.

    Args:
        outcome: See `estimate`.
        there: All labels and codes that occur.
        by_default: True if the outcome None stands for the mean.

    Raises:
        ValueError: `outcome` is "mean", but a label is not a number; or "quantile".
    """
    asked = _asked(outcome)
    if asked == "quantile" and asked not in there:
        raise ArgumentError(
            f"{asked!r} {OTHER_QUANTILES}", argument="outcome", code="removed"
        )
    is_asked = asked in {MEAN, MEDIAN} and asked not in there
    if not is_asked and not (outcome is None and by_default):
        return outcome
    numbers = {each: number_in(each) for each in there}
    odd = sorted(each for each, number in numbers.items() if number is None)
    if odd:
        raise ArgumentError(
            f"{asked or MEAN!r} needs labels that are numbers, not "
            f"{checks.quoted(odd[0])}",
            argument="outcome",
            code="wrong_type",
            form="{name} {problem}",
        )
    return {each: float(number) for each, number in numbers.items() if number is not None}


def limits_of(
    given: Outcome | None,
    scores: Outcome | None,
    names: Sequence[str],
    *,
    is_scale: bool,
) -> tuple[float, float]:
    """Return the smallest and the largest possible mean; infinite if unknown.

    Args:
        given: Outcome by the user: numbers for all labels are the only possible numbers.
        scores: Outcome by `number_outcome`.
        names: Labels that codes may have.
        is_scale: True if the labels are the numbers of a declared scale.
    """
    if not isinstance(scores, Mapping):
        return NO_LIMITS
    known = [float(score) for score in scores.values()]
    if not isinstance(given, Mapping):
        numbers = [number_in(name) for name in names]
        declared = [float(each) for each in numbers if each is not None]
        if not is_scale or len(declared) < max(len(numbers), 1):
            return NO_LIMITS
        known += declared
    return (min(known), max(known))


def asks_median(outcome: Outcome | None, there: set[str]) -> bool:
    """Return True if an outcome asks for the median of numeric labels."""
    return _asked(outcome) == MEDIAN and MEDIAN not in there


def _asked(outcome: Outcome | None) -> str:
    """Return the outcome if it is a single text, else ""."""
    given = list(outcome) if isinstance(outcome, (list, tuple)) else [outcome]
    return given[0] if len(given) == 1 and isinstance(given[0], str) else ""


def shares_or_scores(
    outcome: Outcome | None,
    texts: Population,
    labels: Sequence[str],
    codes: Sequence[str],
    *,
    several: bool,
    shares: Callable[[str], Floats] | None = None,
) -> tuple[str, list[Numbers]]:
    """Return outcomes of texts and codes as numbers, and the term "share" or "mean".

    Args:
        outcome: See `estimate`.
        texts: Texts with labels.
        labels: N labels.
        codes: n codes.
        several: True if a text may have several labels, joined.
        shares: Function that returns the probability of a label in each text, float64[N];
            None to use the labels.

    Raises:
        ValueError: A label does not exist, or has no number.
    """
    if isinstance(outcome, Mapping):
        if several:
            raise ArgumentError(
                "must be labels, not numbers of labels: a text may have several labels",
                argument="outcome",
            )
        scores = scores_of(outcome, {*labels, *codes})
        of_labels = np.array([scores[label] for label in labels])
        if shares is not None:
            of_labels = sum(
                (score * shares(name) for name, score in scores.items()),
                np.zeros(len(labels)),
            )
        of_codes = np.array([scores[code] for code in codes])
        return "mean", [("score", of_labels, of_codes)]
    of_texts = [labels_of(each, several=several) for each in labels]
    of_people = [labels_of(each, several=several) for each in codes]
    there = frozenset().union(*of_texts, *of_people)
    return "share", [
        (
            name,
            _has(of_texts, name) if shares is None else shares(name),
            _has(of_people, name),
        )
        for name in checked_labels(outcome, texts, there)
    ]


def checked_labels(
    outcome: str | Sequence[str] | None, texts: Population, there: frozenset[str]
) -> list[str]:
    """Return the labels whose shares are estimated; all labels without an outcome.

    Raises:
        ValueError: A label does not exist.
    """
    if outcome is None:
        known = [name for name in texts.names if name in there]
        return known + sorted(there.difference(known))
    is_one = isinstance(outcome, str) or not isinstance(outcome, Iterable)
    names = [text_of(each) or "" for each in ([outcome] if is_one else outcome)]
    for name in names:
        if name not in there:
            raise ArgumentError(
                f"must be among the labels {', '.join(sorted(there))}, not "
                f"{checks.shown(name)}"
                f"{checks.meant(name, there)}",
                argument="outcome",
            )
    return names


def scores_of(outcome: Mapping[str, float], there: set[str]) -> dict[str, float]:
    """Return the number of each label as float.

    Raises:
        ValueError: A label that occurs has no number, or its number is not finite.
    """
    scores = {
        text_of(name) or "": checks.real(
            Argument("outcome", (str(name),)), value, -1e300, 1e300
        )
        for name, value in outcome.items()
    }
    if there - set(scores):
        raise ArgumentError(
            "must have a number for each label, also for "
            f"{', '.join(sorted(there - set(scores)))}",
            argument="outcome",
        )
    return scores


def _has(given: Sequence[frozenset[str]], name: str) -> Floats:
    return np.array([name in labels for labels in given], dtype=np.float64)


def grouped(
    texts: Population,
    by: str | Sequence[str] | None,
    kept: Ints,
    order: Mapping[str, Sequence[Any]],
) -> tuple[Ints, list[str]]:
    """Return the group number of each kept row, and the groups' names.

    Raises:
        ValueError: `order` names columns that are not in `by`, or lacks a value.
    """
    names = named(by)
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
        number, values = numbered(texts, name, kept, known)
        numbers.append(number)
        values_of.append([text_of(value) or "" for value in values])
    rows = np.array(numbers, dtype=np.int64).reshape(len(names), len(kept)).T
    keys, groups = np.unique(rows, axis=0, return_inverse=True)
    titles = [
        " / ".join(values[i] for values, i in zip(values_of, key, strict=True))
        for key in keys.tolist()
    ]
    return groups.reshape(-1).astype(np.int64), titles


def numbered(
    texts: Population, name: str, kept: Ints, known: Sequence[Any] | None = None
) -> tuple[Ints, list[Any]]:
    """Number the values of a column in the kept rows; return numbers and values.

    Raises:
        ValueError: The column does not exist, or a value is not in `known`.
    """
    column = frames.column(texts.frame, name, "by")
    values = [column[i] for i in kept]
    there = list(dict.fromkeys(values))
    if known is not None:
        missing = [value for value in there if value not in known]
        if missing:
            raise ArgumentError(
                f"of {name!r} lacks {checks.shown(missing[0])}", argument="order"
            )
        there = [value for value in known if value in there]
    else:
        try:
            there.sort()
        except TypeError:  # values of several types
            there.sort(key=str)
    index_of = {value: i for i, value in enumerate(there)}
    return np.array([index_of[value] for value in values], dtype=np.int64), there
