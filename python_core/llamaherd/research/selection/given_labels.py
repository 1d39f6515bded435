"""Labels from a result of `annotate`, found by the content of texts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.core import checks
from llamaherd.core.errors import ArgumentError, ArgumentTypeError
from llamaherd.core.plurals import count_of
from llamaherd.core.words import call
from llamaherd.research import frames
from llamaherd.research.codes import text_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.research.coding.codebook import Codebook
    from llamaherd.research.statistics.ratings import Floats

_TEXT = "text"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GivenLabels:
    """Labels of n texts in the form that `validate` accepts.

    Attributes:
        texts: n texts; None for missing texts.
        labels: n labels; None for missing and failed texts.
        names: The k labels of the codebook; () if unknown.
        probs: float64[n, k], probabilities of the labels; None if unknown.
        expected: float64[n], expected values of labels that are numbers, NaN for failed
            texts; None to compute them from `probs`.
        thoughts: n thoughts of the model; None if the model did not think.
        codebook: The codebook; None if unknown.
        run: Provenance, see `Coded.run`; {} if unknown.
    """

    texts: list[str | None]
    labels: list[str | None]
    names: tuple[str, ...] = ()
    probs: Floats | None = None
    expected: Floats | None = None
    thoughts: list[str | None] | None = None
    codebook: Codebook | None = None
    run: dict[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """Name of the column of texts in `frame`."""
        return _TEXT

    @property
    def frame(self) -> dict[str, list[str | None]]:
        """The texts as a data frame."""
        return {_TEXT: self.texts}

    @classmethod
    def of(cls, coded: Any) -> GivenLabels:  # noqa: ANN401 - Coded, or what is like it
        """Read the result of `annotate`."""
        if isinstance(coded, cls):
            return coded
        columns = getattr(coded, "columns", None)
        if not hasattr(coded, "labels") or not isinstance(columns, dict):
            raise ArgumentTypeError(
                f"must be the result of {call('annotate')}, not {checks.shown(coded)}",
                argument="coded",
            )
        thoughts = None
        if "thinking" in columns:
            cells = frames.column(coded.frame, columns["thinking"], "coded")
            thoughts = [text_of(each) for each in cells]
        return cls(
            texts=frames.column(coded.frame, coded.text, "text"),
            labels=list(coded.labels),
            names=tuple(coded.names),
            probs=coded.probs,
            thoughts=thoughts,
            codebook=coded.codebook,
            run=dict(coded.run),
        )

    @property
    def numbers(self) -> Floats:
        """Expected values if they are known, else the labels; float64[n]."""
        if self.expected is not None:
            return self.expected
        return numbers_of(self.labels, self.names, self.probs)

    def of_texts(self, texts: Sequence[str], *, partly: bool = False) -> GivenLabels:
        """Return the labels of these texts, found by their content.

        Equal texts have equal labels, because they are coded once.

        Args:
            texts: m texts.
            partly: True to return None for texts that were not coded.
        """
        first: dict[str, int] = {}
        for i, own in enumerate(self.texts):
            if own is not None:
                first.setdefault(_form(own), i)
        at = [first.get(_form(text), -1) for text in texts]
        missing = [i for i, row in enumerate(at) if row < 0]
        if missing and not partly:
            raise ArgumentError(
                f"has no labels of {len(missing)} of {count_of(len(texts), 'text')}, "
                f"such as {checks.shown(texts[missing[0]])}: code all texts of the part",
                argument="coded",
                code="missing",
            )
        probs = None
        if self.probs is not None:
            probs = np.array(
                [
                    self.probs[i] if i >= 0 else np.full(len(self.names), np.nan)
                    for i in at
                ]
            ).reshape(len(at), len(self.names))
        known = self.thoughts
        return GivenLabels(
            texts=list(texts),
            labels=[self.labels[i] if i >= 0 else None for i in at],
            names=self.names,
            probs=probs,
            expected=(
                None
                if self.expected is None
                else np.array([self.expected[i] if i >= 0 else np.nan for i in at])
            ),
            thoughts=(
                None if known is None else [known[i] if i >= 0 else None for i in at]
            ),
            codebook=self.codebook,
            run=self.run,
        )


def _form(text: str) -> str:
    return " ".join(text.split())


def numbers_of(
    labels: Sequence[str | None], names: Sequence[str], probs: Floats | None
) -> Floats:
    """Return the number of each text: its expected value, or its label.

    Args:
        labels: n labels that are numbers; None for failed texts.
        names: The k labels of the codebook.
        probs: float64[n, k], probabilities of the labels; None if unknown.

    Returns:
        float64[n], NaN for failed texts.
    """
    if probs is not None:
        found = np.asarray(probs, dtype=np.float64) @ np.array(list(map(float, names)))
        failed = np.array([label is None for label in labels], dtype=bool)
        return np.where(failed, np.nan, found)
    return np.array([np.nan if each is None else float(each) for each in labels])
