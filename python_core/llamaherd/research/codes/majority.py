"""One code of a text that several people coded: the code of the majority.

Every coded text keeps a code. The most frequent code counts; if several codes are equally
frequent, the code of the first of their coders counts, in the order of the coders. Texts
on which people tie are not left out: they are the difficult ones, so that the other texts
would show too few errors, and their inclusion probabilities would be unknown. If a text
may have several labels, each label is decided alone: it counts if more than half of the
coders gave it, and if exactly half did, as the first coder of the text decided.

Numbers of which a mean or a median is computed are averaged instead, see
`estimation.consensus`, `validation.numbers` and `selection.part_codes`.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, TypeVar

from llamaherd.core.plurals import part_of, verb

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

_CodeT = TypeVar("_CodeT", bound="Hashable")
_LabelT = TypeVar("_LabelT", bound="Hashable")

# Text of the error for arguments that selected a model of coders.
REMOVED = (
    "the right code is that of the majority. A model of coders estimates how often each "
    "coder errs; let one more coder decide the texts on which coders disagree"
)


def majority(codes: Sequence[_CodeT | None]) -> tuple[_CodeT | None, bool]:
    """Return the code of a text, None without codes; and True if its coders tie.

    Args:
        codes: Codes of one text in the order of the coders; None if a code is missing.
    """
    counted = Counter(code for code in codes if code is not None).most_common(2)
    if not counted:
        return None, False
    # Equal counts are in the order in which the codes occur.
    return counted[0][0], len(counted) > 1 and counted[0][1] == counted[1][1]


def majority_codes(
    codes: Sequence[Sequence[_CodeT | None]],
) -> tuple[list[_CodeT | None], int]:
    """Return the code of each text by `majority`, and the number of ties.

    Args:
        codes: For each coder the codes of all texts.
    """
    decided = [majority(each) for each in zip(*codes, strict=True)]
    return [code for code, _ in decided], sum(is_tie for _, is_tie in decided)


def majority_of_sets(
    codes: Sequence[Sequence[_LabelT] | None],
) -> tuple[list[_LabelT] | None, bool]:
    """Return the labels of a text, None without codes; and True if its coders tie.

    Args:
        codes: Labels of one text by each coder; None if a code is missing.
    """
    given = [code for code in codes if code is not None]
    if not given:
        return None, False
    counts = Counter(label for code in given for label in dict.fromkeys(code))
    labels = [
        label
        for label, n in counts.items()
        if 2 * n > len(given) or (2 * n == len(given) and label in given[0])
    ]
    return labels, any(2 * n == len(given) for n in counts.values())


def note_on_ties(n_ties: int, n_coded: int, coders: Sequence[str]) -> list[str]:
    """Return a note on the number of texts on which coders tie."""
    if n_ties == 0:
        return []
    first, *others = coders
    ties = part_of(n_ties, n_coded, "code", "is", "are")
    note = (
        f"{ties} {verb(n_ties, 'a tie', 'ties')}, decided by the first coder ({first} "
        f"before {', '.join(others)}): another order gives other results. "
        "To break the ties, add a column of codes by somebody who decides these texts"
    )
    return [note]
