"""Right codes of texts that several people coded: by majority or a model of coders."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from llamaherd.core import checks
from llamaherd.core.errors import ArgumentError
from llamaherd.research.codes.majority import majority
from llamaherd.research.statistics.coder_cells import cells_of
from llamaherd.research.statistics.coder_codes import (
    CONSENSUS,
    Consensus,
    DawidSkeneError,
    coder_matrix,
)
from llamaherd.research.statistics.dawid_skene import fitted, imputed

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from llamaherd.research.codes import Code
    from llamaherd.research.statistics.ratings import Floats, Scale

_SEED = 1  # as in `estimate`


@dataclass(frozen=True, slots=True, kw_only=True)
class RightCodes:
    """Right codes of g texts.

    Attributes:
        codes: Right code of each text: the majority code, or the most probable code; None
            for a text without a code.
        n_ties: Number of texts on which people tie.
        draws: Draws of the right codes from a model of coders; () by majority.
    """

    codes: list[Code]
    n_ties: int
    draws: tuple[list[Code], ...] = ()


def majority_code(codes: Sequence[Sequence[Code]]) -> RightCodes:
    """Return the majority code of each text, on a tie that of the first coder."""
    decided = [majority(each) for each in zip(*codes, strict=True)]
    return RightCodes(
        codes=[code for code, _ in decided], n_ties=sum(is_tie for _, is_tie in decided)
    )


def check_consensus(
    consensus: Consensus, n_imputations: int, scale: Scale, *, several: bool
) -> None:
    """Check the arguments of `validate` that select the method for the right codes.

    Raises:
        ValueError: An argument is out of range, or the labels are sets or numbers.
    """
    checks.choice("consensus", consensus, CONSENSUS)
    checks.integer("n_imputations", n_imputations, 2, 1000)
    if consensus == "majority":
        return
    reason = ""
    if several:
        reason = "has one label for each text, as the model of coders requires"
    if scale in ("interval", "ratio"):
        reason = "has categories: people's numbers are averaged, see numbers"
    if reason:
        raise ArgumentError(
            f"{consensus!r} is for a codebook that {reason}",
            argument="consensus",
            code="conflict",
        )


def modelled_codes(  # noqa: PLR0917 - one caller
    codes: Sequence[Sequence[Code]],
    given: Sequence[Code],
    names: Sequence[Hashable],
    unit_weights: Floats | None,
    consensus: Consensus,
    n_imputations: int,
) -> RightCodes:
    """Return the most probable right codes, and draws of them.

    The shares of right codes are estimated for each label of the model and each class of
    the weights, so that draws keep the relation of labels and codes.

    Args:
        codes: For each of J coders g codes.
        given: g labels of the model.
        names: Known labels in their order.
        unit_weights: float64[g]; None for equal weights.
        consensus: "dawid_skene" or "one_coin".
        n_imputations: Number of draws.

    Raises:
        ValueError: There are fewer than three coders, or too few texts with two codes.

    Source: see `llamaherd.research.statistics.dawid_skene`.
    """
    try:
        numbers, labels, at = coder_matrix(codes, names)
    except DawidSkeneError as error:
        raise ArgumentError(str(error), argument="gold", code="few_coders") from None
    of_labels = [given[i] for i in at]
    compared = [] if unit_weights is None else [np.asarray(unit_weights)[at].tolist()]
    cells = cells_of([0] * len(at), of_labels, compared)
    one_coin = consensus == "one_coin"
    model = fitted(numbers, len(labels), one_coin=one_coin, cells=cells)
    drawn = imputed(
        numbers, len(labels), n_imputations, _SEED, one_coin=one_coin, cells=cells
    )

    def placed(found: Sequence[int]) -> list[Code]:
        right: list[Code] = [None] * len(given)
        for i, k in zip(at, found, strict=True):
            right[i] = labels[k]
        return right

    return RightCodes(
        codes=placed(model.posteriors.argmax(axis=1).tolist()),
        n_ties=0,
        draws=tuple(placed(each) for each in drawn.tolist()),
    )
