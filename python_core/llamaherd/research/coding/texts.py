"""Texts on their way to prompts: equal ones once, long ones in parts."""

from __future__ import annotations

import hashlib
import json
import math
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.core import checks
from llamaherd.native import vocabulary

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from llamaherd.model.model import Model

    Integers = np.ndarray[Any, np.dtype[np.int64]]

_MOST_ADDED = 8  # tokens before and after a text
_PIECE_CHARS = 4096  # tokenized at a time


def checked_texts(values: Sequence[object], name: str) -> list[str | None]:
    """A column of texts; None where one is missing.

    Args:
        values: Of the column.
        name: Of the column.

    Raises:
        TypeError: A value is no text.
        ValueError: It is not valid Unicode.
    """
    return [
        None if value is None else checks.text(f"text: column {name!r}, row {i},", value)
        for i, value in enumerate(values)
    ]


def unique_texts(texts: Sequence[str | None]) -> tuple[list[str], Integers]:
    """Each text once, in the order in which they come first.

    Returns:
        The texts; and int64[n], for each row the place of its text, -1 if it has none,
        or one of nothing but white space.
    """
    place: dict[str, int] = {}
    rows = np.fromiter(
        (
            -1 if text is None or is_blank(text) else place.setdefault(text, len(place))
            for text in texts
        ),
        dtype=np.int64,
        count=len(texts),
    )
    return list(place), rows


def is_blank(text: str | None) -> bool:
    """Whether a text is there and has nothing in it that could be judged."""
    return text is not None and not text.strip()


def same_rows(texts: Sequence[str | None], others: Iterable[str]) -> list[int]:
    """Rows of the texts that are among others, but for white space."""
    known = {" ".join(other.split()) for other in others}
    return [
        i
        for i, text in enumerate(texts)
        if text is not None and " ".join(text.split()) in known
    ]


def hash_of_texts(texts: Sequence[str | None]) -> str:
    """SHA-256 of the texts, each as JSON in UTF-8 on a line of its own; null: missing."""
    hasher = hashlib.sha256()
    for text in texts:
        hasher.update(json.dumps(text, ensure_ascii=False).encode() + b"\n")
    return hasher.hexdigest()


def sha256_of(ids: Sequence[str], texts: Sequence[str | None]) -> str:
    """What tells data from others: SHA-256 of ids and texts, as JSON in UTF-8."""
    digest = hashlib.sha256()
    for pair in zip(ids, texts, strict=True):
        digest.update(json.dumps(pair, ensure_ascii=False).encode("utf-8", "replace"))
        digest.update(b"\n")
    return digest.hexdigest()


def parts_of(
    model: Model, text: str, n_tokens: int, room: int | None = None
) -> list[str]:
    """A text in parts of about the same length, cut where there is white space.

    Args:
        model: Whose tokens count.
        text: It is.
        n_tokens: Most tokens of a part.
        room: Most tokens of a text that stays whole; None: `n_tokens`.

    Returns:
        The parts, which joined are the text; itself alone if it is short enough.
    """
    most = n_tokens if room is None else room
    # Some vocabularies write a space as three bytes, and a token may be a byte.
    if 3 * len(text.encode()) + _MOST_ADDED <= most:
        return [text]
    n = _n_tokens(model, text)
    if n <= most or len(text) < 2:
        return [text]
    n_parts = max(2, math.ceil(n / n_tokens))
    ends = [_cut(text, round(len(text) * i / n_parts)) for i in range(1, n_parts)]
    # Where there is no white space far and wide, cuts may meet.
    marks = sorted({0, *ends, len(text)})
    pieces = [text[a:b] for a, b in pairwise(marks)]
    return [part for piece in pieces for part in parts_of(model, piece, n_tokens)]


def _cut(text: str, at: int) -> int:
    """A place within the text close to `at`, behind white space if there is some."""
    reach = max(1, len(text) // 8)
    for distance in range(reach):
        for place in (at - distance, at + distance):
            if 0 < place < len(text) and text[place - 1].isspace():
                return place
    return min(max(at, 1), len(text) - 1)


def _n_tokens(model: Model, text: str) -> int:
    """About how many tokens a text has: those of its pieces, cut before spaces.

    Some of libllama's tokenizers take time that grows with the square of a text.
    """
    n, at = 0, 0
    with model.using() as handle:
        while at < len(text):
            end = at + _PIECE_CHARS
            if end < len(text):
                space = text.rfind(" ", at + 1, end)
                end = end if space < 0 else space
            piece = text[at:end]
            n += len(
                vocabulary.tokenize(handle, piece, add_special=False, parse_special=False)
            )
            at = end
    return n
