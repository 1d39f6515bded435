"""Choice of pairs to compare: a connected start, then the most informative pairs.

The start is a random cycle through all objects. After this cycle, each object has been
compared twice, and strengths can be fitted. Each later round draws at most half as many
pairs as there are objects, and each object is in at most one pair. The gain of a pair is
the increase of the log determinant of the information about strengths if this pair is
compared next:

    log(1 + p (1 - p) v),

where p is the fitted probability that the first object wins, and v is the variance of the
difference of both strengths. The gain is large if the outcome is uncertain, or if little
is known about the objects. No pair is drawn twice, because a model repeats its answer.

Sources: Glickman, Jensen, "Adaptive Paired Comparison Design", J. Stat. Planning and
Inference 127, 2005 (pairs by expected information); Pollitt, "The Method of Adaptive
Comparative Judgement", Assessment in Education 19, 2012 (rounds); Grasshoff, Schwabe,
"Optimal Design for the Bradley-Terry Paired Comparison Model", Stat. Methods & Appl. 17,
2008 (the determinant).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from llamaherd.research.statistics.bradley_terry import spread

if TYPE_CHECKING:
    from collections.abc import Collection

    from llamaherd.research.statistics.bradley_terry import StrengthFit
    from llamaherd.research.statistics.sampling import Floats, Ints

    Pair = tuple[int, int]

_MOST_CANDIDATES = 1_000_000  # largest number of pairs whose gain is computed in a round


def first_pairs(n: int, rng: np.random.Generator) -> list[Pair]:
    """Return a random cycle through n objects; for two objects, their only pair."""
    order = rng.permutation(n).tolist()
    if n == 2:
        return [(order[0], order[1])]
    return list(zip(order, [*order[1:], order[0]], strict=True))


def next_pairs(
    fit: StrengthFit, known: Collection[Pair], most: int, rng: np.random.Generator
) -> list[Pair]:
    """Return the pairs of the next round; each object is in at most one pair.

    Args:
        fit: Fit to all results so far.
        known: Pairs that were compared before, in either order.
        most: Largest number of pairs.
        rng: Random number generator, for ties and for the order within pairs.
    """
    n = len(fit.strengths)
    first, second = _candidates(n, known, rng)
    gain = _gain(fit, first, second)
    order = np.lexsort((rng.random(len(gain)), -gain))
    return _matched(first[order], second[order], min(most, n // 2), rng)


def random_pairs(
    n: int, known: Collection[Pair], most: int, rng: np.random.Generator
) -> list[Pair]:
    """Return random pairs of a round; each object is in at most one pair."""
    first, second = _candidates(n, known, rng)
    order = rng.permutation(len(first))
    return _matched(first[order], second[order], min(most, n // 2), rng)


def _matched(
    first: Ints, second: Ints, most: int, rng: np.random.Generator
) -> list[Pair]:
    """Accept pairs in their order, if neither object is in an accepted pair."""
    taken: set[int] = set()
    found: list[Pair] = []
    for i, j in zip(first.tolist(), second.tolist(), strict=True):
        if len(found) == most:
            break
        if i not in taken and j not in taken:
            taken |= {i, j}
            found.append((i, j) if rng.random() < 0.5 else (j, i))
    return found


def _candidates(
    n: int, known: Collection[Pair], rng: np.random.Generator
) -> tuple[Ints, Ints]:
    """Return pairs that were not compared, i < j; a random part if there are too many."""
    if n * (n - 1) // 2 <= _MOST_CANDIDATES:
        first, second = np.triu_indices(n, 1)
    else:
        drawn = rng.integers(0, n, (2, _MOST_CANDIDATES))
        drawn = np.unique(np.sort(drawn[:, drawn[0] != drawn[1]], axis=0), axis=1)
        first, second = drawn
    asked = np.array([min(p) * n + max(p) for p in known], dtype=np.int64)
    free = ~np.isin(first * n + second, asked)
    return first[free], second[free]


def _gain(fit: StrengthFit, first: Ints, second: Ints) -> Floats:
    d = fit.strengths[first] - fit.strengths[second]
    weight = np.exp(-np.logaddexp(0, d) - np.logaddexp(0, -d))
    return np.asarray(np.log1p(weight * spread(fit.information, first, second)))
