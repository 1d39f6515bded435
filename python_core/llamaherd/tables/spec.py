"""Description of a run: input, task, model and settings."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from llamaherd.calls.asks.annotate_options import AnnotateOptions
from llamaherd.calls.asks.labels import checked_labels
from llamaherd.calls.asks.options import PromptOptions
from llamaherd.calls.asks.settings import shape_with
from llamaherd.calls.run.context import checked_options
from llamaherd.calls.structured.shape import schema_text
from llamaherd.coding.annotation.codebook import Codebook
from llamaherd.coding.annotation.codebook_file import codebook_from
from llamaherd.coding.annotation.settings import idle_settings
from llamaherd.engine.core import checks
from llamaherd.engine.core.declaration import declares
from llamaherd.engine.core.errors import ArgumentError, BadArgumentError
from llamaherd.engine.core.sampling import SamplingParams
from llamaherd.engine.model.model import checked_load_options
from llamaherd.tables.spec_keys import (
    CHAT_KEYS,
    KEYS,
    TASKS_OF,
    RunKeys,
    is_schema_file,
    of_table,
    template_text,
)
from llamaherd.tables.template import Template
from llamaherd.tasks.make import make_task
from llamaherd.tasks.task import KINDS, Task

# Keys of locations and speed, which do not change answers. Adapters are identified by
# their content, not by their path.
_OF_MACHINE = {
    "path", "lora", "n_threads", "n_threads_batch",
    "use_mmap", "use_mlock", "check_tensors", "check_memory",
}  # fmt: skip
# Keys of places, and keys that `canonical` describes by their content.
_NOT_IN_HASH = {"input", "output", "journal", "prompt", "column", "codebook", *KEYS}


@declares
class RunSpec(RunKeys):
    """Complete description of a run, whose keys are checked against each other."""

    def __post_init__(self) -> None:
        """Check keys that depend on each other, before a model is loaded."""
        for is_wrong, argument, problem, code in self._rules():
            if is_wrong:
                raise ArgumentError(problem, argument=argument, code=code)
        _ = self.template
        if self.task == "classify":
            checked_labels(self.classify["labels"])
            _check_several("[classify] labels", self.classify["labels"])
        elif self.task == "annotate":
            for name in idle_settings(self.book, self.annotate):
                raise ArgumentError(
                    "has an effect only with method = 'generate'",
                    argument=f"[annotate] {name}",
                    code="not_together",
                )
        elif self.task == "generate":
            self._check_sampling()
        _ = self.row_task
        with of_table("model"):
            checked_load_options(self.loading)
        if self.task != "embed":
            with of_table("context"):
                checked_options(self.context)

    def _rules(self) -> Iterator[tuple[object, str, str, str]]:
        """Yield rules: whether a key breaks it, the key, the problem and its code."""
        is_annotate = self.task == "annotate"
        problem = (
            "and column cannot be given together: use column if its texts are the "
            "prompts, or prompt for a template with values of columns"
        )
        yield None not in (self.prompt, self.column), "prompt", problem, "conflict"
        problem = "cannot be combined with annotate: a codebook makes the prompts"
        for key, name in CHAT_KEYS.items():
            is_set = getattr(self, key) not in (None, False)
            needs_chat = "needs chat = true (--chat)"
            yield is_set and not self.chat, key, needs_chat, "missing"
            is_idle = is_annotate and name not in AnnotateOptions.declared
            yield is_set and is_idle, key, problem, "not_together"
        problem = "= true cannot be combined with embed, which has no prompts"
        yield self.task == "embed" and self.chat, "chat", problem, "invalid_value"
        is_unlabelled = self.task == "classify" and not self.classify.get("labels")
        problem = "needs labels, such as ['yes', 'no']"
        yield is_unlabelled, "classify", problem, "missing"
        for name, tasks in TASKS_OF.items():
            table = getattr(self, name)
            is_idle = self.task not in tasks and table
            key = f"[{name}] {next(iter(table))}" if is_idle and name in KEYS else name
            needed = " or ".join(map(repr, tasks))
            problem = f"needs task = {needed}, but task is {self.task!r}"
            yield is_idle, key, problem, "not_together"
        problem = (
            "annotate needs a codebook: a file such as codebook = 'topics.yaml' "
            "(--codebook), or a table [codebook]"
        )
        yield is_annotate and self.codebook is None, "", problem, "missing"
        seed = self.sampling.get("seed", 0)
        is_negative = isinstance(seed, int) and seed < 0
        problem = f"must be at least 0, not {seed}: a resumed run must draw the same "
        yield is_negative, "[sampling] seed", f"{problem}tokens again", "out_of_range"

    def _check_sampling(self) -> None:
        """Check the settings of generation, and whether the schema can be used."""
        params = SamplingParams(**self.settings)
        if params.choices is not None:
            _check_several("[sampling] choices", params.choices)
        checks.real("[sampling] temperature", params.temperature, 0.0, 1e6)
        strict = checks.flag("[sampling] strict", self.sampling.get("strict", False))
        try:
            shape_with(params, is_strict=strict)
        except ValueError as error:
            schema: Any = self.sampling.get("schema")
            is_file = isinstance(schema, str) and is_schema_file(schema)
            where = f"the schema {Path(schema).name}" if is_file else "[sampling] schema"
            raise ArgumentError(
                f"{where} cannot be used: {error}",
                argument="[sampling] schema",
                form="{problem}",
            ) from None

    @property
    def error_column(self) -> str:
        """Name of the output's column with the reasons of failed rows."""
        return f"{self.prefix}error"

    @property
    def row_task(self) -> Task[Any]:
        """Task to run on each row."""
        chat = {"chat": self.chat, **self.chat_options}
        settings: dict[str, Any] = {
            "generate": {**self.sampling, **self.settings, **chat},
            "classify": {**self.classify, **chat},
            "annotate": {**self.annotate, **chat},
            "embed": {**self.embed},
        }[self.task]
        if self.task == "annotate":
            settings["codebook"] = self.book
        return make_task(self.task, settings, in_file=True)

    @property
    def chat_options(self) -> dict[str, Any]:
        """Options of the task that the keys for the chat template set."""
        of_task = AnnotateOptions if self.task == "annotate" else PromptOptions
        options = {
            name: getattr(self, key)
            for key, name in CHAT_KEYS.items()
            if name in of_task.declared and key in self.changed()
        }
        if "template" in options:
            options["template"] = template_text(options["template"])
        return options

    @property
    def book(self) -> Codebook:
        """Codebook of the task "annotate"."""
        book = self.codebook
        if isinstance(book, Mapping):
            try:
                return Codebook.from_dict(book)
            except BadArgumentError as error:
                where = f"codebook.{error.argument}" if error.argument else "codebook"
                raise error.moved(argument=where) from None
        path = checks.text("codebook", book)
        try:
            return codebook_from(path)
        except OSError as error:
            raise ArgumentError(
                f"{checks.brief(path)} cannot be read: {error.strerror}",
                argument="codebook",
                code="unreadable",
            ) from None

    @property
    def template(self) -> Template:
        """Template of the prompts."""
        if self.prompt is not None:
            return Template.parsed(self.prompt)
        return Template.of_column("text" if self.column is None else self.column)

    @property
    def settings(self) -> dict[str, Any]:
        """Return the fields of `SamplingParams`, with the content of a schema file."""
        declared = SamplingParams.declared
        settings = {k: v for k, v in self.sampling.items() if k in declared}
        if settings.get("schema") is not None:
            settings["schema"] = schema_text(settings["schema"])[0]
        if isinstance(settings.get("logit_bias"), Mapping):  # TOML keys are strings
            biases = settings["logit_bias"].items()
            settings["logit_bias"] = {_token(token): bias for token, bias in biases}
        return settings

    @property
    def path(self) -> str:
        """Source of the model."""
        path = self.model.get("path")
        if path is None:
            raise ArgumentError(
                "is missing: it is the model to run",
                argument="[model] path",
                code="missing",
            )
        return str(path)

    @property
    def loading(self) -> dict[str, Any]:
        """Arguments of `Model` except the path."""
        options = {key: value for key, value in self.model.items() if key != "path"}
        if "lora" in options:
            options["lora"] = _with_pairs(options["lora"])
        return options

    def canonical(self) -> dict[str, Any]:
        """Settings that, with model file and input, determine the answers.

        Defaults are omitted, so that a new key does not change the hash of earlier runs.
        """
        description: dict[str, Any] = {
            key: getattr(self, key) for key in self.changed() if key not in _NOT_IN_HASH
        }
        description["task"] = self.task
        description["prompt"] = self.template.canonical()
        if self.chat_template is not None:
            description["chat_template"] = template_text(self.chat_template)
        if self.task == "annotate":
            book = self.book
            description["codebook"] = {**book.to_dict(), "hash": book.hash}
        used = (name for name in KEYS if self.task in TASKS_OF.get(name, KINDS))
        for name in used:
            settings = {**getattr(self, name)}
            if name == "sampling" and settings.get("schema") is not None:
                settings["schema"] = schema_text(settings["schema"])[0]
            for step in ("embeddings", "larger"):  # a run file makes paths absolute
                model = settings.get(step)
                if isinstance(model, str) and Path(model).is_absolute():
                    settings[step] = Path(model).name
            labels = settings.get("labels")
            if isinstance(labels, Mapping):  # their order matters
                settings["labels"] = list(labels.items())
            changed = {
                key: value
                for key, value in settings.items()
                if key not in _OF_MACHINE and value != KEYS[name][key]
            }
            if changed:
                description[name] = changed
        return description

    def hash(self) -> str:
        """SHA-256 of `canonical`, in hexadecimal."""
        return hashlib.sha256(canonical_json(self.canonical()).encode()).hexdigest()


def _with_pairs(lora: object) -> object:
    """Return adapters with their scales as pairs: TOML has no tuples."""
    if not isinstance(lora, list):
        return lora
    is_pair = len(lora) == 2 and isinstance(lora[1], (int, float))
    return tuple(lora) if is_pair else [_with_pairs(adapter) for adapter in lora]


def canonical_json(value: object) -> str:
    """Return the canonical JSON text of a value."""
    return json.dumps(
        value, ensure_ascii=True, separators=(",", ":"), default=str, sort_keys=True
    )


def _check_several(name: str, labels: Collection[object]) -> None:
    """Check that there are at least two labels; with one, all answers would be equal."""
    if len(labels) < 2:
        label = checks.brief(next(iter(labels)))
        raise ArgumentError(
            f"must be at least two different labels, not only {label}",
            argument=name,
            code="out_of_range",
        )


def _token(text: object) -> int:
    try:
        return int(str(text))
    except ValueError:
        raise ArgumentError(
            f"must map token ids to numbers, not {text!r}",
            argument="[sampling] logit_bias",
        ) from None
