"""Texts of messages in chat templates, distinguished from the template's own text."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Self, SupportsIndex

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_OPEN, _CLOSE = "\ufdd0", "\ufdd1"
_ESCAPED = re.compile(r"(?<!\\)((?:\\\\)*)\\ufdd([01])")  # no escaped backslash


class LiteralText(str):  # noqa: SLOT000 - strings have none of variable size
    """Text of a message, which is marked as literal when it becomes part of a prompt.

    A template compares, splits and strips the unmarked text. The parts of the text are
    also `LiteralText`. Concatenation with other text, and `str`, add literal marks.

    Args:
        is_part: Whether the text was made from another LiteralText. If so, the whole
            text is marked, because joined parts could form the text of a special token.
    """

    _mark: Callable[[str], str]
    _is_part: bool

    def __new__(
        cls, text: str, mark: Callable[[str], str], *, is_part: bool = False
    ) -> Self:
        """Create a marked text."""
        self = super().__new__(cls, text)
        self._mark = mark
        self._is_part = is_part
        return self

    @property
    def text(self) -> str:
        """Text without marks."""
        return super().__str__()

    def part(self, text: str) -> LiteralText:
        """Return a text made from this text as a LiteralText with the same `mark`."""
        return self if text == self.text else LiteralText(text, self._mark, is_part=True)

    def __str__(self) -> str:
        """Return the text with marks."""
        marked = self._mark(self.text)
        if not self._is_part or not marked:
            return marked
        # Marks in the original text were replaced by U+FFFD.
        return f"{_OPEN}{marked.replace(_OPEN, '').replace(_CLOSE, '')}{_CLOSE}"

    def __format__(self, spec: str) -> str:
        """Return the text with marks."""
        return format(str(self), spec)

    def __add__(self, other: str) -> str:
        """Concatenate with other text, with marks."""
        if isinstance(other, LiteralText):
            return self.part(self.text + other.text)
        return str(self) + other

    def __radd__(self, other: str) -> str:
        """Concatenate, see `__add__`."""
        return other + str(self)

    def __mul__(self, n: SupportsIndex) -> LiteralText:
        """Repeat the text n times."""
        return self.part(self.text * n)

    __rmul__ = __mul__

    def __mod__(self, values: object) -> LiteralText:
        """Format values, with the text as format string."""
        return self.part(self.text % values)

    def __getitem__(self, key: SupportsIndex | slice) -> LiteralText:
        """Return a part of the text."""
        return self.part(self.text[key])

    def __iter__(self) -> Iterator[str]:
        """Iterate over the characters."""
        return (self.part(character) for character in self.text)


class LiteralList(list[object]):
    """List of a message or a tool, which a template cannot change for others."""


def _method(name: str, *, has_parts: bool) -> Callable[..., object]:
    """Return a method of str whose result, or whose parts, are `LiteralText`."""

    def method(self: LiteralText, *args: object, **kwargs: object) -> object:
        result = getattr(self.text, name)(*args, **kwargs)
        return type(result)(map(self.part, result)) if has_parts else self.part(result)

    method.__name__ = name
    return method


_ONE = (
    *("capitalize", "casefold", "center", "expandtabs", "format", "format_map", "join"),
    *("ljust", "lower", "lstrip", "removeprefix", "removesuffix", "replace", "rjust"),
    *("rstrip", "strip", "swapcase", "title", "translate", "upper", "zfill"),
)
_SEVERAL = ("partition", "rpartition", "rsplit", "split", "splitlines")
for _name in (*_ONE, *_SEVERAL):
    setattr(LiteralText, _name, _method(_name, has_parts=_name in _SEVERAL))


def with_marks(value: object) -> object:
    """Return a value whose str() and JSON contain its texts with marks."""
    if isinstance(value, LiteralText):
        return str(value)
    if isinstance(value, dict):
        return {with_marks(key): with_marks(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(with_marks(item) for item in value)
    return value


def unescaped_marks(text: str) -> str:
    """Return the text of a value with its marks in place of their escapes."""
    return _ESCAPED.sub(lambda m: m[1] + (_OPEN if m[2] == "0" else _CLOSE), text)


def mark_written(value: object) -> object:
    """Return the text that a template writes for a value, with marks."""
    if isinstance(value, (dict, list, tuple)):  # these write texts with escapes
        return unescaped_marks(str(with_marks(value)))
    return with_marks(value)


def as_literal(value: object, mark: Callable[[str], str]) -> object:
    """Return a copy of a part of a message with `LiteralText` in place of its texts."""
    if isinstance(value, str):
        # Most texts need no marks.
        return value if mark(value) == value else LiteralText(value, mark)
    if isinstance(value, dict):
        return {
            as_literal(key, mark): as_literal(item, mark) for key, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        return LiteralList(as_literal(item, mark) for item in value)
    return value
