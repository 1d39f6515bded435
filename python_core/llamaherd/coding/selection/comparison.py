"""Result of a comparison of codebooks."""

from __future__ import annotations

import hashlib
import json
import math
import textwrap
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llamaherd.coding.selection.measures import (
    ERRORS,
    TITLES,
    Adjust,
    PairedDifference,
    SelectionMeasure,
    effect_of_examples,
    n_more_examples,
    note,
)
from llamaherd.coding.sentences import table
from llamaherd.coding.statistics.intervals import Measure
from llamaherd.engine.core.errors import ArgumentError
from llamaherd.engine.core.files import write_whole
from llamaherd.engine.core.phrases import (
    Sign,
    count_of,
    decimals,
    first_rows,
    limits,
    percent,
)
from llamaherd.engine.core.plain import DAMAGED, from_stored, stored_json

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llamaherd.coding.annotation.coded import Coded

_LINE = 90  # characters
_AFTERWARDS = ("calibrate", "normalize")  # settings that cost no computing time
_LEAST = 0.5  # a time is stored if at least this share of prompts was computed


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

    @classmethod
    def of(
        cls, name: str, coded: Coded, value: Measure, journal: str | None
    ) -> ComparedCandidate:
        """Return a candidate from its coding of the texts of "select"."""
        return cls(
            name=name,
            hash=hash_of(coded.run),
            codebook=dict(coded.run["codebook"]["content"]),
            settings=dict(coded.run["settings"]),
            model=dict(coded.run["model"]),
            labels=tuple(coded.labels),
            value=value,
            seconds=seconds_per_text(coded.run, journal),
        )

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
    def is_error(self) -> bool:
        """True if smaller values of the measure are better."""
        return self.measure in ERRORS

    @property
    def best(self) -> int:
        """Index of the best candidate; if several are best, the fastest of them.

        The best value is the smallest for measures of error, the largest for all others.
        """
        sign = 1 if self.is_error else -1
        ranked = [
            (
                sign * candidate.value.value,
                math.inf if math.isnan(candidate.seconds) else candidate.seconds,
                i,
            )
            for i, candidate in enumerate(self.candidates)
            if not math.isnan(candidate.value.value)
        ]
        if not ranked:
            raise ArgumentError(
                f"has no candidate whose {TITLES[self.measure]} is defined",
                argument="comparison",
                code="undefined",
            )
        return min(ranked)[-1]

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
        return difference is None or difference.verdict(self.measure) != "worse"

    @property
    def tied(self) -> tuple[int, ...]:
        """Indices of the candidates that cannot be distinguished from the best."""
        return tuple(i for i in range(len(self.candidates)) if self.is_tied(i))

    def verdict(self, i: int) -> str:
        """Return "best", "worse", or "cannot be told apart" for a candidate."""
        if i == self.best:
            return "best"
        return "cannot be told apart" if self.is_tied(i) else "worse"

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

    def to_pandas(self) -> Any:  # pandas is optional
        """Return a data frame with a row for each candidate.

        Raises:
            ImportError: pandas is not installed.
        """
        import pandas as pd  # optional

        return pd.DataFrame(self.to_dicts())

    @property
    def effects(self) -> tuple[str, ...]:
        """Sentences on the effect of examples, by candidates that differ only in them."""
        sentences = []
        for pair in self.differences:
            for difference in (pair, pair.turned()):
                book, other = (
                    self.candidates[i] for i in (difference.first, difference.second)
                )
                is_alike = (book.settings, book.model) == (other.settings, other.model)
                n = n_more_examples(book.codebook, other.codebook) if is_alike else 0
                if not n or math.isnan(difference.value):
                    continue
                values = (other.value.value, book.value.value)
                owners = f" that {book.name!r} has and {other.name!r} lacks"
                sentence = effect_of_examples(
                    n, self.measure, values, difference, owners=owners
                )
                sentences.append(f"{sentence}.")
        return tuple(sentences)

    @property
    def conclusion(self) -> str:
        """Sentences that name the candidates that may be the best."""
        text = note(
            "conclusion",
            best=self.names[self.best],
            others=[self.names[i] for i in self.tied if i != self.best],
            is_alone=len(self.candidates) == 1,
            n=self.n,
            good="low" if self.is_error else "high",
        )
        return textwrap.fill(text, _LINE, subsequent_indent="  ")

    def __str__(self) -> str:
        rows = [["candidate", TITLES[self.measure], "to the best", "s/text", ""]]
        for i, candidate in enumerate(self.candidates):
            difference, seconds = self.to_best(i), candidate.seconds
            rows.append(
                [
                    candidate.name,
                    _with_interval(candidate.value),
                    _with_interval(difference, sign="+") if difference else "best",
                    "" if math.isnan(seconds) else f"{seconds:.3g}",
                    self.verdict(i) if difference else "",
                ]
            )
        head, *lines = table(rows, left=len(rows[0]))
        n_candidates = count_of(len(self.candidates), "candidate")
        n_texts = count_of(self.n, "text")
        held = "one by one" if self.adjust == "none" else "simultaneous"
        return "\n".join(
            [
                f"<CodebookComparison: {n_candidates}, {n_texts} of select>",
                f"[{percent(self.level)} confidence intervals; differences {held}]",
                "",
                head,
                *first_rows(lines),
                "",
                self.conclusion,
                *wrapped_notes(first_rows([*self.effects, *self.notes])),
            ]
        )

    __repr__ = __str__

    def to_json(self) -> str:
        """Return the comparison as JSON text, which `from_json` reads."""
        return stored_json("comparison", self)

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
    wrap = textwrap.TextWrapper(_LINE, initial_indent="! ", subsequent_indent="  ").wrap
    return [line for text in notes for line in wrap(text)]


def _candidate(fields: Mapping[str, Any]) -> ComparedCandidate:
    of_types = {"labels": tuple(fields["labels"]), "value": Measure(**fields["value"])}
    return ComparedCandidate(**{**fields, **of_types})


def _with_interval(measure: Measure | PairedDifference, sign: Sign = "") -> str:
    if math.isnan(measure.value):
        return "not defined"
    value = decimals(measure.value, sign=sign)
    if math.isnan(measure.low):
        return value
    return f"{value} {limits(measure.low, measure.high)}"


def hash_of(run: Mapping[str, Any], *, without: Sequence[str] = ()) -> str:
    """Hash everything on which labels depend: codebook, settings and model."""
    model = run["model"]
    settings = {k: v for k, v in run["settings"].items() if k not in without}
    loras = [
        [lora.get("file"), lora.get("sha256"), lora.get("scale")]
        for lora in model.get("loras") or ()
    ]
    content = [run["codebook"]["hash"], settings, key_of_model(model), loras]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def key_of_model(model: Mapping[str, Any]) -> Any:  # a hash or a name
    """Return the hash of a recorded model, or its name if the hash is unknown."""
    return model.get("sha256") or model.get("file")


def seconds_per_text(run: Mapping[str, Any], journal: str | None) -> float:
    """Return the computing time per text in seconds, without answers from the journal.

    It is stored if at least half of the prompts were computed, else read.
    """
    n_prompts, n_journal = run.get("n_prompts", 0), run.get("n_journal", 0)
    share = (n_prompts - n_journal) / n_prompts if n_prompts else 0.0
    seconds = math.nan
    if share > 0:
        seconds = float(run["seconds"]) / (share * max(1, run["n_texts"]))
    if journal is None:
        return seconds
    key = hash_of(run, without=_AFTERWARDS)
    path = Path(f"{journal}.times.json")
    times = stored_times(path)
    if times is None:  # a file of the user
        return seconds
    if share < _LEAST:
        return float(times.get(key, seconds))
    write_whole(path, json.dumps({**times, key: seconds}, indent=1).encode())
    return seconds


def stored_times(path: Path) -> dict[str, float] | None:
    """Return stored times; {} without a file, None for a file of another kind."""
    if not path.exists():
        return {}
    try:
        times = json.loads(path.read_text(encoding="utf-8"))
        is_own = all(isinstance(value, (int, float)) for value in times.values())
        return {key: float(value) for key, value in times.items()} if is_own else None
    except (OSError, OverflowError, *DAMAGED):
        return None
