"""Description of a run: input, task, model and settings."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llamaherd.calls.asks.annotate_options import AnnotateOptions
from llamaherd.calls.asks.constraints import Constraints
from llamaherd.calls.asks.labels import checked_labels
from llamaherd.calls.asks.options import PromptOptions
from llamaherd.calls.asks.scores import NORMALIZE
from llamaherd.calls.structured.shape import schema_text
from llamaherd.coding.annotation.codebook import Codebook
from llamaherd.coding.annotation.codebook_file import codebook_from
from llamaherd.coding.annotation.settings import idle_settings
from llamaherd.engine.core import checks
from llamaherd.engine.core.errors import ArgumentError, BadArgumentError
from llamaherd.engine.core.sampling import SamplingParams
from llamaherd.tables.spec_keys import (
    CHAT_KEYS,
    KEYS,
    checked_keys,
    is_schema_file,
    is_template_file,
    read_template,
)
from llamaherd.tables.stored import STREAM, check_name
from llamaherd.tables.template import Template
from llamaherd.tasks.make import make_task
from llamaherd.tasks.task import KINDS, Kind

if TYPE_CHECKING:
    from llamaherd.tasks.task import Task

# Keys of locations and speed, which do not change answers. Adapters are identified by
# their content, not by their path.
_OF_MACHINE = {
    "path", "lora", "n_threads", "n_threads_batch",
    "use_mmap", "use_mlock", "check_tensors", "check_memory",
}  # fmt: skip
_SAID_OTHERWISE = ("prompt", "column", "codebook")
_OF_PLACE = ("input", "output", "journal")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSpec:
    """Complete description of a run.

    Attributes:
        task: "generate", "classify", "annotate" or "embed".
        input: Path of a table as .csv, .tsv, .jsonl, .ndjson or .parquet, text files
            also with .gz or .zst; "-" for stdin; or a pipe such as `<(...)`.
        output: Path of the table with the new columns; "-" for stdout.
        journal: Path of the journal that stores finished rows. None for a file next to
            the output; "" for no journal.
        prompt: Template of the prompts; `{column}` is replaced by the row's value.
        column: Column that contains the prompts, as an alternative to `prompt`.
        chat: Whether to format prompts with the model's chat template.
        system: System message before each prompt; needs `chat`.
        thinking: Thinking before each answer, as in `generate_parallel`; a TOML table has
            the fields of `Thinking`.
        variables: Variables of the chat template.
        chat_template: Chat template that replaces the model's: path of a file, or its
            text.
        answer_prefix: Text that each answer starts with.
        merge_system: Whether to put the system message into the first message of the user
            if the template refuses it.
        prefix: Text at the start of the names of new columns.
        encoding: Encoding of CSV and JSONL files.
        delimiter: Delimiter of CSV; None for a comma. In .tsv it is a tab.
        header: Whether the first row of a CSV input has the names of its columns. Without
            it, they are "column_1", "column_2" and so on; a single column is "text".
        limit: Number of rows of the input to read, from the first; None for all.
        spreadsheet: Whether to write CSV for a spreadsheet: with a byte order mark, and
            with an apostrophe before cells that would be read as a formula.
        model: Arguments of `Model`; `path` is the model to load.
        context: Arguments of `Context`.
        sampling: Settings of generation, including `retries`, `strict`
            and `show_schema`.
        classify: Labels and further arguments of `classify_parallel`.
        codebook: Codebook for the task "annotate": path of a YAML file,
            "ready:name" for a ready codebook, or its content.
        annotate: Further arguments of `annotate`.
        embed: Arguments of `embed_parallel`.
    """

    task: Kind = "generate"
    input: str = STREAM
    output: str = STREAM
    journal: str | None = None
    prompt: str | None = None
    column: str | None = None
    chat: bool = False
    system: str | None = None
    thinking: Mapping[str, Any] | int | None = None
    variables: Mapping[str, Any] | None = None
    chat_template: str | None = None
    answer_prefix: str | None = None
    merge_system: bool = False
    prefix: str = ""
    encoding: str = "utf-8"
    delimiter: str | None = None
    header: bool = True
    limit: int | None = None
    spreadsheet: bool = False
    model: Mapping[str, Any] = field(default_factory=dict)
    context: Mapping[str, Any] = field(default_factory=dict)
    sampling: Mapping[str, Any] = field(default_factory=dict)
    classify: Mapping[str, Any] = field(default_factory=dict)
    codebook: str | Mapping[str, Any] | None = None
    annotate: Mapping[str, Any] = field(default_factory=dict)
    embed: Mapping[str, Any] = field(default_factory=dict)

    @property
    def error_column(self) -> str:
        """Name of the output's column with the reasons of failed rows."""
        return f"{self.prefix}error"

    def __post_init__(self) -> None:
        checks.choice("task", self.task, KINDS)
        for name in ("input", "output", "prefix", "encoding"):
            checks.text(name, getattr(self, name))
        for name in ("journal", "prompt", "column", "system", "delimiter"):
            if getattr(self, name) is not None:
                checks.text(name, getattr(self, name))
        if self.limit is not None:
            checks.integer("limit", self.limit, 1)
        for name in ("chat", "header", "spreadsheet"):
            checks.flag(name, getattr(self, name))
        for name, known in KEYS.items():
            checked_keys(f"[{name}]", getattr(self, name), known)
        for name in ("input", "output"):
            check_name(name, getattr(self, name))
        if self.delimiter == "\\t":  # shells pass it on as two characters
            object.__setattr__(self, "delimiter", "\t")
        for argument, problem, code in self._problems():
            raise ArgumentError(problem, argument=argument, code=code)
        self._check_task()

    def _problems(self) -> Iterator[tuple[str, str, str]]:
        """Yield argument, problem and code of keys that cannot be used together."""
        mark = self.delimiter
        if mark is not None and (len(mark) != 1 or mark in '"\r\n\0'):
            problem = f"must be one character, such as ';', not {checks.shown(mark)}"
            yield "delimiter", problem, "invalid_value"
        if not _is_encoding(self.encoding):
            problem = (
                f"is not known: {checks.shown(self.encoding)}; try 'utf-8' or 'cp1252'"
            )
            yield "encoding", problem, "invalid_value"
        if self.prompt is not None and self.column is not None:
            problem = "and column cannot be given together: use column if its texts are "
            problem += "the prompts, or prompt for a template with values of columns"
            yield "prompt", problem, "conflict"
        _ = self.template
        if self.system is not None and not self.chat:
            yield "system", "needs chat = true", "missing"
        yield from self._problems_of_chat()
        yield from self._problems_of_task()
        seed = self.sampling.get("seed", 0)
        if isinstance(seed, int) and seed < 0:
            problem = f"must be at least 0, not {seed}: a resumed run must draw the same "
            yield "[sampling] seed", f"{problem}tokens again", "out_of_range"

    def _problems_of_task(self) -> Iterator[tuple[str, str, str]]:
        """Yield problems of keys that the task does not have, or needs."""
        if self.task == "embed" and self.chat:
            problem = "= true cannot be combined with embed, which has no prompts"
            yield "chat", problem, "invalid_value"
        if self.task == "classify" and not self.classify.get("labels"):
            yield "classify", "needs labels, such as ['yes', 'no']", "missing"
        # A table that belongs to another task would have no effect.
        is_annotate = self.task == "annotate"
        for name in ("sampling", "classify", "embed") if is_annotate else ():
            if getattr(self, name):
                problem = (
                    "cannot be combined with task = 'annotate'; its table is [annotate]"
                )
                yield f"[{name}]", problem, "not_together"
        for name in () if is_annotate else ("codebook", "annotate"):
            if getattr(self, name):
                problem = f"needs task = 'annotate', but task is {self.task!r}"
                yield f"[{name}]", problem, "not_together"
        if is_annotate and self.codebook is None:
            problem = (
                "annotate needs a codebook: a file such as codebook = 'topics.yaml' "
            )
            yield "", f"{problem}(--codebook), or a table [codebook]", "missing"
        if is_annotate and self.system is not None:
            problem = "cannot be combined with annotate: a codebook has a system message"
            yield "system", problem, "not_together"

    def _problems_of_chat(self) -> Iterator[tuple[str, str, str]]:
        """Check the keys for the chat template before a model is loaded."""
        for key, option in CHAT_KEYS.items():
            value = getattr(self, key)
            kind = PromptOptions.declared[option].kind
            if value is not None:
                kind.check(key, self.template_text if key == "chat_template" else value)
            if value in (None, False):
                continue
            if not self.chat:
                yield key, "needs chat = true", "missing"
            if self.task == "annotate" and option not in AnnotateOptions.declared:
                problem = "cannot be combined with annotate: a codebook makes the prompts"
                yield key, problem, "not_together"

    def _check_task(self) -> None:
        """Check the table of the task before a model is loaded."""
        if self.task == "classify":
            checked_labels(self.classify["labels"])
            normalize = self.classify.get("normalize", "sum")
            checks.choice("[classify] normalize", normalize, NORMALIZE)
            _check_several("[classify] labels", self.classify["labels"])
        elif self.task == "annotate":
            book = self.book
            for name in idle_settings(book, self.annotate):
                raise ArgumentError(
                    "has an effect only with method = 'generate'",
                    argument=f"[annotate] {name}",
                    code="not_together",
                )
            _ = self._task_of(book)
        elif self.task == "generate":
            params = SamplingParams(**self.settings)
            if params.choices is not None:
                _check_several("[sampling] choices", params.choices)
            checks.real("[sampling] temperature", params.temperature, 0.0, 1e6)
            self._check_schema(params)

    def _check_schema(self, params: SamplingParams) -> None:
        """Check the schema before a model is loaded."""
        schema: Any = self.sampling.get("schema")
        strict = checks.flag("[sampling] strict", self.sampling.get("strict", False))
        try:
            Constraints({}, strict=strict).shape(params)
        except ValueError as error:
            is_file = self._is_schema_file
            where = f"the schema {Path(schema).name}" if is_file else "[sampling] schema"
            raise ArgumentError(
                f"{where} cannot be used: {error}",
                argument="[sampling] schema",
                form="{problem}",
            ) from None

    @property
    def row_task(self) -> Task[Any]:
        """Task to run on each row."""
        return self._task_of(self.book if self.task == "annotate" else None)

    def _task_of(self, book: Codebook | None) -> Task[Any]:
        rendering = {"chat": self.chat, **self.chat_options}
        words = {**rendering, "system": self.system}
        settings: dict[str, Any] = {
            "generate": {**self.sampling, **self.settings, **words},
            "classify": {**self.classify, **words},
            "annotate": {**self.annotate, **rendering},
            "embed": {**self.embed},
        }[self.task]
        if book is not None:
            settings["codebook"] = book
        return make_task(self.task, settings, in_file=True)

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
                f"codebook {checks.shown(path)} cannot be read: {error.strerror}",
                code="unreadable",
            ) from None

    @property
    def template(self) -> Template:
        """Template of the prompts."""
        if self.prompt is not None:
            return Template.parsed(self.prompt)
        return Template.of_column("text" if self.column is None else self.column)

    @property
    def chat_options(self) -> dict[str, Any]:
        """Options of the task that the keys for the chat template set."""
        options = {option: getattr(self, key) for key, option in CHAT_KEYS.items()}
        options["template"] = self.template_text
        of_task = AnnotateOptions if self.task == "annotate" else PromptOptions
        return {
            name: value
            for name, value in options.items()
            if name in of_task.declared
            and value not in (None, PromptOptions.declared[name].default)
        }

    @property
    def template_text(self) -> str | None:
        """Chat template of the run; None for the model's template."""
        if self.chat_template is None or not is_template_file(self.chat_template):
            return self.chat_template
        return read_template(Path(self.chat_template), "chat_template")

    @property
    def settings(self) -> dict[str, Any]:
        """Return the fields of `SamplingParams`, with the content of a schema file."""
        declared = SamplingParams.declared
        settings = {k: v for k, v in self.sampling.items() if k in declared}
        if settings.get("schema") is not None:
            settings["schema"] = self.schema
        if isinstance(settings.get("logit_bias"), Mapping):  # TOML keys are strings
            biases = settings["logit_bias"].items()
            settings["logit_bias"] = {_token(token): bias for token, bias in biases}
        return settings

    @property
    def schema(self) -> str | None:
        """Schema as JSON; None without a schema."""
        schema = self.sampling.get("schema")
        if schema is None:
            return None
        return schema_text(Path(schema) if self._is_schema_file else schema)[0]

    @property
    def _is_schema_file(self) -> bool:
        schema = self.sampling.get("schema")
        return isinstance(schema, str) and is_schema_file(schema)

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

        Keys with default values are omitted. A key that a later version adds therefore
        does not change the hash of existing runs.
        """
        description: dict[str, Any] = {
            key.name: getattr(self, key.name)
            for key in fields(self)
            if key.name not in (*_OF_PLACE, *KEYS, *_SAID_OTHERWISE)
            and getattr(self, key.name) != key.default
        }
        description["task"] = self.task
        description["prompt"] = self.template.canonical()
        if self.chat_template is not None:
            description["chat_template"] = self.template_text
        used = "sampling" if self.task == "generate" else self.task
        if self.task == "annotate":
            book = self.book
            description["codebook"] = {**book.to_dict(), "hash": book.hash}
        contexts = () if self.task == "embed" else ("context",)
        for name in ("model", *contexts, used):
            settings = {**getattr(self, name)}
            if name == "sampling" and settings.get("schema") is not None:
                settings["schema"] = self.schema
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


def _is_encoding(name: str) -> bool:
    try:
        return "a".encode(name).decode(name) == "a"
    except (LookupError, UnicodeError, TypeError, ValueError):
        return False


def canonical_json(value: object) -> str:
    """Return the canonical JSON text of a value."""
    return json.dumps(
        value, ensure_ascii=True, separators=(",", ":"), default=str, sort_keys=True
    )


def _check_several(name: str, labels: Collection[object]) -> None:
    """Check that there are at least two labels; with one, all answers would be equal."""
    if len(labels) < 2:
        label = checks.shown(next(iter(labels)))
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
