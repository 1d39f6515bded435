"""Steps of a coding: which texts a model or a head labels, and their record."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.calls.api.running import open_context
from llamaherd.calls.run.context import Context
from llamaherd.coding.annotation.answers import Answers, no_answers
from llamaherd.coding.sentences import Notes
from llamaherd.coding.statistics.heads import least_sure
from llamaherd.coding.statistics.intervals import LEVEL, Measure, share
from llamaherd.engine.hub.fetch import model_path
from llamaherd.engine.model.model import Model

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import ExitStack

    from llamaherd.calls.run.host import Host
    from llamaherd.coding.annotation.settings import CodingWork, Settings
    from llamaherd.engine.core.arrays import Floats, Ints

note = Notes("llamaherd.coding.annotation")
MODEL, HEAD, UNSURE = ("model", "head", "unsure")  # values of the column "step"


class Step(ABC):
    """Labels of some of the texts, by one model or head.

    Attributes:
        at: int64[n], positions of the texts among all unique texts.
        answers: Answers so far; texts not labelled yet are cancelled.
        is_begun: True if a block of texts has been labelled.
        facts: Further facts for the record.
    """

    def __init__(self, name: str, at: Ints, texts: list[str], work: CodingWork) -> None:
        self.name = name
        self.at = at
        self.texts = texts
        self.answers = no_answers(len(texts), len(work.codebook.names), work.settings)
        self.is_begun = False
        self.n_journal = 0
        self.seconds = 0.0
        self.facts: dict[str, Any] = {}

    @property
    @abstractmethod
    def by(self) -> str:
        """Name of the model's file."""

    @abstractmethod
    def run(self) -> None:
        """Label the texts; ends early if the coding is cancelled or has failed."""

    @property
    def judged(self) -> Answers:
        """Answers so far, with calibrated probabilities."""
        return self.answers

    def put(self, start: int, block: Answers) -> None:
        """Store the answers of a block of texts."""
        self.answers.put(start, block)
        self.is_begun = True


def draw_positions(n: int, until: int | None, seed: int) -> Ints:
    """Return the positions of the texts that the model labels first."""
    if until is None or until >= n:
        return np.arange(n)
    rng = np.random.default_rng([seed, n])
    return np.sort(rng.choice(n, until, replace=False))


def n_unsure(probs: Floats, unsure: float) -> int:
    """Return the number of texts to label again, including all unlabelled texts."""
    n_none = int(np.isnan(probs).any(axis=1).sum())
    return max(round(unsure * len(probs)), n_none)


def unsure_of(probs: Floats, groups: Sequence[Ints], unsure: float) -> Ints:
    """Return the positions of the share `unsure` of each group to label again, sorted.

    `probs` is float64[n, k], of all texts; NaN without a label.
    """
    chosen = [
        group[least_sure(probs[group], n_unsure(probs[group], unsure))]
        for group in groups
        if len(group)
    ]
    return np.sort(np.concatenate(chosen)) if chosen else np.arange(0)


def kept_labels(before: Floats, after: Floats | None) -> dict[str, Any]:
    """Return the share of labels that a later step confirms, for the record."""
    assert after is not None  # noqa: S101 - see settings.py
    both = np.isfinite(before).all(axis=1) & np.isfinite(after).all(axis=1)
    is_kept = before[both].argmax(axis=1) == after[both].argmax(axis=1)
    return fields_of(share(is_kept.astype(np.float64), np.ones(len(is_kept)), LEVEL))


def fields_of(measure: Measure) -> dict[str, Any]:
    """Return a measure as JSON types."""
    numbers = (measure.value, measure.low, measure.high)
    value, low, high = (None if np.isnan(x) else round(float(x), 6) for x in numbers)
    return {"value": value, "low": low, "high": high, "n": measure.n}


def record_of_steps(
    steps: Sequence[Step], answers: Answers, settings: Settings
) -> dict[str, Any]:
    """Return the part of the provenance about steps; `answers` are of all texts."""
    records: list[dict[str, Any]] = []
    for step in (step for step in steps if step.is_begun):
        n_texts = (answers.steps or []).count(step.name)
        records.append(
            {
                "step": step.name,
                "by": step.by,
                "n_asked": len(step.at),
                "is_drawn": step.name == MODEL and len(step.at) < len(answers),
                "seconds": round(step.seconds, 3),
                "n_journal": step.n_journal,
                "n_texts": n_texts,
                "share": round(n_texts / max(1, len(answers)), 6),
                **step.facts,
            }
        )
    return {
        "until": settings.until,
        "unsure": settings.unsure,
        "seed": settings.seed,
        "each": records,
        "methods": " ".join(note("step", step=step) for step in records),
    }


@dataclass(frozen=True, slots=True)
class StepModels:
    """Models of later steps, as the caller passed them: opened, paths, or None."""

    embeddings: Any
    larger: Any

    def opened_embeddings(self, stack: ExitStack) -> Any:  # a model, context or Llama
        """Return the model for embeddings, loaded if it was given as a path."""
        if not isinstance(self.embeddings, (str, os.PathLike)):
            return self.embeddings
        path = model_path(self.embeddings, check_memory=True, name="embeddings")
        return stack.enter_context(Model(path))

    def opened_larger(self, stack: ExitStack) -> Host | None:
        """Return the context of the larger model, opened if it was given as a path."""
        if self.larger is None:
            return None
        if not isinstance(self.larger, (str, os.PathLike)):
            return open_context(self.larger)
        path = model_path(self.larger, check_memory=True, name="larger")
        return stack.enter_context(Context(stack.enter_context(Model(path))))
