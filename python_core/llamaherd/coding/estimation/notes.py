"""When estimates have notes: few codes, few errors, unequal samples.

`templates/notes.txt.j2` has the sentences.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from llamaherd.coding.sentences import Notes
from llamaherd.coding.statistics.influences import MOST_SKEWNESS
from llamaherd.coding.statistics.intervals import kish_n, wilson
from llamaherd.engine.core.caller import warn_notes
from llamaherd.engine.core.phrases import with_commas

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from llamaherd.coding.estimation.estimates import Estimate
    from llamaherd.coding.statistics.dsl import Problem
    from llamaherd.engine.core.arrays import Flags, Floats, Ints


note = Notes("llamaherd.coding.estimation")
FEW = 30  # warn if a group or coefficient has fewer codes
RARE = 5  # warn if a label has fewer codes or errors
_SHOWN = 5  # largest number of strata or terms named in a warning
_THIN = 1.1  # warn from this ratio: share of texts to share of codes
_CLUSTERS = 50  # warn if fewer clusters have codes
_LARGE = 0.5  # smallest share of texts with few codes to warn of
_EVENTS = 10  # codes of the rarer outcome per coefficient
_LEVERAGE = 0.1  # warn if the leverage of one text is higher
_TAIL = 0.7  # warn if labels of coded texts vary less, as a share of all labels' variance
_WIDER = 1.05  # note from this ratio of the width by "dsl" to the width by "gold"
_LISTED = 12  # groups that a note lists
# Notes that describe a method; the others are warnings, too.
_QUIET = ("weighted", "texts", "survey", "clusters", "no_ppi", "no_errors")


def few_coefficients(n_codes: int, p: int) -> list[str]:
    """Return a note if a regression has few codes for its coefficients."""
    needed = FEW * p
    if n_codes >= needed:
        return []
    return [note("few_coefficients", n=n_codes, p=p, needed=needed)]


def few_groups(names: Sequence[str], counts: Floats) -> list[str]:
    """Return notes on groups with few codes."""
    few = _name_counts(names, counts, counts < FEW)
    return [note("few_groups", few=few, least=FEW)] if few else []


def rare_label(label: str, y: Floats) -> list[str]:
    """Return a note if people gave a label to very few, or nearly all, texts."""
    n = int((y == 1).sum())
    if min(n, len(y) - n) >= RARE:
        return []
    return [note("rare_label", label=label, n=n, n_codes=len(y))]


def never_given(label: str, y_hat: Floats, y: Floats) -> list[str]:
    """Return a note if people gave a label that the model gave to no text."""
    if y_hat.any() or not y.any():
        return []
    return [note("never_given", label=label, n=int(y.sum()), n_codes=len(y))]


def wider_than_codes(rows: Sequence[Estimate], *, can_use_probs: bool) -> list[str]:
    """Return a note if intervals by "dsl" are wider than those by "gold"."""
    by_codes = {
        row.quantity: row.high - row.low
        for row in rows
        if row.method == "gold" and row.high > row.low
    }
    ratios = [
        (row.high - row.low) / by_codes[row.quantity]
        for row in rows
        if row.method == "dsl" and row.quantity in by_codes
    ]
    wider = [ratio for ratio in ratios if ratio > _WIDER]
    if not wider:
        return []
    counts = {"n": len(wider), "n_all": len(ratios)}
    ratio = max(wider)
    return [note("wider_than_codes", **counts, ratio=ratio, can_use_probs=can_use_probs)]


def rare_errors(
    outcome: str, names: Sequence[str], problem: Problem, strata: Mapping[int, str]
) -> list[str]:
    """Return notes on groups, or strata, whose intervals depend on a few errors."""
    if problem.is_all_coded:
        return []
    if _has_unequal_strata(problem):
        return _rare_in_strata(outcome, problem, strata)
    counts = problem.n_errors
    open_groups = ~problem.all_coded
    few = _name_counts(names, counts, (counts > 0) & (counts < RARE) & open_groups)
    return [note("rare_errors", outcome=outcome, few=few)] if few else []


def _has_unequal_strata(problem: Problem) -> bool:
    _, at = problem.of_all_texts
    return bool(np.ptp(at) > 0 and np.ptp(problem.probs) > 0)


def _rare_in_strata(
    outcome: str, problem: Problem, strata: Mapping[int, str]
) -> list[str]:
    """Return notes on strata with few observed errors; each states the stratum's size."""
    probs, at = problem.of_all_texts
    drawn = at[problem.rows]
    wrong = problem.is_wrong
    lines = []
    few = wrong.sum() < RARE
    for h in np.unique(at):
        n, k = int((drawn == h).sum()), int(wrong[drawn == h].sum())
        share = float((at == h).mean())
        is_thin = share > _THIN * n / len(drawn)  # each code represents many texts
        if k >= RARE or (probs[at == h] >= 1).all() or not (few or is_thin):
            continue
        most = wilson(k / max(n, 1), n, 0.95)[1]
        name = strata.get(int(h), f"stratum {h + 1}")
        line = note("rare_in_stratum", name=name, share=share, n=n, k=k, most=most)
        lines.append((share, line))
    lines.sort(key=lambda line: -line[0])
    if not lines:
        return []
    texts = [line for _, line in lines]
    n_more = len(texts) - _SHOWN
    return [note("rare_in_strata", outcome=outcome, strata=texts[:_SHOWN], n_more=n_more)]


def few_heavy(problem: Problem) -> list[str]:
    """Return a note if texts with low inclusion probabilities have few codes.

    The note concerns the texts whose weight is at least half of the greatest weight.
    The codes of these texts are counted by Kish's effective number. For strata, of which
    only the survey weights are judged, see `rare_errors`.
    """
    probs, at = problem.of_all_texts
    has_strata = np.ptp(at) > 0
    if problem.is_all_coded:
        return []
    if np.ptp(probs) > 0 and not has_strata:
        usual = np.sort(probs)[len(probs) // 100]  # quantile, robust to a single text
        n = kish_n(problem.code_weights[problem.probs <= 2 * usual])
        share = float((probs <= 2 * usual).mean())
        if n < FEW and share >= _LARGE:
            return [note("few_heavy", share=share, n=n, least=FEW)]
    survey = problem.survey[problem.rows]
    n_codes = len(problem.probs)
    effective = kish_n(survey if has_strata else problem.code_weights)
    if effective >= n_codes / 2:
        return []
    is_survey = bool(np.ptp(survey) > 0)
    return [note("unequal", n=n_codes, effective=effective, is_survey=is_survey)]


def few_events(problem: Problem) -> list[str]:
    """Return notes on few codes of the rarer outcome of a logistic regression.

    Codes are counted by Kish's effective number. Source for ten events per coefficient:
    Peduzzi et al., J. Clin. Epidemiol. 49, 1996.
    """
    weights, p = problem.code_weights, problem.x.shape[1]
    n = min(kish_n(weights[problem.y == value]) for value in (0, 1))
    return (
        []
        if n >= _EVENTS * p
        else [note("few_events", n=n, p=p, per_coefficient=_EVENTS)]
    )


def few_clusters(problem: Problem) -> list[str]:
    """Return a note if few clusters have coded texts.

    Source: Cameron, Miller, "A practitioner's guide to cluster-robust inference", J. Hum.
    Resour. 50, 2015 (fewer than 20 to 50 clusters are few).
    """
    if problem.clusters is None:
        return []
    n = len(np.unique(problem.clusters[problem.rows]))
    return [] if n >= _CLUSTERS else [note("few_clusters", n=n, least=_CLUSTERS)]


def high_leverage(problem: Problem) -> list[str]:
    """Return a note if one coded text alone determines a coefficient.

    Source: Huber, "Robust Statistics", 1981, section 7.2. A note is given if a
        leverage is above 0.1 and above six times the mean leverage.
    """
    root = np.sqrt(problem.code_weights)[:, None] * problem.x
    q, _ = np.linalg.qr(root)
    most = float((q**2).sum(axis=1).max())
    usual = max(_LEVERAGE, 6 * problem.x.shape[1] / len(problem.y))
    return [] if most <= usual else [note("high_leverage", most=most, usual=usual)]


def few_errors(outcome: str, problem: Problem, strata: Mapping[int, str]) -> list[str]:
    """Return notes on a regression whose corrections depend on a few errors."""
    gaps = np.abs(problem.x - problem.x_hat[problem.rows])
    far = np.ptp(problem.x, axis=0) / 2 if problem.slack > 0 else 0.0
    wrong = problem.is_wrong | (gaps > far).any(axis=1)
    if problem.is_all_coded:
        return []
    if not wrong.any():
        return [note("no_errors")]
    if _has_unequal_strata(problem):
        return _rare_in_strata(outcome, problem, strata)
    n = int(wrong.sum())
    return [] if n >= RARE else [note("few_errors", n=n)]


def unseen_tail(outcome: str, problem: Problem) -> list[str]:
    """Return a note if by chance the coded texts have few of the extreme numbers.

    Labels of all texts show a tail that codes cannot: the note needs labels too skewed
    for the number of codes by Cochran's rule, and coded texts with a smaller variance.
    """
    labels, n = problem.y_hat, len(problem.rows)
    of_coded = np.cov(labels[problem.rows], aweights=problem.code_weights, ddof=0)
    gaps = labels - np.average(labels, weights=problem.survey)
    variance = np.average(gaps**2, weights=problem.survey)
    if problem.is_all_coded or of_coded >= _TAIL * variance:
        return []
    skewness = np.average(gaps**3, weights=problem.survey) / variance**1.5
    needed = float(skewness / MOST_SKEWNESS) ** 2
    if n >= needed:
        return []
    return [note("unseen_tail", outcome=outcome, n=n, needed=needed)]


def outside_limits(rows: Sequence[Estimate], limits: tuple[float, float]) -> list[str]:
    """Return notes on shares and means outside their limits; intervals are valid."""
    low, high = limits
    return [
        note("beyond", row=row, low=low, high=high)
        for row in rows
        if row.term in {"share", "mean"}
        and not (np.isnan(row.estimate) or low <= row.estimate <= high)
    ]


def warn_of(notes: Sequence[str]) -> list[str]:
    """Remove duplicate notes, and issue a warning for notes on unreliable intervals."""
    unique = list(dict.fromkeys(notes))
    quiet = {note(name) for name in _QUIET}
    warn_notes([text for text in unique if text not in quiet])
    return unique


def _name_counts(names: Sequence[str], counts: Floats | Ints, which: Flags) -> str:
    groups = zip(names, counts, which, strict=True)
    return first_of(
        f"{name or 'all'} ({n:.0f})" for name, n, is_listed in groups if is_listed
    )


def first_of(texts: Iterable[str]) -> str:
    """Join the first texts, and add the number of the omitted texts."""
    return with_commas(texts, _LISTED)


def note_on_skew(
    outcome: str,
    names: Sequence[str],
    n_codes: Floats,
    needed: Mapping[str, Floats],
    *,
    of: str = "means",
) -> list[str]:
    """Return a note on the groups that have fewer codes than their skewness requires.

    Groups with fewer than `FEW` codes have a note of their own.
    """
    parts = [
        f"{method}: "
        + first_of(
            f"{name or 'all'} ({n:.0f} codes, about {count:,.0f} needed)"
            for name, n, count in zip(names, n_codes, counts, strict=True)
            if FEW <= n < count
        )
        for method, counts in needed.items()
        if ((n_codes >= FEW) & (n_codes < counts)).any()
    ]
    return [note("skewed", outcome=outcome, of=of, needed=parts)] if parts else []
