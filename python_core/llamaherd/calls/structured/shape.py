"""A schema from its source to a prepared schema: enforced part, check, conversion."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, get_origin

from llamaherd.calls.structured.check import check_schema, shorten_reason, violation
from llamaherd.calls.structured.closing import enforced_closed
from llamaherd.calls.structured.enforce import enforceable_part
from llamaherd.calls.structured.quoting import (
    check_quotes,
    grammar_of,
    has_quotes,
    locate_quotes,
)
from llamaherd.calls.structured.subschemas import subschemas
from llamaherd.engine.core import checks
from llamaherd.engine.core.errors import ArgumentError, ArgumentTypeError
from llamaherd.engine.core.files import not_utf8
from llamaherd.engine.core.plain import plain
from llamaherd.engine.core.values import checked_schema
from llamaherd.engine.native import llguidance

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager


_MAX_BYTES = 2_000_000  # maximum size of a file


def schema_text(source: object) -> tuple[str, Callable[[str], object] | None]:
    """Return a JSON Schema as compact JSON."""
    source = plain(source)
    if isinstance(source, os.PathLike):
        return _of_file(Path(source)), None
    if isinstance(source, str):
        if not source.strip():
            raise ArgumentError("must not be empty", argument="schema", code="empty")
        is_json = source.lstrip()[:1] == "{" or source.strip() in ("true", "false")
        if not is_json:
            return _of_file(Path(source)), None
    if isinstance(source, type) or get_origin(source) is not None:
        return _of_type(source)
    return checked_schema("schema", source), None


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
        reason = str(error)
        if isinstance(error, UnicodeDecodeError):
            reason = f"it is {not_utf8(error)}"
        raise ArgumentError(
            f"is neither JSON nor a file that can be read: "
            f"{checks.brief(str(path))} ({reason})",
            argument="schema",
        ) from None
    return checked_schema(f"schema (the file {path})", text)


def _of_type(source: Any) -> tuple[str, Callable[[str], object]]:
    try:
        from pydantic import PydanticUserError, TypeAdapter  # optional
    except ImportError:
        raise ArgumentTypeError(
            f"is the type {source!r}, which requires pydantic: pip install pydantic",
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
    if any("allOf" in subschema for subschema in every):
        return  # other parts of the schema may allow more fields
    for subschema in every:
        if "properties" in subschema:
            subschema.setdefault("additionalProperties", False)


class _Vocabulary(Protocol):
    """Model with a vocabulary; this room is below that of models."""

    def using(self) -> AbstractContextManager[Any]: ...


_SOME_TEXT = "text"  # text in place of the prompt's text when a grammar is only checked


@dataclass(frozen=True, slots=True)
class Shape:
    """A prepared schema; `enforced` is for llguidance.

    If answers have quotes, it is a Lark grammar, and `source` the text to quote from.
    `make` converts the text of an answer; None if the value is the parsed JSON.
    """

    text: str
    enforced: str
    unenforced: tuple[str, ...]
    make: Callable[[str], object] | None = None
    has_quotes: bool = False
    source: str | None = None

    @property
    def is_lark(self) -> bool:
        """Whether `enforced` is a Lark grammar instead of a JSON Schema."""
        return self.has_quotes

    def quoting(self, source: str) -> Shape:
        """Return a copy of this schema for answers that quote a given text."""
        grammar = grammar_of(json.loads(self.text), source)
        return replace(self, enforced=grammar, source=source)

    def read(self, answer: str) -> object:
        """Parse and check an answer."""
        try:
            value = json.loads(answer)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"the answer is not JSON: {error}") from None
        problem = violation(self.text, value)
        if problem:
            raise ValueError(f"the answer does not follow the schema: {problem}")
        if self.source is not None:
            value = locate_quotes(json.loads(self.text), value, self.source)
            answer = json.dumps(value, ensure_ascii=False)
        if self.make is None:
            return value
        try:
            return self.make(answer)
        except ValueError as error:
            raise ValueError(
                f"the answer cannot be converted: {shorten_reason(error)}"
            ) from None
        except Exception as error:  # noqa: BLE001 - a validator is the caller's code
            reason = shorten_reason(f"{type(error).__name__}: {error}")
            raise ValueError(f"the answer cannot be converted: {reason}") from None


def shape_of(source: object, *, closes: bool = False) -> Shape:
    """Prepare a schema."""
    text, make = schema_text(source)
    root = json.loads(text)
    if has_quotes(root):
        keywords = check_quotes(root)
        check_schema(text, keywords)
        return Shape(text, grammar_of(root, _SOME_TEXT), keywords, make, has_quotes=True)
    # First, because this rejects large schemas at once.
    part = enforced_closed(text) if closes else enforceable_part(text)
    check_schema(text, part.unenforced)
    return Shape(text, part.text, part.unenforced, make)


def unenforced(schema: object) -> list[str]:
    """Return the keywords of a schema that masks cannot enforce.

    A finished answer is checked against these keywords.

    Args:
        schema: See `generate_parallel`.

    Returns:
        Keywords such as "not" or "format: path", sorted. If there are no such keywords,
        masks enforce the whole schema, with one exception: a date in the right format may
        still be impossible, such as February 30.

    Raises:
        TypeError: `schema` is not a schema.
        ValueError: The schema is not valid, too large or unsatisfiable.
    """
    return list(shape_of(schema).unenforced)


def accepts(
    model: _Vocabulary, schema: object, text: str, *, quote_from: str | None = None
) -> bool:
    """Return whether the masks of a schema allow a text, including its end.

    The model's tokenizer splits the text, and each token must be allowed at its
    position. `unenforced` returns the keywords that masks do not enforce.

    Args:
        model: Model with the vocabulary.
        schema: See `generate_parallel`.
        text: Possible answer, as compact JSON.
        quote_from: Text from which quotes are copied, if the schema has quotes.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The schema is not valid, too large or unsatisfiable.
        ModelClosedError: The model was closed.
    """
    shape = shape_of(schema)
    if shape.has_quotes:
        if quote_from is None:
            raise ArgumentError(
                "is needed: the schema has quotes, which are parts of a text",
                argument="quote_from",
                code="missing",
            )
        shape = shape.quoting(checks.text("quote_from", quote_from))
    with model.using() as handle:
        return llguidance.accepts(handle, shape.enforced, text, is_lark=shape.is_lark)
