"""Alignment of the units of several coders with the lowest disorder.

A unitary alignment has at most one unit of each coder. Its disorder is the mean
dissimilarity of its pairs, in which a missing unit has the dissimilarity 1 to any other.
In an alignment, each unit belongs to exactly one unitary alignment. The alignment with
the lowest total disorder is found by linear and integer programming (scipy's HiGHS).

Source: Mathet, Widlocher and Metivier (2015), The unified and holistic method gamma for
inter-annotator agreement measure and alignment, Computational Linguistics 41, 437-479.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.core import installing
from llamaherd.core.errors import ArgumentError
from llamaherd.core.plurals import count_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.research.codes.span_files import Unit
    from llamaherd.research.statistics.ratings import Flags, Floats, Integers

MOST_COLUMNS = 2_000_000  # most unitary alignments with the same number of units
_TOLERANCE = 1e-6  # of a solution that is integer


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Units:
    """Units of several coders in texts.

    Attributes:
        coder: int64[u], number of the coder.
        text: int64[u], number of the text.
        start: int64[u], first character.
        end: int64[u], position after the last character.
        label: int64[u], number of the label.
        n_coders: Number of coders, including coders who marked nothing.
    """

    coder: Integers
    text: Integers
    start: Integers
    end: Integers
    label: Integers
    n_coders: int

    def __len__(self) -> int:
        return len(self.coder)

    def taken(self, rows: Integers | Flags) -> Units:
        """Return some of the units."""
        return Units(
            coder=self.coder[rows],
            text=self.text[rows],
            start=self.start[rows],
            end=self.end[rows],
            label=self.label[rows],
            n_coders=self.n_coders,
        )


def units_of(
    coders: Sequence[Sequence[Sequence[Unit]]], labels: Sequence[str] | None = None
) -> Units:
    """Return the units of n texts as arrays.

    Args:
        coders: For each coder the units of each text.
        labels: Labels whose units are included; None for all labels.
    """
    rows = [
        (i, j, unit.start, unit.end, unit.label)
        for i, texts in enumerate(coders)
        for j, units in enumerate(texts)
        for unit in units
        if labels is None or unit.label in labels
    ]
    numbers = {name: k for k, name in enumerate(sorted({row[4] for row in rows}))}
    made = np.array(
        [(*row[:4], numbers[row[4]]) for row in rows], dtype=np.int64
    ).reshape(-1, 5)
    coder, text, start, end, label = made.T
    return Units(
        coder=coder, text=text, start=start, end=end, label=label, n_coders=len(coders)
    )


def best_alignment(units: Units, limit: int = MOST_COLUMNS) -> tuple[Floats, Integers]:
    """Return the alignment with the lowest total disorder.

    Args:
        units: Units of several coders.
        limit: Largest number of possible unitary alignments of k units, for each k.

    Returns:
        float64[a], disorder of each unitary alignment; int64[a], one of its units.

    Raises:
        ArgumentError: Too many passages overlap.
        ImportError: scipy is not installed.
    """
    if not len(units):
        return np.zeros(0), np.zeros(0, dtype=np.int64)
    costs, members = _columns(units, limit)
    used = _chosen(costs, members, len(units))
    disorder = np.concatenate([each[own] for each, own in zip(costs, used, strict=True)])
    first = [each[own, 0] for each, own in zip(members, used, strict=True)]
    return disorder, np.concatenate(first)


def _chosen(
    costs: Sequence[Floats], members: Sequence[Integers], n_units: int
) -> list[Flags]:
    """Return the unitary alignments that contain each unit exactly once.

    The linear program is solved for all units together. Its solution is nearly always
    integer; groups of units that are connected by alignments, and have a fractional
    solution, are solved as integer programs.
    """
    sizes = [len(each) for each in costs]
    ends = np.cumsum(sizes)[:-1]
    paired = np.zeros(n_units, dtype=bool)
    for each in members[1:]:
        paired[each.ravel()] = True
    if not paired.any():
        return np.split(np.arange(sum(sizes)) < n_units, ends)
    optimize, sparse = _scipy()
    numbers = np.split(np.arange(sum(sizes)), ends)
    column = np.concatenate(
        [
            np.repeat(own, each.shape[1])
            for own, each in zip(numbers, members, strict=True)
        ]
    )
    row = np.concatenate([each.ravel() for each in members])
    shape = (n_units, sum(sizes))
    cover = sparse.csr_array((np.ones(len(row)), (row, column)), shape=shape)
    cost = np.concatenate(costs)
    found = optimize.linprog(
        cost, A_eq=cover, b_eq=np.ones(n_units), bounds=(0, 1), method="highs-ds"
    )
    x = _solved(found)
    fractional = np.abs(x - np.round(x)) > _TOLERANCE
    if fractional.any():
        graph = sparse.block_array([[None, cover], [cover.T, None]])
        group = sparse.csgraph.connected_components(graph)[1]
        for number in np.unique(group[n_units:][fractional]):
            rows = np.flatnonzero(group[:n_units] == number)
            own = np.flatnonzero(group[n_units:] == number)
            x[own] = _solved(
                optimize.milp(
                    cost[own],
                    integrality=np.ones(len(own)),
                    bounds=optimize.Bounds(0, 1),
                    constraints=optimize.LinearConstraint(cover[rows][:, own], 1, 1),
                    options={"mip_rel_gap": 0.0},
                )
            )
    return np.split(x > 0.5, ends)


def _solved(found: Any) -> Floats:  # noqa: ANN401 - of scipy
    if found.x is None:
        raise RuntimeError(f"the best alignment was not found: {found.message}")
    return np.asarray(found.x, dtype=np.float64)


def _columns(units: Units, most: int) -> tuple[list[Floats], list[Integers]]:
    """Return all unitary alignments that the best alignment can contain.

    A unitary alignment of k units is left out if its disorder is not below k, the
    disorder of its units one by one, or if it is not better without one of its units.
    With p pairs of coders, the dissimilarities of a unit to the others then add up to
    less than p + k - 1.

    Returns:
        For k = 1, 2, ...: float64[m], disorders; int64[m, k], units.
    """
    n, n_units = units.n_coders, len(units)
    pairs = n * (n - 1) // 2
    limit = pairs + n - 1
    i, j, d = _neighbours(units, limit)
    key = i * n_units + j
    first = np.searchsorted(i, np.arange(n_units + 1))
    members = np.arange(n_units)[:, None]
    sums = np.zeros((n_units, 1))
    costs, found = [np.ones(n_units)], [members]
    for k in range(2, n + 1):
        last = members[:, -1]
        counts = first[last + 1] - first[last]
        old = np.repeat(np.arange(len(members)), counts)
        if len(old) > most:
            raise ArgumentError(
                f"has too many passages that overlap for gamma: over {most:,} "
                f"unitary alignments of {count_of(n, 'coder')}",
                argument="gold",
                code="too_large",
            )
        offset = np.arange(len(old)) - np.repeat(np.cumsum(counts) - counts, counts)
        new = first[last[old]] + offset
        away = [d[new]]  # from the members, beginning with the last one
        for t in range(k - 3, -1, -1):
            wanted = members[old, t] * n_units + j[new]
            at = np.minimum(np.searchsorted(key, wanted), len(key) - 1)
            away.append(np.where(key[at] == wanted, d[at], np.inf))
        distances = np.stack(away[::-1], axis=1)
        added = np.column_stack([sums[old] + distances, distances.sum(axis=1)])
        good = (added < limit).all(axis=1)
        members = np.column_stack([members[old], j[new]])[good]
        sums = added[good]
        cost = (sums.sum(axis=1) / 2 + pairs - k * (k - 1) / 2) / pairs
        kept = (cost < k) & (sums < pairs + k - 1).all(axis=1)
        costs.append(cost[kept])
        found.append(members[kept])
    return costs, found


def _neighbours(units: Units, limit: float) -> tuple[Integers, Integers, Floats]:
    """Return pairs of units of two coders in a text with a dissimilarity below a limit.

    Returns:
        int64[m], int64[m], units i and j with coder i < coder j, sorted; float64[m],
        dissimilarities.
    """
    size = np.maximum(units.end - units.start, 1)
    # Two units with a gap of g characters have a positional dissimilarity of at least
    # (1 + 2 g / their total length)^2.
    pad = (math.sqrt(limit) - 1) / 2 * size
    room = float((units.end + pad).max() - (units.start - pad).min()) + 1
    low, high = (
        each + units.text * room for each in (units.start - pad, units.end + pad)
    )
    order = np.argsort(low, kind="stable")
    last = np.searchsorted(low[order], high[order], side="right")
    counts = np.maximum(last - np.arange(len(order)) - 1, 0)
    one = np.repeat(np.arange(len(order)), counts)
    other = one + 1 + np.arange(len(one))
    other -= np.repeat(np.cumsum(counts) - counts, counts)
    i, j = order[one], order[other]
    swap = units.coder[i] > units.coder[j]
    i, j = np.where(swap, j, i), np.where(swap, i, j)
    differ = units.coder[i] != units.coder[j]
    i, j = i[differ], j[differ]
    d = dissimilarity(units, i, j)
    near = d < limit
    i, j, d = i[near], j[near], d[near]
    order = np.lexsort((j, i))
    return i[order], j[order], d[order]


def dissimilarity(units: Units, i: Integers, j: Integers) -> Floats:
    """Return the combined dissimilarity of pairs of units, float64[m].

    The positional part is the square of (difference of begins + difference of ends) /
    (sum of lengths); the categorical part is 1 if the labels differ. Both have weight 1.
    """
    moved = np.abs(units.start[i] - units.start[j]) + np.abs(units.end[i] - units.end[j])
    sizes = (units.end[i] - units.start[i]) + (units.end[j] - units.start[j])
    place = (moved / np.maximum(sizes, 1)) ** 2
    return np.asarray(place + (units.label[i] != units.label[j]))


def _scipy() -> tuple[Any, Any]:
    try:
        from scipy import optimize, sparse  # noqa: PLC0415 - optional
        from scipy.sparse import csgraph  # noqa: F401, PLC0415 - an attribute of sparse
    except ImportError:
        raise ImportError(
            f"gamma needs the package scipy: {installing.command('research')}"
        ) from None
    return optimize, sparse
