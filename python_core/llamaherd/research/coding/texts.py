"""Preparation of texts: duplicates are removed, long texts are split into parts."""

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

_MOST_ADDED = 8  # maximum number of special tokens around a text
_PIECE_CHARS = 4096  # maximum number of characters tokenized at a time


def checked_texts(values: Sequence[object], name: str) -> list[str | None]:
    """Check and return a column of texts, with None for missing texts.

    Args:
        values: Values of the column.
        name: Name of the column.
    """
    return [
        None if value is None else checks.text(f"text: column {name!r}, row {i},", value)
        for i, value in enumerate(values)
    ]


def unique_texts(texts: Sequence[str | None]) -> tuple[list[str], Integers]:
    """Return unique texts, in the order of first occurrence.

    Returns:
        The unique texts; and int64[n], the index of each row's text, -1 for a missing or
        blank text.
    """
    index_of: dict[str, int] = {}
    rows = np.fromiter(
        (
            -1
            if text is None or is_blank(text)
            else index_of.setdefault(text, len(index_of))
            for text in texts
        ),
        dtype=np.int64,
        count=len(texts),
    )
    return list(index_of), rows


def is_blank(text: str | None) -> bool:
    """Return True if a text is blank; a missing text (None) is not blank."""
    return text is not None and not text.strip()


def same_rows(texts: Sequence[str | None], others: Iterable[str]) -> list[int]:
    """Return the rows whose text, ignoring whitespace, is among `others`."""
    known = {" ".join(other.split()) for other in others}
    return [
        i
        for i, text in enumerate(texts)
        if text is not None and " ".join(text.split()) in known
    ]


def hash_of_texts(texts: Sequence[str | None]) -> str:
    """Hash texts as JSON lines in UTF-8 with SHA-256; a missing text is null."""
    hasher = hashlib.sha256()
    for text in texts:
        hasher.update(json.dumps(text, ensure_ascii=False).encode() + b"\n")
    return hasher.hexdigest()


def sha256_of(ids: Sequence[str], texts: Sequence[str | None]) -> str:
    """Return the SHA-256 of ids and texts, as JSON in UTF-8."""
    digest = hashlib.sha256()
    for pair in zip(ids, texts, strict=True):
        digest.update(json.dumps(pair, ensure_ascii=False).encode("utf-8", "replace"))
        digest.update(b"\n")
    return digest.hexdigest()


def parts_of(
    model: Model, text: str, n_tokens: int, room: int | None = None
) -> list[str]:
    """Split a text into parts of similar length, at whitespace.

    Args:
        model: Model whose tokenizer counts the tokens.
        text: Text to split.
        n_tokens: Largest number of tokens of a part.
        room: Largest number of tokens of a text that is not split; None for `n_tokens`.

    Returns:
        The parts, whose concatenation is the text; a single part if it is short enough.
    """
    most = n_tokens if room is None else room
    # Some vocabularies encode a space as three bytes, each possibly a token.
    if 3 * len(text.encode()) + _MOST_ADDED <= most:
        return [text]
    n = _n_tokens(model, text)
    if n <= most or len(text) < 2:
        return [text]
    n_parts = max(2, math.ceil(n / n_tokens))
    ends = [_cut(text, round(len(text) * i / n_parts)) for i in range(1, n_parts)]
    # Without whitespace nearby, cuts may coincide.
    marks = sorted({0, *ends, len(text)})
    pieces = [text[a:b] for a, b in pairwise(marks)]
    return [part for piece in pieces for part in parts_of(model, piece, n_tokens)]


def _cut(text: str, at: int) -> int:
    """Return a position near `at` to split the text, after whitespace if possible."""
    reach = max(1, len(text) // 8)
    for distance in range(reach):
        for position in (at - distance, at + distance):
            if 0 < position < len(text) and text[position - 1].isspace():
                return position
    return min(max(at, 1), len(text) - 1)


def _n_tokens(model: Model, text: str) -> int:
    """Estimate the number of tokens of a text from pieces cut before spaces.

    Some of libllama's tokenizers need time quadratic in the text's length.
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
