"""Probabilities of labels."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from llamaherd.calls.api.classify import prepare_classify
from llamaherd.calls.asks.calibration import low_coverage
from llamaherd.calls.asks.labels import checked_labels
from llamaherd.calls.asks.rendering import rendered_prompts
from llamaherd.calls.structured.columns import BOOLEAN, INTEGER, NUMBER, STRING, Column
from llamaherd.engine.core.results import THOUGHT_COLUMNS
from llamaherd.engine.core.thinking import Thinking
from llamaherd.engine.core.words import setting
from llamaherd.tasks.task import Task, numbers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.calls.asks.options import ClassifyOptions
    from llamaherd.calls.asks.scores import ClassifyResults
    from llamaherd.calls.journal.journal import Journal
    from llamaherd.calls.run.host import Host
    from llamaherd.calls.run.job import Runnable
    from llamaherd.engine.model.model import Model
    from llamaherd.tasks.task import Cells

_NUMBERS = ("prob", "margin", "entropy", "coverage")


@dataclass(frozen=True)
class Classify(Task["ClassifyResults"]):
    """Probabilities of labels as continuations of each prompt."""

    options: ClassifyOptions  # options of `classify_parallel`

    @property
    def chat(self) -> bool:
        return self.options.chat

    def prompt(self, text: str, model: Model | None) -> str:
        if model is None:
            return text
        (prompt,) = rendered_prompts(model, [text], self.options, is_constrained=True)
        return prompt.text

    @property
    def columns(self) -> dict[str, Column]:
        probs = [f"p_{name}" for name in self._names]
        more: dict[str, Column] = {}
        if self.options.n_thoughts > 1:
            more["between"] = NUMBER
        if isinstance(self.options.thinking, Thinking):
            more |= dict(zip(THOUGHT_COLUMNS, (STRING, INTEGER, BOOLEAN), strict=True))
        return {
            "label": STRING,
            **dict.fromkeys([*_NUMBERS, *probs], NUMBER),
            **more,
            "error": STRING,
        }

    @property
    def n_answer(self) -> int:
        """Expected number of tokens per answer: one per label."""
        return len(self.options.labels)

    def requests(
        self,
        host: Host,
        texts: Sequence[str],
        places: Sequence[int],
        journal: Journal | None,
    ) -> Runnable[ClassifyResults]:
        return prepare_classify(host, texts, self.options, journal=journal, places=places)

    def rows(self, results: ClassifyResults) -> Cells:
        probs = {f"p_{name}": results.probs[:, j] for j, name in enumerate(self._names)}
        known = {name: getattr(results, name) for name in _NUMBERS}
        return {
            "label": results.labels,
            **{role: numbers(values) for role, values in {**known, **probs}.items()},
            **{
                role: numbers(values) if role == "between" else values
                for role, values in results.further().items()
            },
            "error": results.errors,
        }

    def notes(self, cells: Cells) -> list[str]:
        """Return notes about improbable labels, see `ClassifyResults.notes`."""
        low = low_coverage(np.array(cells["coverage"], dtype=np.float64))
        way = "" if self.options.chat else f"{setting('chat', True)} or "
        return [f"{low}. Try {way}prompts that end differently"] if low else []

    @cached_property
    def _names(self) -> tuple[str, ...]:
        return checked_labels(self.options.labels).names
