"""Hashes of the texts and labels that a result came from: what belongs together."""

from __future__ import annotations

import hashlib
import json
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.research.codes import text_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Texts and labels that a result was computed from, as hashes.

    Attributes:
        n: Number of rows.
        texts: SHA-256 of the texts in their order; None: no texts were known.
        labels: SHA-256 of the labels in their order; None: there were none.
        pairs: SHA-256 of the rows in any order; None: no texts or no labels were known.
    """

    n: int
    texts: str | None
    labels: str | None
    pairs: str | None

    @classmethod
    def of(cls, texts: Sequence[Any] | None, labels: Sequence[Any] | None) -> Source:
        """The source of n rows; None for a column that is not known."""
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
    def from_dict(cls, told: object) -> Source | None:
        """The source that a result tells; None where it tells none."""
        if not isinstance(told, Mapping) or "n" not in told:
            return None
        return cls(
            n=int(told["n"]), **{k: told.get(k) for k in ("texts", "labels", "pairs")}
        )

    def to_dict(self) -> dict[str, Any]:
        """The same as plain data."""
        return {
            "n": self.n,
            "texts": self.texts,
            "labels": self.labels,
            "pairs": self.pairs,
        }

    def problem_with(self, other: Source) -> str:
        """Why a result of another source does not belong to this one; "" if it does."""
        if other.n != self.n:
            return f"of {other.n:,} texts, and {self.n:,} are reported"
        is_known = None not in (self.texts, other.texts)
        if is_known and self.pairs is not None and self.pairs == other.pairs:
            return (
                "" if self.texts == other.texts else "of the same texts in another order"
            )
        if is_known and self.texts != other.texts:
            return "of other texts, or of these in another order"
        if None not in (self.labels, other.labels) and self.labels != other.labels:
            return "of other labels, or of these in another order"
        return ""


def check_source(name: str, result: object, of: Source, *, any_order: bool) -> None:
    """Refuses a result that was not computed from the labels that are reported.

    Args:
        name: Argument that the result was given as.
        result: `Source.to_dict` of the result, or nothing of an older version.
        of: Source of the labels that are reported.
        any_order: Whether a result of the same rows in another order is right, too.

    Raises:
        ValueError: It came from others, or does not say from which.
    """
    source = Source.from_dict(result)
    if source is None:
        raise ValueError(
            f"{name} does not say which texts and labels it came from: it was made by an "
            "earlier version. Make it again"
        )
    problem = of.problem_with(source)
    if not problem or (any_order and problem.endswith("the same texts in another order")):
        return
    raise ValueError(
        f"{name} does not belong to these labels: it is {problem}. Make it again from "
        "the labels that are reported"
    )


def compared(value: Any) -> str | None:  # noqa: ANN401 - whatever a cell holds
    """A text or an id in the form that is compared; None for what is missing.

    1 and 1.0 are the same, and so are letters with their accents in one character or two.
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
