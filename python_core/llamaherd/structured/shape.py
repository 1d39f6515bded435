"""A schema at work: what the engine enforces, and what an answer is checked against."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from llamaherd.native import llguidance
from llamaherd.structured.check import check_schema, cut, violation
from llamaherd.structured.enforce import enforced
from llamaherd.structured.source import schema_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from llamaherd.model.model import Model


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
    make: Callable[[str], object] | None = None

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
        problem = violation(self.text, value)
        if problem:
            raise ValueError(f"the answer does not follow the schema: {problem}")
        if self.make is None:
            return value
        try:
            return self.make(answer)
        except ValueError as error:
            raise ValueError(f"the answer does not make a value: {cut(error)}") from None
        except Exception as error:  # noqa: BLE001 - a validator is the caller's code
            shown = cut(f"{type(error).__name__}: {error}")
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
    check_schema(text, known.left)
    return Shape(text, known.text, known.left, make)


def unenforced(schema: object) -> list[str]:
    """Keywords of a schema that masks cannot enforce, so that answers are checked.

    Args:
        schema: As `generate_parallel` takes it.

    Returns:
        Keywords such as "not" or "format: path", sorted; empty: masks enforce all of it,
        but for days that there are not: of dates they know how they are written.

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
