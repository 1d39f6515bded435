"""Names of arguments and their elements: `prompts[3]`, `labels['yes']`, `words.text`.

A place is the position of an element: a tuple of steps into an argument:

- `int`: an index that counts from 0; messages for R count from 1 (`spelled_in_r`).
- `Id`: a number that identifies an element, such as a token id; it is printed unchanged.
- `str`: a key of a mapping.
- `Field`: the name of a field, which is printed with a dot.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TypeAlias

Step: TypeAlias = "int | str"
Place: TypeAlias = "tuple[Step, ...]"


class Field(str):
    """Step of a place: the name of a field."""

    __slots__ = ()


class Id(int):
    """Step of a place: a number that identifies an element and is not an index."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Argument:
    """Argument, or the element to which `place` leads from it."""

    name: str
    place: Place = ()

    def at(self, *steps: Step) -> Argument:
        """Return the argument with more steps appended to its place."""
        return Argument(self.name, self.place + steps)

    def spelled(self) -> str:
        """Return the name of the argument for messages, such as `prompts[3]`."""
        return self.name + "".join(map(_spell_step, self.place))

    def dotted(self) -> str:
        """Return the name of the argument for HTTP clients, with dots before keys."""
        steps = (Field(s) if _is_word(s) else s for s in self.place)
        return Argument(self.name, tuple(steps)).spelled()

    def spelled_in_r(self) -> str:
        """Return R's notation, in which the field of an example comes before its row."""
        steps = list(self.place)
        if self.name == "examples":
            for i in range(len(steps) - 1):
                if isinstance(steps[i], int) and isinstance(steps[i + 1], Field):
                    steps[i], steps[i + 1] = steps[i + 1], steps[i]
        last = len(steps) - 1
        return self.name + "".join(
            _spelled_in_r(step, is_last=i == last) for i, step in enumerate(steps)
        )

    def __str__(self) -> str:
        return self.spelled()


Name: TypeAlias = "str | Argument"


def argument_of(name: Name, place: Place = ()) -> Argument:
    """Return `name` as an `Argument`, with `place` appended to its place."""
    if isinstance(name, Argument):
        return name.at(*place) if place else name
    return Argument(name, place)


def _is_word(step: Step) -> bool:
    return isinstance(step, str) and step.replace("-", "_").isidentifier()


def _spelled_in_r(step: Step, *, is_last: bool) -> str:
    if isinstance(step, Field):
        return f"${step}"
    if isinstance(step, (str, Id)):
        inside = json.dumps(str(step), ensure_ascii=False)
    else:
        inside = str(step + 1)
    return f"[{inside}]" if is_last else f"[[{inside}]]"


def _spell_step(step: Step) -> str:
    if isinstance(step, Field):
        return f".{step}"
    if isinstance(step, str):
        return f"[{step!r}]"
    return f"[{step}]"
