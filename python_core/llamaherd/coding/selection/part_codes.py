"""Human codes of a part of a sample."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.coding import frames
from llamaherd.coding.annotation.coded import Coded
from llamaherd.coding.annotation.label_sets import labels_in
from llamaherd.coding.codes import number_in
from llamaherd.coding.codes.coders import note_on_ties
from llamaherd.coding.gold.codes import codes_of_sample, texts_with_code
from llamaherd.coding.selection.split import part_of
from llamaherd.engine.core import checks
from llamaherd.engine.core.errors import ArgumentError
from llamaherd.engine.core.phrases import count_of
from llamaherd.engine.core.words import call, words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.coding.annotation.label_sets import Labels
    from llamaherd.coding.gold.codes import Codes
    from llamaherd.coding.gold.sample import GoldSample
    from llamaherd.coding.statistics.ratings import Flags, Floats, Integers

_LEAST = 2  # least number of codes of a part


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PartCodes:
    """Codes of n texts of a part, and how these texts were drawn."""

    ids: list[str]
    texts: list[str]
    # The labels of each text: one, unless a text may have several. For numbers the mean
    # of the coders' numbers, as a text
    codes: list[Labels]
    people: Codes  # Codes of all coders; their rows are the n texts
    names: tuple[str, ...]
    several: bool = False  # True if a text may have several labels
    notes: list[str] = field(default_factory=list)  # Notes for the user
    ties: frozenset[int] = frozenset()  # Indices of the texts on which coders tie

    def __len__(self) -> int:
        return len(self.ids)

    def at(self, rows: Sequence[int]) -> PartCodes:
        """Return some of the texts, in the given order."""
        people = self.people.at(np.array(rows, dtype=np.int64))
        return replace(
            self,
            ids=[self.ids[i] for i in rows],
            texts=[self.texts[i] for i in rows],
            codes=[self.codes[i] for i in rows],
            people=replace(people, rows=np.arange(len(rows))),
            ties=frozenset(i for i, row in enumerate(rows) if row in self.ties),
        )

    def labelled(
        self,
        coded: Any,  # noqa: ANN401 - of any type
        *,
        partly: bool = False,
    ) -> tuple[PartCodes, Coded]:
        """Return the texts that `coded` has, all if not `partly`, and their labels there.

        Texts are found by their content; equal ones are coded once.
        """
        wanted = f"the result of {call('annotate')}"
        coded = checks.instance("coded", coded, Coded, wanted)
        first: dict[str, int] = {}
        for row, text in enumerate(frames.column(coded.frame, coded.text, "text")):
            if text is not None:
                first.setdefault(_form(text), row)
        rows = [first.get(_form(text), -1) for text in self.texts]
        missing = [text for text, row in zip(self.texts, rows, strict=True) if row < 0]
        if missing and not partly:
            raise ArgumentError(
                f"has no labels of {len(missing)} of {count_of(len(self), 'text')}, "
                f"such as {checks.shown(missing[0])}: code all texts of the part",
                argument="coded",
                code="missing",
            )
        there = self.at([i for i, row in enumerate(rows) if row >= 0])
        return there, coded[[row for row in rows if row >= 0]]

    @property
    def weights(self) -> Floats:
        """1 / probability that a text is in the part and coded, float64[n]."""
        return np.asarray(1 / self.people.probs)

    @property
    def strata(self) -> Integers:
        """Strata of the draw, int64[n]."""
        assert self.people.strata is not None  # noqa: S101 - a sample has strata
        return self.people.strata

    @property
    def sha256(self) -> str:
        """Hash of ids, texts and codes, which reveals changes."""
        content = [self.ids, self.texts, [list(labels) for labels in self.codes]]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()

    @property
    def numbers(self) -> Floats:
        """Codes as numbers, float64[n]; see the argument `as_numbers`."""
        return np.array([float(code) for (code,) in self.codes])

    def has_label(self, labels: Sequence[Labels | None]) -> Flags:
        """Return which label each text has, bool[n, k]; none without an answer."""
        rows = [[name in (of_text or ()) for name in self.names] for of_text in labels]
        return np.array(rows, dtype=bool).reshape(len(labels), len(self.names))

    def sets_of(self, labels: Sequence[str | None]) -> list[Labels | None]:
        """Return labels, single or joined, as tuples of labels."""
        return [
            None
            if label is None
            else (labels_in(label, self.names) if self.several else (label,))
            for label in labels
        ]


def _form(text: str) -> str:
    return " ".join(text.split())


def codes_of_part(gold: GoldSample, part: str, *, as_numbers: bool = False) -> PartCodes:
    """Return the codes of a part."""
    sample = part_of(gold, part)
    decide = _mean if as_numbers else _decided
    kept = texts_with_code(sample.codes).tolist()
    if len(kept) < _LEAST:
        raise ArgumentError(
            f"has codes of {len(kept)} of {count_of(len(sample), 'text')} of the part "
            f"{checks.quoted(part)}: {words().let_code}",
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
    people = replace(codes_of_sample(sample), rows=np.arange(len(kept)))
    decided = [decide(codes, sample) for codes in zip(*people.columns, strict=True)]
    codes = [code for code, _ in decided]
    ties = frozenset(i for i, (_, is_tie) in enumerate(decided) if is_tie)
    of_ties = note_on_ties(len(ties), len(kept), sample.coders)
    known = {label for labels in codes for label in labels}
    return PartCodes(
        ids=[sample.ids[i] for i in kept],
        texts=[str(text) for text in texts],
        codes=codes,
        people=people,
        names=sample.names or tuple(sorted(known)),
        several=sample.several,
        notes=[*people.notes, *(f"In the part {part!r}, {line}" for line in of_ties)],
        ties=ties,
    )


def _mean(codes: Sequence[str | None], sample: GoldSample) -> tuple[Labels, bool]:
    """Return the mean of the coders' numbers as a text; no tie."""
    numbers = []
    for code in codes:
        if code is None:
            continue
        number = number_in(code)
        if number is None:
            of = (
                f" of {checks.quoted(sample.design['label'])}"
                if sample.design.get("label")
                else ""
            )
            raise ArgumentError(
                f"has the code {checks.quoted(code)}{of}, which is not a number",
                argument="gold",
                code="no_number",
            )
        numbers.append(float(number))
    return (repr(sum(numbers) / len(numbers)),), False


def _decided(codes: Sequence[str | None], sample: GoldSample) -> tuple[Labels, bool]:
    """Return the majority code of a coded text as labels, and True for a tie."""
    decided, is_tie = sample.decided(codes)
    code = decided or ""
    return labels_in(code, sample.names) if sample.several else (code,), is_tie
