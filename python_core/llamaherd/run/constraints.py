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
        self._makers: dict[str, Callable[[str], object]] = {}
        self._shapes: dict[str, Shape] = {}
        if left.get("schema") is not None:
            left["schema"] = self._text(left["schema"])
        if "schema" in self._each:
            self._each["schema"] = [
                None if schema is None else self._text(schema)
                for schema in self._each["schema"]
            ]
        self.settings = cast("SamplingSettings", left)

    def shape(self, params: SamplingParams) -> Shape | None:
        """The schema of a prompt, at work.

        Raises:
            ValueError: It is not valid, too large, refers to what is not there, or cannot
                be followed; with `strict` masks cannot enforce all of it.
            AbiMismatchError: There is no llguidance.
        """
        text = params.schema
        if not isinstance(text, str):
            return None
        if text not in self._shapes:
            shape = shape_of(text)
            if self._strict and shape.left:
                raise ValueError(
                    f"strict: masks cannot enforce {', '.join(shape.left)} of the schema"
                )
            self._shapes[text] = replace(shape, make=self._makers.get(text))
        return self._shapes[text]

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

    def _text(self, schema: object) -> str:
        text, make = schema_text(schema)
        if make is not None:
            self._makers[text] = make
        return text


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
