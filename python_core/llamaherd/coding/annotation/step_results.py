"""Results of a coding in steps: the label and step of each text, and the record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.coding.annotation.answers import Answers, answers_of_rows
from llamaherd.coding.annotation.coding import BLANK
from llamaherd.coding.annotation.columns import coded_frame, table_of
from llamaherd.coding.annotation.record import notes_of, thinking_record
from llamaherd.coding.annotation.texts import hash_of_texts, is_blank
from llamaherd.coding.sentences import Notes
from llamaherd.coding.statistics.intervals import LEVEL, Measure, share
from llamaherd.engine.core.errors import CANCELLED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llamaherd.calls.asks.calibration import Floats
    from llamaherd.calls.asks.thoughts import Thought
    from llamaherd.coding.annotation.coded import Coded
    from llamaherd.coding.annotation.settings import CodingWork, Settings
    from llamaherd.coding.annotation.texts import Integers
    from llamaherd.engine.core.stats import Stats

note = Notes("llamaherd.coding.annotation")
STEPS = ("model", "head", "unsure")  # values of the column "step"
MODEL, HEAD, UNSURE = range(3)


@dataclass(kw_only=True, eq=False)
class StepResults:
    """Labels of n texts so far.

    Attributes:
        probs: float64[n, k], calibrated probabilities; NaN for texts without a label.
        coverage: float64[n], total probability of all labels; NaN for labels by a head.
        errors: n errors; None for labelled texts.
        step: int8[n], position in `STEPS` of the step that labelled the text; -1 for
            texts without a label.
        between: As in `Answers`.
        thoughts: As in `Answers`.
    """

    probs: Floats
    coverage: Floats
    errors: list[str | None]
    step: Integers
    between: Floats | None
    thoughts: list[Thought | None] | None

    @classmethod
    def empty(cls, n: int, k: int, settings: Settings) -> StepResults:
        """Return results for n texts that are not labelled yet."""
        return cls(
            probs=np.full((n, k), np.nan),
            coverage=np.full(n, np.nan),
            errors=[CANCELLED] * n,
            step=np.full(n, -1, dtype=np.int8),
            between=np.full((n, k), np.nan) if settings.n_thoughts > 1 else None,
            thoughts=[None] * n if settings.thinks else None,
        )

    def take(self, at: Integers, answers: Answers, probs: Floats, step: int) -> Measure:
        """Store the answers of a model; a failed text keeps its earlier label.

        Args:
            at: Positions of the texts.
            answers: Answers for these texts.
            probs: float64[m, k], calibrated probabilities.
            step: Position in `STEPS`.
        """
        good = np.isfinite(probs).all(axis=1)
        had = self.step[at] >= 0
        both = good & had
        before = np.nan_to_num(self.probs[at], nan=-1.0).argmax(axis=1)
        after = np.nan_to_num(probs, nan=-1.0).argmax(axis=1)
        same = (before == after)[both].astype(np.float64)
        for j in np.flatnonzero(~had | good).tolist():
            i = int(at[j])
            self.errors[i] = answers.errors[j]
            if self.thoughts is not None and answers.thoughts is not None:
                self.thoughts[i] = answers.thoughts[j]
        kept = at[good]
        self.probs[kept] = probs[good]
        self.step[kept] = step
        if answers.coverage is not None:
            self.coverage[kept] = answers.coverage[good]
        if self.between is not None and answers.between is not None:
            self.between[kept] = answers.between[good]
        return share(same, np.ones(len(same)), LEVEL)

    def take_head(self, at: Integers, probs: Floats) -> None:
        """Store the labels of a head; texts without an embedding get no label.

        Args:
            at: Positions of the texts.
            probs: float64[m, k]; NaN for texts without an embedding.
        """
        kept = at[np.isfinite(probs).all(axis=1)]
        self.probs[at] = probs
        self.step[kept] = HEAD
        for i in kept.tolist():
            self.errors[i] = None

    @property
    def answers(self) -> Answers:
        """Answers of the texts."""
        return Answers(
            errors=self.errors,
            probs=self.probs,
            coverage=self.coverage,
            between=self.between,
            thoughts=self.thoughts,
        )

    def names(self, rows: Integers) -> list[str | None]:
        """Return the step of each row; None for rows without a label."""
        known = (*STEPS, None)
        padded = np.append(self.step, -1)  # index -1 selects the last one
        return [known[i] for i in padded[rows].tolist()]


def measure_fields(measure: Measure) -> dict[str, Any]:
    """Return a measure as JSON types."""
    numbers = (measure.value, measure.low, measure.high)
    value, low, high = (None if np.isnan(x) else round(float(x), 6) for x in numbers)
    return {"value": value, "low": low, "high": high, "n": measure.n}


def add_counts(each: Sequence[dict[str, Any]], results: StepResults) -> None:
    """Add to the record of each step the number and share of texts that it labelled."""
    n = max(1, len(results.step))
    for one in each:
        own = int((results.step == STEPS.index(one["step"])).sum())
        one["n_texts"], one["share"] = own, round(own / n, 6)


def methods(each: Sequence[Mapping[str, Any]]) -> str:
    """Describe the steps of a coding, for a methods section."""
    return " ".join(note("step", step=one) for one in each)


def coded_of_steps(
    work: CodingWork,
    record: dict[str, Any],
    results: StepResults,
    rows: Integers,
    stats: Stats,
) -> Coded:
    """Return the data frame with the labels of all steps so far."""
    answers = answers_of_rows(results.answers, rows)
    answers.errors = [
        BLANK if is_blank(text) else error
        for text, error in zip(work.texts, answers.errors, strict=True)
    ]
    table = table_of(answers, work.codebook)
    table.columns["step"] = results.names(rows)
    record |= {
        "n_rows": len(work.texts),
        "n_texts": len(results.step),
        "texts_sha256": hash_of_texts(work.texts),
        "seconds": round(stats.wall_s, 3),
        "n_prompts": stats.n_prompts,
        "n_journal": stats.n_journal,
        "n_computed_tokens": stats.n_prefill_tokens + stats.n_decode_tokens,
    }
    if work.settings.thinks:
        record["thinking"] = thinking_record(work.settings, stats)
    record["notes"] = notes_of(
        table.labels,
        answers.coverage,
        work.codebook,
        work.settings.to_dict(),
        "" if work.settings.thinks else record["prompts"]["empty"],
    )
    new = {name: table.columns[role] for role, name in work.columns.items()}
    return coded_frame(
        work,
        new,
        names=work.codebook.names,
        labels=table.labels,
        probs=table.probs,
        errors=table.errors,
        run=record,
        stats=stats,
    )
