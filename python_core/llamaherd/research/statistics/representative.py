"""Test of the claim that coded texts are a simple random sample.

If the claim is true, the labels of the coded texts are drawn without replacement from the
labels of all texts: their counts have a multivariate hypergeometric distribution.
Pearson's statistic is compared with its values in random draws from this distribution, so
that the test is valid for any number of texts.

Source: Hope, "A simplified Monte Carlo significance test procedure", J. R. Stat. Soc. B
30, 1968.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from llamaherd.core.decimals import decimals

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from llamaherd.research.statistics.sampling import Floats, Ints

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
    for group in np.unique(number):
        own = [name for name, at in zip(names, number, strict=True) if at == group]
        groups |= dict.fromkeys(own, f"{own[0]} to {own[-1]}")
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
