"""What answers have to follow: one for all prompts or one for each; schemas at work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from llamaherd.core.sampling import CONSTRAINTS
from llamaherd.structured.shape import Shape, shape_of
from llamaherd.structured.source import schema_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from llamaherd.core.sampling import SamplingParams, SamplingSettings

    Make = Callable[[str], object]


class Constraints:
    """Of a call: takes the constraints out of its settings that are for single prompts.

    Args:
        settings: As they were given.
        strict: Whether a schema of which masks cannot enforce all is an error.

    Attributes:
        settings: Without what is for single prompts; a schema is JSON text.

    Raises:
        TypeError: A schema is none.
        ValueError: A schema is no JSON.
    """

    def __init__(self, settings: SamplingSettings, *, strict: bool = False) -> None:
        left = dict(settings)
        self._strict = strict
        self._each = {
            name: cast("Sequence[object]", left.pop(name))
            for name in CONSTRAINTS
            if _is_each(name, left.get(name))
        }
        self._makers: list[Make | None] = []  # of each prompt, or one of all
        self._shapes: dict[tuple[str, Make | None], Shape] = {}
        if left.get("schema") is not None:
            left["schema"], make = schema_text(left["schema"])
            self._makers = [make]
        if "schema" in self._each:
            self._read_each(self._each["schema"])
        self.settings = cast("SamplingSettings", left)

    def shape(self, params: SamplingParams, i: int = 0) -> Shape | None:
        """The schema of a prompt, at work.

        Args:
            params: Of the prompt.
            i: Its place in the call: two types may have the same schema.

        Raises:
            ValueError: It is not valid, too large, refers to what is not there, or cannot
                be followed; with `strict` masks cannot enforce all of it.
            AbiMismatchError: There is no llguidance.
        """
        text = params.schema
        if not isinstance(text, str):
            return None
        make = self._makers[i % len(self._makers)] if self._makers else None
        if (text, make) not in self._shapes:
            shape = shape_of(text)
            if self._strict and shape.left:
                raise ValueError(
                    f"strict: masks cannot enforce {', '.join(shape.left)} of the schema"
                )
            self._shapes[text, make] = replace(shape, make=make)
        return self._shapes[text, make]

    def of_prompts(self, params: Sequence[SamplingParams]) -> Sequence[SamplingParams]:
        """The settings of all prompts, with what is for each of them.

        Raises:
            TypeError: A constraint has the wrong type.
            ValueError: A constraint is not valid, or there is not one for each prompt.
        """
        for name, values in self._each.items():
            if len(values) != len(params):
                raise ValueError(
                    f"{name} must have one element per prompt ({len(params)}), not "
                    f"{len(values)}"
                )
            made: dict[tuple[int, int], SamplingParams] = {}
            for own, value in zip(params, values, strict=True):
                key = (id(own), id(value))  # few different ones, mostly
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
            if id(schema) not in read:  # few different ones, mostly
                read[id(schema)] = schema_text(schema)
        self._each["schema"] = [read[id(schema)][0] for schema in schemas]
        self._makers = [read[id(schema)][1] for schema in schemas]


def _is_each(name: str, value: object) -> bool:
    """Whether it is a list with one for each prompt."""
    if not isinstance(value, Sequence) or isinstance(value, (str, bytes, bytearray)):
        return False
    if name != "choices":
        return True
    return any(
        one is None or (isinstance(one, Sequence) and not isinstance(one, str))
        for one in value
    )
