"""Quotes of the passages that support labels; the model writes them after the labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from llamaherd.core.failure import is_cancelled
from llamaherd.core.plurals import count_of, verb
from llamaherd.structured.quotable import Quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from llamaherd.core.results import Results


class Labelled(NamedTuple):
    """Labelled text from which the model is to quote.

    Attributes:
        row: Index of the text.
        text: Part of the text that was coded.
        offset: Position of the part in the text.
        label: Label of the text.
    """

    row: int
    text: str
    offset: int
    label: str


class Quotes:
    """Quotes of n texts, block by block.

    Args:
        labels: n labels; None for texts without a label, which get no quote.

    Attributes:
        labelled: Indices of the texts that get a quote.
        each: n quotes with their positions in the whole text; None for texts without a
            quote.
    """

    def __init__(self, labels: Sequence[str | None]) -> None:
        self._labels = labels
        self._problems: list[str] = []
        self.labelled = [i for i, label in enumerate(labels) if label is not None]
        self.each: list[Quoted | None] = [None] * len(labels)

    def block(
        self, start: int, size: int, part_of: Callable[[int, str], tuple[str, int]]
    ) -> list[Labelled]:
        """Return some of the labelled texts.

        Args:
            start: Index of the first text among the labelled texts.
            size: Number of texts.
            part_of: Returns the part of a text, by its index, that supports a label, and
                the position of this part.
        """
        found = []
        for i in self.labelled[start : start + size]:
            label = str(self._labels[i])
            part, offset = part_of(i, label)
            found.append(Labelled(i, part, offset, label))
        return found

    def take(self, block: Sequence[Labelled], results: Results) -> None:
        """Store the quotes of a block."""
        for one, result in zip(block, results, strict=True):
            if isinstance(result.parsed, Quoted):
                found = result.parsed
                self.each[one.row] = Quoted(
                    quote=found["quote"],
                    start=found["start"] + one.offset,
                    end=found["end"] + one.offset,
                )
            elif result.error is not None and not is_cancelled(result.error):
                self._problems.append(result.error)

    @property
    def note(self) -> str:
        """Note on labels whose quote failed; "" if no quote failed."""
        n = len(self._problems)
        if not n:
            return ""
        which = f"{count_of(n, 'label')} {verb(n, 'has', 'have')}"
        return f"{which} no quote: {self._problems[0]}"
