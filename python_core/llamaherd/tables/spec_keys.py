"""Keys of a run file: their values, defaults and documentation."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from llamaherd.calls.asks.annotate_options import AnnotateOptions
from llamaherd.calls.asks.options import (
    ClassifyOptions,
    EmbedOptions,
    GenerateOptions,
    PromptOptions,
)
from llamaherd.calls.run.context import Context
from llamaherd.engine.core import checks
from llamaherd.engine.core.declaration import (
    REQUIRED,
    Options,
    declares,
    option,
    options_of,
)
from llamaherd.engine.core.errors import (
    ArgumentError,
    ArgumentTypeError,
    BadArgumentError,
)
from llamaherd.engine.core.files import not_utf8
from llamaherd.engine.core.values import Checked, Choice, Flag, TextKind, Unchecked, Whole
from llamaherd.engine.model.model import Model
from llamaherd.tables.stored import STREAM, check_name
from llamaherd.tasks.task import KINDS, Kind

# Top-level keys that set an option of the prompts, with the names of these options.
CHAT_KEYS = {
    PromptOptions.declared[name].key: name
    for name in ("system", "thinking", "variables", "template", "prefix", "merge_system")
}
# Options of a task that are top-level keys of the file, not keys of the task's table.
AT_TOP = ("chat", "journal", *CHAT_KEYS)
# Tables of the tasks, with the options that are their keys.
TASK_TABLES: dict[str, type[Options]] = {
    "sampling": GenerateOptions,
    "classify": ClassifyOptions,
    "annotate": AnnotateOptions,
    "embed": EmbedOptions,
}
# Tasks on which a table has an effect; the others refuse it.
TASKS_OF: dict[str, tuple[Kind, ...]] = {
    "context": ("generate", "classify", "annotate"),
    "sampling": ("generate",),
    "classify": ("classify",),
    "codebook": ("annotate",),
    "annotate": ("annotate",),
    "embed": ("embed",),
}


def _arguments(function: object) -> dict[str, object]:
    """Return the defaults of a function's optional arguments, by name."""
    parameters = inspect.signature(function).parameters  # type: ignore[arg-type]
    return {
        name: parameter.default
        for name, parameter in parameters.items()
        if parameter.default is not inspect.Parameter.empty and name != "interrupt"
    }


# Keys of each table with their defaults.
KEYS: dict[str, dict[str, object]] = {
    "model": {"path": None, **_arguments(Model)},
    "context": _arguments(Context),
    **{
        table: {
            name: None if declared.default is REQUIRED else declared.default
            for name, declared in options_of(options, "rows").items()
            if name not in AT_TOP
        }
        for table, options in TASK_TABLES.items()
    },
}


def check_keys(table: str, keys: object) -> None:
    """Check that a table is a mapping of known keys; "" for the keys of the file."""
    where = f"[{table}]" if table else "a run"
    if not isinstance(keys, Mapping):
        raise ArgumentTypeError(
            f"must be a table of keys, not {checks.brief(keys)}", argument=where
        )
    known: Mapping[str, object] = KEYS[table] if table else RunKeys.declared
    for key in keys:
        if key in known:
            continue
        hint = checks.meant(key, known) or f"; known: {', '.join(known)}"
        tables = () if table else [name for name in KEYS if key in KEYS[name]]
        if tables:
            hint = f"; did you mean {' or '.join(repr(f'{t}.{key}') for t in tables)}?"
        raise ArgumentError(
            f"{where} has no key {checks.quoted(str(key))}{hint}",
            argument=f"[{table}] {key}" if table else str(key),
            code="unknown_argument",
            form="{problem}",
        )


@contextmanager
def of_table(name: str) -> Iterator[None]:
    """Add the name of the TOML table to errors about its keys."""
    try:
        yield
    except BadArgumentError as error:
        if error.argument not in KEYS[name]:
            raise
        raise error.moved(argument=f"[{name}] {error.argument}") from None


def is_schema_file(schema: str) -> bool:
    """Return whether a text is the path of a schema; a schema begins with a brace."""
    return schema.lstrip()[:1] != "{"


def is_template_file(template: str) -> bool:
    """Return whether a text is the path of a template file; a template has braces."""
    return "{" not in template


def template_text(template: str) -> str:
    """Return a chat template that is given as its text or as the path of a file."""
    if not is_template_file(template):
        return template
    path = Path(template)
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        reason = error.strerror or str(error)
    except UnicodeDecodeError as error:
        reason = f"it is {not_utf8(error)}"
    except ValueError as error:  # the path contains a NUL
        reason = str(error)
    raise ArgumentError(
        f"{checks.quoted(path.name)} cannot be read: {reason}",
        argument="chat_template",
        code="unreadable",
    )


def _table(doc: str) -> Any:  # as `option`
    def checked(name: str, keys: object) -> object:
        check_keys(name, keys)
        return keys

    kind = Checked(checked, {"type": "object"})
    return option(kind, default_factory=dict, doc=doc)


def _of_prompts(name: str, more: str = "", **flag: str) -> Any:  # as `option`
    """Declare the key for an option of prompts; its value is stored as in the file."""
    declared = PromptOptions.declared[name]

    def checked(key: str, value: Any) -> object:  # of a file
        is_template = name == "template" and isinstance(value, str)
        declared.kind.check(key, template_text(value) if is_template else value)
        return value

    kind = Checked(checked, declared.kind.schema)
    facts: dict[str, Any] = {"flag": "", "section": "prompts", **flag}
    return option(kind, default=declared.default, doc=f"{declared.doc}{more}", **facts)


def _stored_name(name: str, value: object) -> str:
    check_name(name, checks.text(name, value))
    return str(value)


def _delimiter(name: str, value: object) -> str:
    mark = checks.text(name, value)
    if mark == "\\t":  # shells pass it on as two characters
        return "\t"
    if len(mark) != 1 or mark in '"\r\n\0':
        problem = f"must be one character, such as ';', not {checks.brief(mark)}"
        raise ArgumentError(problem, argument=name)
    return mark


def _encoding(name: str, value: object) -> str:
    encoding = checks.text(name, value)
    try:
        if "a".encode(encoding).decode(encoding) == "a":
            return encoding
    except (LookupError, UnicodeError, TypeError, ValueError):
        pass
    raise ArgumentError(
        f"is not known: {checks.brief(encoding)}; try 'utf-8' or 'cp1252'",
        argument=name,
    )


@declares
class RunKeys(Options):
    """Keys of a run file."""

    task: Kind = option(
        Choice(KINDS),
        default="generate",
        doc='"generate", "classify", "annotate" or "embed".',
    )
    input: str = option(
        Checked(_stored_name, {"type": "string"}),
        default=STREAM,
        doc="Path of a table as .csv, .tsv, .jsonl, .ndjson or .parquet, text files also "
        'with .gz or .zst; "-" for stdin; or a pipe such as `<(...)`.',
    )
    output: str = option(
        Checked(_stored_name, {"type": "string"}),
        default=STREAM,
        doc="Path of the table with the new columns: .csv, .tsv, .jsonl, .ndjson (also "
        'with .gz or .zst) or .parquet; "-" for stdout.',
        flag="Default: stdout, in JSON lines if INPUT is JSON lines, otherwise in CSV.",
        flag_name="-o, --out",
        metavar="FILE",
        section="tables",
    )
    journal: str | None = option(
        TextKind(),
        default=None,
        doc="Path of a file that stores results as they are finished. None for a file "
        'next to the output; "" for no journal.',
        flag="Default OUTPUT.journal; '' for no journal.",
        metavar="FILE",
        section="journal",
    )
    prompt: str | None = option(
        TextKind(),
        default=None,
        doc="Template of the prompts; {column} is replaced by the row's value.",
        flag="Replaces --column.",
        section="prompts",
    )
    column: str | None = option(
        TextKind(),
        default=None,
        doc="Column with the texts, an alternative to a template of prompts.",
        flag='Default "text".',
        metavar="NAME",
        section="prompts",
    )
    chat: bool = _of_prompts("chat")
    system: str | None = _of_prompts("system", flag="Needs --chat.")
    thinking: Mapping[str, Any] | int | None = _of_prompts(
        "thinking",
        " A table has the fields of `Thinking`.",
        flag="Needs --chat.",
        metavar="N|on|off",
    )
    variables: Mapping[str, Any] | None = _of_prompts(
        "variables",
        flag="May be given several times.",
        flag_name="--var",
        metavar="NAME=VALUE...",
    )
    chat_template: str | None = _of_prompts(
        "template",
        " A text without braces is the path of a file.",
        flag_name="--template",
        metavar="FILE",
    )
    answer_prefix: str | None = _of_prompts("prefix")
    merge_system: bool = _of_prompts("merge_system")
    prefix: str = option(
        TextKind(),
        default="",
        doc="Text at the start of the names of new columns.",
        flag="",
        section="tables",
    )
    encoding: str = option(
        Checked(_encoding, {"type": "string"}),
        default="utf-8",
        doc="Encoding of CSV and JSON lines.",
        flag="Default utf-8.",
        metavar="NAME",
        section="tables",
    )
    delimiter: str | None = option(
        Checked(_delimiter, {"type": "string"}),
        default=None,
        doc="Delimiter of CSV. None for a comma. In .tsv it is a tab.",
        flag="Default: comma. In .tsv it is a tab.",
        metavar="CHAR",
        section="tables",
    )
    header: bool = option(
        Flag(),
        default=True,
        doc="Whether the first row of a CSV input has the names of its columns. Without "
        'it, they are "column_1", "column_2" and so on; a single column is "text".',
        flag_help="The first row of CSV is no header: columns are column_1, column_2 and "
        "so on; a single column is text.",
        flag="",
        section="tables",
    )
    limit: int | None = option(
        Whole(1),
        default=None,
        doc="Number of rows of the input to read, from the first. None for all.",
        flag="",
        section="tables",
    )
    spreadsheet: bool = option(
        Flag(),
        default=False,
        doc="Write CSV for a spreadsheet: with a byte order mark, and an apostrophe "
        "before cells that it would read as formulas.",
        flag="",
        section="tables",
    )
    model: Mapping[str, Any] = _table(
        "Arguments of `Model`; `path` is the model to load."
    )
    context: Mapping[str, Any] = _table("Arguments of `Context`.")
    sampling: Mapping[str, Any] = _table(
        "Settings of generation, including `retries`, `strict` and `show_schema`."
    )
    classify: Mapping[str, Any] = _table(
        "Labels and further arguments of `classify_parallel`."
    )
    codebook: str | Mapping[str, Any] | None = option(
        Unchecked({"type": ["string", "object"]}),
        default=None,
        doc='Path of a codebook as a YAML file, or "ready:NAME" for a ready codebook. '
        'Used by the task "annotate". In a run file also its content.',
        flag="See `llamaherd codebooks ready`.",
        metavar="FILE.yaml",
        section="annotate",
    )
    annotate: Mapping[str, Any] = _table("Further arguments of `annotate`.")
    embed: Mapping[str, Any] = _table("Arguments of `embed_parallel`.")
