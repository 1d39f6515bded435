"""Hashes of texts and labels, to check that results belong together."""

from __future__ import annotations

import hashlib
import json
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.core.errors import ArgumentError
from llamaherd.core.plurals import count_of
from llamaherd.research.codes import text_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from llamaherd.core.argument import Name


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Texts and labels that a result was computed from, as hashes.

    Attributes:
        n: Number of rows.
        texts: SHA-256 of the texts in order; None for unknown texts.
        labels: SHA-256 of the labels in order; None without labels.
        pairs: SHA-256 of the rows, independent of their order; None if texts or labels
            are unknown.
    """

    n: int
    texts: str | None
    labels: str | None
    pairs: str | None

    @classmethod
    def of(cls, texts: Sequence[Any] | None, labels: Sequence[Any] | None) -> Source:
        """Hash the texts and labels of n rows; None for unknown texts or labels."""
        given = None if texts is None else [compared(text) for text in texts]
        named = None if labels is None else [text_of(label) for label in labels]
        pairs = None
        if given is not None and named is not None:
            rows = sorted(map(json.dumps, zip(given, named, strict=True)))
            pairs = _sha256(rows)
        return cls(
            n=len(given if given is not None else named or ()),
            texts=None if given is None else _sha256(map(json.dumps, given)),
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
        return {
            "n": self.n,
            "texts": self.texts,
            "labels": self.labels,
            "pairs": self.pairs,
        }

    def is_reordered(self, other: Source) -> bool:
        """Return True if another source has the same rows in another order."""
        has_texts = None not in (self.texts, other.texts)
        has_pairs = self.pairs is not None and self.n == other.n
        return (
            has_texts
            and has_pairs
            and self.pairs == other.pairs
            and self.texts != other.texts
        )

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
    """Raise an error if a result was computed from other labels.

    Args:
        name: Name of the argument that contains the result, for the message.
        result: `Source.to_dict` of the result; None for results of older versions.
        of: Source of the reported labels.
        any_order: True to accept a result of the same rows in another order.

    Raises:
        ValueError: The result has another source, or no source.
    """
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


def compared(value: Any) -> str | None:  # noqa: ANN401 - whatever a cell holds
    """Normalize a text or an id for comparison; None for a missing value.

    1 and 1.0 are equal, and so are composed and decomposed accented letters.
    """
    if value is None or value != value:  # noqa: PLR0124 - NaN
        return None
    if isinstance(value, (float, np.floating)) and float(value).is_integer():
        return str(int(value))
    return unicodedata.normalize("NFC", str(value))


def _sha256(lines: Iterable[str]) -> str:
    hasher = hashlib.sha256()
    for line in lines:
        hasher.update(line.encode() + b"\n")
    return hasher.hexdigest()
