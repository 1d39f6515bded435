"""Budget for rendering a chat template, in steps and characters.

A template is a program in the model file. The budget counts operations instead of time,
so that all machines refuse the same conversations.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextvars import ContextVar

from jinja2.utils import Namespace

from llamaherd.engine.core.preparing import check_wanted

_STEPS = 100_000
_STEPS_A_MESSAGE = 2_000
_CHARACTERS = 16_000_000
_TIMES_GIVEN = 64  # maximum number of characters of work, per given character
_AN_ELEMENT = 32  # number of characters that are charged for an element of a list
_MOST_BITS = 10_000  # maximum number of bits of an integer
_NUMBERS = re.compile(r"\d+")


class TooMuchError(Exception):
    """The template exceeds its budget."""


class Budget:
    """Remaining budget for one conversation.

    Args:
        n_messages: Number of messages of the conversation.
        n_given: Number of characters of all texts of the conversation.
    """

    def __init__(self, n_messages: int, n_given: int) -> None:
        self._steps = self._all_steps = _STEPS + _STEPS_A_MESSAGE * n_messages
        self._left = self._all = _CHARACTERS + _TIMES_GIVEN * n_given

    def spend(self, n: int = 0) -> None:
        """Charge a step that reads or writes n characters or elements.

        Raises:
            TooMuchError: The budget is exceeded.
        """
        check_wanted()
        self._steps -= 1
        self._left -= n
        if self._steps < 0:
            raise TooMuchError(f"it takes more than {self._all_steps:,} steps")
        if self._left < 0:
            raise TooMuchError(f"it writes more than {self._all:,} characters")

    def spend_on(self, value: object) -> None:
        """Charge a step that reads a value and its elements.

        A value that occurs several times is charged each time, as if it were written
        out.
        """
        self.spend(len(value) if isinstance(value, str) else 0)
        open_: list[object] = [value]
        while open_:
            each = open_.pop()
            if isinstance(each, Mapping):
                inside: list[object] = [*each.keys(), *each.values()]
            elif isinstance(each, (list, tuple, set, frozenset)):
                inside = [*each]
            else:  # vars() finds no attributes of a namespace
                is_namespace = isinstance(each, Namespace)
                inside = (
                    [*each._Namespace__attrs.values()]  # type: ignore[attr-defined]  # noqa: SLF001
                    if is_namespace
                    else []
                )
            self.spend_each(inside)
            open_ += [item for item in inside if not isinstance(item, (str, int))]

    def spend_each(self, values: list[object]) -> None:
        """Charge the number of elements, and the characters of their texts."""
        texts = sum(len(value) for value in values if isinstance(value, str))
        self._left -= texts + _AN_ELEMENT * len(values)
        if self._left < 0:
            self.spend()

    def spend_format(self, text: str, values: object) -> None:
        """Charge the largest output that a format with these values can have."""
        self.spend_on(values)
        if "*" in text or re.search(r"\{[^{}]*\{", text):
            raise TooMuchError("widths of a format that are variables are not counted")
        self.spend(len(text) + sum(int(number[:12]) for number in _NUMBERS.findall(text)))

    def spend_product(self, one: object, other: object) -> None:
        """Charge the size of `one * other`."""
        for value, n in ((one, other), (other, one)):
            if isinstance(value, (str, list, tuple)) and isinstance(n, int):
                self.spend(size(value) * max(0, n))
        check_bits(bits(one) + bits(other))


BUDGET: ContextVar[Budget] = ContextVar("budget")


def size(value: object) -> int:
    """Return the number of characters of a value, or the charge for its elements."""
    if isinstance(value, (str, bytes)):
        return len(value)
    if isinstance(value, (list, tuple, dict, set, frozenset, range)):
        return _AN_ELEMENT * len(value)
    return 1


def bits(value: object) -> int:
    """Return the number of bits of an integer."""
    return value.bit_length() if isinstance(value, int) else 0


def check_bits(n: int) -> None:
    """Check the size of an integer.

    Raises:
        TooMuchError: The integer would have too many bits.
    """
    if n > _MOST_BITS:
        raise TooMuchError(f"it computes a number of {n:,} bits")
