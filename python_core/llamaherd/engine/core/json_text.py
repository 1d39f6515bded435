"""Reading of JSON that users and clients write.

`json.loads` keeps the last of two equal keys of an object. A text with two equal keys is
nearly always a mistake, and its author may mean the first.
"""

from __future__ import annotations

import json
from typing import Any, TypeVar

# Errors of code that reads a stored JSON text which is damaged or of another kind.
DAMAGED = (
    *(KeyError, TypeError, ValueError, AttributeError, RecursionError, IndexError),
    OverflowError,  # an infinite number as an integer
)
_T = TypeVar("_T")
_MOST = 60  # characters of a key in a message


class DuplicateKeyError(ValueError):
    """An object in a JSON text has a key twice."""


def unique_keys(pairs: list[tuple[str, _T]]) -> dict[str, _T]:
    """Build an object of a JSON text, as `object_pairs_hook` of a decoder.

    Args:
        pairs: Keys with their values, in the order of the text.

    Raises:
        DuplicateKeyError: A key occurs twice.
    """
    found = dict(pairs)
    if len(found) == len(pairs):
        return found
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            shown = key if len(key) <= _MOST else f"{key[: _MOST - 3]}..."
            raise DuplicateKeyError(
                f"an object has the key {json.dumps(shown, ensure_ascii=False)} twice"
            )
        seen.add(key)
    return found


def read_json(text: str | bytes | bytearray) -> Any:  # noqa: ANN401 - JSON
    """Parse a JSON text.

    Raises:
        DuplicateKeyError: An object has a key twice.
        ValueError: The text is not JSON.
        RecursionError: The text is nested too deeply.
    """
    return json.loads(text, object_pairs_hook=unique_keys)
