"""What a run is: which rows, asked what, of which model, with which settings."""

from __future__ import annotations

import hashlib
import inspect
import json
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal

from llamaherd.api.classify import classify_parallel
from llamaherd.api.embed import embed_parallel
from llamaherd.api.generate import DEFAULT_RETRIES
from llamaherd.core import checks
from llamaherd.core.sampling import SamplingParams
from llamaherd.core.scores import NORMALIZE
from llamaherd.model.model import Model
from llamaherd.run.constraints import Constraints
from llamaherd.run.context import Context
from llamaherd.run.labels import checked_labels
from llamaherd.run.settings import params_of_call
from llamaherd.runs.template import Template
from llamaherd.structured.source import schema_text

Task = Literal["generate", "classify", "embed"]
TASKS: tuple[Task, ...] = ("generate", "classify", "embed")
STREAM = "-"  # stdin as input, stdout as output
SUFFIXES = (".csv", ".tsv", ".jsonl", ".parquet")


def _names(function: object, *wanted: str) -> dict[str, object]:
    """Arguments of a function with their defaults; without `wanted` all that have one."""
    parameters = inspect.signature(function).parameters  # type: ignore[arg-type]
    return {
        name: each.default
        for name, each in parameters.items()
        if (name in wanted or not wanted) and each.default is not inspect.Parameter.empty
    }


# The keys of each table and their defaults.
KEYS: dict[str, dict[str, object]] = {
    "model": {"path": None, **_names(Model)},
    "context": _names(Context),
    "sampling": {
        **{each.name: each.default for each in fields(SamplingParams)},
        "seed": params_of_call({}).seed,
        "retries": DEFAULT_RETRIES,
        "strict": False,
    },
    "classify": {
        "labels": None,
        **_names(classify_parallel, "normalize", "pmi_prompt", "space"),
    },
    "embed": _names(
        embed_parallel, "pooling", "normalize", "truncate", "deterministic", "n_threads"
    ),
}
# They say where and how fast, never what the answer is. (Adapters are told by content.)
_OF_MACHINE = {
    "path", "lora", "n_threads", "n_threads_batch",
    "use_mmap", "use_mlock", "check_tensors", "check_memory",
}  # fmt: skip
_OF_PLACE = ("input", "output", "journal")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSpec:
    """All that a run is.

    Attributes:
        task: "generate", "classify" or "embed".
        input: A table as .csv, .tsv, .jsonl or .parquet; "-": stdin.
        output: Where the table goes, with new columns; "-": stdout.
        journal: Where what is finished is kept; None: beside the output; "": nowhere.
        prompt: What is asked of each row, with `{column}` where its values go.
        column: Instead: the column whose texts are the prompts.
        chat: Whether the model's chat template makes prompts of that.
        system: With `chat`: a system message before each.
        prefix: What the names of new columns begin with.
        encoding: Of CSV and JSONL.
        delimiter: Of CSV; None: a comma, or a tab in .tsv.
        spreadsheet: Whether CSV is written for a spreadsheet: with a byte order mark, and
            an apostrophe before what would be a formula.
        model: What `Model` takes; its `path` is what to load.
        context: What `Context` takes.
        sampling: Settings of generation, with `retries` and `strict`.
        classify: Labels, and how `classify_parallel` makes probabilities of them.
        embed: What `embed_parallel` takes.
        folder: What relative paths are relative to.

    Raises:
        TypeError: A key has a value of the wrong type.
        ValueError: A key is unknown, or its value is out of range.
    """

    task: Task = "generate"
    input: str = STREAM
    output: str = STREAM
    journal: str | None = None
    prompt: str | None = None
    column: str | None = None
    chat: bool = False
    system: str | None = None
    prefix: str = ""
    encoding: str = "utf-8"
    delimiter: str | None = None
    spreadsheet: bool = False
    model: Mapping[str, Any] = field(default_factory=dict)
    context: Mapping[str, Any] = field(default_factory=dict)
    sampling: Mapping[str, Any] = field(default_factory=dict)
    classify: Mapping[str, Any] = field(default_factory=dict)
    embed: Mapping[str, Any] = field(default_factory=dict)
    folder: Path = field(default_factory=Path.cwd, compare=False)

    def __post_init__(self) -> None:
        checks.choice("task", self.task, TASKS)
        for name in ("input", "output", "prefix", "encoding"):
            checks.text(name, getattr(self, name))
        for name in ("journal", "prompt", "column", "system", "delimiter"):
            if getattr(self, name) is not None:
                checks.text(name, getattr(self, name))
        for name in ("chat", "spreadsheet"):
            checks.flag(name, getattr(self, name))
        for name, known in KEYS.items():
            checked_keys(f"[{name}]", getattr(self, name), known)
        self._check_places()
        self._check_words()

    def _check_places(self) -> None:
        for name, path in (("input", self.input), ("output", self.output)):
            if path != STREAM and Path(path).suffix.lower() not in SUFFIXES:
                raise ValueError(
                    f"{name} must end in {', '.join(SUFFIXES)}, or be '-' for a stream, "
                    f"not {checks.shown(path)}"
                )
        is_delimiter = self.delimiter is None or (
            len(self.delimiter) == 1 and self.delimiter not in '"\r\n\0'
        )
        if not is_delimiter:
            raise ValueError(
                "delimiter must be one character, such as ';', not "
                f"{checks.shown(self.delimiter)}"
            )
        try:
            is_text = "a".encode(self.encoding).decode(self.encoding) == "a"
        except (LookupError, UnicodeError, TypeError, ValueError):
            is_text = False
        if not is_text:
            raise ValueError(
                f"encoding is not known: {checks.shown(self.encoding)}; try 'utf-8' or "
                "'cp1252'"
            )

    def _check_words(self) -> None:
        if self.prompt is not None and self.column is not None:
            raise ValueError(
                "prompt and column cannot be given together: a column's texts are the "
                "prompts, or a prompt has their values in it"
            )
        _ = self.template
        if self.system is not None and not self.chat:
            raise ValueError("system needs chat = true")
        if self.task == "embed" and self.chat:
            raise ValueError("chat = true is not for embed, which makes no prompts")
        if self.task == "classify":
            if not self.classify.get("labels"):
                raise ValueError("classify needs labels, such as ['yes', 'no']")
            checked_labels(self.classify["labels"])
            normalize = self.classify.get("normalize", "sum")
            checks.choice("[classify] normalize", normalize, NORMALIZE)
            _check_several("[classify] labels", self.classify["labels"])
        seed = self.sampling.get("seed", 0)
        if isinstance(seed, int) and seed < 0:
            raise ValueError(
                f"[sampling] seed must be at least 0, not {seed}: a run that is gone on "
                "with has to draw the same again"
            )
        if self.task == "generate":
            params = SamplingParams(**self.settings)
            if params.choices is not None:
                _check_several("[sampling] choices", params.choices)
            checks.real("[sampling] temperature", params.temperature, 0.0, 1e6)
            self._check_schema(params)

    def _check_schema(self, params: SamplingParams) -> None:
        """A schema that cannot be used is told before a model is loaded."""
        given = self.sampling.get("schema")
        strict = checks.flag("[sampling] strict", self.sampling.get("strict", False))
        try:
            Constraints({}, strict=strict).shape(params)
        except ValueError as error:
            where = f"the schema {given}" if self._is_schema_file else "[sampling] schema"
            raise ValueError(f"{where} cannot be used: {error}") from None

    @property
    def template(self) -> Template:
        """What makes a row's prompt."""
        if self.prompt is not None:
            return Template.parsed(self.prompt)
        return Template.of_column("text" if self.column is None else self.column)

    @property
    def settings(self) -> dict[str, Any]:
        """Those of `SamplingParams`, with the content of a schema's file."""
        own = {k: v for k, v in self.sampling.items() if k not in ("retries", "strict")}
        if own.get("schema") is not None:
            own["schema"] = self.schema
        if isinstance(own.get("logit_bias"), Mapping):  # keys are texts in TOML
            own["logit_bias"] = {
                _token(token): value for token, value in own["logit_bias"].items()
            }
        return own

    @property
    def schema(self) -> str | None:
        """The schema as JSON; None: there is none."""
        given = self.sampling.get("schema")
        if given is None:
            return None
        return schema_text(self.folder / given if self._is_schema_file else given)[0]

    @property
    def _is_schema_file(self) -> bool:
        given = self.sampling.get("schema")
        return isinstance(given, str) and given.lstrip()[:1] != "{"

    @property
    def path(self) -> str:
        """What to load; a file beside the description counts first."""
        path = self.model.get("path")
        if path is None:
            raise ValueError("[model] path is missing: which model to ask")
        return str(self._near(path))

    @property
    def loading(self) -> dict[str, Any]:
        """The other arguments of `Model`."""
        own = {key: value for key, value in self.model.items() if key != "path"}
        return {**own, "lora": self._near(own["lora"])} if "lora" in own else own

    def _near(self, path: Any) -> Any:  # noqa: ANN401 - as a file of TOML has it
        """A path, or those in a list; a file beside the description counts first."""
        if isinstance(path, list):
            found = [self._near(each) for each in path]
            is_pair = len(found) == 2 and isinstance(found[1], (int, float))
            return tuple(found) if is_pair else found  # TOML has no tuples
        if not isinstance(path, (str, os.PathLike)):
            return path
        near = self.folder / path
        return str(near) if near.is_file() else os.fspath(path)

    def at(self, name: Literal["input", "output"]) -> Path:
        """The absolute path of a file."""
        return self.folder / Path(getattr(self, name)).expanduser()

    def canonical(self) -> dict[str, Any]:
        """All that decides the answers beside the model's file and the input's content.

        What has its default value is left out: a key that a later version adds does not
        change the hash of what there is.
        """
        found: dict[str, Any] = {
            each.name: getattr(self, each.name)
            for each in fields(self)
            if each.name not in (*_OF_PLACE, *KEYS, "folder", "prompt", "column")
            and getattr(self, each.name) != each.default
        }
        found["task"] = self.task
        found["prompt"] = str(self.template)
        used = {"generate": "sampling", "classify": "classify", "embed": "embed"}
        is_embed = self.task == "embed"
        for name in ("model", *([] if is_embed else ["context"]), used[self.task]):
            own = {**getattr(self, name)}
            if name == "sampling" and own.get("schema") is not None:
                own["schema"] = self.schema
            if isinstance(own.get("labels"), Mapping):
                own["labels"] = list(own["labels"].items())  # their order has a meaning
            changed = {
                key: value
                for key, value in own.items()
                if key not in _OF_MACHINE and value != KEYS[name][key]
            }
            if changed:
                found[name] = changed
        return found

    def hash(self) -> str:
        """SHA-256 of `canonical`, in hexadecimal."""
        return hashlib.sha256(canonical_json(self.canonical()).encode()).hexdigest()


def canonical_json(value: object) -> str:
    """The one JSON text of a value."""
    return json.dumps(
        value, ensure_ascii=True, separators=(",", ":"), default=str, sort_keys=True
    )


def checked_keys(where: str, table: object, known: Mapping[str, object]) -> None:
    """Refuses keys that nobody knows.

    Args:
        where: Named in messages.
        table: A table of TOML.
        known: The keys there are.

    Raises:
        TypeError: `table` is none.
        ValueError: A key is unknown; the message suggests one.
    """
    if not isinstance(table, Mapping):
        raise TypeError(f"{where} must be a table of keys, not {checks.shown(table)}")
    for key in table:
        if key not in known:
            close = get_close_matches(str(key), known, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"known: {_list(known)}"
            raise ValueError(f"{where} has no key {str(key)[:60]!r}; {hint}")


def _check_several(name: str, labels: Collection[object]) -> None:
    """A column that can only have one value says nothing of its rows."""
    if len(labels) < 2:
        found = checks.shown(next(iter(labels)))
        raise ValueError(f"{name} must be at least two different ones, not {found} alone")


def _list(names: Mapping[str, object]) -> str:
    return ", ".join(names)


def _token(text: object) -> int:
    try:
        return int(str(text))
    except ValueError:
        raise ValueError(
            f"[sampling] logit_bias must map token ids to numbers, not {text!r}"
        ) from None
