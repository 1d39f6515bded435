"""What rendering a chat template may take, counted in steps and characters.

A template is a program that came with a model file. Counted is what it does, not the
time, so that a conversation is refused on every machine or on none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextvars import ContextVar

_STEPS = 100_000
_STEPS_A_MESSAGE = 2_000
_CHARACTERS = 16_000_000
_TIMES_GIVEN = 64  # characters for each that is given
_AN_ELEMENT = 32  # characters that an element of a list counts for
_MOST_BITS = 10_000  # of an integer
_NUMBERS = re.compile(r"\d+")


class TooMuchError(Exception):
    """A template that would take more than it may."""


class Budget:
    """What is left for one conversation.

    Args:
        n_messages: Of the conversation.
        n_given: Characters of its texts.
    """

    def __init__(self, n_messages: int, n_given: int) -> None:
        self._steps = self._all_steps = _STEPS + _STEPS_A_MESSAGE * n_messages
        self._left = self._all = _CHARACTERS + _TIMES_GIVEN * n_given

    def spend(self, n: int = 0) -> None:
        """Counts a step that reads or writes n characters or elements.

        Raises:
            TooMuchError: There are not so many left.
        """
        self._steps -= 1
        self._left -= n
        if self._steps < 0:
            raise TooMuchError(f"it takes more than {self._all_steps:,} steps")
        if self._left < 0:
            raise TooMuchError(f"it writes more than {self._all:,} characters")

    def spend_on(self, value: object) -> None:
        """Counts a step that reads a value with all that it holds.

        What is held in several places counts in each, as it would be written.
        """
        self.spend(len(value) if isinstance(value, str) else 0)
        open_: list[object] = [value]
        while open_:
            each = open_.pop()
            if isinstance(each, Mapping):
                inside: list[object] = [*each.keys(), *each.values()]
            elif isinstance(each, (list, tuple, set, frozenset)):
                inside = [*each]
            else:  # a jinja2 namespace's
                attributes = getattr(each, "_Namespace__attrs", None)
                inside = [*attributes.values()] if isinstance(attributes, dict) else []
            self.spend_each(inside)
            open_ += [item for item in inside if not isinstance(item, (str, int))]

    def spend_each(self, values: list[object]) -> None:
        """Counts elements and the characters of those that are texts."""
        texts = sum(len(value) for value in values if isinstance(value, str))
        self._left -= texts + _AN_ELEMENT * len(values)
        if self._left < 0:
            self.spend()

    def spend_format(self, text: str, values: object) -> None:
        """Counts what a format may write: its widths, and what it is filled with."""
        self.spend_on(values)
        if "*" in text or re.search(r"\{[^{}]*\{", text):
            raise TooMuchError("widths of a format that are variables are not counted")
        self.spend(len(text) + sum(int(number[:12]) for number in _NUMBERS.findall(text)))

    def spend_product(self, one: object, other: object) -> None:
        """Counts what `one * other` holds."""
        for value, n in ((one, other), (other, one)):
            if isinstance(value, (str, list, tuple)) and isinstance(n, int):
                self.spend(size(value) * max(0, n))
        check_bits(bits(one) + bits(other))


BUDGET: ContextVar[Budget] = ContextVar("budget")


def size(value: object) -> int:
    """Characters of a value itself, or what its elements count for."""
    if isinstance(value, (str, bytes)):
        return len(value)
    if isinstance(value, (list, tuple, dict, set, frozenset, range)):
        return _AN_ELEMENT * len(value)
    return 1


def bits(value: object) -> int:
    """Of an integer."""
    return value.bit_length() if isinstance(value, int) else 0


def check_bits(n: int) -> None:
    """Refuses integers that take long to compute.

    Raises:
        TooMuchError: It would have too many bits.
    """
    if n > _MOST_BITS:
        raise TooMuchError(f"it computes a number of {n:,} bits")
