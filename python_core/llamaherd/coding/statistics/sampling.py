"""Samples of texts for human coding, drawn with known probabilities.

An estimate from a part of the texts is valid if the *inclusion probability* pi_i of each
text, its probability of being drawn, is known and above 0. All draws here are without
replacement and of a fixed size, and pi_i is exact:

* simple: pi_i = n / N;
* stratified: simple within strata, pi_i = n_h / N_h;
* unequal: any pi_i that sum to n, by systematic sampling from a random order. Other
  designs with given inclusion probabilities need rejections or joint probabilities; this
  design needs neither, and draws from a million texts in a second.

Sources: Madow, "On the theory of systematic sampling, II", 1949; Hartley, Rao, "Sampling
with unequal probabilities and without replacement", 1962 (systematic draws along a random
order); Särndal, Swensson, Wretman, "Model Assisted Survey Sampling", 1992, chapter 3.

If coded texts are a simple random sample, their labels are drawn without replacement from
the labels of all texts: their counts have a multivariate hypergeometric distribution.
Pearson's statistic is compared with its values in random draws from this distribution, so
that the test is valid for any number of texts.

Source: Hope, "A simplified Monte Carlo significance test procedure", J. R. Stat. Soc. B
30, 1968.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from llamaherd.coding.sentences import shorten_names
from llamaherd.engine.core import checks
from llamaherd.engine.core.argument import Argument
from llamaherd.engine.core.errors import ArgumentError
from llamaherd.engine.core.phrases import decimals, with_commas
from llamaherd.engine.core.words import setting, words

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping, Sequence

    from llamaherd.engine.core.arrays import Floats, Ints

Allocation = Literal["proportional", "equal"]
ALLOCATIONS: tuple[Allocation, ...] = ("proportional", "equal")
Target = Literal["population", "texts"]
TARGETS: tuple[Target, ...] = ("population", "texts")
_LEAST_OF_STRATUM = 2  # two codes are needed to estimate a variance
_CERTAIN = 1 - 1e-9  # higher probabilities are treated as 1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Draw:
    """Sample and its inclusion probabilities."""

    rows: Ints  # int64[n], indices of the drawn texts, ascending
    all_probs: Floats  # float64[N], inclusion probabilities of all texts
    # int64[N], stratum of every text; from each stratum a fixed number of texts was drawn
    strata: Ints

    @property
    def probs(self) -> Floats:
        """Inclusion probabilities of the drawn texts, float64[n]."""
        return self.all_probs[self.rows]


def draw_simple(n_texts: int, n: int, rng: np.random.Generator) -> Draw:
    """Draw n of n_texts with equal probabilities."""
    checks.integer("n", n, 1, max(n_texts, 1))
    return Draw(
        rows=np.sort(rng.choice(n_texts, size=n, replace=False)).astype(np.int64),
        all_probs=np.full(n_texts, n / n_texts),
        strata=np.zeros(n_texts, dtype=np.int64),
    )


def draw_stratified(
    strata: Sequence[Hashable],
    n: int,
    rng: np.random.Generator,
    allocation: Allocation | Mapping[Any, int] = "proportional",
) -> Draw:
    """Draw n texts, a fixed number from each stratum, at least 2 unless n is given."""
    names = list(dict.fromkeys(strata))
    codes = {name: h for h, name in enumerate(names)}
    at = np.array([codes[name] for name in strata], dtype=np.int64)
    totals = np.bincount(at, minlength=len(names))
    sizes = _allocate(names, totals, n, allocation)
    rows = [
        rng.choice(np.flatnonzero(at == h), size=size, replace=False)
        for h, size in enumerate(sizes)
    ]
    return Draw(
        rows=np.sort(np.concatenate(rows)).astype(np.int64),
        all_probs=(sizes / totals)[at],
        strata=at,
    )


def check_probs(probs: Floats, rows: Ints) -> None:
    """Check the probabilities of texts in these rows."""
    bad = np.flatnonzero(~((probs >= 0) & (probs <= 1)))
    if len(bad) > 0:
        value = probs[bad[0]]
        prob = "missing" if np.isnan(value) else words().number(f"{value:g}")
        raise ArgumentError(
            f"must be a probability between 0 and 1, not {prob}",
            argument="prob",
            place=(int(rows[bad[0]]),),
            code="out_of_range",
        )


def draw_unequal(
    probs: Floats, rng: np.random.Generator, rows: Ints | None = None
) -> Draw:
    """Draw texts with given inclusion probabilities, systematically from a random order.

    The texts form a line in random order; each text is a segment whose length is its
    probability. A text is drawn if its segment contains one of the points u, u + 1,
    u + 2 .., where u is uniform in [0, 1).
    """
    check_probs(probs, np.arange(len(probs)) if rows is None else rows)
    n = round(float(probs.sum()))
    if n < 1 or abs(float(probs.sum()) - n) > 1e-6 * n:
        raise ArgumentError(
            "must sum to the number of texts to draw, a whole number, not to "
            f"{float(probs.sum()):g}",
            argument="prob",
        )
    exact = np.where(probs >= _CERTAIN, 1.0, probs)
    certain = np.flatnonzero(exact == 1.0)
    order = rng.permutation(np.flatnonzero((exact < 1.0) & (exact > 0)))
    n_left = n - len(certain)
    drawn = order[:0]
    if n_left > 0:
        ends = np.cumsum(exact[order])
        ends *= n_left / ends[-1]
        points = rng.random() + np.arange(n_left)
        drawn = order[np.searchsorted(ends, points, side="right")]
    return Draw(
        rows=np.sort(np.concatenate([certain, drawn])).astype(np.int64),
        all_probs=exact,
        strata=np.zeros(len(probs), dtype=np.int64),
    )


def inclusion_probs(sizes: Floats, n: int, floor: float) -> Floats:
    """Return inclusion probabilities that grow with a size and have a lower bound.

    A share `floor` of the sample has equal probabilities, the rest probabilities in
    proportion to the sizes. Probabilities above 1 become 1; the probabilities of the
    other texts are then scaled up:

        pi_i = min(1, c * (floor / N + (1 - floor) * size_i / sum of sizes)),

    where c is such that the pi_i sum to n.
    """
    checks.integer("n", n, 1, max(len(sizes), 1))
    checks.real("floor", floor, 0, 1)
    shares = shares_of(sizes, floor, "sizes")
    if np.count_nonzero(shares) < n:
        raise ArgumentError(
            f"must be at most {np.count_nonzero(shares)}, the number of texts whose "
            f"size "
            f"is above 0, not {n}; with a floor above 0 all texts can be drawn",
            argument="n",
            code="out_of_range",
        )
    return bounded_shares(shares, n, 1.0)


def shares_of(sizes: Floats, floor: float, argument: str) -> Floats:
    """Return the share of each text in a sample, of which `floor` is the same for all."""
    if not (np.isfinite(sizes) & (sizes >= 0)).all():
        raise ArgumentError(
            "must be finite and at least 0", argument=argument, code="out_of_range"
        )
    even = np.full(len(sizes), 1 / len(sizes))
    total = sizes.sum()
    return np.asarray(floor * even + (1 - floor) * (sizes / total if total > 0 else even))


def bounded_shares(shares: Floats, n: int, most: float) -> Floats:
    """Return n times the shares, at most `most`; those below it are scaled up."""
    full, probs = np.zeros(len(shares), dtype=bool), n * shares
    while (probs[~full] > most).any():
        full |= probs > most
        probs[full] = most
        rest = shares[~full].sum()
        probs[~full] = (n - most * full.sum()) * shares[~full] / rest
    return np.asarray(probs)


def _allocate(
    names: Sequence[Any], totals: Ints, n: int, allocation: Allocation | Mapping[Any, int]
) -> Ints:
    """Return the number of texts per stratum, int64[n_strata]."""
    least = np.minimum(totals, _LEAST_OF_STRATUM)
    if not isinstance(allocation, str):
        return _allocated_sizes(names, totals, n, allocation)
    checks.choice("allocation", allocation, ALLOCATIONS)
    if not least.sum() <= n <= totals.sum():
        raise ArgumentError(
            f"must be between {least.sum()} (at least 2 texts, or all, of each of "
            f"{len(names)} strata) and {totals.sum()}, not {n}",
            argument="n",
            code="out_of_range",
        )
    weights = (
        totals.astype(float) if allocation == "proportional" else np.ones(len(names))
    )
    low, high = 0.0, n / weights.min() + float(totals.max())
    for _ in range(200):  # find the scale at which the bounded sizes sum to n
        scale = (low + high) / 2
        if np.clip(scale * weights, least, totals).sum() < n:
            low = scale
        else:
            high = scale
    ideal = np.clip(high * weights, least, totals)
    sizes = np.floor(ideal + 1e-9).astype(np.int64)
    remainders = np.where(sizes < totals, ideal - sizes, -1.0)
    sizes[np.argsort(-remainders, kind="stable")[: n - sizes.sum()]] += 1
    return np.asarray(sizes)


def _allocated_sizes(
    names: Sequence[Any], totals: Ints, n: int, allocation: Mapping[Any, int]
) -> Ints:
    if set(allocation) != set(names):
        raise ArgumentError(
            "must have a number for each stratum "
            f"({with_commas(sorted(map(str, names)))}), "
            f"but has numbers for {with_commas(sorted(map(str, allocation)))}",
            argument="allocation",
        )
    for name, total in zip(names, totals, strict=True):
        checks.integer(
            Argument("allocation", (str(name),)), allocation[name], 1, int(total)
        )
    sizes = np.array([int(allocation[name]) for name in names], dtype=np.int64)
    if sizes.sum() != n:
        raise ArgumentError(
            f"must sum to {setting('n', n)}, not to {sizes.sum()}", argument="allocation"
        )
    return sizes


LEAST_P = 0.01  # a warning is given if the p-value is lower
_N_DRAWS = 9999
_SEED = 1
_MOST_GROUPS = 50  # the memory of the draws, and of columns per group, stays bounded
# Fewer codes, or fewer with another code than the most frequent one, may all be equal to
# the labels of a good model by chance.
_LEAST_EQUAL, _LEAST_OTHER = 100, 10


def coders_like_model(
    labels: Sequence[object], codes: Sequence[Sequence[object]], coders: Sequence[str]
) -> list[str]:
    """Return the coders whose codes all equal the model's labels, and may be a copy."""
    copies = []
    for coder, column in zip(coders, codes, strict=True):
        pairs = [
            (label, code)
            for label, code in zip(labels, column, strict=True)
            if code is not None and label is not None
        ]
        counts = Counter(code for _, code in pairs)
        n_other = len(pairs) - max(counts.values(), default=0)
        is_enough = len(pairs) >= _LEAST_EQUAL and n_other >= _LEAST_OTHER
        if is_enough and all(a == b for a, b in pairs):
            copies.append(coder)
    return copies


def groups_of(labels: Iterable[str | None]) -> dict[str | None, str | None]:
    """Return the group of each label: the label itself, unless there are many labels.

    Numbers are grouped by size, with about equal numbers of texts in each group. Of many
    other labels the rare ones become one group.
    """
    counts = Counter(labels)
    if len(counts) <= _MOST_GROUPS:
        return {name: name for name in counts}
    names = [name for name in counts if name is not None]
    groups: dict[str | None, str | None] = {None: None}
    try:
        names.sort(key=float)
    except ValueError:
        kept = {name for name, _ in counts.most_common(_MOST_GROUPS - 1)}
        return groups | {name: name if name in kept else "rare labels" for name in names}
    below = np.cumsum([0, *(counts[name] for name in names)])[:-1]
    number = below * _MOST_GROUPS // (below[-1] + counts[names[-1]])
    for group in np.split(names, np.flatnonzero(np.diff(number)) + 1):
        groups |= dict.fromkeys(
            group.tolist(), f"{float(group[0]):.6g} to {float(group[-1]):.6g}"
        )
    return groups


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelCheck:
    """Comparison of the labels of coded texts with the labels of all texts.

    The expected numbers and the p value are those of a simple random sample.
    """

    # The labels, or groups of many labels; None for texts without a label
    labels: tuple[str | None, ...]
    n_texts: tuple[int, ...]
    n_coded: tuple[int, ...]
    expected: tuple[float, ...]  # Expected numbers of coded texts
    p_value: float

    @property
    def is_unlikely(self) -> bool:
        """True if these labels are improbable for a simple random sample."""
        return self.p_value < LEAST_P

    def __str__(self) -> str:
        """Return the counts and the p-value as text."""
        names = shorten_names([label or "none" for label in self.labels], 40)
        rows = zip(names, self.n_coded, self.expected, strict=True)
        parts = [f"{name}: {n} coded, {e:.1f} expected" for name, n, e in rows]
        p = f"p = {decimals(self.p_value, 4)}" if self.p_value >= 1e-4 else "p < 0.0001"
        return f"{'; '.join(parts[:6])}{'; ..' if len(parts) > 6 else ''} ({p})"


def label_check(labels: Sequence[str | None], coded: Sequence[str | None]) -> LabelCheck:
    """Compare the labels of coded texts with the labels of all texts."""
    groups = groups_of(labels)
    totals = Counter(groups[name] for name in labels)
    counts = Counter(groups[name] for name in coded)
    names = sorted(totals, key=lambda name: (name is None, str(name)))
    of_all = np.array([totals[name] for name in names], dtype=np.int64)
    of_coded = np.array([counts[name] for name in names], dtype=np.int64)
    n = int(of_coded.sum())
    expected = of_all * n / max(int(of_all.sum()), 1)
    p_value = 1.0
    if len(names) > 1 and 0 < n < of_all.sum():
        rng = np.random.default_rng(_SEED)
        draws = rng.multivariate_hypergeometric(of_all, n, _N_DRAWS, method="marginals")
        distance = _distance(of_coded[None], expected)
        far = _distance(draws, expected) >= distance - 1e-9
        p_value = float((1 + far.sum()) / (1 + _N_DRAWS))
    return LabelCheck(
        labels=tuple(names),
        n_texts=tuple(of_all.tolist()),
        n_coded=tuple(of_coded.tolist()),
        expected=tuple(expected.tolist()),
        p_value=p_value,
    )


def _distance(counts: Ints, expected: Floats) -> Floats:
    """Return Pearson's statistic of each row."""
    return np.asarray(((counts - expected) ** 2 / expected).sum(axis=1))
