"""Sets of labels of a text: as tuples, as joined texts, and as cells filled by coders."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from llamaherd.coding import frames
from llamaherd.coding.annotation.answer_types import JOINED
from llamaherd.coding.statistics.ratings import SCALES, Scale
from llamaherd.engine.core.errors import ArgumentError

if TYPE_CHECKING:
    from llamaherd.engine.core.arrays import Floats

Labels = tuple[str, ...]
BETWEEN = JOINED.strip()  # label names cannot contain it
_NONE = ("none", "(none)")


def has_several(coded: Any, gold: Any) -> bool:
    """Return True if the codebook or the sample allows several labels per text."""
    codebook, design = getattr(coded, "codebook", None), getattr(gold, "design", None)
    of_coded = None if codebook is None else codebook.kind.is_several
    of_gold = None if design is None else bool(design.get("several"))
    if of_gold is False and not getattr(gold, "names", ()):
        of_gold = None  # labels were unknown at the draw
    if None not in (of_coded, of_gold) and of_coded != of_gold:
        words = {True: "several labels per text", False: "one label per text"}
        raise ArgumentError(
            f"was drawn for {words[bool(of_gold)]}, but coded has "
            f"{words[bool(of_coded)]}: draw the sample from coded",
            argument="gold",
        )
    return bool(of_coded or of_gold)


def scale_of(coded: Any, gold: Any, label: str | None = None) -> Scale:
    """Return the scale of labels, as given by the codebook, the sample or the column."""
    codebook = getattr(coded, "codebook", None)
    design = getattr(gold, "design", None) or {}
    if codebook is not None and codebook.kind.is_ordered:
        measured: Scale = codebook.kind.measured
        return measured
    drawn = next((scale for scale in SCALES if scale == design.get("scale")), None)
    if drawn is not None:
        return drawn
    frame = getattr(coded, "frame", coded)
    is_frame = isinstance(frame, Mapping) or hasattr(frame, "columns")
    if is_frame and label is not None and frames.are_ordered(frame, label):
        return "ordinal"
    return "nominal"


def none_of(names: Iterable[str]) -> str:
    """Return the word that means "no label applies"; an empty cell means no code yet."""
    taken = {name.casefold() for name in names}
    return next(word for word in _NONE if word not in taken or word == _NONE[-1])


def is_none(cell: str, names: Iterable[str]) -> bool:
    """Return True if a cell says that none of the labels applies."""
    return cell.strip().casefold() in words_for_none(names)


def words_for_none(names: Iterable[str]) -> tuple[str, ...]:
    """Return the lower-case words that mean "no label applies"."""
    return none_of(names), _NONE[-1]


def labels_in(text: str, names: Sequence[str]) -> Labels:
    """Split joined labels into a tuple in the order of `names`, unknown labels last."""
    return () if is_none(text, names) else in_order(text.split(BETWEEN), names)


def in_order(parts: Iterable[str], names: Sequence[str]) -> Labels:
    """Return distinct labels in the order of `names`, unknown labels last."""
    distinct = {part.strip() for part in parts} - {""}
    other = sorted(distinct.difference(names))
    return (*(name for name in names if name in distinct), *other)


def joined_labels(labels: Iterable[str]) -> str:
    """Join labels to one text; "" without labels."""
    return JOINED.join(labels)


def confidence_of(probs: Floats) -> Floats:
    """Return the confidence in the least certain of k labels, float64[n] in [0, 1]."""
    confidence: Floats = (2 * abs(probs - 0.5)).min(axis=1)
    return confidence
