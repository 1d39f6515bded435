"""Codebooks: what is asked of each text, what may be answered, and examples."""

from __future__ import annotations

import hashlib
import json
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

Kind = Literal["label", "ordinal", "multiple", "fields"]
KINDS: tuple[Kind, ...] = ("label", "ordinal", "multiple", "fields")


@dataclass(frozen=True, slots=True)
class Example:
    """A text that was coded already, for the model to see how.

    Attributes:
        text: It is.
        label: Its label; of several at once a sequence of them; of fields a dict.
        reason: Why, in a sentence; None: it is not told.
    """

    text: str
    label: Any
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Codebook:
    """What is asked of each text, and what may be answered.

    Attributes:
        question: What is to be done, in words for the model.
        labels: Definitions by label, in their order; "" where a label has none. Given as
            a list, labels have none.
        type: "label": one of them; "ordinal": one, and their order has a meaning, from
            least to most; "multiple": any number of them; "fields": JSON by a schema.
    """

    question: str
    labels: Mapping[str, str] | None = None
    _: KW_ONLY
    type: Kind = "label"

    @property
    def names(self) -> tuple[str, ...]:
        """The labels; () for fields."""
        return tuple(self.labels or ())

    def to_dict(self) -> dict[str, Any]:
        """Its content, JSON-able."""
        return {"question": self.question, "type": self.type, "labels": self.labels}

    @property
    def hash(self) -> str:
        """SHA-256 of its content, as 64 hexadecimal digits."""
        text = json.dumps(self.to_dict(), sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()
