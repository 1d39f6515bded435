"""Annotation of texts with a codebook."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.calls.chat.chat import template_date, writes_date
from llamaherd.calls.structured.columns import NUMBER, Column
from llamaherd.coding.annotation.annotate import prepare_coding
from llamaherd.coding.annotation.codebook import Codebook
from llamaherd.coding.annotation.columns import types_of
from llamaherd.coding.annotation.prompts import frame_of, prompt_preview
from llamaherd.coding.annotation.record import notes_of, record_of
from llamaherd.coding.annotation.settings import Settings, checked_settings
from llamaherd.engine.core import checks
from llamaherd.engine.core.errors import ArgumentTypeError
from llamaherd.engine.model.model import Model
from llamaherd.tasks.task import MissingText, Task, numbers

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llamaherd.calls.journal.journal import Journal
    from llamaherd.calls.run.host import Host
    from llamaherd.calls.run.job import Runnable
    from llamaherd.coding.annotation.coded import Coded
    from llamaherd.tasks.task import Cells

_TEXT = ".text"  # name for the column of texts, different from all roles
_PREFIX = "coded "  # prefix of the new columns, so that no new column is called `_TEXT`


@dataclass(frozen=True)
class Annotate(Task["Coded"]):
    """Annotation of texts; draws depend on seed and prompt, not on a table's part."""

    codebook: Codebook  # the codebook
    settings: Mapping[str, Any]  # further arguments of `annotate`
    _steps: list[str] = field(default_factory=list, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.codebook, Codebook):
            raise ArgumentTypeError(
                f"must be a Codebook, not {checks.brief(self.codebook)}",
                argument="codebook",
            )
        _ = self._checked

    @property
    def reads_all(self) -> bool:
        """Whether batch calibration or steps make a result depend on all texts."""
        return self._checked.calibrate == "batch" or self._checked.in_steps

    @property
    def summary(self) -> str:
        """Description of the steps of the last call; "" for coding in one step."""
        return self._steps[-1] if self._steps else ""

    @property
    def n_answer(self) -> int:
        """Expected tokens per answer: one per label; for fields half of the limit."""
        is_fields = self.codebook.kind.is_generated
        return self._checked.max_tokens // 2 if is_fields else len(self.codebook.names)

    @property
    def chat(self) -> bool:
        return self._checked.chat

    def prompt(self, text: str, model: Model | None) -> str:
        # With several labels, the prompt is that for the first one.
        rendering = self._checked.rendering
        return prompt_preview(self.codebook, text, model, **rendering).prompt

    def record(self, host: Host | Model) -> dict[str, Any]:
        """See `Task`; `report` needs it."""
        settings = self._checked
        if isinstance(host, Model):
            return {}
        if settings.chat and writes_date(host.model, settings.template):
            settings = replace(settings, date=template_date(None).date().isoformat())
        frame = frame_of(self.codebook, chat=settings.chat)
        record = record_of(host, self.codebook, frame, settings)
        del record["started"]
        return record

    @property
    def columns(self) -> dict[str, Column]:
        return types_of(self.codebook, self._checked)

    def requests(
        self,
        host: Host,
        texts: Sequence[str],
        places: Sequence[int],  # noqa: ARG002 - prompts identify texts
        journal: Journal | None,
    ) -> Runnable[Coded]:
        return prepare_coding(
            {_TEXT: list(texts)},
            _TEXT,
            self.codebook,
            host,
            {**self.settings, "columns": _PREFIX},  # type: ignore[typeddict-item]
            is_piece=True,
            journal=journal,
        )

    def rows(self, results: Coded) -> Cells:
        self._steps.extend(
            filter(None, [(results.run.get("steps") or {}).get("methods")])
        )
        columns = {role: results.frame[name] for role, name in results.columns.items()}
        return {
            role: numbers(columns[role]) if column in self._numbers else columns[role]
            for role, column in self.columns.items()
        }

    def failed(self, reason: str) -> dict[str, object]:
        """Return the cells of a row without a prompt. A missing text is not an error."""
        if isinstance(reason, MissingText):
            return dict.fromkeys(self.columns)
        return super().failed(reason)

    def notes(self, cells: Cells) -> list[str]:
        """Return notes about labels with little information, see `Coded.notes`."""
        coverage = cells.get("coverage")
        return notes_of(
            cells.get("label", []),
            None if coverage is None else np.array(coverage, dtype=np.float64),
            self.codebook,
            self._checked.to_dict(),
        )

    @cached_property
    def _checked(self) -> Settings:
        return checked_settings(self.codebook, "model", self.settings)

    @property
    def _numbers(self) -> tuple[Column, ...]:
        """Types of the columns that are float arrays, in which NaN means missing."""
        return () if self.codebook.kind.is_generated else (NUMBER,)
