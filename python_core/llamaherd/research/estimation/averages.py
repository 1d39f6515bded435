"""One number of a text that several people coded: the mean of their numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from llamaherd.research.estimation.outcomes import scores_of

if TYPE_CHECKING:
    from llamaherd.research.estimation.gold_use import GoldUsed
    from llamaherd.research.estimation.outcomes import Outcome


def all_codes(used: GoldUsed) -> set[str]:
    """Return the codes of a sample, and all codes of single coders."""
    return {*used.codes, *(code for given in used.given for code in given)}


def averaged_sample(
    used: GoldUsed, outcome: Outcome | None, *, several: bool
) -> tuple[GoldUsed, Outcome | None]:
    """Return the sample with the mean number of each text's codes, and the outcome.

    Nothing is averaged if the outcome is not numbers of labels.

    Args:
        used: The sample.
        outcome: See `estimate`; for means a mapping from labels to numbers.
        several: True if a text may have several labels.

    Raises:
        ValueError: A code of one of several coders has no number.
    """
    if several or not isinstance(outcome, Mapping):
        return used, outcome
    return averaged(used, scores_of(outcome, all_codes(replace(used, codes=[]))))


def averaged(
    used: GoldUsed, scores: Mapping[str, float]
) -> tuple[GoldUsed, dict[str, float]]:
    """Return the sample with the mean number of each text's codes, and all numbers.

    Args:
        used: The sample, with the codes of all coders.
        scores: Number of each label and code.
    """
    known = dict(scores)
    codes = list(used.codes)
    for i, given in enumerate(used.given):
        numbers = [scores[code] for code in given]
        if len({*numbers}) < 2:
            continue
        mean = sum(numbers) / len(numbers)
        codes[i] = _name_of(mean, known)
        known[codes[i]] = mean
    return replace(used, codes=codes, notes=used.notes_without_ties), known


def _name_of(number: float, known: Mapping[str, float]) -> str:
    """Return a name of a number that no label with another number has."""
    name = repr(number)
    while known.get(name, number) != number:
        name += " "
    return name
