"""Kinds of the values of options: range, check, JSON Schema and conversion in R."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from llamaherd.engine.core import checks

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import TypeAlias

    from llamaherd.engine.core.argument import Name

    Schema: TypeAlias = Mapping[str, Any]


class OptionKind(Protocol):
    """Kind of an option's values."""

    @property
    def schema(self) -> Schema:
        """JSON Schema of the values in a request."""

    @property
    def r(self) -> str:
        """Name of the conversion in R, see `options.R`."""

    def check(self, name: Name, value: Any) -> object:  # noqa: ANN401 - of a caller
        """Return the value in its normalized form, or raise an error that names it."""


@dataclass(frozen=True, slots=True)
class Whole:
    """Integers in [low, high]."""

    low: int
    high: int = checks.INT32_MAX
    r: str = "whole"

    @property
    def schema(self) -> Schema:
        """See `OptionKind`."""
        return {"type": "integer", "minimum": self.low, "maximum": self.high}

    def check(self, name: Name, value: object) -> int:
        """See `OptionKind`."""
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
        """See `OptionKind`."""
        return {"type": "number", "minimum": self.low, "maximum": self.high}

    def check(self, name: Name, value: object) -> float:
        """See `OptionKind`."""
        if type(value) is float and self.low <= value <= self.high:
            return value
        return checks.real(name, value, self.low, self.high)


@dataclass(frozen=True, slots=True)
class Flag:
    """True and False."""

    schema: ClassVar[Schema] = {"type": "boolean"}
    r: ClassVar[str] = "flag"

    def check(self, name: Name, value: object) -> bool:
        """See `OptionKind`."""
        return checks.flag(name, value)


@dataclass(frozen=True, slots=True)
class TextKind:
    """Any text."""

    schema: ClassVar[Schema] = {"type": "string"}
    r: ClassVar[str] = "text"

    def check(self, name: Name, value: object) -> str:
        """See `OptionKind`."""
        return checks.text(name, value)


@dataclass(frozen=True, slots=True)
class Choice:
    """One of some constants."""

    choices: tuple[object, ...]
    r: str = "choice"

    @property
    def schema(self) -> Schema:
        """See `OptionKind`."""
        return {"enum": list(self.choices)}

    def check(self, name: Name, value: object) -> object:
        """See `OptionKind`."""
        return checks.choice(name, value, self.choices)


@dataclass(frozen=True, slots=True)
class Checked:
    """Values of other types, with a function that checks and normalizes them."""

    function: Callable[[Any, Any], object]
    schema: Schema
    r: str = ""

    def check(self, name: Name, value: object) -> object:
        """See `OptionKind`."""
        return self.function(name, value)


@dataclass(frozen=True, slots=True)
class Unchecked:
    """Values that the call itself checks, because it needs more than the value."""

    schema: Schema
    r: str = ""

    def check(self, name: Name, value: object) -> object:  # noqa: ARG002 - as in `OptionKind`
        """See `OptionKind`."""
        return value
