"""Labels by classifiers, and codes of the same texts with their weights and strata."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import llamaherd as lh
import numpy as np
from llamaherd.coding.selection.parts import PartCodes

if TYPE_CHECKING:
    from collections.abc import Sequence


_RUN = {"codebook": {"content": lh.Codebook("Which?", ["a", "b"]).to_dict()}}


def labelled(labels: Sequence[str | None], names: Sequence[str]) -> lh.Coded:
    """Return texts with these labels, or sets of labels that are joined."""
    return lh.Coded.of_record(_RUN, {}, "text", labels=labels, names=names)


def part_codes(
    codes: Sequence[tuple[str, ...]],
    names: Sequence[str],
    weights: Any = None,
    strata: Any = None,
    *,
    several: bool = False,
) -> PartCodes:
    """Return codes of texts that were drawn with these weights from these strata."""
    n = len(codes)
    ids = [str(i) for i in range(n)]
    return PartCodes(
        ids=ids,
        texts=ids,
        right=list(codes),
        rows=np.arange(n),
        probs=np.ones(n) if weights is None else 1 / np.asarray(weights),
        strata=np.zeros(n, dtype=np.int64) if strata is None else strata,
        columns=[],
        names=tuple(names),
        several=several,
    )
