"""Notes on estimates: few codes, few errors, unequal samples."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from llamaherd.coding.statistics.intervals import kish_n, wilson
from llamaherd.engine.core.caller import warn_notes
from llamaherd.engine.core.phrases import count_of, decimals, part_of, percents, verb

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from llamaherd.coding.estimation.estimates import Estimate
    from llamaherd.coding.statistics.dsl import Problem
    from llamaherd.coding.statistics.ratings import Flags
    from llamaherd.coding.statistics.sampling import Floats, Ints


FEW = 30  # warn if a group or coefficient has fewer codes
RARE = 5  # warn if a label has fewer codes or errors
_SHOWN = 5  # largest number of strata or terms named in a warning
_THIN = 1.1  # warn from this ratio: share of texts to share of codes
_CLUSTERS = 50  # warn if fewer clusters have codes
_LARGE = 0.5  # smallest share of texts with few codes to warn of
_EVENTS = 10  # codes of the rarer outcome per coefficient
_LEVERAGE = 0.1  # warn if the leverage of one text is higher
WEIGHTED = (
    "Texts were drawn with unequal probabilities, so PPI's assumption, codes from a "
    "random sample, does not hold. Its estimates are weighted by the inverse "
    "probabilities (active inference, arXiv 2403.03208)"
)
TEXTS = "For the target 'texts' the variance by ppi includes only the draw, as for dsl"
SURVEY = "With survey weights the variance by ppi uses weighted texts, as for dsl"
CLUSTERS = "With cluster the variance by ppi uses sums of clusters, as for dsl"
NO_PPI = (
    "The method ppi is left out, because it is for shares and means: a regression is "
    "estimated by dsl"
)
_LISTED = 12  # groups that a note lists
_NO_ERRORS = (
    "The labels of all coded texts are right (no coded text has a wrong label), but "
    "other texts may have wrong labels: intervals of dsl and ppi may be too short"
)


def few_coefficients(n_gold: int, p: int) -> list[str]:
    """Return a note if a regression has few codes for its coefficients."""
    if n_gold >= FEW * p:
        return []
    return [
        (
            f"There are too few codes ({n_gold:,}) for {count_of(p, 'coefficient')}, so "
            f"intervals may be too short. Code at least {FEW * p:,} texts"
        )
    ]


def few_groups(names: Sequence[str], counts: Floats) -> list[str]:
    """Return notes on groups with few codes."""
    few = _counted(names, counts, counts < FEW)
    return (
        [
            (
                "These groups have few codes, so intervals may be too short (number of "
                f"codes by group: {few}). A group needs {FEW} codes, and at least 2 for "
                "an interval"
            )
        ]
        if few
        else []
    )


def rare_label(outcome: str, y: Floats) -> list[str]:
    """Return a note if people gave a label to very few, or nearly all, texts."""
    n_given = int((y == 1).sum())
    if min(n_given, len(y) - n_given) >= RARE:
        return []
    times = count_of(n_given, "time")
    return [
        (
            f"People gave the label {outcome!r} {times} in {len(y)} codes, so its "
            "intervals are unreliable. Code more texts"
        )
    ]


def rare_errors(
    outcome: str, names: Sequence[str], problem: Problem, strata: Mapping[int, str]
) -> list[str]:
    """Return notes on groups, or strata, whose intervals depend on a few errors.

    Args:
        outcome: Label or score.
        names: Names of the groups.
        problem: The regression on groups.
        strata: Names of the strata.
    """
    if problem.is_all_coded:
        return []
    _, at = problem.of_all_texts
    if np.ptp(at) > 0 and np.ptp(problem.probs) > 0:
        return _rare_in_strata(outcome, problem, strata)
    counts = problem.n_errors
    open_groups = ~problem.all_coded
    few = _counted(names, counts, (counts > 0) & (counts < RARE) & open_groups)
    return (
        [
            (
                f"Few coded texts have a wrong label for {outcome!r} (number by group: "
                f"{few}), so the correction of the labels is uncertain and intervals may "
                "be too short. Code more texts of these groups"
            )
        ]
        if few
        else []
    )


def _rare_in_strata(
    outcome: str, problem: Problem, strata: Mapping[int, str]
) -> list[str]:
    """Return notes on strata with few observed errors; each states the stratum's size."""
    probs, at = problem.of_all_texts
    drawn = at[problem.rows]
    wrong = problem.is_wrong.copy()
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
        line = (
            f"{name!r} ({percents(share, 0)} of the texts): "
            f"{part_of(k, n, 'code', 'shows', 'show')} a wrong label, up to "
            f"{percents(most)} may be wrong"
        )
        lines.append((share, line))
    lines.sort(key=lambda each: -each[0])
    if not lines:
        return []
    more = f"; and {len(lines) - _SHOWN} more strata" if len(lines) > _SHOWN else ""
    where = "; ".join(line for _, line in lines[:_SHOWN]) + more
    return [
        (
            f"The correction of the labels for {outcome!r} is uncertain where few wrong "
            f"labels were seen. Code more texts of these strata: {where}"
        )
    ]


def few_heavy(problem: Problem) -> list[str]:
    """Return a note if texts with low inclusion probabilities have few codes.

    The note concerns the texts whose weight is at least half of the greatest weight.
    The codes of these texts are counted by Kish's effective number. For strata see
    `rare_errors`.
    """
    probs, at = problem.of_all_texts
    if problem.is_all_coded or np.ptp(at) > 0 or np.ptp(probs) == 0:
        return []
    usual = np.sort(probs)[len(probs) // 100]  # quantile, robust to a single text
    heavy = probs <= 2 * usual
    own = problem.probs <= 2 * usual
    n = kish_n(problem.code_weights[own])
    share = float(heavy.mean())
    if n >= FEW or share < _LARGE:
        return _unequal(problem)
    note = (
        f"{percents(share, 0)} of the texts, those with the lowest probabilities to be "
        f"drawn, have {n:.0f} codes (fewer than {FEW}), so intervals may be too short. "
        "Code more of these texts, or draw with a larger floor"
    )
    return [note]


def _unequal(problem: Problem) -> list[str]:
    """Return a note if Kish's effective number is below half the number of codes."""
    n, effective = len(problem.probs), kish_n(problem.code_weights)
    if effective >= n / 2:
        return []
    note = (
        f"Codes have very unequal weights: {count_of(n, 'code')} are as precise as "
        f"{effective:.0f} with equal weights (Kish's effective number), so intervals may "
        "be too short. Draw with probabilities that differ less"
    )
    return [note]


def few_events(y: Floats, weights: Floats, p: int) -> list[str]:
    """Return notes on few codes of the rarer outcome of a logistic regression.

    Codes are counted by Kish's effective number. Source for ten events per coefficient:
    Peduzzi et al., J. Clin. Epidemiol. 49, 1996.
    """
    least = min(kish_n(weights[y == value]) for value in (0, 1))
    if least >= _EVENTS * p:
        return []
    note = (
        f"The rarer outcome has {least:.0f} codes (effective number) for {p} "
        f"coefficients, fewer than {_EVENTS} each, so intervals may be too short. Code "
        "more texts that have it"
    )
    return [note]


def few_clusters(problem: Problem) -> list[str]:
    """Return a note if few clusters have coded texts.

    Source: Cameron, Miller, "A practitioner's guide to cluster-robust inference", J. Hum.
    Resour. 50, 2015 (fewer than 20 to 50 clusters are few).
    """
    if problem.clusters is None:
        return []
    n = len(np.unique(problem.clusters[problem.rows]))
    if n >= _CLUSTERS:
        return []
    return [
        (
            f"Only {count_of(n, 'cluster')} {verb(n, 'has', 'have')} codes, fewer than "
            f"{_CLUSTERS}, so intervals may be too short. Code texts of more clusters"
        )
    ]


def high_leverage(problem: Problem) -> list[str]:
    """Return a note if one coded text alone determines a coefficient.

    Source: Huber, "Robust Statistics", 1981, section 7.2. A note is given if a
        leverage is above 0.1 and above six times the mean leverage.
    """
    root = np.sqrt(problem.code_weights)[:, None] * problem.x
    q, _ = np.linalg.qr(root)
    most = float((q**2).sum(axis=1).max())
    usual = max(_LEVERAGE, 6 * problem.x.shape[1] / len(problem.y))
    if most <= usual:
        return []
    note = (
        f"One coded text has a leverage of {decimals(most)} (above {decimals(usual)} is "
        "high), so intervals may be too short. Transform covariates with extreme values, "
        "or code more texts"
    )
    return [note]


def few_errors(outcome: str, problem: Problem, strata: Mapping[int, str]) -> list[str]:
    """Return notes on a regression whose corrections depend on a few errors."""
    wrong = problem.is_wrong.copy()
    gaps = np.abs(problem.x - problem.x_hat[problem.rows])
    far = np.ptp(problem.x, axis=0) / 2 if problem.slack > 0 else 0.0
    wrong |= (gaps > far).any(axis=1)
    if problem.is_all_coded:
        return []
    if not wrong.any():
        return [_NO_ERRORS]
    _, at = problem.of_all_texts
    if np.ptp(at) > 0 and np.ptp(problem.probs) > 0:
        return _rare_in_strata(outcome, problem, strata)
    if wrong.sum() >= RARE:
        return []
    n = int(wrong.sum())
    return [
        (
            f"Only {count_of(n, 'coded text')} {verb(n, 'has', 'have')} a wrong label, "
            "so the correction of the labels is uncertain and intervals of dsl and ppi "
            "may be too short. Code more texts"
        )
    ]


def beyond(rows: Sequence[Estimate], limits: tuple[float, float]) -> list[str]:
    """Return notes on shares and means outside their limits, whose intervals are valid.

    Args:
        rows: Rows of the result.
        limits: Smallest and largest possible value.
    """
    low, high = limits
    why = f"outside {low:g} to {high:g}, because there are few codes"
    return [
        f"By {row.method}, the {row.term} of {row.outcome} {row.group}".rstrip()
        + f" is estimated as {decimals(row.estimate, 3)}, {why}. Report the interval, "
        "which is valid"
        for row in rows
        if row.term in {"share", "mean"}
        and not (np.isnan(row.estimate) or low <= row.estimate <= high)
    ]


def warned(notes: Sequence[str]) -> list[str]:
    """Remove duplicate notes, and issue a warning for notes on unreliable intervals."""
    unique = list(dict.fromkeys(notes))
    quiet = {WEIGHTED, TEXTS, SURVEY, CLUSTERS, NO_PPI, _NO_ERRORS}
    warn_notes([note for note in unique if note not in quiet])
    return unique


def _counted(names: Sequence[str], counts: Floats | Ints, which: Flags) -> str:
    groups = zip(names, counts, which, strict=True)
    return first_of(
        f"{name or 'all'} ({n:.0f})" for name, n, is_listed in groups if is_listed
    )


def first_of(texts: Iterable[str]) -> str:
    """Join the first texts, and add the number of the omitted texts."""
    listed = list(texts)
    n_more = len(listed) - _LISTED
    return ", ".join([*listed[:_LISTED], *([f"and {n_more} more"] if n_more > 0 else [])])


_INSTEAD = {"means": "a median", "coefficients": "a regression of logarithms"}


def skewed(
    outcome: str,
    names: Sequence[str],
    n_codes: Floats,
    needed: Mapping[str, Floats],
    *,
    of: str = "means",
) -> list[str]:
    """Return a note on the groups that have fewer codes than their skewness requires.

    Groups with fewer than `FEW` codes have a note of their own.

    Args:
        outcome: Name of the numbers.
        names: Names of the groups, or of the coefficients.
        n_codes: float64[p], numbers of codes.
        needed: float64[p] by method, numbers of codes by Cochran's rule.
        of: What is estimated: "means" or "coefficients".
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
    if not parts:
        return []
    note = (
        f"The numbers of {outcome!r} are so skewed that intervals of {of} may be too "
        f"short. By Cochran's rule more codes are needed: {'; '.join(parts)}. Code "
        f"more texts, or estimate {_INSTEAD[of]}"
    )
    return [note]
