"""Human codes of a part of a sample, and the labels of its texts."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.coding import frames
from llamaherd.coding.annotation.label_sets import labels_in
from llamaherd.coding.codes import number_in, text_of
from llamaherd.coding.codes.coders import note_on_ties
from llamaherd.coding.gold.codes import codes_of_sample, texts_with_code
from llamaherd.coding.selection.measures import (
    Paired,
    UnitCodes,
    UnitNumbers,
    compare,
    compare_numbers,
)
from llamaherd.coding.selection.split import part_of
from llamaherd.engine.core import checks
from llamaherd.engine.core.errors import ArgumentError, ArgumentTypeError
from llamaherd.engine.core.phrases import count_of
from llamaherd.engine.core.words import call, words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.coding.annotation.codebook import Codebook
    from llamaherd.coding.annotation.label_sets import Labels
    from llamaherd.coding.gold.codes import Codes
    from llamaherd.coding.gold.sample import GoldSample
    from llamaherd.coding.selection.measures import Adjust, SelectionMeasure
    from llamaherd.coding.statistics.ratings import Flags, Floats, Integers

_TEXT = "text"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GivenLabels:
    """Labels of n texts in the form that `validate` accepts.

    Attributes:
        texts: n texts; None for missing texts.
        labels: n labels; None for missing and failed texts.
        names: The k labels of the codebook; () if unknown.
        probs: float64[n, k], probabilities of the labels; None if unknown.
        expected: float64[n], expected values of labels that are numbers, NaN for failed
            texts; None to compute them from `probs`.
        thoughts: n thoughts of the model; None if the model did not think.
        codebook: The codebook; None if unknown.
        run: Provenance, see `Coded.run`; {} if unknown.
    """

    texts: list[str | None]
    labels: list[str | None]
    names: tuple[str, ...] = ()
    probs: Floats | None = None
    expected: Floats | None = None
    thoughts: list[str | None] | None = None
    codebook: Codebook | None = None
    run: dict[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """Name of the column of texts in `frame`."""
        return _TEXT

    @property
    def frame(self) -> dict[str, list[str | None]]:
        """The texts as a data frame."""
        return {_TEXT: self.texts}

    @classmethod
    def of(cls, coded: Any) -> GivenLabels:  # noqa: ANN401 - Coded, or what is like it
        """Read the result of `annotate`."""
        if isinstance(coded, cls):
            return coded
        columns = getattr(coded, "columns", None)
        if not hasattr(coded, "labels") or not isinstance(columns, dict):
            raise ArgumentTypeError(
                f"must be the result of {call('annotate')}, not {checks.shown(coded)}",
                argument="coded",
            )
        expected = thoughts = None
        has_numbers = coded.codebook.numbers is not None
        if coded.probs is None and has_numbers and "mean" in columns:
            means = frames.column(coded.frame, columns["mean"], "coded")
            expected = np.array(means, dtype=np.float64)
        if "thinking" in columns:
            cells = frames.column(coded.frame, columns["thinking"], "coded")
            thoughts = [text_of(cell) for cell in cells]
        return cls(
            texts=frames.column(coded.frame, coded.text, "text"),
            labels=list(coded.labels),
            names=tuple(coded.names),
            probs=coded.probs,
            expected=expected,
            thoughts=thoughts,
            codebook=coded.codebook,
            run=dict(coded.run),
        )

    @property
    def numbers(self) -> Floats:
        """Expected values if they are known, else the labels; float64[n]."""
        if self.expected is not None:
            return self.expected
        return numbers_of(self.labels, self.names, self.probs)

    def of_texts(self, texts: Sequence[str], *, partly: bool = False) -> GivenLabels:
        """Return the labels of these texts, found by their content.

        Equal texts have equal labels, because they are coded once.
        """
        first: dict[str, int] = {}
        for i, coded in enumerate(self.texts):
            if coded is not None:
                first.setdefault(_form(coded), i)
        at = [first.get(_form(text), -1) for text in texts]
        missing = [i for i, row in enumerate(at) if row < 0]
        if missing and not partly:
            raise ArgumentError(
                f"has no labels of {len(missing)} of {count_of(len(texts), 'text')}, "
                f"such as {checks.shown(texts[missing[0]])}: code all texts of the part",
                argument="coded",
                code="missing",
            )
        probs = None
        if self.probs is not None:
            probs = np.array(
                [
                    self.probs[i] if i >= 0 else np.full(len(self.names), np.nan)
                    for i in at
                ]
            ).reshape(len(at), len(self.names))
        known = self.thoughts
        return GivenLabels(
            texts=list(texts),
            labels=[self.labels[i] if i >= 0 else None for i in at],
            names=self.names,
            probs=probs,
            expected=(
                None
                if self.expected is None
                else np.array([self.expected[i] if i >= 0 else np.nan for i in at])
            ),
            thoughts=(
                None if known is None else [known[i] if i >= 0 else None for i in at]
            ),
            codebook=self.codebook,
            run=self.run,
        )


def _form(text: str) -> str:
    return " ".join(text.split())


def numbers_of(
    labels: Sequence[str | None], names: Sequence[str], probs: Floats | None
) -> Floats:
    """Return the number of each text: its expected value, or its label.

    Args:
        labels: n labels that are numbers; None for failed texts.
        names: The k labels of the codebook.
        probs: float64[n, k], probabilities of the labels; None if unknown.

    Returns:
        float64[n], NaN for failed texts.
    """
    if probs is not None:
        expected = np.asarray(probs, dtype=np.float64) @ np.array(list(map(float, names)))
        failed = np.array([label is None for label in labels], dtype=bool)
        return np.where(failed, np.nan, expected)
    return np.array([np.nan if label is None else float(label) for label in labels])


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
        people: The codes of all coders; their rows are the n texts.
        names: Labels.
        several: True if a text may have several labels.
        notes: Notes for the user.
        ties: Indices of the texts on which coders tie.
    """

    part: str
    ids: list[str]
    texts: list[str]
    codes: list[Labels]
    people: Codes
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
            people=replace(
                self.people.at(np.array(rows, dtype=np.int64)), rows=np.arange(len(rows))
            ),
            ties=ties,
        )

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
        has_label = [
            [name in (of_text or ()) for name in self.names] for of_text in labels
        ]
        shape = (len(labels), len(self.names))
        is_answered = np.array([of_text is not None for of_text in labels], dtype=bool)
        return np.array(has_label, dtype=bool).reshape(shape), is_answered

    def sets_of(self, labels: Sequence[str | None]) -> list[Labels | None]:
        """Return labels, single or joined, as tuples of labels."""
        return [
            None
            if label is None
            else (labels_in(label, self.names) if self.several else (label,))
            for label in labels
        ]


def codes_of_part(gold: GoldSample, part: str, *, as_numbers: bool = False) -> PartCodes:
    """Return the codes of a part."""
    sample = part_of(gold, part)
    decide = _mean if as_numbers else _decided
    kept = texts_with_code(sample.codes).tolist()
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
    people = replace(codes_of_sample(sample), rows=np.arange(len(kept)))
    decided = [decide(codes, sample) for codes in zip(*people.columns, strict=True)]
    codes = [code for code, _ in decided]
    ties = frozenset(i for i, (_, is_tie) in enumerate(decided) if is_tie)
    of_ties = note_on_ties(len(ties), len(kept), sample.coders)
    known = {label for labels in codes for label in labels}
    return PartCodes(
        part=part,
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
            of = f" of {sample.design['label']!r}" if sample.design.get("label") else ""
            raise ArgumentError(
                f"has the code {code!r}{of}, which is not a number",
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
        names = [float(name) for name in labels[0].names or codes.names]
        ends = min(names, default=math.nan), max(names, default=math.nan)
        units = UnitNumbers(
            numbers=codes.numbers, weights=codes.weights, strata=codes.strata, ends=ends
        )
        return compare_numbers(
            [candidate.numbers for candidate in labels], units, level=level, adjust=adjust
        )
    members = [codes.members(codes.sets_of(candidate.labels)) for candidate in labels]
    return compare(members, codes.units, measure, level=level, adjust=adjust)
