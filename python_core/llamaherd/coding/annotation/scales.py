"""Scales of numbers, such as 0 to 10, that a codebook can ask for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from numbers import Real
from typing import Any

from llamaherd.coding.codes import number_in, text_of
from llamaherd.engine.core import checks
from llamaherd.engine.core.argument import Argument, Field
from llamaherd.engine.core.errors import ArgumentError, ArgumentTypeError
from llamaherd.engine.core.words import words

_MOST = 1_001  # values of a scale
_LONGEST = 20  # characters of a number
_KEYS = ("from", "to", "step", "names")

Number = int | float


@dataclass(frozen=True, slots=True)
class NumberScale:
    """Scale of numbers, built by `number_scale`.

    Attributes:
        low: Lowest number.
        high: Highest number.
        step: Difference between adjacent numbers.
        names: Names of some of the numbers, such as "not at all" for 0, in order.
    """

    low: Number
    high: Number
    step: Number
    names: Mapping[Number, str]

    def __str__(self) -> str:
        names = {str(number): name for number, name in self.names.items()}
        wide = max(map(len, names), default=0)
        ends = f"from {self.low:g} to {self.high:g} in steps of {self.step:g}"
        lines = [f"  {number:{wide}}  {name}" for number, name in names.items()]
        return "\n".join([f"<NumberScale: {ends}>", *lines])

    @property
    def numbers(self) -> tuple[Number, ...]:
        """The numbers, from the lowest to the highest."""
        low, step = Decimal(str(self.low)), Decimal(str(self.step))
        n = int((Decimal(str(self.high)) - low) / step) + 1
        return tuple(_plain(low + i * step) for i in range(n))

    @property
    def definitions(self) -> dict[str, str]:
        """Names by number as text, "" for a number without a name."""
        return {str(number): self.names.get(number, "") for number in self.numbers}

    def to_dict(self) -> dict[str, Any]:
        """Return the scale as JSON types; `scale_of_dict` reads it."""
        names = {str(number): name for number, name in self.names.items()}
        content = {"from": self.low, "to": self.high, "step": self.step}
        return {**content, "names": names} if names else content


def number_scale(
    low: float,
    high: float,
    step: float = 1,
    names: Mapping[Any, str] | Sequence[str] | None = None,
) -> NumberScale:
    """Describe a scale of numbers, for the labels of a `Codebook`.

    Args:
        low: Lowest number; it may be negative or have decimals.
        high: Highest number.
        step: Difference between adjacent numbers; `high - low` must be a multiple of
            `step`.
        names: Names of numbers; the prompt lists them. Either a mapping from numbers to
            names, or a list of two names: of the lowest and of the highest number. None
            for no names.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: `high` is not above `low`, `high - low` is not a multiple of `step`,
            there are more than 1,001 numbers, or a named number is not on the scale.
    """
    return _scale_of_range(
        {"low": low, "high": high, "step": step}, names, Argument("names")
    )


def scale_of_dict(content: object) -> NumberScale:
    """Build a scale from a mapping with "from", "to", and perhaps "step" and "names"."""
    if isinstance(content, NumberScale):
        return content
    if not isinstance(content, Mapping):
        raise ArgumentTypeError(
            f"must map 'from' and 'to' to numbers, as {words().scale} does, not be "
            f"{checks.brief(content)}",
            argument="scale",
        )
    where = Argument("scale")
    keys = [key for key in content if content[key] is not None or key not in _KEYS]
    checks.known_fields(
        keys, _KEYS, _KEYS[:2], "a scale", lambda key: where.at(Field(key))
    )
    step = content.get("step")
    range_values = {
        where.at(Field("from")): content["from"],
        where.at(Field("to")): content["to"],
        where.at(Field("step")): 1 if step is None else step,
    }
    return _scale_of_range(range_values, content.get("names"), where.at(Field("names")))


def _scale_of_range(
    range_values: Mapping[Any, object], names: object, names_at: Argument
) -> NumberScale:
    _, high_at, step_at = range_values
    low, high, step = (_decimal(name, value) for name, value in range_values.items())
    if step <= 0:
        raise ArgumentError(
            f"must be above 0, not {step}", argument=step_at, code="out_of_range"
        )
    if high <= low:
        raise ArgumentError(
            f"must be above the lowest number, {low}, not {high}",
            argument=high_at,
            code="out_of_range",
        )
    n_steps = (high - low) / step
    if n_steps != n_steps.to_integral_value():
        raise ArgumentError(
            f"must divide the range from {low} to {high} into whole steps, not be {step}",
            argument=step_at,
        )
    if n_steps + 1 > _MOST:
        raise ArgumentError(
            f"must give at most {_MOST:,} numbers from {low} to {high}, not "
            f"{int(n_steps) + 1:,}",
            argument=step_at,
            code="too_many",
        )
    scale = NumberScale(_plain(low), _plain(high), _plain(step), {})
    named = _names(names, scale, names_at)
    return NumberScale(_plain(low), _plain(high), _plain(step), named)


def _names(names: object, scale: NumberScale, where: Argument) -> dict[Number, str]:
    """Return names by number, in the order of the scale."""
    if names is None:
        return {}
    if not isinstance(names, Mapping):
        is_pair = isinstance(names, (list, tuple)) and len(names) == 2
        if not is_pair:
            raise ArgumentTypeError(
                "must map numbers to names, or be two names, of the lowest and the "
                f"highest number, not {checks.brief(names)}",
                argument=where,
            )
        names = {scale.low: names[0], scale.high: names[1]}  # type: ignore[index] # a pair
    name_of: dict[Number, str] = {}
    for key, name in names.items():
        number = _plain(_decimal(where, key))
        if number not in scale.numbers:
            raise ArgumentError(
                f"has {checks.brief(key)}, which is not a number of the scale from "
                f"{scale.low} to {scale.high} in steps of {scale.step}",
                argument=where,
                code="unknown_choice",
            )
        text = checks.text(where.at(Field(str(key))), name).strip()
        if "\n" in text or "\0" in text:
            raise ArgumentError(
                f"must be one line, not {checks.quoted(text)}",
                argument=where.at(Field(str(key))),
            )
        if text:
            name_of[number] = text
    return {number: name_of[number] for number in scale.numbers if number in name_of}


def _decimal(name: Argument | str, value: object) -> Decimal:
    """Convert a finite number to a Decimal without rounding errors: 0.1 is one tenth."""
    is_number = isinstance(value, (Real, Decimal)) and not isinstance(value, bool)
    text = str(text_of(value)) if is_number else value
    text = text.strip() if isinstance(text, str) else ""
    try:
        number = Decimal(text if len(text) <= _LONGEST else "nan")
    except InvalidOperation:
        number = Decimal("nan")
    if not number.is_finite():
        raise ArgumentTypeError(
            f"must be a finite number of at most {_LONGEST} digits, not "
            f"{checks.brief(value)}",
            argument=name,
        )
    return number


def _plain(number: Decimal) -> Number:
    """Return an int if the number has no fraction, else a float."""
    is_whole = number == number.to_integral_value()
    return int(number) if is_whole else float(number)


def numbers_of(labels: Sequence[str]) -> tuple[Number, ...] | None:
    """Return labels as numbers; None unless all are different numbers."""
    numbers = [number_in(label) for label in labels]
    if not numbers or len(set(numbers)) < len(numbers):
        return None
    return None if None in numbers else tuple(numbers)  # type: ignore[arg-type] # none is None
