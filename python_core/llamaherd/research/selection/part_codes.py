"""Human codes of a part of a sample, in the form that comparisons need."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from llamaherd.core.errors import ArgumentError
from llamaherd.core.plurals import count_of
from llamaherd.core.words import words
from llamaherd.research.codes import number_in
from llamaherd.research.codes.coders import note_on_ties
from llamaherd.research.coding.label_sets import labels_in
from llamaherd.research.selection.measures import (
    Paired,
    UnitCodes,
    UnitNumbers,
    compare,
    compare_numbers,
)
from llamaherd.research.selection.split import part_of
from llamaherd.research.statistics.representative import answered

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.research.coding.label_sets import Labels
    from llamaherd.research.estimation.gold_drawn import GoldSample
    from llamaherd.research.selection.given_labels import GivenLabels
    from llamaherd.research.selection.measures import Adjust, SelectionMeasure
    from llamaherd.research.statistics.ratings import Flags, Floats, Integers

_LEAST = 2  # least number of codes of a part


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PartCodes:
    """Coded texts of a part.

    Attributes:
        part: Name of the part.
        ids: n identifiers.
        texts: n texts.
        codes: n tuples of labels; each has one label, unless a text may have several. For
            numbers the mean of the coders' numbers, as a text.
        weights: float64[n], 1 / probability that a text is in the part and coded.
        strata: int64[n], strata of the draw.
        names: Labels.
        several: True if a text may have several labels.
        notes: Notes for the user.
        ties: Indices of the texts on which coders tie.
    """

    part: str
    ids: list[str]
    texts: list[str]
    codes: list[Labels]
    weights: Floats
    strata: Integers
    names: tuple[str, ...]
    several: bool
    notes: list[str]
    ties: frozenset[int]

    def __len__(self) -> int:
        return len(self.ids)

    def at(self, rows: Sequence[int]) -> PartCodes:
        """Return some of the texts, in the given order."""
        ties = frozenset(i for i, row in enumerate(rows) if row in self.ties)
        return replace(
            self,
            ids=[self.ids[i] for i in rows],
            texts=[self.texts[i] for i in rows],
            codes=[self.codes[i] for i in rows],
            weights=self.weights[list(rows)],
            strata=self.strata[list(rows)],
            ties=ties,
        )

    @property
    def sha256(self) -> str:
        """Hash of ids, texts and codes, which reveals changes."""
        content = [self.ids, self.texts, [list(each) for each in self.codes]]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()

    @property
    def numbers(self) -> Floats:
        """Codes as numbers, float64[n]; see the argument `as_numbers`."""
        return np.array([float(code) for (code,) in self.codes])

    @property
    def units(self) -> UnitCodes:
        """Codes as a boolean matrix of labels, with weights and strata."""
        return UnitCodes(
            should=self.members(self.codes)[0], weights=self.weights, strata=self.strata
        )

    def members(self, labels: Sequence[Labels | None]) -> tuple[Flags, Flags]:
        """Return bool[n, k], the labels of each text, and bool[n], its answers.

        The second array is True for each text that has an answer.
        """
        of_texts = [() if each is None else each for each in labels]
        has = [[name in each for name in self.names] for each in of_texts]
        shape = (len(labels), len(self.names))
        is_given = np.array([each is not None for each in labels], dtype=bool)
        return np.array(has, dtype=bool).reshape(shape), is_given

    def sets_of(self, labels: Sequence[str | None]) -> list[Labels | None]:
        """Return labels, single or joined, as tuples of labels."""
        return [
            None
            if label is None
            else (labels_in(label, self.names) if self.several else (label,))
            for label in labels
        ]


def codes_of_part(gold: GoldSample, part: str, *, as_numbers: bool = False) -> PartCodes:
    """Return the codes of a part.

    Args:
        gold: The split sample.
        part: Name of the part.
        as_numbers: True for the mean of the coders' numbers, False for the code of the
            majority of coders.
    """
    sample = part_of(gold, part)
    decide = _mean if as_numbers else _decided
    decided = [decide(each, sample) for each in zip(*sample.codes, strict=True)]
    kept = [i for i, (code, _) in enumerate(decided) if code is not None]
    if len(kept) < _LEAST:
        raise ArgumentError(
            f"has codes of {len(kept)} of {count_of(len(sample), 'text')} of the part "
            f"{part!r}: {words().let_code}",
            argument="gold",
            code="too_few",
        )
    texts = [sample.texts[i] for i in kept]
    if any(text is None for text in texts):
        raise ArgumentError(
            "has no texts: draw it with text, the column of texts",
            argument="gold",
            code="missing",
        )
    answers = answered(sample, np.array(kept, dtype=np.int64))
    ties = frozenset(n for n, i in enumerate(kept) if decided[i][1])
    of_ties = note_on_ties(len(ties), len(kept), sample.coders)
    notes = [*answers.notes, *(f"In the part {part!r}, {each}" for each in of_ties)]
    codes: list[Labels] = [code for code, _ in decided if code is not None]
    known = {name for each in codes for name in each}
    return PartCodes(
        part=part,
        ids=[sample.ids[i] for i in kept],
        texts=[str(text) for text in texts],
        codes=codes,
        weights=1 / np.asarray(answers.probs),
        strata=np.asarray(sample.strata[[sample.rows[i] for i in kept]]),
        names=sample.names or tuple(sorted(known)),
        several=sample.several,
        notes=notes,
        ties=ties,
    )


def _mean(codes: Sequence[str | None], sample: GoldSample) -> tuple[Labels | None, bool]:
    """Return the mean of the coders' numbers as a text, None without codes; no tie."""
    given = [(code, number_in(code)) for code in codes if code is not None]
    for code, number in given:
        if number is None:
            of = f" of {sample.design['label']!r}" if sample.design.get("label") else ""
            raise ArgumentError(
                f"has the code {code!r}{of}, which is not a number",
                argument="gold",
                code="no_number",
            )
    numbers = [float(number) for _, number in given if number is not None]
    return (repr(sum(numbers) / len(numbers)),) if numbers else None, False


def _decided(
    codes: Sequence[str | None], sample: GoldSample
) -> tuple[Labels | None, bool]:
    """Return the majority code as labels, None without codes; and True for a tie."""
    code, is_tie = sample.decided(codes)
    if code is None:
        return None, False
    return labels_in(code, sample.names) if sample.several else (code,), is_tie


def measured(
    codes: PartCodes,
    labels: Sequence[GivenLabels],
    measure: SelectionMeasure,
    *,
    level: float,
    adjust: Adjust = "bonferroni",
) -> Paired:
    """Return the value of the measure for each candidate, and their differences."""
    if measure == "mae":
        names = [float(each) for each in labels[0].names or codes.names]
        ends = min(names, default=math.nan), max(names, default=math.nan)
        units = UnitNumbers(
            numbers=codes.numbers, weights=codes.weights, strata=codes.strata, ends=ends
        )
        return compare_numbers(
            [each.numbers for each in labels], units, level=level, adjust=adjust
        )
    members = [codes.members(codes.sets_of(each.labels)) for each in labels]
    return compare(members, codes.units, measure, level=level, adjust=adjust)
