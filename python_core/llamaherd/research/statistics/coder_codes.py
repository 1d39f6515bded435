"""Codes of several people as numbers, for a model of the coders' errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from llamaherd.research.codes import Code
    from llamaherd.research.statistics.sampling import Ints

Consensus = Literal["majority", "dawid_skene", "one_coin"]
CONSENSUS: tuple[Consensus, ...] = ("majority", "dawid_skene", "one_coin")
N_IMPUTATIONS = 20
_LEAST_CODERS = 3
_LEAST_TEXTS = 20  # least number of texts with two codes or more


class DawidSkeneError(Exception):
    """The codes do not allow a model of the coders; the message says what is missing."""


def coder_matrix(
    codes: Sequence[Sequence[Code]], names: Sequence[Hashable]
) -> tuple[Ints, tuple[Any, ...], list[int]]:
    """Return codes as label numbers, the labels that occur, and the texts with a code.

    Args:
        codes: For each of J coders the codes of all texts; None if a code is missing.
        names: Known labels in their order; other labels follow, sorted.

    Returns:
        int64[J, n] with -1 for missing codes; K labels; n indices of texts.

    Raises:
        DawidSkeneError: There are fewer than three coders, or fewer than 20 texts with
            two codes.
    """
    n_texts = len(codes[0]) if codes else 0
    at = [i for i in range(n_texts) if any(column[i] is not None for column in codes)]
    n_both = sum(sum(column[i] is not None for column in codes) > 1 for i in at)
    if len(codes) < _LEAST_CODERS or n_both < _LEAST_TEXTS:
        raise DawidSkeneError(
            f"must have {_LEAST_CODERS} coders at least, and {_LEAST_TEXTS} texts with "
            f"two codes or more, for a model of their errors; it has {len(codes)} and "
            f"{n_both}"
        )
    there = {code for column in codes for code in column if code is not None}
    found: list[Any] = [name for name in names if name in there]
    found += sorted(there.difference(found), key=str)
    number = {name: k for k, name in enumerate(found)}
    made = [
        [-1 if column[i] is None else number[column[i]] for i in at] for column in codes
    ]
    return np.array(made, dtype=np.int64), tuple(found), at


def model_title(consensus: Consensus) -> str:
    """Return the name of a model of coders in a sentence."""
    form = "one-coin Dawid-Skene" if consensus == "one_coin" else "Dawid-Skene"
    return f"the {form} model of coders"
