"""Checks of arguments. Each returns the value, or raises naming argument and value."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, KeysView, Mapping
from collections.abc import Set as AbstractSet
from difflib import get_close_matches
from io import IOBase
from numbers import Real
from typing import TYPE_CHECKING, NoReturn, TypeVar

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

_T = TypeVar("_T")

INT32_MAX = 2**31 - 1


def integer(name: str, value: object, low: int, high: int = INT32_MAX) -> int:
    """A whole number in [low, high]; numpy's integers are whole numbers, True is not.

    Raises:
        TypeError: `value` is no integer.
        ValueError: It is out of range.
    """
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} must be an integer, not {shown(value)}")
    number = operator.index(value)
    if not low <= number <= high:
        is_low = number < low and high == INT32_MAX  # a number that nobody chose
        limit = f"at least {low}" if is_low else f"between {low} and {high}"
        raise ValueError(f"{name} must be {limit}, not {_digits(number)}")
    return number


def real(name: str, value: object, low: float, high: float) -> float:
    """A finite number in [low, high].

    Raises:
        TypeError: `value` is no real number.
        ValueError: It is not finite or out of range.
    """
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number, not {shown(value)}")
    try:
        number = float(value)
    except OverflowError:  # of an integer
        number = math.inf
    if not (math.isfinite(number) and low <= number <= high):
        raise ValueError(f"{name} must be between {low:g} and {high:g}, not {number:g}")
    return number


def flag(name: str, value: object) -> bool:
    """True or False.

    Raises:
        TypeError: `value` is neither.
    """
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be True or False, not {shown(value)}")
    return value


def text(name: str, value: object) -> str:
    """A str that UTF-8 can encode.

    Raises:
        TypeError: `value` is no str.
        ValueError: It has lone surrogates.
    """
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a str, not {shown(value)}")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{name} is not valid Unicode: {error.reason}") from error
    return value


def choice(name: str, value: object, choices: Sequence[_T]) -> _T:
    """One of `choices`.

    Raises:
        ValueError: `value` is none of them.
    """
    for candidate in choices:
        if type(value) is type(candidate) and value == candidate:
            return candidate
    allowed = ", ".join(repr(candidate) for candidate in choices)
    raise ValueError(f"{name} must be one of {allowed}, not {shown(value)}")


def stop_texts(name: str, value: object) -> tuple[str, ...]:
    """Texts that end an answer: a str, a sequence of them, or None for none.

    Raises:
        TypeError: `value` is something else.
        ValueError: A text is empty, or there are more than 1024.
    """
    if value is None:
        return ()
    if isinstance(value, str):
        value = (value,)
    if not isinstance(value, (list, tuple)):
        raise TypeError(f"{name} must be a str or a list of str, not {shown(value)}")
    if len(value) > 1024:
        raise ValueError(f"{name} must have at most 1024 texts, not {len(value)}")
    texts = tuple(text(f"{name}[{i}]", item) for i, item in enumerate(value))
    if "" in texts:
        raise ValueError(f"{name}[{texts.index('')}] must not be empty")
    return texts


def prompt_list(
    prompts: object,
    name: str = "prompts",
    single: str = " (generate() answers a single one)",
) -> list[object]:
    """The elements of a list of prompts.

    Args:
        prompts: Texts or token ids.
        name: What messages call them.
        single: What to do with one that is no list, for a message.

    Raises:
        TypeError: It is no list of prompts.
    """
    if isinstance(prompts, (str, bytes, Mapping)) or not isinstance(prompts, Iterable):
        hint = " (was nothing read?)" if prompts is None else single
        raise TypeError(
            f"{name} must be a list of {name}, not {type(prompts).__name__}{hint}"
        )
    what = no_list(prompts)
    if what:
        raise TypeError(f"{name} must be a list of {name}, not {what}")
    return list(prompts)


def no_list(value: object) -> str:
    """What Python would take for a list, though nobody can mean it so; "": nothing."""
    if isinstance(value, AbstractSet) and not isinstance(value, KeysView):
        return f"a {type(value).__name__}: it has no order that results could have"
    if isinstance(value, IOBase):
        return "an open file: read it first, with .read() or .read().splitlines()"
    if hasattr(value, "columns"):  # iterating over a data frame gives their names
        return f"a {type(value).__name__}: take one of its columns"
    return ""


def meant(name: object, names: Collection[str]) -> str:
    """What was probably meant by a name that is none, to end a message with.

    Args:
        name: It is.
        names: Those that there are.

    Returns:
        "; did you mean 'this'?", or "" where none of them is close.
    """
    # More than this is no slip of the fingers, and takes long to compare.
    close = get_close_matches(name[:60], names, n=1) if isinstance(name, str) else []
    return f"; did you mean {close[0]!r}?" if close else ""


def stays_here(thing: object) -> NoReturn:
    """Refuses to be pickled or copied.

    Raises:
        TypeError: Always.
    """
    raise TypeError(
        f"a {type(thing).__name__} cannot be pickled or copied: it belongs to the "
        "process that made it; make one in each process, and send results"
    )


def quoted(text: str) -> str:
    """A text as a message shows it, where nobody doubts that it is one."""
    return repr(text if len(text) <= 60 else f"{text[:57]}...")


def shown(value: object) -> str:
    """A value as a message shows it: never too much of it, and its type."""
    if isinstance(value, (str, bytes, bytearray)):
        value = value[:60]
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - whatever a class of the caller's raises
        text = "a value"
    if len(text) > 60:
        text = text[:57] + "..."
    return f"{text} ({type(value).__name__})"


def _digits(number: int) -> str:
    """Python refuses to write very large numbers out."""
    return str(number) if abs(number) < 10**40 else "one of more than 40 digits"
