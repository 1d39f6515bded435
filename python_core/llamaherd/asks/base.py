"""Base class of the options of all calls, and shared checks."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Self

from llamaherd.core import checks
from llamaherd.core.declared import check_fields, declared
from llamaherd.core.errors import ArgumentTypeError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def one_of(choices: Sequence[object]) -> dict[str, object]:
    """Return the metadata of a field whose value is one of `choices`."""
    return {"check": partial(checks.choice, choices=choices)}


def integer(default: Any, low: int, high: int) -> Any:  # noqa: ANN401 - a number or None
    """Declare an option that is an integer in [low, high]."""
    return declared(default, partial(checks.integer, low=low, high=high))


def flag() -> bool:
    """Declare an option that is True or False, and False by default."""
    return declared(False, checks.flag)


class Options:
    """Base of the options of all calls."""

    __slots__ = ()

    def __post_init__(self) -> None:
        check_fields(self)

    @classmethod
    def of(
        cls,
        names: type,
        given: Mapping[str, Any],
        **more: Any,  # noqa: ANN401 - of fields
    ) -> Self:
        """Create options from the keyword arguments of a call.

        Args:
            names: Class that declares the keyword arguments of the call.
            given: The keyword arguments.
            **more: Options that the call sets itself.

        Raises:
            TypeError: The call has no argument of this name, or the argument has the
                wrong type.
            ValueError: An argument is out of range.
        """
        own: dict[str, Any] = {}
        sampling: dict[str, Any] = {}
        for name, value in given.items():
            if name not in names.__annotations__:
                raise ArgumentTypeError(
                    _unknown(name, names),
                    argument=name,
                    code="unknown_argument",
                    form="{problem}",
                )
            is_own = name in cls.__dataclass_fields__  # type: ignore[attr-defined]
            (own if is_own else sampling)[name] = value
        if sampling:
            own["sampling"] = sampling
        return cls(**own, **more)


def _unknown(name: str, names: type) -> str:
    known = names.__annotations__
    others = "llamaherd.SamplingParams has them all"
    if "top_k" not in known:
        others = f"there are {', '.join(known)}"
    hint = checks.meant(name, known) or f"; {others}"
    return f"there is no argument {name!r}{hint}"
