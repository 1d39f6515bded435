"""Texts to compare in pairs, and how."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from llamaherd.research.pairs.design import Design
    from llamaherd.research.pairs.question import PairQuestion


@dataclass(frozen=True, slots=True, kw_only=True)
class PairWork:
    """Checked arguments of a comparison.

    Attributes:
        texts: The texts.
        names: Their names.
        question: The question.
        n_pairs: Number of pairs.
        design: Kind of the design.
        seed: Seed of the design.
        level: Confidence level.
    """

    texts: tuple[str, ...]
    names: tuple[str, ...]
    question: PairQuestion
    n_pairs: int
    design: Design
    seed: int
    level: float
