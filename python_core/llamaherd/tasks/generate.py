"""Answers to prompts: texts, or the fields of a schema."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from llamaherd.calls.api.generate import prepare_generate
from llamaherd.calls.asks.rendering import plan_thinking, rendered_prompts, with_schemas
from llamaherd.calls.structured.columns import (
    BOOLEAN,
    INTEGER,
    STRING,
    Column,
    cells,
    columns_of,
    has_others,
)
from llamaherd.calls.structured.shape import schema_text
from llamaherd.engine.core.errors import ArgumentError, ChatTemplateError
from llamaherd.engine.core.results import THOUGHT_COLUMNS, Result, Results, thought_cells
from llamaherd.engine.core.sampling import CONSTRAINTS, SamplingParams
from llamaherd.tasks.task import Task, free_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llamaherd.calls.asks.options import GenerateOptions
    from llamaherd.calls.journal.journal import Journal
    from llamaherd.calls.run.host import Host
    from llamaherd.calls.run.job import Runnable
    from llamaherd.engine.model.model import Model
    from llamaherd.tasks.task import Cells

_KINDS = {"n_thinking_tokens": INTEGER, "thinking_complete": BOOLEAN}
_JSON = (bool, int, float, str, list, dict)


@dataclass(frozen=True)
class Generate(Task["Results"]):
    """Answers to prompts.

    Each field of a schema has a column. Record batches contain the text of the answer
    only if the schema allows further fields. Files always contain the text and the
    finish reason; the column of the text is called "answer", because the column of
    prompts is often called "text".
    """

    options: GenerateOptions  # options of `generate_parallel`
    in_file: bool = False  # whether to use the columns of files
    model_thinks: bool = False  # whether the model thinks by default before answers

    def __post_init__(self) -> None:
        _ = self._params

    def of_model(self, model: Model) -> Generate:
        """Return the task, with columns for thoughts if the model thinks by default."""
        options = self.options
        if not options.chat or options.thinking is not None:
            return self
        is_free = all(getattr(self._params, name) in {None, ""} for name in CONSTRAINTS)
        try:
            plan = plan_thinking(
                model,
                None,
                constrained=not is_free,
                template=options.template,
                variables=options.variables,
            )
        except (ArgumentError, ChatTemplateError):  # the call will raise this error
            return self
        return replace(self, model_thinks=plan is not None and plan.thinking is not None)

    @property
    def chat(self) -> bool:
        return self.options.chat

    def prompt(self, text: str, model: Model | None) -> str:
        if model is None:
            return text
        texts: list[object] = [text]
        if self.options.show_schema:
            texts = with_schemas(texts, [self._params.schema])
        (prompt,) = rendered_prompts(model, texts, self.options, is_constrained=False)
        return prompt.text

    @property
    def columns(self) -> dict[str, Column]:
        fields = {self._role(name): column for name, column in self._fields.items()}
        other_columns = {
            role: _KINDS.get(what, STRING) for role, what in self._value_names.items()
        }
        return {**fields, **other_columns}

    @property
    def n_answer(self) -> int:
        """Expected number of tokens per answer: half of the limit."""
        return max(1, (self._params.max_tokens or self._params.n_answer) // 2)

    def requests(
        self,
        host: Host,
        texts: Sequence[str],
        places: Sequence[int],
        journal: Journal | None,
    ) -> Runnable[Results]:
        return prepare_generate(
            host, texts, self.options, journal=journal, places=places, tells_cut=False
        )

    def rows(self, results: Results) -> Cells:
        answers = [_said(result) for result in results] if self._fields else []
        problems: dict[int, str] = {}
        fields: Cells = {
            self._role(name): cells(
                name, [answer.get(name) for answer in answers], column.hold, problems
            )
            for name, column in self._fields.items()
        }
        values: Cells = {
            # An answer that broke its schema, or was cut off, keeps its text.
            "text": [r.partial if r.text is None else r.text for r in results],
            "finish_reason": results.finish_reasons,
            "error": [error or problems.get(i) for i, error in enumerate(results.errors)],
            **thought_cells(results),
        }
        return {
            **fields,
            **{role: values[what] for role, what in self._value_names.items()},
        }

    def failed(self, reason: str) -> dict[str, object]:
        values = {"finish_reason": "error", "error": reason}
        failed_cells = {
            role: values.get(what) for role, what in self._value_names.items()
        }
        return {**dict.fromkeys(self.columns), **failed_cells}

    @cached_property
    def _schema(self) -> str | None:
        schema = self.options.sampling.get("schema")
        return None if schema is None else schema_text(schema)[0]

    @cached_property
    def _fields(self) -> dict[str, Column]:
        return {} if self._schema is None else columns_of(self._schema)

    @cached_property
    def _params(self) -> SamplingParams:
        settings: dict[str, Any] = {**self.options.sampling, "schema": self._schema}
        return SamplingParams(**settings)

    @cached_property
    def _value_names(self) -> dict[str, str]:
        """Return the name of the value for each role, except for the roles of fields."""
        thoughts = THOUGHT_COLUMNS if self._thinks else ()
        if self.in_file:
            roles = ("answer", "finish_reason", *thoughts, "error")
            return {role: "text" if role == "answer" else role for role in roles}
        columns = {}
        if self._schema is None or has_others(self._schema):
            columns[free_name("text", self._fields)] = "text"
        if self._schema is None:
            columns["finish_reason"] = "finish_reason"
        thought_columns = {free_name(name, self._fields): name for name in thoughts}
        return {**columns, **thought_columns, free_name("error", self._fields): "error"}

    @property
    def _thinks(self) -> bool:
        """Whether the model thinks before answers, so that thoughts have columns."""
        return self.model_thinks or self.options.thinking not in (None, False)

    def _role(self, name: str) -> str:
        return f"answer.{name}" if self.in_file and name in self._value_names else name


def _said(result: Result) -> Mapping[str, Any]:
    """Return the fields of an answer as JSON values."""
    if result.text is None or result.error is not None:
        return {}
    parsed = result.parsed
    if parsed is not None and not isinstance(
        parsed, _JSON
    ):  # instance of a pydantic model
        parsed = json.loads(result.text)
    return parsed if isinstance(parsed, dict) else {}
