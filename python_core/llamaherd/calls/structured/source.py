"""Conversion of the accepted forms of a schema to a JSON Schema."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_origin, is_typeddict

from llamaherd.calls.structured.subschemas import subschemas
from llamaherd.engine.core import checks
from llamaherd.engine.core.errors import ArgumentError, ArgumentTypeError
from llamaherd.engine.core.plain import plain
from llamaherd.engine.core.sampling_values import checked_schema

if TYPE_CHECKING:
    from collections.abc import Callable

_MAX_BYTES = 2_000_000  # maximum size of a file


def schema_text(source: object) -> tuple[str, Callable[[str], object] | None]:
    """Return a JSON Schema as compact JSON.

    Args:
        source: A JSON Schema as a dict, JSON text or the path of a file; a pydantic
            model, a dataclass, a TypedDict or another type that pydantic supports.

    Returns:
        The schema, and a function that converts the text of an answer to a value; None
        for a plain schema.

    Raises:
        TypeError: `source` has another form, or pydantic is not installed.
        ValueError: `source` is not JSON, or the file does not exist.
    """
    source = plain(source)
    if isinstance(source, os.PathLike):
        return _of_file(Path(source)), None
    if isinstance(source, str) and not _looks_like_json(source):
        return _of_file(Path(source)), None
    if isinstance(source, type) or get_origin(source) is not None:
        return _of_type(source)
    return checked_schema("schema", source), None


def _looks_like_json(text: str) -> bool:
    return text.lstrip()[:1] == "{" or text.strip() in ("true", "false")


def _of_file(path: Path) -> str:
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise ArgumentError(
                f"the file {path} is larger than {_MAX_BYTES} bytes",
                argument="schema",
                code="too_many",
                form="{name}: {problem}",
            )
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ArgumentError(
            f"is neither JSON nor a file that can be read: "
            f"{checks.shown(str(path))} ({error})",
            argument="schema",
        ) from None
    return checked_schema(f"schema (the file {path})", text)


def _of_type(source: Any) -> tuple[str, Callable[[str], object]]:  # noqa: ANN401
    try:
        from pydantic import PydanticUserError, TypeAdapter  # noqa: PLC0415 - optional
    except ImportError:
        kind = (
            "a dataclass"
            if dataclasses.is_dataclass(source)
            else "a TypedDict"
            if is_typeddict(source)
            else "a type"
        )
        raise ArgumentTypeError(
            f"is {kind}, {source!r}, which requires pydantic: pip install pydantic",
            argument="schema",
        ) from None
    try:
        adapter = TypeAdapter(source)
        schema = adapter.json_schema()
    except PydanticUserError as error:
        raise ArgumentTypeError(
            f"pydantic makes no schema of {source!r}: {error}",
            argument="schema",
            form="{name}: {problem}",
        ) from None
    _close(schema)
    return checked_schema("schema", json.dumps(schema)), adapter.validate_json


def _close(schema: dict[str, Any]) -> None:
    """Forbid additional fields in objects; journals contain such schemas."""
    every = subschemas(schema)
    if any("allOf" in each for each in every):
        return  # other parts of the schema may allow more fields
    for each in every:
        if "properties" in each:
            each.setdefault("additionalProperties", False)
