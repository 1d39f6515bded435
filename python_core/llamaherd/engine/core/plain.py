"""Plain values: Python's own types in place of their subclasses, cells of tables, JSON.

`str()`, `repr()` and f-strings may write the name of a member of `class S(str, Enum)`,
and numpy's name of its text. So values become plain where they come in: what is computed,
shown, hashed and stored is the same value.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import asdict
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from numbers import Number
from typing import TYPE_CHECKING, Any, TypeVar

from llamaherd.engine.core.errors import ArgumentError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_PLAIN = frozenset((str, int, float, bool, type(None)))
_NAMES_OF_MISSING = frozenset(("NAType", "NaTType", "MaskedConstant"))
_ZEROS = re.compile(r"\.(\d*?)0+(?=$|[Z+-])")  # of a fraction of a second
_ZONE = re.compile(r"(:\d\d(?:\.\d+)?[+-]\d\d)(\d\d)$")


def plain(value: Any) -> Any:  # noqa: PLR0911 - of any type
    """Convert members of Enums, subclasses, and scalars of numpy and pyarrow.

    They become str, int, float, bool and bytes; containers stay unchanged.
    """
    if type(value) in _PLAIN:
        return value
    if isinstance(value, str):  # a subclass may define its own conversions
        return str.__str__(value)
    if isinstance(value, int):
        return int.__int__(value)
    if isinstance(value, float):
        return float.__float__(value)
    if isinstance(value, bytes):
        return bytes.__getitem__(value, slice(None))
    if _kind_of_numpy(value) in ("b", "i", "u", "f"):
        return value.item()
    convert = getattr(value, "as_py", None)
    return value if convert is None else plain(convert())


def plain_tree(value: Any) -> Any:
    """Convert a value and everything in its lists and mappings by `plain`."""
    if isinstance(value, Mapping):
        return {plain(key): plain_tree(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        items = [plain_tree(item) for item in value]
        return items if isinstance(value, list) else tuple(items)
    return plain(value)


def is_missing(value: object) -> bool:
    """Return True for missing values: None, NaN, NaT, and those of pandas and numpy."""
    if value is None or type(value).__name__ in _NAMES_OF_MISSING:
        return True
    if isinstance(value, Decimal):
        return value.is_nan()
    is_scalar = isinstance(value, Number) or _kind_of_numpy(value) in ("f", "c", "m", "M")
    return is_scalar and bool(value != value)  # noqa: PLR0124 - NaN and NaT


def json_value(value: Any) -> Any:  # noqa: PLR0911 - of any type
    """Convert a cell to a value of JSON; missing and infinite numbers become None.

    Dates, times, decimals, UUIDs and members of Enums become texts. Times are
    "2024-01-02 03:04:05+01:00", durations ISO 8601 ("P1DT2H"), bytes the text that they
    encode in UTF-8, or else hexadecimal digits.
    """
    kind = _kind_of_numpy(value)
    if kind == "f":  # float32 keeps its shortest digits
        value = float(str(value))
    value = plain(value)
    if is_missing(value):
        return None
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if type(value) in _PLAIN:
        return value
    if isinstance(value, Mapping):
        return {str(_text(key)): json_value(item) for key, item in value.items()}
    is_array = type(value).__module__ == "numpy" and not kind
    if isinstance(value, (list, tuple)) or is_array:
        return [json_value(item) for item in value]
    if isinstance(value, AbstractSet):
        return sorted(map(json_value, value), key=repr)
    if isinstance(value, Enum):
        return json_value(value.value)
    return _text(value)


def cell_text(value: object) -> str:
    """Return the text that files, prompts and pages show for a cell; "" if it is missing.

    Lists and mappings are JSON, other values as `json_value` describes them.
    """
    if type(value) is str:
        return value
    if isinstance(value, float) and math.isinf(value):
        return str(float(value))
    cell = json_value(value)
    if cell is None:
        return ""
    return cell if isinstance(cell, str) else json.dumps(cell, ensure_ascii=False)


def clock_text(text: str) -> str:
    """Return a point in time, or a time of day, in one notation."""
    text = _ZONE.sub(r"\1:\2", text.replace("T", " ", 1).replace("Z", "+00:00"))
    return _ZEROS.sub(lambda match: f".{match[1]}" if match[1] else "", text)


def _text(value: Any) -> str:
    value = plain(value)
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return value.hex()
    kind = _kind_of_numpy(value)
    if isinstance(value, (date, time)) or kind == "M":
        return clock_text(str(value))
    if isinstance(value, timedelta) or kind == "m":
        return _duration(value)
    if isinstance(value, Decimal):
        return format(value, "f")
    return str(value)


def _kind_of_numpy(value: object) -> str:
    """Return the kind of a scalar's dtype in numpy; "" for all other values."""
    if type(value).__module__ != "numpy" or getattr(value, "ndim", True):
        return ""
    return str(value.dtype.kind)  # type: ignore[attr-defined] # of numpy


def _duration(value: Any) -> str:  # of the standard library or numpy
    """Return a duration in the notation of ISO 8601, with all its digits."""
    if not isinstance(value, timedelta):
        unit = value.dtype.str[4:-1]  # "<m8[ns]"
        if unit in ("Y", "M"):  # calendar units have no length in seconds
            return f"P{int(value.astype('int64'))}{unit}"
        nanoseconds = int(value.astype("timedelta64[ns]").astype("int64"))
    else:
        nanoseconds = (value // timedelta(microseconds=1)) * 1000
        nanoseconds += int(getattr(value, "nanoseconds", 0))  # of pandas
    sign, rest = "-" if nanoseconds < 0 else "", abs(nanoseconds)
    days, rest = divmod(rest, 86_400 * 10**9)
    hours, rest = divmod(rest, 3600 * 10**9)
    minutes, rest = divmod(rest, 60 * 10**9)
    seconds = format(Decimal(rest).scaleb(-9).normalize(), "f")
    parts = [f"{hours}H" * bool(hours), f"{minutes}M" * bool(minutes)]
    if rest or not (days or hours or minutes):
        parts.append(f"{seconds}S")
    clock = "".join(parts)
    return f"{sign}P{f'{days}D' * bool(days)}{f'T{clock}' * bool(clock)}"


# Errors of code that reads a stored JSON text which is damaged or of another kind.
DAMAGED = (
    *(KeyError, TypeError, ValueError, AttributeError, RecursionError, IndexError),
    OverflowError,  # an infinite number as an integer
)
_T = TypeVar("_T")
_FORMAT = 1  # version of the format of stored results


def stored_json(kind: str, result: DataclassInstance, indent: int | None = None) -> str:
    """Return a result as JSON text, which `from_stored` reads."""
    content = {f"llamaherd_{kind}": _FORMAT, **asdict(result)}
    return json.dumps(content, ensure_ascii=False, indent=indent)


def from_stored(
    kind: str, text: str, make: Callable[[dict[str, Any]], _T], name: str = ""
) -> _T:
    """Read a result that `stored_json` wrote; `make` builds it from its fields."""
    name = name or kind
    try:
        fields = json.loads(text)
        form = fields.pop(f"llamaherd_{kind}")
        result = make(fields)
        str(result)  # fails if a value has another type, or the measure is unknown
    except DAMAGED as error:
        raise ArgumentError(f"is not a stored {name}", argument="text") from error
    if form != _FORMAT:
        raise ArgumentError(f"is a {name} of another format, {form!r}", argument="text")
    return result


_MOST = 60  # characters of a key in a message


class DuplicateKeyError(ValueError):
    """An object in a JSON text has a key twice."""


def unique_keys(pairs: list[tuple[str, _T]]) -> dict[str, _T]:
    """Build an object from its pairs, as `object_pairs_hook` of a JSON decoder."""
    members = dict(pairs)
    if len(members) == len(pairs):
        return members
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            short = key if len(key) <= _MOST else f"{key[: _MOST - 3]}..."
            raise DuplicateKeyError(
                f"an object has the key {json.dumps(short, ensure_ascii=False)} twice"
            )
        seen.add(key)
    return members


def read_json(text: str | bytes | bytearray) -> Any:  # JSON
    """Parse a JSON text."""
    return json.loads(text, object_pairs_hook=unique_keys)
