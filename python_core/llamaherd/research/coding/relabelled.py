"""Check that labels were not corrected by hand for the coded texts alone.

Estimates correct the labels of all texts by the errors of the coded texts. If people
replace the wrong labels of coded texts, no error is left to be seen there, although the
other texts have as many errors as before.
"""

from __future__ import annotations

import math
import zlib
from typing import TYPE_CHECKING

import numpy as np

from llamaherd.core.errors import ArgumentError
from llamaherd.core.plurals import count_of, part_of, verb

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.research.statistics.sampling import Floats, Ints

OTHER_PART = -1  # mark of a coded text in another part of the sample
_MARKS = 65_521  # number of different marks
_IMPROBABLE = math.log(1e3)  # less probable changes are no chance


def marks_of(forms: Sequence[str | None]) -> Ints:
    """Return a short hash of each normalized label, int64[N]; 0 for no label."""
    known: dict[str | None, int] = {None: 0}
    for form in forms:
        if form not in known:
            known[form] = 1 + zlib.crc32(str(form).encode()) % _MARKS
    return np.array([known[form] for form in forms], dtype=np.int64)


def check_relabelled(
    before: Ints,
    now: Ints,
    coded: Sequence[int],
    probs: Floats | None,
    since: str = "when the sample was drawn",
) -> None:
    """Refuse labels that changed for coded texts, but not for the other texts.

    If the model codes all texts again, the changed texts are a random part of the coded
    texts: their number has the mean sum(probs), over all changed texts. It is compared
    with this mean by Chernoff's bound for sums of independent events.

    Args:
        before: int64[N], marks of the labels at the draw; `OTHER_PART` for texts that are
            not compared.
        now: int64[N], marks of the labels now; rows without a label are not compared.
        coded: Rows of the texts with codes.
        probs: float64[N], probability of each text to be drawn; None if all are equal.
        since: Origin of the labels `before`, for the message.

    Raises:
        ValueError: Only labels of coded texts changed, or far more than of other texts.
    """
    if not before.any():
        return
    is_coded = np.zeros(len(now), dtype=bool)
    is_coded[list(coded)] = True
    is_compared = (now != 0) & (before != OTHER_PART)
    changed = is_compared & (now != before)
    n_changed, n_other = int(changed[is_coded].sum()), int(changed[~is_coded].sum())
    if not n_changed or not is_compared[~is_coded].any():
        return
    if probs is None:
        probs = np.full(len(now), is_coded.mean())
    mean = float(probs[changed].sum())
    surprise = n_changed * math.log(n_changed / max(mean, 1e-300)) - (n_changed - mean)
    if n_other and (n_changed <= mean or surprise < _IMPROBABLE):
        return
    n_coded = int(is_coded.sum())
    others = count_of(n_other, "other text") if n_other else "no other text"
    raise ArgumentError(
        f"{part_of(n_changed, n_coded, 'coded text')} another label than "
        f"{since}, but {others} {verb(max(n_other, 1), 'has', 'have')}: labels that "
        "were corrected for the coded texts hide the model's errors, and every estimate "
        "would be wrong. Use the labels of the draw, as the model gave them: the codes "
        "correct them. If the model coded all texts again, draw a new sample",
        argument="coded",
        code="labels_edited",
        form="{problem}",
    )
