"""Arguments that were removed: for one version they say what to use instead."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from llamaherd.engine.core.errors import ArgumentTypeError

if TYPE_CHECKING:
    from collections.abc import Callable

_Given = ParamSpec("_Given")
_Result = TypeVar("_Result")


def removed(
    **instead: str,
) -> Callable[[Callable[_Given, _Result]], Callable[_Given, _Result]]:
    """Return a decorator of functions that lost arguments.

    Args:
        instead: By the name of a removed argument: what to use instead.
    """

    def decorated(function: Callable[_Given, _Result]) -> Callable[_Given, _Result]:
        @wraps(function)
        def refusing(*args: _Given.args, **kwargs: _Given.kwargs) -> _Result:
            for name, other in instead.items():
                if name in kwargs:
                    raise ArgumentTypeError(
                        f"was removed: {other}", argument=name, code="removed"
                    )
            return function(*args, **kwargs)

        return refusing

    return decorated
