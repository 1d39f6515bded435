"""Constraints of answers, per call or per prompt, and prepared schemas."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from llamaherd.calls.structured.intersections import costly_rule
from llamaherd.calls.structured.shape import Shape, shape_of
from llamaherd.calls.structured.source import schema_text
from llamaherd.engine.core.errors import ArgumentError
from llamaherd.engine.core.sampling import PER_PROMPT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from llamaherd.engine.core.sampling import SamplingParams

    Make = Callable[[str], object]


class Constraints:
    """Constraints of a call, separated from the other settings.

    Args:
        settings: Settings as given.
        strict: Whether a schema that token masks cannot fully enforce is an error.

    Attributes:
        settings: Settings without the constraints given per prompt; a schema is JSON
            text.

    Raises:
        TypeError: A schema has the wrong type.
        ValueError: A schema is not JSON.
    """

    def __init__(self, settings: Mapping[str, Any], *, strict: bool = False) -> None:
        left = dict(settings)
        self._strict = strict
        self._each = {
            name: cast("Sequence[object]", left.pop(name))
            for name in PER_PROMPT
            if _is_each(name, left.get(name))
        }
        self._makers: list[Make | None] = []  # one element per prompt, or a single
        # element for all prompts
        self._shapes: dict[tuple[str, Make | None], Shape] = {}
        if left.get("schema") is not None:
            left["schema"], make = schema_text(left["schema"])
            self._makers = [make]
        if "schema" in self._each:
            self._read_each(self._each["schema"])
        self.settings = left

    def shape(self, params: SamplingParams, i: int = 0) -> Shape | None:
        """Return the prepared schema of a prompt.

        Args:
            params: Settings of the prompt.
            i: Index of the prompt in the call. The index selects the prompt's Python
                type. The text of the schema does not suffice, because two types may
                have the same schema.

        Raises:
            ValueError: The schema is invalid, too large, has a broken reference or has no
                instance; the patterns of a schema in a Lark grammar cost too much; with
                `strict`, token masks cannot fully enforce the schema.
            AbiMismatchError: llguidance is not available.
        """
        text = params.schema
        if params.grammar and costly_rule(params.grammar):
            raise ArgumentError(
                "a %json rule has too many patterns for one text: leave out patterns, or "
                "write them as one pattern",
                argument="grammar",
                code="too_many",
                form="{name}: {problem}",
            )
        if not isinstance(text, str):
            return None
        make = self._makers[i % len(self._makers)] if self._makers else None
        if (text, make) not in self._shapes:
            shape = shape_of(text, closes=True)
            if self._strict and shape.left:
                raise ArgumentError(
                    f"masks cannot enforce {', '.join(shape.left)} of the schema",
                    argument="strict",
                    code="conflict",
                    form="{name}: {problem}",
                )
            self._shapes[text, make] = replace(shape, make=make)
        found = self._shapes[text, make]
        if not found.has_quotes or params.quote_from is None:
            return found
        return found.quoting(params.quote_from)

    def of_prompts(self, params: Sequence[SamplingParams]) -> Sequence[SamplingParams]:
        """Return the settings of all prompts, with the constraints of each.

        Raises:
            TypeError: A constraint has the wrong type.
            ValueError: A constraint is invalid, or the number of constraints differs from
                the number of prompts.
        """
        for name, values in self._each.items():
            if len(values) != len(params):
                raise ArgumentError(
                    f"must have one element per prompt ({len(params)}), not "
                    f"{len(values)}",
                    argument=name,
                    code="wrong_length",
                )
            made: dict[tuple[int, int], SamplingParams] = {}
            for own, value in zip(params, values, strict=True):
                key = (id(own), id(value))  # usually few distinct objects
                if key not in made:
                    made[key] = replace(own, **{name: value})  # type: ignore[arg-type]
            params = [
                made[id(own), id(value)]
                for own, value in zip(params, values, strict=True)
            ]
        return params

    def _read_each(self, schemas: Sequence[object]) -> None:
        read: dict[int, tuple[str | None, Make | None]] = {id(None): (None, None)}
        for schema in schemas:
            if id(schema) not in read:  # usually few distinct objects
                read[id(schema)] = schema_text(schema)
        self._each["schema"] = [read[id(schema)][0] for schema in schemas]
        self._makers = [read[id(schema)][1] for schema in schemas]


def _is_each(name: str, value: object) -> bool:
    """Check whether a constraint is a list with one element per prompt."""
    if not isinstance(value, Sequence) or isinstance(value, (str, bytes, bytearray)):
        return False
    if name != "choices":
        return True
    return any(
        one is None or (isinstance(one, Sequence) and not isinstance(one, str))
        for one in value
    )
