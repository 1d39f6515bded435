"""Result of a comparison of codebooks."""

from __future__ import annotations

import math
import textwrap
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from llamaherd.coding.selection.measures import (
    ERRORS,
    TITLES,
    ExamplesEffect,
    PairedDifference,
    SelectionMeasure,
    examples_of,
    n_more_examples,
)
from llamaherd.coding.statistics.intervals import Measure
from llamaherd.engine.core.errors import ArgumentError
from llamaherd.engine.core.phrases import count_of, decimals, first_rows, limits, percent
from llamaherd.engine.core.plain import from_stored, stored
from llamaherd.engine.core.words import call

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llamaherd.coding.selection.measures import Adjust

_NOT_YET = (
    "The value of the best is too {good}, because it was chosen by this value: {best} "
    "freezes the choice, and {evaluate} measures it on other texts."
)
_LINE = 90  # characters
_INTERVAL = 20  # characters of an interval
_MANY = 5  # largest number of candidates that a sentence lists


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedCandidate:
    """Candidate with its labels and measures on the texts of "select"."""

    name: str
    hash: str  # Of codebook, settings and model
    codebook: dict[str, Any]  # Content of the codebook
    settings: dict[str, Any]  # See `Coded.run`
    model: dict[str, Any]  # Record of the model file
    labels: tuple[str | None, ...]  # None for failed texts, see `measures.compare`
    value: Measure  # Its interval is not adjusted for several candidates
    seconds: float  # Per text; NaN if all answers came from a journal without times

    @property
    def n_failed(self) -> int:
        """Number of texts without a label."""
        return sum(label is None for label in self.labels)


@dataclass(frozen=True, slots=True, kw_only=True)
class CodebookComparison:
    """Comparison of candidates on the same texts.

    Attributes:
        candidates: The candidates, in the order given.
        differences: Differences of all pairs of candidates, with intervals.
        measure: Measure of agreement with human codes.
        level: Confidence level.
        adjust: "bonferroni" if the intervals of differences are simultaneous, "none" if
            each interval alone has the level.
        n: Number of texts.
        ids: Identifiers of the texts.
        codes_sha256: Hash of texts and codes.
        split_sha256: Hash of the split.
        notes: Notes for the user.
    """

    candidates: tuple[ComparedCandidate, ...]
    differences: tuple[PairedDifference, ...]
    measure: SelectionMeasure
    level: float
    adjust: Adjust
    n: int
    ids: tuple[str, ...]
    codes_sha256: str
    split_sha256: str
    notes: tuple[str, ...] = field(default=())

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the candidates."""
        return tuple(candidate.name for candidate in self.candidates)

    @property
    def best(self) -> int:
        """Index of the best candidate; if several are best, the fastest of them.

        The best value is the smallest for measures of error, the largest for all others.
        """
        known = [
            i
            for i, candidate in enumerate(self.candidates)
            if not math.isnan(candidate.value.value)
        ]
        if not known:
            raise ArgumentError(
                f"has no candidate whose {TITLES[self.measure]} is defined",
                argument="comparison",
                code="undefined",
            )
        sign = 1 if self.is_error else -1
        return min(
            known, key=lambda i: (sign * self.candidates[i].value.value, self._slow(i))
        )

    @property
    def is_error(self) -> bool:
        """True if smaller values of the measure are better."""
        return self.measure in ERRORS

    def _slow(self, i: int) -> float:
        seconds = self.candidates[i].seconds
        return math.inf if math.isnan(seconds) else seconds

    def to_best(self, i: int) -> PairedDifference | None:
        """Return a candidate's difference from the best candidate; None for the best."""
        best = self.best
        for difference in self.differences:
            if (difference.first, difference.second) == (i, best):
                return difference
            if (difference.first, difference.second) == (best, i):
                return difference.turned()
        return None

    def is_tied(self, i: int) -> bool:
        """Return True if i is the best candidate or cannot be told apart from it."""
        difference = self.to_best(i)
        if difference is None:
            return True
        return not (difference.low > 0 if self.is_error else difference.high < 0)

    @property
    def tied(self) -> tuple[int, ...]:
        """Indices of the candidates that cannot be distinguished from the best."""
        return tuple(i for i in range(len(self.candidates)) if self.is_tied(i))

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return a dict for each candidate, for a data frame."""
        rows = []
        for i, candidate in enumerate(self.candidates):
            difference = self.to_best(i)
            rows.append(
                {
                    "candidate": candidate.name,
                    self.measure: candidate.value.value,
                    "low": candidate.value.low,
                    "high": candidate.value.high,
                    "difference": difference.value if difference else 0.0,
                    "difference_low": difference.low if difference else math.nan,
                    "difference_high": difference.high if difference else math.nan,
                    "verdict": self.verdict(i),
                    "seconds": candidate.seconds,
                    "n_failed": candidate.n_failed,
                    "hash": candidate.hash,
                }
            )
        return rows

    def pairs(self) -> list[dict[str, Any]]:
        """Return a dict for each pair of candidates, for a data frame."""
        return [
            {
                "first": self.names[pair.first],
                "second": self.names[pair.second],
                "difference": pair.value,
                "low": pair.low,
                "high": pair.high,
                "differ": pair.differ,
                "verdict": "differ" if pair.is_clear else "cannot be told apart",
            }
            for pair in self.differences
        ]

    def to_pandas(self) -> Any:  # noqa: ANN401 - pandas is optional
        """Return a data frame with a row for each candidate.

        Raises:
            ImportError: pandas is not installed.
        """
        import pandas as pd  # noqa: PLC0415 - optional

        return pd.DataFrame(self.to_dicts())

    def verdict(self, i: int) -> str:
        """Return "best", "worse", or "cannot be told apart" for a candidate."""
        if i == self.best:
            return "best"
        return "cannot be told apart" if self.is_tied(i) else "worse"

    def __str__(self) -> str:
        wide = max(9, *map(len, self.names))
        title = TITLES[self.measure]
        head = (
            f"<CodebookComparison: {count_of(len(self.candidates), 'candidate')}, "
            f"{count_of(self.n, 'text')} of select>"
        )
        held = "one by one" if self.adjust == "none" else "simultaneous"
        under = f"[{percent(self.level)} confidence intervals; differences {held}]"
        head_row = f"{'candidate':<{wide}}  {title:<{_INTERVAL}}  "
        head_row += f"{'to the best':<{_INTERVAL}}  s/text"
        lines = [head, under, "", head_row]
        rows = []
        for i, candidate in enumerate(self.candidates):
            difference = self.to_best(i)
            to_best = (
                "best" if difference is None else _with_interval(difference, signed=True)
            )
            seconds = "" if math.isnan(candidate.seconds) else f"{candidate.seconds:.3g}"
            apart = self.verdict(i) if difference is not None else ""
            value = _with_interval(candidate.value)
            rows.append(
                f"{candidate.name:<{wide}}  {value:<{_INTERVAL}}  "
                f"{to_best:<{_INTERVAL}}  {seconds:<7} {apart}".rstrip()
            )
        notes = wrapped_notes(first_rows([*self.effects, *self.notes]))
        return "\n".join([*lines, *first_rows(rows), "", self.conclusion, *notes])

    __repr__ = __str__

    @property
    def effects(self) -> tuple[str, ...]:
        """Sentences on the effect of examples, by candidates that differ only in them."""
        sentences = []
        for pair in self.differences:
            for difference in (pair, pair.turned()):
                book, other = (
                    self.candidates[i] for i in (difference.first, difference.second)
                )
                same = (book.settings, book.model) == (other.settings, other.model)
                n = n_more_examples(book.codebook, other.codebook) if same else 0
                if not n or math.isnan(difference.value):
                    continue
                effect = ExamplesEffect(
                    n_examples=n,
                    measure=self.measure,
                    before=other.value.value,
                    after=book.value.value,
                    difference=difference,
                )
                more = f"{examples_of(n)} that {book.name!r} has and {other.name!r} lacks"
                sentences.append(f"{more} {effect.told()}.")
        return tuple(sentences)

    @property
    def conclusion(self) -> str:
        """Sentences that name the candidates that may be the best."""
        others = [self.names[i] for i in self.tied if i != self.best]
        best = repr(self.names[self.best])
        if len(self.candidates) == 1:
            said = "There is nothing to compare it with."
        elif not others:
            said = f"{best} is better than all others."
        elif len(others) > _MANY:
            said = (
                f"{best} and {len(others)} others cannot be told apart by {self.n} "
                "texts: any of them may be the best."
            )
        else:
            named = ", ".join(map(repr, others))
            said = (
                f"{best} and {named} cannot be told apart by {count_of(self.n, 'text')}: "
                "any of them may be the best."
            )
        not_yet = _NOT_YET.format(
            good="low" if self.is_error else "high",
            best=call("best_codebook"),
            evaluate=call("evaluate_codebook"),
        )
        return textwrap.fill(f"{said} {not_yet}", _LINE)

    def to_json(self) -> str:
        """Return the comparison as JSON text, which `from_json` reads."""
        return stored("comparison", self)

    @classmethod
    def from_json(cls, text: str) -> CodebookComparison:
        """Read a comparison that `to_json` wrote.

        Raises:
            ValueError: The text is not a stored comparison.
        """

        def from_fields(fields: dict[str, Any]) -> CodebookComparison:
            candidates = tuple(map(_candidate, fields.pop("candidates")))
            pairs = tuple(PairedDifference(**pair) for pair in fields.pop("differences"))
            fields |= {name: tuple(fields[name]) for name in ("ids", "notes")}
            return cls(candidates=candidates, differences=pairs, **fields)

        return from_stored("comparison", text, from_fields)


def wrapped_notes(notes: Sequence[str]) -> list[str]:
    """Return notes as wrapped lines."""
    return [
        line
        for note in notes
        for line in textwrap.wrap(
            note, _LINE, initial_indent="! ", subsequent_indent="  "
        )
    ]


def _candidate(stored: Mapping[str, Any]) -> ComparedCandidate:
    fields = {**stored, "labels": tuple(stored["labels"])}
    fields["value"] = Measure(**stored["value"])
    return ComparedCandidate(**fields)


def _with_interval(measure: Measure | PairedDifference, *, signed: bool = False) -> str:
    """Return a number with its interval."""
    if math.isnan(measure.value):
        return "not defined"
    value = decimals(measure.value, sign="+" if signed else "")
    if math.isnan(measure.low):
        return value
    return f"{value} {limits(measure.low, measure.high)}"
