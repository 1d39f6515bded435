"""Cells with codes: values of any type, and their text forms."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from functools import lru_cache
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any
from unicodedata import normalize

import numpy as np

from llamaherd.engine.core import checks
from llamaherd.engine.core.errors import ArgumentTypeError
from llamaherd.engine.core.plain import is_missing
from llamaherd.engine.core.words import words

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from llamaherd.engine.core.argument import Name

# Texts that spreadsheets and statistics programs write for missing values.
_NOTHING = frozenset(("", "na", "n/a", "#n/a", "nan", "<na>"))
_INVISIBLE = dict.fromkeys(map(ord, "\ufeff\u200b\u2060\u00ad"))
# Notation of numbers written by programs.
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:e[+-]\d{1,3})?")
_LONGEST_NUMBER = 300  # characters
LARGEST = 1e50  # absolute value of numbers, of which variances have the fourth power
_AROUND = re.compile(r" ?([,;|/]) ?")  # separators of several labels in one cell
_NEARLY = re.compile(r"[+-]?\d+(?:[.,]\d+)?")  # the notation of numbers written by people


@lru_cache(maxsize=4096)
def is_nothing(text: str) -> bool:
    """Return True for a text that means "no code": blank, NA, N/A, #N/A, NaN, <NA>."""
    return form_of(text) in _NOTHING


def plain(value: Any, argument: Name = "codes") -> Any:  # noqa: PLR0911 - of any type
    """Return a code as None, bool, int, float, or a str in Unicode form NFC.

    Whole numbers become int, dates ISO texts, Enum members their values; tuples stay.
    """
    if isinstance(value, Enum):
        value = value.value
    if type(value) is not str and is_missing(value):
        return None
    if isinstance(value, str):
        text = str.__str__(value)
        return text if text.isascii() else normalize("NFC", text)
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, (Real, Decimal)):
        return _number(value)
    if isinstance(value, bytes):
        return normalize("NFC", value.decode("utf-8", "replace"))
    if isinstance(value, (np.datetime64, date)):
        return _iso(value)
    if isinstance(value, (list, set, Mapping, np.ndarray)):
        raise ArgumentTypeError(
            f"must be single values, not {checks.brief(value)}", argument=argument
        )
    return value if isinstance(value, (tuple, frozenset)) else str(value)


def text_of(value: Any) -> str | None:
    """Return a code as text: "1" for 1 and 1.0; None for a missing code."""
    code = plain(value)
    return None if code is None else str(code)


def number_in(text: str) -> int | float | None:
    """Return the number in a text such as "1" or "1.0"; None for others, also "01"."""
    is_number = len(text) <= _LONGEST_NUMBER and _NUMBER.fullmatch(text)
    return _number(Decimal(text)) if is_number else None


def are_alike(
    labels: AbstractSet[Any], codes: AbstractSet[Any], known: Iterable[Any]
) -> bool:
    """Return False if labels and codes seem to be written differently.

    A model may give one label to all texts, and people another: both are then among the
    known labels, or both are numbers.
    """
    if labels & codes:
        return True
    if {text_of(code) for code in codes} & {text_of(name) for name in known}:
        return True
    return all(number_in(str(code)) is not None for code in labels | codes)


def form_of(text: str) -> str:
    """Return the common form of texts that differ in case, space or number format."""
    form = " ".join(normalize("NFC", text).translate(_INVISIBLE).split()).casefold()
    form = _AROUND.sub(r"\1", form)
    if len(form) <= _LONGEST_NUMBER and _NEARLY.fullmatch(form):
        return str(_number(Decimal(form.replace(",", "."))))
    return form


def _iso(value: Any) -> str:  # of datetime or numpy
    if isinstance(value, np.datetime64):
        value = value.astype("datetime64[us]").item()
    if isinstance(value, datetime) and value.time() == time() and value.tzinfo is None:
        value = value.date()
    return str(value.isoformat())


def _number(value: Any) -> int | float:
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Decimal):
        is_whole = value.is_finite() and value == value.to_integral_value()
        return int(value) if is_whole else float(value)
    # Converted through text, so that numpy's 32-bit 0.1 equals Python's 0.1.
    number = float(str(value)) if isinstance(value, np.floating) else float(value)
    return int(number) if number.is_integer() else number


def numbers_of(values: object, argument: str) -> NDArray[np.float64]:
    """Return numbers as an array, float64 of the same shape; NaN for missing values."""
    what = checks.no_list(values)
    is_other = isinstance(values, (str, bytes, bytearray, Mapping))
    is_single = getattr(values, "ndim", 1) == 0
    if what or is_other or is_single or not isinstance(values, Iterable):
        raise ArgumentTypeError(
            f"must be {words().many} of numbers, not {what or checks.brief(values)}",
            argument=argument,
        )
    if isinstance(values, np.ndarray) and values.dtype.kind in "fiub":
        return np.asarray(values, dtype=np.float64)
    numbers = [None if is_missing(number) else number for number in values]
    try:
        return np.array(numbers, dtype=np.float64)
    except (TypeError, ValueError):
        bad = next((i for i, x in enumerate(numbers) if not _is_number(x)), 0)
        raise ArgumentTypeError(
            f"must be a number, not {checks.brief(numbers[bad])}",
            argument=argument,
            place=(bad,),
        ) from None


def _is_number(value: object) -> bool:
    try:
        np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        return False
    return not isinstance(value, Iterable) or isinstance(value, str)
