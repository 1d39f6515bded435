"""Response rates of gold samples, and tests of whether texts are a simple random sample.

If coded texts are a simple random sample, their labels are drawn without replacement from
the labels of all texts: their counts have a multivariate hypergeometric distribution.
Pearson's statistic is compared with its values in random draws from this distribution, so
that the test is valid for any number of texts.

Source: Hope, "A simplified Monte Carlo significance test procedure", J. R. Stat. Soc. B
30, 1968.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from llamaherd.coding.statistics.intervals import normal_quantile
from llamaherd.engine.core.errors import ArgumentError
from llamaherd.engine.core.phrases import count_of, decimals, part_of, percents, verb

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from llamaherd.coding.statistics.sampling import Floats, Ints

LEAST_P = 0.01  # a warning is given if the p-value is lower
_N_DRAWS = 9999
_SEED = 1
_MOST_GROUPS = 50  # the memory of the draws, and of columns per group, stays bounded
# Fewer codes, or fewer with another code than the most frequent one, may all be equal to
# the labels of a good model by chance.
_LEAST_EQUAL, _LEAST_OTHER = 100, 10


def copied(
    labels: Sequence[object], codes: Sequence[Sequence[object]], coders: Sequence[str]
) -> list[str]:
    """Return the coders whose codes all equal the model's labels, and may be a copy.

    Args:
        labels: n labels of the model; None for texts without a label.
        codes: For each coder n codes; None for missing codes.
        coders: Names of the coders.
    """
    found = []
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
            found.append(coder)
    return found


def groups_of(labels: Iterable[str | None]) -> dict[str | None, str | None]:
    """Return the group of each label: the label itself, unless there are many labels.

    Numbers are grouped by size, with about equal numbers of texts in each group. Of many
    other labels the rare ones become one group.

    Args:
        labels: Labels of all texts; None for texts without a label.
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
    for own in np.split(names, np.flatnonzero(np.diff(number)) + 1):
        groups |= dict.fromkeys(own.tolist(), f"{own[0]} to {own[-1]}")
    return groups


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelCheck:
    """Comparison of the labels of coded texts with the labels of all texts.

    Attributes:
        labels: The labels, or groups of many labels; None for texts without a label.
        n_texts: Number of texts with each label.
        n_coded: Number of coded texts with each label.
        expected: Expected number of coded texts with each label in a simple random
            sample.
        p_value: Probability of at least the observed difference in a simple random
        sample.
    """

    labels: tuple[str | None, ...]
    n_texts: tuple[int, ...]
    n_coded: tuple[int, ...]
    expected: tuple[float, ...]
    p_value: float

    @property
    def is_unlikely(self) -> bool:
        """True if these labels are improbable for a simple random sample."""
        return self.p_value < LEAST_P

    def __str__(self) -> str:
        """Return the counts and the p-value as text."""
        rows = zip(self.labels, self.n_coded, self.expected, strict=True)
        parts = [
            f"{label or 'none'}: {n} coded, {e:.1f} expected" for label, n, e in rows
        ]
        p = f"p = {decimals(self.p_value, 4)}" if self.p_value >= 1e-4 else "p < 0.0001"
        return f"{'; '.join(parts[:6])}{'; ..' if len(parts) > 6 else ''} ({p})"


def label_check(labels: Sequence[str | None], coded: Sequence[str | None]) -> LabelCheck:
    """Compare the labels of coded texts with the labels of all texts.

    Args:
        labels: Labels of all texts.
        coded: Labels of the coded texts, which are some of these texts.
    """
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
        found = _distance(of_coded[None], expected)
        far = _distance(draws, expected) >= found - 1e-9
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


# Response rates of labels are treated as different if such a difference is improbable
# with equal rates, over all labels that are tested together (Bonferroni). A label of
# which fewer texts were drawn is not tested, because the normal approximation fails.
_UNLIKELY = 0.05
_LEAST_DRAWN = 5


class DrawnTexts(Protocol):
    """Protocol of a gold sample, with the properties that `answered` reads."""

    @property
    def rows(self) -> Sequence[int]:
        """Rows of the n drawn texts."""

    @property
    def labels(self) -> Sequence[str | None]:
        """Labels of the model for the drawn texts."""

    @property
    def all_probs(self) -> Floats:
        """Inclusion probabilities of all texts, float64[N]."""

    @property
    def strata(self) -> Ints:
        """Strata of all texts, int64[N]; -1 for texts that cannot be drawn."""

    @property
    def draw_strata(self) -> Ints:
        """Stratum of each drawn text in its wave, int64[n]."""

    @property
    def waves(self) -> Sequence[Any]:
        """Waves of different designs; empty for a sample of one design."""

    @property
    def design(self) -> Mapping[str, Any]:
        """Record of the draw."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Answered:
    """Probabilities that texts are both drawn and coded.

    Attributes:
        probs: float64[n], these probabilities for the coded texts.
        all_probs: float64[N], these probabilities for all texts.
        is_even: True if one response rate was assumed for the whole sample.
        is_by_label: True if response rates differ by the model's label.
        notes: Notes for the user.
    """

    probs: Floats
    all_probs: Floats
    is_even: bool = True
    is_by_label: bool = False
    notes: list[str] = field(default_factory=list)


def answered(
    gold: DrawnTexts, coded: Ints, *, has_empty_strata: bool = False
) -> Answered:
    """Return the probabilities that texts are drawn and coded, if some codes are missing.

    Coded texts are assumed to be a random part of the drawn texts in their stratum. If
    response rates differ by the model's label, coded texts are assumed to be a random
    part of the drawn texts with the same stratum and label.

    Args:
        gold: Gold sample.
        coded: int64[n], indices of its texts that have a code.
        has_empty_strata: True to accept strata without a code, with a note; the
            probabilities are then right for the texts of the other strata.

    Source: weighting within response homogeneity groups, Särndal, Swensson, Wretman,
    "Model Assisted Survey Sampling", 1992, section 15.6.
    """
    rows = np.array(gold.rows, dtype=np.int64)
    probs = gold.all_probs[rows[coded]]
    n = len(rows)
    if len(coded) == n:
        return Answered(probs=probs, all_probs=gold.all_probs)
    strata = gold.draw_strata
    rates = _rates(strata, coded)
    empty = np.unique(strata[rates[strata] == 0])
    if len(empty) and not has_empty_strata:
        raise ArgumentError(
            "has a stratum, or a wave, of which no text is coded yet; code some texts of "
            f"{_named(gold.design, empty)}",
            argument="gold",
        )
    n_without, more = n - len(coded), []
    if len(empty):
        note = (
            f"{count_of(len(empty), 'stratum')} of the sample (or waves) "
            f"{verb(len(empty), 'has', 'have')} no code: results describe only the others"
        )
        more = [note]
    head = f"{part_of(n_without, n, 'text', of='of the gold sample')} no code"
    of_all = np.where(gold.strata >= 0, len(coded) / n, 0.0)
    if not gold.waves:
        of_all = np.where(gold.strata >= 0, rates[gold.strata], 0.0)
    names = [label or "no label" for label in gold.labels]
    cells = _numbered([(int(h), name) for h, name in zip(strata, names, strict=True)])
    of_cell = _rates(cells, coded)
    uneven = _uneven(names, strata, coded)
    if not uneven:
        note = f"{head}. Coded texts are assumed to be a random part of the sample"
        return Answered(
            probs=np.asarray(probs * rates[strata[coded]]),
            all_probs=np.asarray(gold.all_probs * of_all),
            is_even=bool(np.ptp(rates[np.unique(strata)]) == 0),
            notes=[note, *more],
        )
    if (of_cell[cells][~np.isin(strata, empty)] == 0).any():
        why = "A label has no coded text: code some texts of each label"
        note = f"{head}, and not at random: {uneven} are coded. {why}"
        used, by = rates, strata
    else:
        why = "Codes are weighted by label, assuming random response within each label"
        note = f"{head}, and not at random: {uneven} are coded. {why}"
        used, by = of_cell, cells
    return Answered(
        probs=np.asarray(probs * used[by[coded]]),
        all_probs=np.asarray(gold.all_probs * of_all),
        is_even=False,
        is_by_label=True,
        notes=[note, *more],
    )


def _named(design: Mapping[str, Any], empty: Ints) -> str:
    """Name strata by number, with the numbers of drawn texts; otherwise name waves."""
    names = list(design.get("strata") or {})
    if not names or max(empty) >= len(names):
        return f"each: {design.get('history')}"
    drawn = design.get("drawn") or {}
    listed = [f"{names[h]!r} ({drawn.get(names[h], '?')} drawn)" for h in empty]
    return ", ".join(listed)


def _numbered(keys: list[tuple[int, str]]) -> Ints:
    known = {key: i for i, key in enumerate(dict.fromkeys(keys))}
    return np.array([known[key] for key in keys], dtype=np.int64)


def _rates(cells: Ints, coded: Ints) -> Floats:
    """Return the share of coded texts in each cell, float64[cells]; 1 for empty cells."""
    drawn = np.bincount(cells)
    there = np.bincount(cells[coded], minlength=len(drawn))
    return np.where(drawn > 0, there / np.maximum(drawn, 1), 1.0)


def _uneven(names: list[str], strata: Ints, coded: Ints) -> str:
    """Describe response rates by label if they differ within strata; else return ""."""
    expected = _rates(strata, coded)[strata]
    is_coded = np.zeros(len(strata), dtype=bool)
    is_coded[coded] = True
    labels = np.array(names)
    tested = [name for name, n in Counter(names).items() if n >= _LEAST_DRAWN]
    unlikely = normal_quantile(1 - _UNLIKELY / max(len(tested), 1))
    gaps = {}  # by label, in standard errors
    for name in tested:
        own = labels == name
        rest = 1 - own.sum() / len(own)  # a label is compared with all others
        error = float(np.sqrt((expected[own] * (1 - expected[own])).sum() * rest))
        gap = abs(float(is_coded[own].sum() - expected[own].sum())) - 0.5
        gaps[name] = gap / error if error > 0 else 0.0
    if max(gaps.values(), default=0.0) <= unlikely:
        return ""
    listed = [
        f"{percents(is_coded[labels == name].mean(), 0)} of {name!r}"
        for name in sorted(gaps, key=lambda name: -gaps[name])
    ]
    return ", ".join(listed[:6])
