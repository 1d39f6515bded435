"""Interfaces to a model that thinks ("doors"), as data: the columns of the table.

A door has the abilities that behaviours need: `ask` returns results; `pause`,
`samples`, `journal`, `stream` and `cancel` obtain the same results in another way, and
check them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from thinking_in_python import (
    FORMS,
    annotate,
    annotated,
    classified,
    classify,
    generator,
    score,
    scored,
    scorer,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    import llamaherd as lh
    from thinking_desk import Ability, Desk


@dataclass(frozen=True, slots=True)
class Door:
    """A column of the table.

    Attributes:
        name: Name.
        abilities: Functions by name of the ability.
        is_held: Whether the answers are constrained or scored.
    """

    name: str
    abilities: Mapping[str, Ability] = field(repr=False)
    is_held: bool = False


def _here(desk: Desk, name: str) -> lh.Context:
    return desk.context(name)


DOORS = (
    *(Door(form, generator(form, _here), form != "generate") for form in FORMS),
    Door("classify", scorer("classify", classify, classified), is_held=True),
    Door("score", scorer("score", score, scored), is_held=True),
    Door("annotate", scorer("annotate", annotate, annotated), is_held=True),
    Door("Ray", generator("generate", lambda desk, _: desk.cluster)),
)
