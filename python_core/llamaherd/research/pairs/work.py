"""Texts to compare in pairs, with the question and the design."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from llamaherd.research.pairs.design import Design
    from llamaherd.research.pairs.question import PairQuestion


@dataclass(frozen=True, slots=True, kw_only=True)
class PairWork:
    """Checked arguments of a comparison in pairs.

    Attributes:
        texts: The texts.
        names: Names of the texts.
        question: The question.
        n_pairs: Number of pairs.
        design: "adaptive" or "random".
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
