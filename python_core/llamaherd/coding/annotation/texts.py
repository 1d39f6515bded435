"""Texts to code: duplicates, parts of long texts, and hashes of texts and labels."""

from __future__ import annotations

import hashlib
import json
import math
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.coding.codes import text_of
from llamaherd.coding.sentences import Notes
from llamaherd.engine.core import checks
from llamaherd.engine.core.errors import ArgumentError
from llamaherd.engine.core.phrases import count_of
from llamaherd.engine.core.plain import plain
from llamaherd.engine.core.words import number_of
from llamaherd.engine.native import vocabulary

if TYPE_CHECKING:
    from llamaherd.engine.core.argument import Name
    from llamaherd.engine.core.arrays import Ints
    from llamaherd.engine.model.model import Model


note = Notes("llamaherd.coding.annotation")
_MOST_ADDED = 8  # maximum number of special tokens around a text
_PIECE_CHARS = 4096  # maximum number of characters tokenized at a time


def checked_texts(values: Sequence[object], name: str) -> list[str | None]:
    """Check and return a column of texts, with None for missing texts.

    Halves of surrogate pairs are allowed: the prompt of such a text fails alone.
    """
    places = (f"text: column {name!r}, row {number_of(i)}," for i in range(len(values)))
    return [
        None if value is None else plain(checks.instance(place, value, str, "a text"))
        for place, value in zip(places, values, strict=True)
    ]


def unique_texts(texts: Sequence[str | None]) -> tuple[list[str], Ints]:
    """Return unique texts, in the order of first occurrence, and the index of each row's.

    The index, int64[n], is -1 for a missing or blank text.
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
    return _sha256(json.dumps(text, ensure_ascii=False) for text in texts)


def hash_of_ids_and_texts(ids: Sequence[str], texts: Sequence[str | None]) -> str:
    """Return the SHA-256 of ids and texts, as JSON in UTF-8."""
    pairs = zip(ids, texts, strict=True)
    return _sha256(json.dumps(pair, ensure_ascii=False) for pair in pairs)


def parts_of(
    model: Model, text: str, n_tokens: int, room: int | None = None
) -> list[str]:
    """Split a text into parts of similar length, at whitespace."""
    most = n_tokens if room is None else room
    # Some vocabularies encode a space as three bytes, each possibly a token.
    fits = 3 * len(text.encode("utf-8", "replace")) + _MOST_ADDED <= most
    if fits or checks.unicode_problem(text):  # the prompt fails
        return [text]
    n = _n_tokens(model, text)
    if n <= most or len(text) < 2:
        return [text]
    n_parts = max(2, math.ceil(n / n_tokens))
    ends = [
        _cut_position(text, round(len(text) * i / n_parts)) for i in range(1, n_parts)
    ]
    # Without whitespace nearby, cuts may coincide.
    marks = sorted({0, *ends, len(text)})
    pieces = [text[a:b] for a, b in pairwise(marks)]
    return [part for piece in pieces for part in parts_of(model, piece, n_tokens)]


def _cut_position(text: str, at: int) -> int:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Texts and labels that a result was computed from: n rows, and SHA-256.

    `texts` and `labels` are in order, `pairs` is independent of the order of rows.
    """

    n: int
    texts: str | None
    labels: str | None
    pairs: str | None

    @classmethod
    def of(cls, texts: Sequence[Any] | None, labels: Sequence[Any] | None) -> Source:
        """Hash the texts and labels of n rows; None for unknown texts or labels."""
        comparable = None if texts is None else [comparable_text(text) for text in texts]
        named = None if labels is None else [text_of(label) for label in labels]
        pairs = None
        if comparable is not None and named is not None:
            rows = sorted(map(json.dumps, zip(comparable, named, strict=True)))
            pairs = _sha256(rows)
        return cls(
            n=len(comparable if comparable is not None else named or ()),
            texts=None if comparable is None else _sha256(map(json.dumps, comparable)),
            labels=None if named is None else _sha256(map(json.dumps, named)),
            pairs=pairs,
        )

    @classmethod
    def from_dict(cls, fields: object) -> Source | None:
        """Read the source stored in a result; None if the result has no source."""
        if not isinstance(fields, Mapping) or "n" not in fields:
            return None
        return cls(
            n=int(fields["n"]), **{k: fields.get(k) for k in ("texts", "labels", "pairs")}
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the source as JSON types."""
        return asdict(self)

    def is_reordered(self, other: Source) -> bool:
        """Return True if another source has the same rows in another order."""
        are_known = None not in (self.pairs, self.texts, other.texts)
        is_same = (self.n, self.pairs) == (other.n, other.pairs)
        return are_known and is_same and self.texts != other.texts

    def problem_with(self, other: Source) -> str:
        """Return the reason why another source does not fit; "" if it fits."""
        if other.n != self.n:
            return f"{count_of(other.n, 'text')}, but {self.n:,} are reported"
        is_known = None not in (self.texts, other.texts)
        if self.is_reordered(other):
            return "the same texts in another order"
        if is_known and self.texts != other.texts:
            return "other texts, or these texts in another order"
        if None not in (self.labels, other.labels) and self.labels != other.labels:
            return "other labels, or these labels in another order"
        return ""


def check_source(name: Name, result: object, of: Source, *, any_order: bool) -> None:
    """Raise an error if a result was computed from other labels."""
    source = Source.from_dict(result)
    if source is None:
        raise ArgumentError(
            "does not record the texts and labels that it was computed from: it was made "
            "by an earlier version. Compute it again",
            argument=name,
        )
    problem = of.problem_with(source)
    if not problem or (any_order and of.is_reordered(source)):
        return
    raise ArgumentError(
        f"does not belong to these labels: it was computed from {problem}. Compute it "
        "again from the labels that are reported",
        argument=name,
    )


def comparable_text(value: Any) -> str | None:
    """Normalize a text or id: 1 and 1.0 are equal, and accents in NFC and NFD."""
    if value is None or value != value:  # noqa: PLR0124 - NaN
        return None
    if isinstance(value, (float, np.floating)) and float(value).is_integer():
        return str(int(value))
    return unicodedata.normalize("NFC", str(value))


def _sha256(lines: Iterable[str]) -> str:
    hasher = hashlib.sha256()
    for line in lines:
        hasher.update(line.encode("utf-8", "replace") + b"\n")
    return hasher.hexdigest()
