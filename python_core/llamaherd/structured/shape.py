"""A schema at work: what the engine enforces, and what an answer is checked against."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

from llamaherd.native import llguidance
from llamaherd.structured.enforce import SchemaError, enforced
from llamaherd.structured.formats import format_checker
from llamaherd.structured.patterns import (
    check_additional_properties,
    check_pattern,
    check_pattern_properties,
    is_safe,
)
from llamaherd.structured.places import subschemas
from llamaherd.structured.source import schema_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from jsonschema.protocols import Validator

    from llamaherd.model.model import Model

_MAX_SHOWN = 300  # characters of a reason


@dataclass(frozen=True, slots=True)
class Shape:
    """A schema that answers follow.

    Attributes:
        text: The JSON Schema.
        enforced: What of it the masks enforce, for llguidance.
        left: Keywords that are left to the check.
        make: Makes a value of an answer; None: what JSON gives.
    """

    text: str
    enforced: str
    left: tuple[str, ...]
    make: Callable[[str], object] | None = field(default=None, compare=False)

    def read(self, answer: str) -> object:
        """What an answer says.

        Args:
            answer: All of it.

        Raises:
            ValueError: It does not follow the schema; the message says where.
        """
        try:
            value = json.loads(answer)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"the answer is no JSON: {error}") from None
        problem = _violation(self.text, value)
        if problem:
            raise ValueError(f"the answer does not follow the schema: {problem}")
        if self.make is None:
            return value
        try:
            return self.make(answer)
        except ValueError as error:
            raise ValueError(f"the answer does not make a value: {_cut(error)}") from None
        except Exception as error:  # noqa: BLE001 - a validator is the caller's code
            shown = _cut(f"{type(error).__name__}: {error}")
            raise ValueError(f"the answer does not make a value: {shown}") from None


def shape_of(source: object) -> Shape:
    """Prepares a schema.

    Args:
        source: As `generate_parallel` takes it.

    Raises:
        TypeError: It is no schema.
        ValueError: It is no valid schema, refers to something outside of it, is larger
            than llguidance takes, or no answer can follow it.
        AbiMismatchError: There is no llguidance.
    """
    text, make = schema_text(source)
    known = enforced(text)  # first: it says at once what is too large
    _validator(text)
    _refuse_slow(text, known.left)
    return Shape(text, known.text, known.left, make)


def unenforced(schema: object) -> list[str]:
    """Keywords of a schema that masks cannot enforce, so that answers are checked.

    Args:
        schema: As `generate_parallel` takes it.

    Returns:
        Keywords such as "not" or "format: path", sorted; empty: masks enforce all of it.

    Raises:
        TypeError: It is no schema.
        ValueError: It is no valid schema, is too large, or no answer can follow it.
    """
    return list(shape_of(schema).left)


def accepts(model: Model, schema: object, text: str) -> bool:
    """Whether a text gets through the masks of a schema and ends well.

    The text is cut into tokens as the model does it, and each token must be allowed where
    it comes. That is what masks enforce; `unenforced` tells what is left to the check.

    Args:
        model: Whose tokens.
        schema: As `generate_parallel` takes it.
        text: What the model may answer: compact JSON.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The schema is not valid, is too large, or no answer can follow it.
        ModelClosedError: The model was closed.
    """
    shape = shape_of(schema)
    with model.using() as handle:
        return llguidance.accepts(handle, shape.enforced, text)


@lru_cache(maxsize=256)
def _validator(text: str) -> Validator:
    """What checks values against a schema. Nothing outside of it is ever fetched."""
    from jsonschema import validators  # noqa: PLC0415 - slow to import
    from jsonschema.exceptions import SchemaError as NoSchemaError  # noqa: PLC0415
    from referencing.jsonschema import EMPTY_REGISTRY  # noqa: PLC0415

    schema = json.loads(text)
    kind = validators.validator_for(schema, default=validators.Draft202012Validator)
    try:
        kind.check_schema(schema)
    except NoSchemaError as error:
        raise SchemaError(
            f"schema is not valid at {error.json_path}: {_cut(error.message)}"
        ) from None
    except RecursionError:
        raise SchemaError("schema is nested too deep") from None
    own = {
        "pattern": check_pattern,
        "patternProperties": check_pattern_properties,
        "additionalProperties": check_additional_properties,
    }
    kind = validators.extend(kind, own)
    return kind(schema, registry=EMPTY_REGISTRY, format_checker=format_checker())


def _can_be_checked(pattern: str) -> bool:
    schema = json.dumps({"type": "string", "pattern": pattern})
    return is_safe(pattern) or not llguidance.problem_of_schema(schema)


def _refuse_slow(text: str, left: tuple[str, ...]) -> None:
    """Refuses patterns that the check needs, but that may take it for ever."""
    for schema in subschemas(json.loads(text)) if left else ():
        for pattern in (schema.get("pattern"), *(schema.get("patternProperties") or ())):
            if isinstance(pattern, str) and not _can_be_checked(pattern):
                raise SchemaError(
                    f"schema: the pattern {_cut(pattern)!r} repeats what repeats: no "
                    "mask can enforce it there, and to check it may take for ever"
                )


def _violation(text: str, value: object) -> str:
    """Where a value does not follow a schema; "": it does."""
    from referencing.exceptions import Unresolvable  # noqa: PLC0415

    try:
        error = next(iter(_validator(text).iter_errors(value)), None)
    except Unresolvable as reason:
        return f"it refers to {reason.ref!r}, which is not in it (nothing is fetched)"
    except RecursionError:
        return "it, or what it refers to, is nested too deep"
    except Exception as reason:  # noqa: BLE001 - whatever a hostile schema brings about
        return f"it cannot be checked: {_cut(reason)}"
    if error is None:
        return ""
    return f"{error.json_path}: {_cut(error.message)}"


def _cut(reason: object) -> str:
    shown = str(reason)
    return shown if len(shown) <= _MAX_SHOWN else f"{shown[:_MAX_SHOWN]}..."
