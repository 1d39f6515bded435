"""Several labels of a text: as tuples, as texts, and as people write them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from llamaherd.research import frames
from llamaherd.research.coding.codebook import JOINED

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from llamaherd.research.statistics.ratings import Floats, Scale

Labels = tuple[str, ...]
BETWEEN = JOINED.strip()  # no label has it in its name
_NONE = ("none", "(none)")


def has_several(coded: Any, gold: Any) -> bool:  # noqa: ANN401 - of many kinds
    """Whether texts may have several labels, as far as the codebook or the draw tell.

    Raises:
        ValueError: One says that they may, and the other that they may not.
    """
    codebook, design = getattr(coded, "codebook", None), getattr(gold, "design", None)
    of_coded = None if codebook is None else codebook.type == "multiple"
    of_gold = None if design is None else bool(design.get("several"))
    if of_gold is False and not getattr(gold, "names", ()):
        of_gold = None  # nobody knew the labels then
    if None not in (of_coded, of_gold) and of_coded != of_gold:
        words = {True: "several labels a text", False: "one label a text"}
        raise ValueError(
            f"gold was drawn where there was {words[bool(of_gold)]}, and coded has "
            f"{words[bool(of_coded)]}: draw the sample from what was coded"
        )
    return bool(of_coded or of_gold)


def scale_of(coded: Any, gold: Any, label: str | None = None) -> Scale:  # noqa: ANN401 - of many kinds
    """The scale of labels, as far as codebook, column or draw tell.

    Args:
        coded: Has a codebook; or a data frame.
        gold: Has a design, as `GoldSample`.
        label: Column of labels in a data frame.
    """
    kind = getattr(getattr(coded, "codebook", None), "type", None)
    design = getattr(gold, "design", None) or {}
    if kind == "ordinal" or design.get("scale") == "ordinal":
        return "ordinal"
    frame = getattr(coded, "frame", coded)
    is_frame = isinstance(frame, Mapping) or hasattr(frame, "columns")
    if is_frame and label is not None and frames.are_ordered(frame, label):
        return "ordinal"
    return "nominal"


def none_of(names: Iterable[str]) -> str:
    """The word for none of the labels: an empty cell is no code yet."""
    taken = {name.casefold() for name in names}
    return next(word for word in _NONE if word not in taken or word == _NONE[-1])


def is_none(cell: str, names: Iterable[str]) -> bool:
    """Whether someone wrote that none of the labels applies."""
    return cell.strip().casefold() in words_for_none(names)


def words_for_none(names: Iterable[str]) -> tuple[str, ...]:
    """Words, in lower case, for none of the labels."""
    return none_of(names), _NONE[-1]


def labels_in(text: str, names: Sequence[str]) -> Labels:
    """The labels of a text that were joined, in the order of `names`, others behind."""
    return () if is_none(text, names) else in_order(text.split(BETWEEN), names)


def in_order(parts: Iterable[str], names: Sequence[str]) -> Labels:
    """Different labels in the order of `names`, others behind."""
    found = {part.strip() for part in parts} - {""}
    other = sorted(found.difference(names))
    return (*(name for name in names if name in found), *other)


def joined(labels: Iterable[str]) -> str:
    """Labels as one text, "" for none."""
    return JOINED.join(labels)


def majority(said: Sequence[Labels]) -> tuple[Labels, Labels]:
    """The labels that more than half of the coders gave, and those that just half did."""
    counts = Counter(label for each in said for label in each)
    more = tuple(label for label, n in counts.items() if 2 * n > len(said))
    return more, tuple(label for label, n in counts.items() if 2 * n == len(said))


def confidence_of(probs: Floats) -> Floats:
    """float64[n]: how sure a model is of the label it is least sure of, from 0 to 1.

    Args:
        probs: float64[n, k], probability that each label applies.
    """
    found: Floats = (2 * abs(probs - 0.5)).min(axis=1)
    return found
