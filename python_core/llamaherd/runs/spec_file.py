"""The TOML file of a run: read, and written."""

from __future__ import annotations

import os
import sys
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tomli_w

from llamaherd.core import checks
from llamaherd.runs.spec import KEYS, STREAM, RunSpec, checked_keys

if TYPE_CHECKING:
    from collections.abc import Mapping

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_MAX_BYTES = 16 << 20
_KNOWN: dict[str, object] = {
    each.name: None for each in fields(RunSpec) if each.name != "folder"
}


def read_spec(path: str | os.PathLike[str]) -> RunSpec:
    """The run that a file describes. Relative paths in it are relative to its folder.

    Raises:
        TypeError: A key has a value of the wrong type.
        ValueError: It cannot be read, is no TOML, or describes no run.
    """
    file = Path(path).absolute()
    try:
        with file.open("rb") as stream:
            content = stream.read(_MAX_BYTES + 1)
        _check_size(content)
        found = tomllib.loads(content.decode())
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is no TOML: {error}") from None
    try:
        return spec_of(found, file.parent)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{path}: {error}") from None


def _check_size(content: bytes) -> None:
    if len(content) > _MAX_BYTES:
        raise ValueError(f"it is larger than {_MAX_BYTES} bytes")


def spec_of(found: Mapping[str, Any], folder: Path) -> RunSpec:
    """The run that the keys of a file describe.

    Raises:
        TypeError: A key has a value of the wrong type.
        ValueError: They describe no run.
    """
    checked_keys("a run", found, _KNOWN)
    return RunSpec(**found, folder=folder)


def changed(spec: RunSpec, changes: Mapping[str, Any]) -> RunSpec:
    """A run with some keys set; "sampling.seed" stands for one in a table.

    Raises:
        TypeError: A value has the wrong type.
        ValueError: A key is unknown, or its value is out of range.
    """
    found = _plain(spec)
    for key, value in changes.items():
        table, dot, name = key.partition(".")
        if not dot:
            found[key] = value
            continue
        if table not in KEYS:
            raise ValueError(f"there is no table [{table}]; there are {', '.join(KEYS)}")
        found[table] = {**found.get(table, {}), name: value}
    return spec_of(found, spec.folder)


def parsed_setting(text: str) -> tuple[str, Any]:
    """A key and a value of `KEY=VALUE`, the value as in TOML; else it is text.

    Raises:
        ValueError: It is none.
    """
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise ValueError(f"{text!r} is no KEY=VALUE, such as context.n_seq_max=16")
    try:
        return key.strip(), tomllib.loads(f"value = {value}")["value"]
    except (ValueError, RecursionError):
        return key.strip(), value


def write_spec(spec: RunSpec, path: str | os.PathLike[str]) -> None:
    """Writes the file; paths are written relative to its folder.

    Raises:
        ValueError: There is another file of that name, or no folder for it.
    """
    file = Path(path).absolute()
    found = _plain(spec)
    for name in ("input", "output"):
        if found.get(name, STREAM) != STREAM:
            found[name] = _relative(spec.at(name), file.parent)
    if found.get("journal"):
        found["journal"] = _relative(spec.folder / found["journal"], file.parent)
    schema = found.get("sampling", {}).get("schema")
    if isinstance(schema, str) and schema.lstrip()[:1] != "{":
        inside = {
            **found["sampling"],
            "schema": _relative(spec.folder / schema, file.parent),
        }
        found["sampling"] = inside
    model = found.get("model", {}).get("path")
    if model is not None and (spec.folder / model).is_file():
        absolute = (spec.folder / model).absolute()
        is_beside = absolute.is_relative_to(file.parent)
        near = _relative(absolute, file.parent) if is_beside else str(absolute)
        found["model"] = {**found["model"], "path": near}
    text = tomli_w.dumps(found, multiline_strings=False)
    try:
        with file.open("x", encoding="utf-8") as out:
            out.write(text)
    except FileExistsError:
        if file.read_bytes() != text.encode():
            raise ValueError(
                f"{checks.shown(str(path))} is there already, and describes another run: "
                "remove it, or save to another name"
            ) from None
    except OSError as error:
        raise ValueError(f"{path} cannot be written: {error.strerror}") from None


def _plain(spec: RunSpec) -> dict[str, Any]:
    """The keys that were set; TOML has nothing that stands for None."""
    found: dict[str, Any] = {"task": spec.task}
    for each in fields(spec):
        value = getattr(spec, each.name)
        if each.name in KEYS:
            value = {key: inner for key, inner in value.items() if inner is not None}
            if value:
                found[each.name] = value
        elif each.name != "folder" and value not in (each.default, None):
            found[each.name] = value
    return found


def _relative(path: Path, folder: Path) -> str:
    try:
        return os.path.relpath(path, folder)
    except ValueError:  # another disk of Windows
        return str(path)
