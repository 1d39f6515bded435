"""Text of a message inside a chat template, which is told from the template's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, SupportsIndex

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_OPEN, _CLOSE = "\ufdd0", "\ufdd1"


class Said(str):  # noqa: SLOT000 - strings have none of variable size
    """Text that reads as it was given, and is marked where it becomes part of a prompt.

    A template compares, splits and strips the text itself. Parts of it are `Said`, too;
    where it meets other text, or `str` is called, literal marks are written.

    Args:
        text: The text.
        mark: Puts literal marks around texts of special tokens.
        is_part: Whether it was made of a text that has special texts. Such a part is
            marked as a whole, so that parts put together again are text, too.
    """

    _mark: Callable[[str], str]
    _is_part: bool

    def __new__(  # noqa: PYI034 - typing.Self is of Python 3.11
        cls, text: str, mark: Callable[[str], str], *, is_part: bool = False
    ) -> Said:
        """Makes one."""
        self = super().__new__(cls, text)
        self._mark = mark
        self._is_part = is_part
        return self

    @property
    def text(self) -> str:
        """The text without marks."""
        return super().__str__()

    def part(self, text: str) -> Said:
        """Text that was made of this one."""
        return self if text == self.text else Said(text, self._mark, is_part=True)

    def __str__(self) -> str:
        """The text with marks."""
        marked = self._mark(self.text)
        if not self._is_part or not marked:
            return marked
        # Marks that were in the text are U+FFFD by now.
        return f"{_OPEN}{marked.replace(_OPEN, '').replace(_CLOSE, '')}{_CLOSE}"

    def __format__(self, spec: str) -> str:
        """The text with marks."""
        return format(str(self), spec)

    def __add__(self, other: str) -> str:
        """Marked where it meets other text."""
        if isinstance(other, Said):
            return self.part(self.text + other.text)
        return str(self) + other

    def __radd__(self, other: str) -> str:
        """See `__add__`."""
        return other + str(self)

    def __mul__(self, n: SupportsIndex) -> Said:
        """The text n times."""
        return self.part(self.text * n)

    __rmul__ = __mul__

    def __mod__(self, values: object) -> Said:
        """The text as a format."""
        return self.part(self.text % values)

    def __getitem__(self, key: SupportsIndex | slice) -> Said:
        """A part."""
        return self.part(self.text[key])

    def __iter__(self) -> Iterator[str]:
        """Its characters."""
        return (self.part(character) for character in self.text)


def _as_part(name: str) -> Callable[..., Said]:
    def method(self: Said, *args: object, **kwargs: object) -> Said:
        return self.part(getattr(self.text, name)(*args, **kwargs))

    method.__name__ = name
    return method


def _as_parts(name: str) -> Callable[..., object]:
    def method(self: Said, *args: object, **kwargs: object) -> object:
        found = getattr(self.text, name)(*args, **kwargs)
        return type(found)(self.part(part) for part in found)

    method.__name__ = name
    return method


_ONE = (
    *("capitalize", "casefold", "center", "expandtabs", "format", "format_map", "join"),
    *("ljust", "lower", "lstrip", "removeprefix", "removesuffix", "replace", "rjust"),
    *("rstrip", "strip", "swapcase", "title", "translate", "upper", "zfill"),
)
for _name in _ONE:
    setattr(Said, _name, _as_part(_name))
for _name in ("partition", "rpartition", "rsplit", "split", "splitlines"):
    setattr(Said, _name, _as_parts(_name))


def shown(value: object) -> object:
    """A value of which str() and JSON write the marks of what it holds."""
    if isinstance(value, Said):
        return str(value)
    if isinstance(value, dict):
        return {shown(key): shown(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(shown(each) for each in value)
    return value


def written(value: object) -> object:
    """A value as a template writes it, with marks."""
    if isinstance(value, (dict, list, tuple)):  # which write their texts with escapes
        return str(shown(value)).replace("\\ufdd0", _OPEN).replace("\\ufdd1", _CLOSE)
    return shown(value)


def said(value: object, mark: Callable[[str], str]) -> object:
    """A copy of a part of a message: its texts are those of somebody."""
    if isinstance(value, str):
        # Nearly every text has nothing to mark.
        return value if mark(value) == value else Said(value, mark)
    if isinstance(value, dict):
        return {said(key, mark): said(each, mark) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [said(each, mark) for each in value]
    return value
