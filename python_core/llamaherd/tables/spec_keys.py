"""Keys of a run file: the tables, their keys and defaults; a check for unknown keys."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING

from llamaherd.calls.asks.annotate_options import AnnotateOptions
from llamaherd.calls.asks.options import (
    ClassifyOptions,
    EmbedOptions,
    GenerateOptions,
    PromptOptions,
)
from llamaherd.calls.run.context import Context
from llamaherd.engine.core import checks
from llamaherd.engine.core.declaration import REQUIRED, options_of
from llamaherd.engine.core.errors import ArgumentError, ArgumentTypeError
from llamaherd.engine.core.files import not_utf8
from llamaherd.engine.model.model import Model

if TYPE_CHECKING:
    from pathlib import Path


def _names(function: object, without: str = "") -> dict[str, object]:
    """Return the defaults of a function's optional arguments, by name."""
    parameters = inspect.signature(function).parameters  # type: ignore[arg-type]
    return {
        name: parameter.default
        for name, parameter in parameters.items()
        if parameter.default is not inspect.Parameter.empty and name != without
    }


# Top-level keys for the chat template, with the names of the options that they set.
CHAT_KEYS = {
    PromptOptions.declared[name].key: name
    for name in ("thinking", "variables", "template", "prefix", "merge_system")
}
# Options of a task that are top-level keys of the file, not keys of the task's table.
AT_TOP = ("chat", "system", "journal", *CHAT_KEYS)


# Tables of the tasks, with the options that are their keys.
TASK_TABLES = {
    "sampling": GenerateOptions,
    "classify": ClassifyOptions,
    "annotate": AnnotateOptions,
    "embed": EmbedOptions,
}


def _options(table: str) -> dict[str, object]:
    """Return the keys of a task's table with their defaults."""
    taken = options_of(TASK_TABLES[table], "rows")
    return {
        name: None if option.default is REQUIRED else option.default
        for name, option in taken.items()
        if name not in AT_TOP
    }


# Keys of each table with their defaults.
KEYS: dict[str, dict[str, object]] = {
    "model": {"path": None, **_names(Model, without="interrupt")},
    "context": _names(Context),
    **{table: _options(table) for table in TASK_TABLES},
}
_TABLES = frozenset(f"[{name}]" for name in KEYS)


def checked_keys(where: str, table: object, known: Mapping[str, object]) -> None:
    """Check that a table has only known keys."""
    if not isinstance(table, Mapping):
        raise ArgumentTypeError(
            f"must be a table of keys, not {checks.shown(table)}", argument=where
        )
    for key in table:
        if key not in known:
            close = get_close_matches(str(key), known, n=1)
            nested = "" if where in _TABLES else _nested(str(key))
            hint = f"did you mean {close[0]!r}?" if close else f"known: {_list(known)}"
            if nested:
                hint = f"did you mean {nested}?"
            raise ArgumentError(
                f"{where} has no key {str(key)[:60]!r}; {hint}",
                argument=f"{where if where in _TABLES else ''} {key}".strip(),
                code="unknown_argument",
                form="{problem}",
            )


def _nested(key: str) -> str:
    """Return TABLE.KEY for each table that has this key, for messages; "" for none."""
    return " or ".join(repr(f"{table}.{key}") for table in KEYS if key in KEYS[table])


def _list(names: Mapping[str, object]) -> str:
    return ", ".join(names)


def is_template_file(template: str) -> bool:
    """Return whether a text is the path of a template file; a template has braces."""
    return "{" not in template


def is_schema_file(schema: str) -> bool:
    """Return whether a text is the path of a schema; a schema begins with a brace."""
    return schema.lstrip()[:1] != "{"


def read_template(path: Path, name: str) -> str:
    """Return the chat template in a file."""
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
        argument=name,
        code="unreadable",
    )
