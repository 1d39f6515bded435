"""Pairs to compare: their prompts, their rounds, and the fit of strengths to results."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from llamaherd.coding.pairs.bradley_terry import (
    Pairs,
    first_pairs,
    fit_strengths,
    next_pairs,
    random_pairs,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.coding.pairs.bradley_terry import Pair, StrengthFit
    from llamaherd.engine.core.arrays import Floats

Design = Literal["adaptive", "random"]
DESIGNS: tuple[Design, ...] = ("adaptive", "random")
PAIRS_A_TEXT = 6  # default number of pairs for each text
_CYCLES = 2  # number of random cycles at the start
LAYOUT = """\
{question}

Text {a}:
{first}

Text {b}:
{second}

Answer with exactly one letter, {a} or {b}.
Answer:"""
FIELD = re.compile(r"\{(question|first|second|a|b)\}")  # of a layout


@dataclass(frozen=True, slots=True, kw_only=True)
class PairWork:
    """Checked arguments of a comparison in pairs; see `compare_pairs`."""

    texts: tuple[str, ...]
    names: tuple[str, ...]
    question: str
    labels: tuple[str, str]
    layout: str
    n_pairs: int
    design: Design
    seed: int
    level: float

    def prompt(self, first: int, second: int) -> str:
        """Return the prompt for two texts; braces within texts are not replaced."""
        fields = {
            "question": self.question,
            "first": self.texts[first],
            "second": self.texts[second],
            "a": self.labels[0],
            "b": self.labels[1],
        }
        return FIELD.sub(lambda field: fields[field[1]], self.layout)


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedPair:
    """Result of a pair in both orders.

    Attributes:
        first: Index of the text that the first prompt shows first.
        second: Index of the other text.
        round: Number of the round, from 1.
        forward: Log-odds that the first text wins if it is shown first.
        backward: Log-odds that the first text wins if it is shown second.
        coverage: Mean of the total probability of both labels.
        error: Reason why the pair failed, with NaN as log-odds; None if the pair
            succeeded.
    """

    first: int
    second: int
    round: int
    forward: float
    backward: float
    coverage: float
    error: str | None = None

    @property
    def log_odds(self) -> float:
        """Log-odds that the first text wins: the mean of both orders."""
        return (self.forward + self.backward) / 2

    @property
    def prob(self) -> float:
        """Probability that the first text wins."""
        return float(1 / (1 + np.exp(-self.log_odds)))

    @property
    def position_bias(self) -> float:
        """Log-odds in favour of the text that is shown first."""
        return (self.forward - self.backward) / 2

    @property
    def is_consistent(self) -> bool:
        """True if the same text wins in both orders."""
        return self.forward * self.backward > 0


class PairDesign:
    """Sequence of rounds of pairs of n texts, with the results so far.

    The first rounds are random cycles through all texts. With "adaptive", the later
    rounds alternate between the most informative pairs and random pairs. Rounds of
    informative pairs alone would overestimate differences: texts that seem close by
    chance would be chosen and compared until they seem different.
    """

    def __init__(self, n: int, n_pairs: int, kind: Design, seed: int) -> None:
        self.results: list[ComparedPair] = []
        self.correlations: list[float] = []  # See `PairComparison`
        self.round = 0  # Number of the last round, from 1
        self._n, self._n_pairs, self._kind = n, n_pairs, kind
        self._rng = np.random.default_rng(seed)
        self._known: set[Pair] = set()
        # Fit to all results: of the largest set of texts that pairs connect; None if no
        # pair has a result
        self.fit: StrengthFit | None = None

    @property
    def n_left(self) -> int:
        """Number of pairs to draw in further rounds."""
        return self._n_pairs - len(self._known)

    @property
    def done(self) -> list[ComparedPair]:
        """Pairs with a result."""
        return [pair for pair in self.results if pair.error is None]

    @property
    def pairs(self) -> Pairs:
        """Texts of these pairs."""
        texts = np.array([(p.first, p.second) for p in self.done], dtype=np.int64)
        first, second = texts.reshape(-1, 2).T
        return Pairs(first, second, self._n)

    def next(self) -> list[Pair]:
        """Draw the pairs of the next round; return [] if all pairs are drawn."""
        if self.n_left <= 0:
            return []
        self.round += 1
        drawn: list[Pair] = []
        if self.round <= _CYCLES:
            cycle = first_pairs(self._n, self._rng)
            drawn = [pair for pair in cycle if _sorted(pair) not in self._known]
        drawn = drawn[: self.n_left] or self._draw_round()
        self._known.update(map(_sorted, drawn))
        return drawn

    def take(self, results: Sequence[ComparedPair]) -> None:
        """Store the results of a round, and fit the strengths again."""
        self.results += results
        before, self.fit = self._fit_of_all, self._fit_strengths_so_far()
        change = float("nan")
        if before is not None and self._fit_of_all is not None:
            change = _rank_correlation(before.strengths, self._fit_of_all.strengths)
        self.correlations.append(change)

    def _fit_strengths_so_far(self) -> StrengthFit | None:
        pairs = self.pairs
        is_member = pairs.components == 0
        inside = is_member[pairs.first]
        if not inside.any():
            return None
        shares = np.array([pair.prob for pair in self.done])
        place = np.cumsum(is_member) - 1
        first, second = place[pairs.first[inside]], place[pairs.second[inside]]
        return fit_strengths(Pairs(first, second, int(is_member.sum())), shares[inside])

    @property
    def _fit_of_all(self) -> StrengthFit | None:
        """The fit if pairs connect all texts."""
        is_of_all = self.fit is not None and len(self.fit.strengths) == self._n
        return self.fit if is_of_all else None

    def _draw_round(self) -> list[Pair]:
        fit = self._fit_of_all
        if self._kind == "random" or self.round % 2 == 0 or fit is None:
            return random_pairs(self._n, self._known, self.n_left, self._rng)
        return next_pairs(fit, self._known, self.n_left, self._rng)


def n_pairs_of(n: int) -> int:
    """Return the number of all pairs of n texts."""
    return n * (n - 1) // 2


def _sorted(pair: Pair) -> Pair:
    return min(pair), max(pair)


def _rank_correlation(one: Floats, other: Floats) -> float:
    ranks = [np.argsort(np.argsort(strengths)) for strengths in (one, other)]
    return float(np.asarray(np.corrcoef(ranks))[0, 1])
