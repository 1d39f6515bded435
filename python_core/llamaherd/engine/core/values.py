"""Values of options: their ranges, checks, JSON Schemas and conversions in R."""

from __future__ import annotations

import json
import math
import operator
from collections.abc import Callable, Collection, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias, cast

from llamaherd.engine.core import checks
from llamaherd.engine.core.argument import Argument, Id, Name, argument_of
from llamaherd.engine.core.errors import ArgumentError, ArgumentTypeError
from llamaherd.engine.core.plain import DuplicateKeyError, plain_tree, read_json
from llamaherd.engine.core.words import words

if TYPE_CHECKING:
    Schema: TypeAlias = Mapping[str, Any]


class OptionKind(Protocol):
    """Kind of an option's values."""

    @property
    def schema(self) -> Schema:
        """JSON Schema of the values in a request."""

    @property
    def r(self) -> str:
        """Name of the conversion in R, see `options.R`."""

    def check(self, name: Name, value: Any) -> object:  # of a caller
        """Return the value in its normalized form, or raise an error that names it."""


@dataclass(frozen=True, slots=True)
class Whole:
    """Integers in [low, high]."""

    low: int
    high: int = checks.INT32_MAX
    r: str = "whole"

    @property
    def schema(self) -> Schema:
        return {"type": "integer", "minimum": self.low, "maximum": self.high}

    def check(self, name: Name, value: object) -> int:
        if type(value) is int and self.low <= value <= self.high:
            return value
        return checks.integer(name, value, self.low, self.high)


@dataclass(frozen=True, slots=True)
class Real:
    """Finite numbers in [low, high]."""

    low: float
    high: float
    r: str = "number"

    @property
    def schema(self) -> Schema:
        return {"type": "number", "minimum": self.low, "maximum": self.high}

    def check(self, name: Name, value: object) -> float:
        if type(value) is float and self.low <= value <= self.high:
            return value
        return checks.real(name, value, self.low, self.high)


@dataclass(frozen=True, slots=True)
class Flag:
    """True and False."""

    schema: ClassVar[Schema] = {"type": "boolean"}
    r: ClassVar[str] = "flag"

    def check(self, name: Name, value: object) -> bool:
        return checks.flag(name, value)


@dataclass(frozen=True, slots=True)
class TextKind:
    """Any text."""

    schema: ClassVar[Schema] = {"type": "string"}
    r: ClassVar[str] = "text"

    def check(self, name: Name, value: object) -> str:
        return checks.text(name, value)


@dataclass(frozen=True, slots=True)
class Choice:
    """One of some constants."""

    choices: tuple[object, ...]
    r: str = "choice"

    @property
    def schema(self) -> Schema:
        return {"enum": list(self.choices)}

    def check(self, name: Name, value: object) -> object:
        return checks.choice(name, value, self.choices)


@dataclass(frozen=True, slots=True)
class Checked:
    """Values of other types, with a function that checks and normalizes them."""

    function: Callable[[Any, Any], object]
    schema: Schema
    r: str = ""

    def check(self, name: Name, value: object) -> object:
        return self.function(name, value)


@dataclass(frozen=True, slots=True)
class Unchecked:
    """Values that the call itself checks, because it needs more than the value."""

    schema: Schema
    r: str = ""

    def check(self, name: Name, value: object) -> object:  # noqa: ARG002 - as in `OptionKind`
        return value


MAX_CHOICES = 100_000  # also of labels
MAX_SCHEMA = 2_000_000  # characters, see also capi_shim/constraint/llguidance.cpp


def _c_string(name: Name, value: object) -> str:
    return checks.without_nul(name, checks.text(name, value))


def checked_breakers(name: str, breakers: object) -> tuple[str, ...]:
    """Return the texts that end a repetition."""
    texts = checks.some_texts(name, breakers)
    for i, text in enumerate(texts):
        _c_string(argument_of(name).at(i), text)
    return texts


class _Texts(tuple[str, ...]):  # noqa: SLOT001 - tuples can have no slot with a value
    """Checked texts whose hash is cached, because a call may have thousands of texts."""

    _hash: int | None = None

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = super().__hash__()
        return self._hash

    def __reduce__(self) -> tuple[type[_Texts], tuple[tuple[str, ...]]]:
        return _Texts, (tuple(self),)  # hashes of texts differ between processes


def checked_choices(name: str, choices: object) -> _Texts:
    """Return sorted choices without duplicates, so that equal settings compare equal."""
    if isinstance(choices, _Texts):
        return choices
    choices = checks.column_as_list(choices)
    what = "" if isinstance(choices, AbstractSet) else checks.no_list(choices)
    is_one = isinstance(choices, (str, bytes, bytearray, Mapping))
    if what or is_one or not isinstance(choices, Collection):
        raise ArgumentTypeError(
            f"must be {words().many} of texts, not {what or checks.brief(choices)}",
            argument=name,
        )
    where = argument_of(name)
    if len(choices) > MAX_CHOICES:
        raise ArgumentError(
            f"must have at most {MAX_CHOICES} texts, not {len(choices)}",
            argument=name,
            code="too_many",
        )
    texts = [_c_string(where.at(i), text) for i, text in enumerate(choices)]
    if not texts:
        raise ArgumentError("must have at least one text", argument=name, code="empty")
    for i, text in enumerate(texts):
        if not text:
            raise ArgumentError("must not be empty", argument=where.at(i), code="empty")
    return _Texts(sorted(set(texts)))


def checked_schema(name: str, schema: object) -> str:
    """Return a JSON Schema as compact JSON, in the order of its keys."""
    if isinstance(schema, (str, bytes, bytearray)):
        try:
            schema = read_json(schema)
        except DuplicateKeyError as error:
            raise ArgumentError(
                f"cannot be used: {error}", argument=name, code="duplicate"
            ) from None
        except (ValueError, RecursionError) as error:
            raise ArgumentError(f"is not valid JSON: {error}", argument=name) from None
    if not isinstance(schema, (Mapping, bool)):
        raise ArgumentTypeError(
            f"must be a JSON Schema, as a mapping or JSON, not {checks.brief(schema)}",
            argument=name,
        )
    try:
        text = json.dumps(
            plain_tree(schema),
            ensure_ascii=False,
            allow_nan=False,
            separators=(",", ":"),
        )
    except (TypeError, ValueError, RecursionError) as error:
        raise ArgumentError(
            f"cannot be written as JSON: {error}", argument=name
        ) from None
    if len(text) > MAX_SCHEMA:
        raise ArgumentError(
            f"has {len(text)} characters as JSON, more than {MAX_SCHEMA}",
            argument=name,
            code="too_many",
        )
    return _c_string(name, text)


def checked_bias(name: str, bias: object) -> tuple[tuple[int, float], ...]:
    """Return hashable pairs (token, bias), sorted by token."""
    if isinstance(bias, Mapping):
        bias = tuple(bias.items())
    if not isinstance(bias, (list, tuple)):
        raise ArgumentTypeError(
            f"must map token ids to numbers, not be {checks.brief(bias)}",
            argument=name,
        )
    pairs: dict[int, float] = {}
    for pair in bias:
        if not isinstance(pair, (list, tuple)) or len(pair) != 2:
            raise ArgumentTypeError(
                f"must hold pairs of a token id and a number, not {checks.brief(pair)}",
                argument=name,
            )
        token, value = pair
        is_number = isinstance(token, int) and not isinstance(token, bool)
        step = Id(cast("int", token)) if is_number else str(token)
        where = argument_of(name).at(step)
        forbidden = isinstance(value, float) and value == -math.inf
        number = -math.inf if forbidden else checks.real(where, value, -1e30, 1e30)
        number_of_token = _checked_token(where, token)
        if pairs.get(number_of_token, number) != number:
            raise ArgumentError("is given twice, with different numbers", argument=where)
        pairs[number_of_token] = number
    return tuple(sorted(pairs.items()))


def checked_tokens(name: str, tokens: object) -> tuple[int, ...]:
    """Return sorted token ids without duplicates, so that equal settings are equal."""
    if isinstance(tokens, (str, bytes, bytearray, Mapping)) or not isinstance(
        tokens, Collection
    ):
        raise ArgumentTypeError(
            f"must be {words().many} of token ids, not {checks.brief(tokens)}",
            argument=name,
        )
    where = argument_of(name)
    ids = {_checked_token(where.at(i), token) for i, token in enumerate(tokens)}
    return tuple(sorted(ids))


def _checked_token(where: Argument, token: object) -> int:
    """Convert a key of a mapping to a token id."""
    problem = f"needs a token id, an integer of at least 0, not {checks.brief(token)}"
    if isinstance(token, bool) or not hasattr(token, "__index__"):
        raise ArgumentTypeError(problem, argument=where)
    if operator.index(token) < 0:
        raise ArgumentError(problem, argument=where, code="out_of_range")
    return checks.integer(where, token, 0)
