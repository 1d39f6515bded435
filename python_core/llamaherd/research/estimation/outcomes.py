"""What of labels and codes is estimated: shares of some, or a mean of numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from llamaherd.core import checks
from llamaherd.research.codes import text_of
from llamaherd.research.coding.label_sets import BETWEEN

if TYPE_CHECKING:
    from llamaherd.research.estimation.gold_data import Population
    from llamaherd.research.statistics.sampling import Floats

Outcome = str | Sequence[str] | Mapping[str, float]
Numbers = tuple[str, "Floats", "Floats"]  # a name, of N texts, of n codes


def labels_of(text: str, *, several: bool) -> frozenset[str]:
    """The labels that a text was given: one, or of several all that were joined."""
    if not several:
        return frozenset((text,))
    return frozenset(part.strip() for part in text.split(BETWEEN)) - {""}


def shares_or_scores(
    outcome: Outcome | None,
    texts: Population,
    labels: Sequence[str],
    codes: Sequence[str],
    *,
    several: bool,
) -> tuple[str, list[Numbers]]:
    """Outcomes of texts and codes as numbers, and what their mean is called.

    Args:
        outcome: See `estimate`.
        texts: Whose labels they are.
        labels: N.
        codes: n.
        several: Whether each may be several, joined.

    Raises:
        ValueError: There is no such label, or no number for one.
    """
    if isinstance(outcome, Mapping):
        if several:
            raise ValueError(
                "outcome must be labels, not numbers for them: a text may have several"
            )
        scores = _scores(outcome, {*labels, *codes})
        of_labels = np.array([scores[label] for label in labels])
        of_codes = np.array([scores[code] for code in codes])
        return "mean", [("score", of_labels, of_codes)]
    of_texts = [labels_of(each, several=several) for each in labels]
    of_people = [labels_of(each, several=several) for each in codes]
    there = frozenset().union(*of_texts, *of_people)
    return "share", [
        (name, _has(of_texts, name), _has(of_people, name))
        for name in wanted(outcome, texts, there)
    ]


def wanted(
    outcome: str | Sequence[str] | None, texts: Population, there: frozenset[str]
) -> list[str]:
    """The labels whose shares are estimated; without an outcome all that there are.

    Raises:
        ValueError: There is no such one.
    """
    if outcome is None:
        known = [name for name in texts.names if name in there]
        return known + sorted(there.difference(known))
    is_one = isinstance(outcome, str) or not isinstance(outcome, Iterable)
    names = [text_of(each) or "" for each in ([outcome] if is_one else outcome)]
    for name in names:
        if name not in there:
            raise ValueError(
                f"outcome must be among the labels {', '.join(sorted(there))}, not "
                f"{checks.shown(name)}"
                f"{checks.meant(name, there)}"
            )
    return names


def _scores(outcome: Mapping[str, float], there: set[str]) -> dict[str, float]:
    scores = {
        text_of(name) or "": checks.real(f"outcome[{name!r}]", value, -1e300, 1e300)
        for name, value in outcome.items()
    }
    if there - set(scores):
        raise ValueError(
            "outcome must have a number for each label, also for "
            f"{', '.join(sorted(there - set(scores)))}"
        )
    return scores


def _has(given: Sequence[frozenset[str]], name: str) -> Floats:
    return np.array([name in labels for labels in given], dtype=np.float64)
