"""Parts of a split gold sample: open parts are used, a locked part is not."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.core.plurals import count_of, verb
from llamaherd.core.words import call
from llamaherd.research.coding.relabelled import OTHER_PART

if TYPE_CHECKING:
    from collections.abc import Sequence

SPLIT = "split"  # key of the record of a split in the design of a sample
_LOCKED = "n_locked"  # key of the number of texts that are left out
_OPEN = ("explore", "select")


def in_parts(gold: Any, parts: Sequence[str]) -> Any:  # noqa: ANN401 - GoldSample
    """Return the texts of some parts of a split sample, as a sample of all N texts."""
    record = gold.design[SPLIT]
    is_in = np.array([part in parts for part in record["parts"]], dtype=bool)
    kept = np.flatnonzero(is_in).tolist()
    of_drawn = gold.strata[gold.rows]
    drawn = np.bincount(of_drawn)
    chances = np.bincount(of_drawn[is_in], minlength=len(drawn)) / np.maximum(drawn, 1)
    chance = np.where(gold.strata >= 0, chances[np.maximum(gold.strata, 0)], 0.0)
    marks = gold.label_marks
    if marks is not None:
        marks = marks.copy()
        marks[[row for row, here in zip(gold.rows, is_in, strict=True) if not here]] = (
            OTHER_PART
        )
    design = {name: value for name, value in gold.design.items() if name != SPLIT}
    design |= {"n": len(kept), "part": " and ".join(parts)}
    return replace(
        gold,
        rows=[gold.rows[i] for i in kept],
        ids=[gold.ids[i] for i in kept],
        texts=[gold.texts[i] for i in kept],
        labels=[gold.labels[i] for i in kept],
        all_probs=gold.all_probs * chance,
        label_marks=marks,
        codes=[[codes[i] for i in kept] for codes in gold.codes],
        design={**design, "split_sha256": record["sha256"]},
    )


def open_parts(gold: Any) -> Any:  # noqa: ANN401 - GoldSample, or what is like it
    """Return a sample without the texts of "evaluate", if these are still locked."""
    design = getattr(gold, "design", None) or {}
    record = design.get(SPLIT)
    if record is None or record["opened"]:
        return gold
    found = in_parts(gold, _OPEN)
    return replace(
        found, design={**found.design, _LOCKED: len(gold.rows) - len(found.rows)}
    )


def locked_note(gold: Any) -> list[str]:  # noqa: ANN401 - GoldSample, or what is like it
    """Return a note on the texts that `open_parts` left out; none without such texts."""
    n_locked = (getattr(gold, "design", None) or {}).get(_LOCKED, 0)
    if not n_locked:
        return []
    return [
        (
            f"{count_of(n_locked, 'text')} of the part 'evaluate' "
            f"{verb(n_locked, 'is', 'are')} left out, because this part "
            "is locked: the results use only the codes of "
            f"'explore' and 'select'. {call('evaluate_codebook')} unlocks the part, and "
            "returns a sample with all parts open (gold)"
        )
    ]
