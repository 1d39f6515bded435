"""Reading and writing of the TOML file of a run."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import tomli_w

from llamaherd.coding.annotation.codebook_file import is_ready
from llamaherd.engine.core import checks
from llamaherd.engine.core.errors import ArgumentError, BadArgumentError
from llamaherd.engine.core.files import is_special, not_utf8, write_whole
from llamaherd.tables.spec import RunSpec
from llamaherd.tables.spec_keys import (
    KEYS,
    check_keys,
    is_schema_file,
    is_template_file,
)
from llamaherd.tables.stored import STREAM

_MAX_BYTES = 16 << 20
_PART = r"""(?:[\w-]+|"[^"]*"|'[^']*')"""
_PATH = rf"({_PART}(?:\s*\.\s*{_PART})*)"
_HEADER = re.compile(rf"\s*\[{{1,2}}\s*{_PATH}\s*\]{{1,2}}\s*(?:#.*)?")
_KEY = re.compile(rf"\s*{_PATH}\s*=")
_TABLES = (*KEYS, "thinking", "variables")
_MODELS = ("model.path", "model.lora", "annotate.embeddings", "annotate.larger")
# Keys whose texts are paths, with the condition under which a text is one.
_PATHS: dict[str, Callable[[str], bool]] = {
    **dict.fromkeys(
        ("input", "output", "journal"), lambda path: path not in {"", STREAM}
    ),
    "codebook": lambda codebook: not is_ready(codebook),
    "chat_template": is_template_file,
    "sampling.schema": is_schema_file,
    **dict.fromkeys(_MODELS, lambda _: True),
}


def read_spec(path: str | os.PathLike[str]) -> RunSpec:
    """Read the description of a run; relative paths refer to the file's folder."""
    file = Path(path).absolute()
    try:
        with file.open("rb") as stream:
            content = stream.read(_MAX_BYTES + 1)
        _check_size(content)
        # A tool of Windows may write a byte order mark.
        text = content.decode("utf-8-sig")
        keys = tomllib.loads(text)
    except OSError as error:
        raise ArgumentError(
            error.strerror or str(error), code="unreadable", file=str(path)
        ) from None
    except UnicodeDecodeError as error:
        raise ArgumentError(not_utf8(error), code="no_toml", file=str(path)) from None
    except (ValueError, RecursionError) as error:
        raise ArgumentError(
            f"not TOML: {error}", code="no_toml", file=str(path)
        ) from None
    try:
        return spec_of(keys, file.parent)
    except BadArgumentError as error:
        if error.file is not None:  # such as the file of a codebook
            raise
        line = line_of(text, error.argument)
        raise error.moved(file=str(path), line=line) from None
    except (TypeError, ValueError) as error:
        raise ArgumentError(str(error), file=str(path)) from None


def line_of(text: str, argument: str) -> int | None:
    """Return the number of the line that sets a key; None if no line is found."""
    argument_path = _parts(argument)
    table: list[str] = []
    paths: list[list[str]] = []
    for line in text.splitlines():
        header, key = _HEADER.fullmatch(line), _KEY.match(line)
        table = _parts(header[1]) if header else table
        paths.append(table if header else [*table, *_parts(key[1])] if key else [])
    for n in range(
        len(argument_path), 0, -1
    ):  # else the table, also if it is written in a line
        for number, path in enumerate(paths, 1):
            if path[:n] == argument_path[:n] or (n == 1 and argument_path[0] in path):
                return number
    return None


def _parts(path: str) -> list[str]:
    """Return the table and the keys that a path or the argument of an error names."""
    return [part.strip("\"'") for part in re.findall(_PART, path)]


def _check_size(content: bytes) -> None:
    if len(content) > _MAX_BYTES:
        raise ValueError(f"it is larger than {_MAX_BYTES} bytes")


def spec_of(keys: Mapping[str, Any], folder: Path | None = None) -> RunSpec:
    """Create the run that keys describe; relative paths refer to a folder, if given."""
    check_keys("", keys)
    if folder is not None:
        keys = _with_paths(
            keys,
            lambda file: str(folder / Path(file).expanduser()),
            lambda model: str(folder / model) if (folder / model).is_file() else model,
        )
    return RunSpec(**keys)


def with_changes(spec: RunSpec, changes: Mapping[str, Any]) -> RunSpec:
    """Return a copy of a run with some keys changed, such as "sampling.seed"."""
    keys = _plain(spec)
    for key, value in changes.items():
        table, dot, name = key.partition(".")
        if not dot:
            keys[key] = value
            continue
        if table not in _TABLES:
            raise ArgumentError(
                f"there is no table [{table}]; the tables are {', '.join(_TABLES)}",
                argument=key,
                code="unknown_argument",
                form="{problem}",
            )
        settings = keys.get(table)
        keys[table] = {**(settings if isinstance(settings, dict) else {}), name: value}
    return spec_of(keys)


def parsed_setting(text: str) -> tuple[str, Any]:
    """Split `KEY=VALUE`. A value that is not valid TOML is read as text."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise ArgumentError(
            f"{text!r} is not KEY=VALUE, such as context.n_seq_max=16",
            argument="--set",
            form="{problem}",
        )
    try:
        return key.strip(), tomllib.loads(f"value = {value}")["value"]
    except (ValueError, RecursionError):
        return key.strip(), value


def write_spec(spec: RunSpec, path: str | os.PathLike[str]) -> None:
    """Write the TOML file of a run, with paths relative to the file's folder.

    Paths in what a pipe or stdout gets are relative to the working directory.
    """
    file = Path(path).absolute()
    folder = Path.cwd() if is_special(file) else file.parent
    keys = _with_paths(
        _plain(spec),
        lambda path: _relative(Path(path).absolute(), folder),
        lambda model: _beside(Path(model), folder) if Path(model).is_file() else model,
    )
    content = tomli_w.dumps(keys, multiline_strings=False).encode()
    if not is_special(file) and file.exists() and file.read_bytes() not in {b"", content}:
        raise ArgumentError(
            f"{checks.brief(str(path))} already exists and describes another run: "
            "remove it, or save to another name",
            argument="path",
            code="exists",
            form="{problem}",
        )
    write_whole(file, content, argument="path")


def _with_paths(
    described: Mapping[str, Any],
    of_file: Callable[[str], str],
    of_model: Callable[[str], str],
) -> dict[str, Any]:
    """Return the keys of a run with changed paths of its files, and of its models."""
    keys = dict(described)
    for key, is_path in _PATHS.items():
        table, _, name = key.rpartition(".")
        settings = keys.get(table) if table else keys
        if isinstance(settings, Mapping) and name in settings:
            change = of_model if key in _MODELS else of_file
            paths = {**settings, name: _with_texts(settings[name], change, is_path)}
            keys |= {table: paths} if table else paths
    return keys


def _with_texts(
    value: object, change: Callable[[str], str], is_path: Callable[[str], bool]
) -> object:
    """Return a text, or the texts of lists, changed where it is a path."""
    if isinstance(value, (list, tuple)):
        return [_with_texts(inner, change, is_path) for inner in value]
    return change(value) if isinstance(value, str) and is_path(value) else value


def _plain(spec: RunSpec) -> dict[str, Any]:
    """Return the keys that are not None, which TOML cannot represent."""
    keys: dict[str, Any] = {"task": spec.task}
    for name in spec.changed():
        value = getattr(spec, name)
        if name in KEYS:
            value = {key: inner for key, inner in value.items() if inner is not None}
        if value or name not in KEYS:
            keys[name] = value
    return keys


def _beside(model: Path, folder: Path) -> str:
    """Return the path of a model, relative if it is in a folder."""
    path = model.absolute()
    return _relative(path, folder) if path.is_relative_to(folder) else str(path)


def _relative(path: Path, folder: Path) -> str:
    try:
        return os.path.relpath(path, folder)
    except ValueError:  # the path is on another drive of Windows
        return str(path)
