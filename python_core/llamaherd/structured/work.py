"""The work that a check of an answer may take, counted in steps.

jsonschema looks at parts of a schema again for each way that leads to them, so that a
schema of some hundred bytes can take hours. Counting the visits of all keywords, and what
each of them compares, bounds any such check whatever brings it about.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextvars import Token

    from typing_extensions import Self

    Keyword = Callable[[Any, Any, Any, Any], Iterator[Any] | None]

MOST_STEPS = 500_000  # some tenths of a second
STEPS_A_CHARACTER = 20  # more, of the answer: those of a long one took longer to come
_VISIT = 10  # steps that calling a keyword takes
_SHARE = 32  # characters that are copied or compared within a step
_DESCENT = 10  # steps to go on to a part of a schema
_ASKED = 5  # steps to ask for a value's type, as all parts of jsonschema do
_MOST_SHOWN = 20  # values of a long list in a reason
_SEARCH = 10  # steps to look for a pattern in a short text


class TooMuchWorkError(Exception):
    """The check of an answer takes more steps than it may."""


class Work:
    """Steps that the check of one answer has left, in a `with` block.

    Args:
        answer: What JSON gives.
    """

    def __init__(self, answer: object) -> None:
        self._sizes: dict[int, int] = {}
        self._most = self._left = MOST_STEPS + STEPS_A_CHARACTER * self._measure(answer)
        self._token: Token[Work | None] | None = None

    def __enter__(self) -> Self:
        self._token = _current.set(self)
        return self

    def __exit__(self, *_: object) -> None:
        if self._token is not None:
            _current.reset(self._token)

    def spend(self, n_steps: int) -> None:
        """Takes steps from those that are left.

        Raises:
            TooMuchWorkError: There are too few.
        """
        self._left -= n_steps
        if self._left < 0:
            raise TooMuchWorkError(f"the check takes more than {self._most} steps")

    def size_of(self, part: object) -> int:
        """Characters of a list or an object of the answer, about; 0 of anything else."""
        return self._sizes.get(id(part), 0)

    def _measure(self, value: object) -> int:
        """Characters of a value, about; keeps those of its lists and objects."""
        if isinstance(value, str):
            return 2 + len(value)
        if isinstance(value, list):
            size = 2 + sum(map(self._measure, value))
        elif isinstance(value, dict):
            size = 2 + sum(len(key) + 3 + self._measure(v) for key, v in value.items())
        else:
            return 4
        self._sizes[id(value)] = size
        return size


_current: ContextVar[Work | None] = ContextVar("_current", default=None)


def count(n_steps: int) -> None:
    """Counts steps of the check that runs, if one does.

    Raises:
        TooMuchWorkError: There are more than it may take.
    """
    work = _current.get()
    if work is not None:
        work.spend(n_steps)


def count_search(text: str) -> None:
    """Counts a search for a pattern in a text, see `count`."""
    count(_SEARCH + len(text))


def _count_visit(keyword_value: object, instance: object) -> None:
    work = _current.get()
    if work is None:
        return
    size = len(instance) if isinstance(instance, str) else work.size_of(instance)
    n_parts = len(keyword_value) if isinstance(keyword_value, (list, dict)) else 0
    work.spend(_VISIT + n_parts + size // _SHARE)


def counted(keyword: Keyword) -> Keyword:
    """A keyword of jsonschema that counts its calls."""

    def check(
        validator: object, value: object, instance: object, schema: object
    ) -> Iterator[Any] | None:
        _count_visit(value, instance)
        return keyword(validator, value, instance, schema)

    return check


def count_calls(kind: Any) -> None:  # noqa: ANN401 - a class that jsonschema makes
    """Makes a validator class count what it does beside its keywords."""
    is_type, descend = kind.is_type, kind.descend

    def counted_is_type(self: object, instance: object, type: str) -> object:  # noqa: A002
        count(_ASKED)
        return is_type(self, instance, type)

    def counted_descend(self: object, *args: object, **more: object) -> object:
        count(_DESCENT)
        return descend(self, *args, **more)

    kind.is_type, kind.descend = counted_is_type, counted_descend


# ---- keywords that compare whole values, in time that grows with their size ------------


def enum_check() -> Keyword:
    """`enum`, for the schema of one validator: its values are read once."""
    keys: dict[int, frozenset[object]] = {}

    def check(
        _validator: object, values: list[object], instance: object, _schema: object
    ) -> Iterator[Any]:
        if id(values) not in keys:
            keys[id(values)] = frozenset(map(_key, values))
        if _key(instance) not in keys[id(values)]:
            yield _error(f"{_shown(instance)} is not one of {_shown(values)}")

    return check


def check_const(
    _validator: object, value: object, instance: object, _schema: object
) -> Iterator[Any]:
    """`const`."""
    if _key(instance) != _key(value):
        yield _error(f"{_shown(value)} was expected")


def check_unique_items(
    _validator: object, is_wanted: object, instance: object, _schema: object
) -> Iterator[Any]:
    """`uniqueItems`."""
    if not is_wanted or not isinstance(instance, list):
        return
    if len(set(map(_key, instance))) < len(instance):
        yield _error(f"{_shown(instance)} has non-unique elements")


def _key(value: object) -> object:
    """A hashable object, equal for values that JSON Schema calls equal.

    1 and 1.0 are, 1 and true are not.
    """
    count(1)
    if isinstance(value, list):
        return ("list", *map(_key, value))
    if isinstance(value, dict):
        return ("dict", frozenset((name, _key(each)) for name, each in value.items()))
    return ("bool", value) if isinstance(value, bool) else value


def _shown(value: object) -> str:
    """A value for a reason, of which very many may be made and dropped."""
    if isinstance(value, list) and len(value) > _MOST_SHOWN:
        return f"{value[:_MOST_SHOWN]!r}"[:-1] + ", ...]"
    return repr(value)


def _error(message: str) -> Any:  # noqa: ANN401 - slow to import
    from jsonschema.exceptions import ValidationError  # noqa: PLC0415

    return ValidationError(message)
