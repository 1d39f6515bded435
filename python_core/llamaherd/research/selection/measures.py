"""Measures by which candidates are compared: for labels, or for numbers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from llamaherd.core import checks
from llamaherd.core.errors import ArgumentError
from llamaherd.research.selection.effect import ERRORS
from llamaherd.research.statistics import paired

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.research.coding.codebook import Codebook
    from llamaherd.research.selection.effect import SelectionMeasure
    from llamaherd.research.selection.given_labels import GivenLabels
    from llamaherd.research.selection.part_codes import PartCodes
    from llamaherd.research.statistics.paired import Adjust

MEASURES: tuple[SelectionMeasure, ...] = (*paired.MEASURES, "mae")
_SCALE = "scale"  # type of codebooks whose labels are numbers of a scale


def checked_measure(given: object, books: Sequence[Codebook]) -> SelectionMeasure:
    """Return a measure that fits all codebooks; None selects the default.

    Raises:
        ValueError: The measure is unknown, or does not fit a codebook.
    """
    if given is None:
        return "mae" if any(each.type == _SCALE for each in books) else "accuracy"
    chosen = checks.choice("measure", given, MEASURES)
    of_numbers = is_of_numbers(chosen)
    fits = all(
        each.numbers is not None if of_numbers else each.type != _SCALE for each in books
    )
    if not fits:
        has = "labels that are numbers" if of_numbers else "labels, not for a scale"
        others = paired.MEASURES if of_numbers else ERRORS
        raise ArgumentError(
            f"{chosen!r} is for {has}; take {', '.join(map(repr, others))}",
            argument="measure",
            code="conflict",
        )
    return chosen


def is_of_numbers(measure: SelectionMeasure) -> bool:
    """True for a measure of numbers, False for a measure of labels."""
    return measure in ERRORS


def measured(
    codes: PartCodes,
    labels: Sequence[GivenLabels],
    measure: SelectionMeasure,
    *,
    level: float,
    adjust: Adjust = "bonferroni",
) -> paired.Paired:
    """Return the value of the measure for each candidate, and their differences."""
    if measure == "mae":
        names = [float(each) for each in labels[0].names or codes.names]
        ends = min(names, default=math.nan), max(names, default=math.nan)
        units = paired.UnitNumbers(
            numbers=codes.numbers, weights=codes.weights, strata=codes.strata, ends=ends
        )
        return paired.compare_numbers(
            [each.numbers for each in labels], units, level=level, adjust=adjust
        )
    members = [codes.members(codes.sets_of(each.labels)) for each in labels]
    return paired.compare(members, codes.units, measure, level=level, adjust=adjust)
