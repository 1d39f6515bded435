"""Reading and writing of the TOML file of a run."""

from __future__ import annotations

import os
import re
import tomllib
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tomli_w

from llamaherd.coding.annotation.codebook_file import is_ready
from llamaherd.engine.core import checks
from llamaherd.engine.core.errors import ArgumentError, BadArgumentError
from llamaherd.tables.spec import RunSpec
from llamaherd.tables.spec_keys import KEYS, checked_keys, is_template_file
from llamaherd.tables.stored import STREAM

if TYPE_CHECKING:
    from collections.abc import Mapping

_MAX_BYTES = 16 << 20
_HEADER = re.compile(r"\s*\[([^\[\]]+)\]")
_KEY = re.compile(r"""\s*([\w-]+|"[^"]*"|'[^']*')\s*[=.]""")
_TABLES = (*KEYS, "thinking", "variables")
_KNOWN: dict[str, object] = {
    field.name: None for field in fields(RunSpec) if field.name != "folder"
}


def read_spec(path: str | os.PathLike[str]) -> RunSpec:
    """Read the description of a run; relative paths refer to the file's folder."""
    file = Path(path).absolute()
    try:
        with file.open("rb") as stream:
            content = stream.read(_MAX_BYTES + 1)
        _check_size(content)
        # A tool of Windows may write a byte order mark.
        found = tomllib.loads(content.decode("utf-8-sig"))
    except OSError as error:
        raise ArgumentError(
            error.strerror or str(error), code="unreadable", file=str(path)
        ) from None
    except (ValueError, RecursionError) as error:
        raise ArgumentError(
            f"not TOML: {error}", code="no_toml", file=str(path)
        ) from None
    try:
        return spec_of(found, file.parent)
    except BadArgumentError as error:
        line = line_of(content.decode("utf-8-sig"), error.argument)
        raise error.moved(file=str(path), line=line) from None
    except (TypeError, ValueError) as error:
        raise ArgumentError(str(error), file=str(path)) from None


def line_of(text: str, argument: str) -> int | None:
    """Return the number of the line that sets a key; None if no line is found."""
    wanted, _, key = argument.rpartition(" ")
    own = key.split(".", maxsplit=1)[0]
    table = ""
    for number, line in enumerate(text.splitlines(), 1):
        header = _HEADER.match(line)
        if header:
            table = header[1].strip()
            if f"[{table.partition('.')[0]}]" == key or (not wanted and table == own):
                return number
        found = _KEY.match(line)
        is_named = found is not None and found[1].strip("\"'") == own
        if is_named and (not wanted or wanted == f"[{table}]"):
            return number
    return None


def _check_size(content: bytes) -> None:
    if len(content) > _MAX_BYTES:
        raise ValueError(f"it is larger than {_MAX_BYTES} bytes")


def spec_of(found: Mapping[str, Any], folder: Path) -> RunSpec:
    """Create the run that the keys of a file describe."""
    checked_keys("a run", found, _KNOWN)
    return RunSpec(**found, folder=folder)


def changed(spec: RunSpec, changes: Mapping[str, Any]) -> RunSpec:
    """Return a copy of a run with some keys changed, such as "sampling.seed"."""
    found = _plain(spec)
    for key, value in changes.items():
        table, dot, name = key.partition(".")
        if not dot:
            found[key] = value
            continue
        if table not in _TABLES:
            raise ArgumentError(
                f"there is no table [{table}]; the tables are {', '.join(_TABLES)}",
                argument=key,
                code="unknown_argument",
                form="{problem}",
            )
        own = found.get(table)
        found[table] = {**(own if isinstance(own, dict) else {}), name: value}
    return spec_of(found, spec.folder)


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
    """Write the TOML file of a run, with paths relative to the file's folder."""
    file = Path(path).absolute()
    found = _plain(spec)
    _make_relative(found, spec, file.parent)
    text = tomli_w.dumps(found, multiline_strings=False)
    try:
        with file.open("x", encoding="utf-8") as out:
            out.write(text)
    except FileExistsError:
        if file.read_bytes() != text.encode():
            raise ArgumentError(
                f"{checks.shown(str(path))} already exists and describes another run: "
                "remove it, or save to another name",
                argument="path",
                code="exists",
                form="{problem}",
            ) from None
    except OSError as error:
        raise ArgumentError(
            f"{path} cannot be written: {error.strerror}",
            argument="path",
            code="not_writable",
            form="{problem}",
        ) from None


def _make_relative(found: dict[str, Any], spec: RunSpec, folder: Path) -> None:
    """Make the paths in a run's keys relative to a folder."""
    for name in ("input", "output"):
        if found.get(name, STREAM) != STREAM:
            found[name] = _relative(spec.at(name), folder)
    if found.get("journal"):
        found["journal"] = _relative(spec.folder / found["journal"], folder)
    schema = found.get("sampling", {}).get("schema")
    if isinstance(schema, str) and schema.lstrip()[:1] != "{":
        inside = {
            **found["sampling"],
            "schema": _relative(spec.folder / schema, folder),
        }
        found["sampling"] = inside
    for name in ("codebook", "chat_template"):
        own = found.get(name)
        if isinstance(own, str) and is_ready(own):
            continue
        if isinstance(own, str) and (name == "codebook" or is_template_file(own)):
            found[name] = _relative(spec.folder / own, folder)
    model = found.get("model", {}).get("path")
    if model is not None and (spec.folder / model).is_file():
        absolute = (spec.folder / model).absolute()
        is_beside = absolute.is_relative_to(folder)
        near = _relative(absolute, folder) if is_beside else str(absolute)
        found["model"] = {**found["model"], "path": near}


def _plain(spec: RunSpec) -> dict[str, Any]:
    """Return the keys that are not None, which TOML cannot represent."""
    found: dict[str, Any] = {"task": spec.task}
    for field in fields(spec):
        value = getattr(spec, field.name)
        if field.name in KEYS:
            value = {key: inner for key, inner in value.items() if inner is not None}
            if value:
                found[field.name] = value
        elif field.name != "folder" and value not in (field.default, None):
            found[field.name] = value
    return found


def _relative(path: Path, folder: Path) -> str:
    try:
        return os.path.relpath(path, folder)
    except ValueError:  # the path is on another drive of Windows
        return str(path)
