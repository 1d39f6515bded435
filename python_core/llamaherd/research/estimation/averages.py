"""One number of a text that several people coded: the mean of their numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from llamaherd.research.estimation.outcomes import scores_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.research.estimation.gold_use import GoldUsed
    from llamaherd.research.estimation.outcomes import Outcome


def all_codes(samples: Sequence[GoldUsed]) -> set[str]:
    """Return the codes of all samples, and all codes of single coders."""
    codes = {code for each in samples for code in each.codes}
    return codes.union(*(given for each in samples for given in each.given))


def averaged_samples(
    samples: list[GoldUsed], outcome: Outcome | None, *, several: bool
) -> tuple[list[GoldUsed], Outcome | None]:
    """Return samples with the mean number of each text's codes, and the outcome.

    Nothing is averaged if the outcome is not numbers of labels, or if the samples are
    draws from a model of the coders, which decides on one code of each text.

    Args:
        samples: One sample; or several draws of the right codes.
        outcome: See `estimate`; for means a mapping from labels to numbers.
        several: True if a text may have several labels.

    Raises:
        ValueError: A code of one of several coders has no number.
    """
    if len(samples) > 1 or several or not isinstance(outcome, Mapping):
        return samples, outcome
    people = {code for given in samples[0].given for code in given}
    used, numbers = averaged(samples[0], scores_of(outcome, people))
    return [used], numbers


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
