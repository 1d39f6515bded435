"""From what a caller gives as a schema to the JSON Schema that it stands for."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_origin, is_typeddict

from llamaherd.core import checks
from llamaherd.core.sampling import checked_schema
from llamaherd.structured.places import subschemas

if TYPE_CHECKING:
    from collections.abc import Callable

_MAX_BYTES = 4_000_000  # of a file


def schema_text(source: object) -> tuple[str, Callable[[str], object] | None]:
    """The JSON Schema that a caller means, as compact JSON.

    Args:
        source: A JSON Schema as a dict, as JSON text or in a file of that path; a
            pydantic model, a dataclass, a TypedDict or another type that pydantic knows.

    Returns:
        The schema, and what makes a value of an answer's text: None for a plain schema.

    Raises:
        TypeError: It is none of these, or pydantic is not installed.
        ValueError: It is no JSON, or no such file.
    """
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
            raise ValueError(f"schema: the file {path} is larger than {_MAX_BYTES} bytes")
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(
            f"schema is neither JSON nor a file that can be read: "
            f"{checks.shown(str(path))} ({error})"
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
        raise TypeError(
            f"schema is {kind}, {source!r}, which takes pydantic: pip install pydantic"
        ) from None
    try:
        adapter = TypeAdapter(source)
        schema = adapter.json_schema()
    except PydanticUserError as error:
        raise TypeError(f"schema: pydantic makes none of {source!r}: {error}") from None
    _close(schema)
    return checked_schema("schema", json.dumps(schema)), adapter.validate_json


def _close(schema: dict[str, Any]) -> None:
    """Allows no fields but those of the type: small models would go on making up more."""
    every = subschemas(schema)
    if any("allOf" in each for each in every):
        return  # what one part says is not all
    for each in every:
        if "properties" in each:
            each.setdefault("additionalProperties", False)
