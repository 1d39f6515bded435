"""The argument `thinking`: the maximum length of a thought before the answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Literal, TypeAlias

from llamaherd.engine.core import checks
from llamaherd.engine.core.argument import Name, argument_of
from llamaherd.engine.core.declaration import suggests_names
from llamaherd.engine.core.errors import ArgumentError, ArgumentTypeError
from llamaherd.engine.core.words import words

DEFAULT_BUDGET = 1024
DEFAULT_MESSAGE = "\n\nI stop thinking here and give my answer now.\n"
MOST_TOKENS = 2**24  # maximum budget


@suggests_names
@dataclass(frozen=True, slots=True)
class Thinking:
    """Thinking of a model before its answer.

    Attributes:
        budget: Maximum number of tokens of the thought. `max_tokens` does not count them;
            it limits only the answer.
        start: Text that opens a thought, such as "<think>". None uses the chat template's
            text.
        end: Text that closes a thought, such as "</think>". None uses the chat template's
            text.
        message: Text that is appended to a thought whose budget is spent, before `end`.

    Raises:
        TypeError: A field has the wrong type.
        ValueError: The budget is out of range, or a marker is blank.
    """

    budget: int = DEFAULT_BUDGET
    start: str | None = None
    end: str | None = None
    message: str = DEFAULT_MESSAGE

    def __post_init__(self) -> None:
        budget = checks.integer("budget", self.budget, 0, MOST_TOKENS)
        object.__setattr__(self, "budget", budget)
        for name in ("start", "end"):
            if getattr(self, name) is not None:
                object.__setattr__(
                    self, name, checks.not_blank(name, getattr(self, name))
                )
        object.__setattr__(self, "message", checks.text("message", self.message))


# An argument of a call, and its normalized form: None for the default of the model.
ThinkingOption: TypeAlias = "Thinking | Mapping[str, object] | int | None"
ThinkingWanted: TypeAlias = "Thinking | Literal[False] | None"

_NAMES = tuple(field.name for field in fields(Thinking))


def checked_thinking(name: Name, value: object) -> ThinkingWanted:
    """Normalize the argument `thinking`; None is the model's default."""
    if value is None or isinstance(value, Thinking):
        return value
    if isinstance(value, bool):
        return Thinking() if value else False
    if isinstance(value, Mapping):
        return _of_mapping(name, value)
    if not hasattr(value, "__index__"):
        raise ArgumentTypeError(
            f"must be {', '.join(map(words().constant, (None, True, False)))}, a number "
            f"of tokens or {words().thinking}, not {checks.brief(value)}",
            argument=name,
        )
    return Thinking(budget=checks.integer(name, value, 0, MOST_TOKENS))


def _of_mapping(name: Name, mapping: Mapping[object, object]) -> Thinking:
    for key in mapping:
        if key not in _NAMES:
            raise ArgumentTypeError(
                f"has no field {checks.brief(key)}{checks.meant(key, _NAMES)}",
                argument=name,
                code="unknown_argument",
            )
    try:
        return Thinking(**{str(key): value for key, value in mapping.items()})  # type: ignore[arg-type] # it checks them
    except (ArgumentError, ArgumentTypeError) as error:
        where = argument_of(name).at(error.argument)
        raise error.moved(argument=where.name, place=where.place) from None
