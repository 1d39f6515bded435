"""What a user has to know of estimates: from few codes, few errors, unequal samples."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np

from llamaherd.research.estimation import few_codes
from llamaherd.research.statistics.intervals import kish_n, wilson

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llamaherd.research.estimation.estimates import Estimate
    from llamaherd.research.estimation.few_errors import Reach
    from llamaherd.research.statistics.dsl import Problem
    from llamaherd.research.statistics.ratings import Flags
    from llamaherd.research.statistics.sampling import Floats, Ints

FEW = 30  # codes of a group, or of a coefficient, below which there is a warning
RARE = 5  # codes of a label, or errors, likewise
_SHOWN = 5  # strata or terms that a warning names
_THIN = 1.1  # share of the texts over share of the codes from which on it matters
_CLUSTERS = 50  # with codes, below which there is a warning
_LARGE = 0.5  # share of the texts from which on few codes of them matter
_EVENTS = 10  # codes of the rarer outcome for each coefficient
_LEVERAGE = 0.1  # of one text, from which on there is a warning
WEIGHTED = (
    "ppi: texts were drawn with unequal probabilities, so that PPI's assumption, codes "
    "from a random sample, does not hold; its estimates are weighted by the inverse "
    "probabilities (active inference, arXiv 2403.03208)"
)
TEXTS = "ppi: for target='texts' the variance is that of the draw alone, as for dsl"
CLUSTERS = "ppi: with cluster the variance is that of sums of clusters, as for dsl"
RIGHT = "ppi is left out: the label is a covariate, and PPI is for labels as the outcome"
_UNSEEN = "by Wilson's limits, as the codes show no wrong label, or no difference: "
_NO_ERRORS = "no coded text has a wrong label: intervals of dsl and ppi may be too short"


def few_coefficients(n_gold: int, p: int) -> list[str]:
    """Whether there are few codes for a regression."""
    if n_gold >= FEW * p:
        return []
    return [f"{n_gold} codes for {p} coefficients are few: intervals may be too short"]


def few_groups(names: Sequence[str], counts: Floats) -> list[str]:
    """Which groups have few codes."""
    few = _counted(names, counts, counts < FEW)
    why = "few codes, intervals may be too short (below 2 there are none): "
    return [why + few] if few else []


def rare_label(outcome: str, y: Floats) -> list[str]:
    """Whether people gave a label hardly ever, or nearly always."""
    n_given = int((y == 1).sum())
    if min(n_given, len(y) - n_given) >= RARE:
        return []
    why = "its intervals are not to be relied on"
    return [f"{outcome}: people gave this label {n_given} times in {len(y)}; {why}"]


def rare_errors(
    outcome: str, names: Sequence[str], problem: Problem, strata: Mapping[int, str]
) -> list[str]:
    """Groups, or strata, in which intervals rest on a few errors.

    Args:
        outcome: Label, or score.
        names: Of the groups.
        problem: The regression on groups.
        strata: Names of the strata.
    """
    if problem.is_all_coded:
        return []
    _, at = problem.of_all_texts
    if np.ptp(at) > 0 and np.ptp(problem.probs) > 0:
        return _rare_in_strata(outcome, problem, strata)
    counts = few_codes.n_errors(problem)
    few = _counted(names, counts, (counts > 0) & (counts < RARE))
    why = "few coded texts have a wrong label, code more texts"
    return [f"{outcome}: {why}: {few}"] if few else []


def _rare_in_strata(
    outcome: str, problem: Problem, strata: Mapping[int, str]
) -> list[str]:
    """Strata with few wrong labels among their codes, with their shares of the texts."""
    probs, at = problem.of_all_texts
    drawn = at[problem.rows]
    wrong = problem.y != problem.y_hat[problem.rows]
    told = []
    few = wrong.sum() < RARE
    for h in np.unique(at):
        n, k = int((drawn == h).sum()), int(wrong[drawn == h].sum())
        share = float((at == h).mean())
        is_thin = share > _THIN * n / len(drawn)  # one code stands for many texts
        if k >= RARE or (probs[at == h] >= 1).all() or not (few or is_thin):
            continue
        most = wilson(k / max(n, 1), n, 0.95)[1]
        name = strata.get(int(h), f"stratum {h + 1}")
        line = (
            f"{name!r} ({share:.0%} of the texts): {k} of {n} codes show a wrong label, "
            f"up to {most:.1%} may be"
        )
        told.append((share, line))
    told.sort(key=lambda each: -each[0])
    if not told:
        return []
    more = f"; and {len(told) - _SHOWN} more strata" if len(told) > _SHOWN else ""
    where = "; ".join(line for _, line in told[:_SHOWN]) + more
    return [f"{outcome}: code more texts of the strata with few errors: {where}"]


def few_heavy(problem: Problem) -> list[str]:
    """Notes on few codes where probabilities are lowest, in unequal samples.

    Texts with at least half of the greatest weight are counted by Kish's effective
    number; strata are told of by `rare_errors`.
    """
    probs, at = problem.of_all_texts
    if problem.is_all_coded or np.ptp(at) > 0 or np.ptp(probs) == 0:
        return []
    usual = np.sort(probs)[len(probs) // 100]  # one text does not decide it
    heavy = probs <= 2 * usual
    own = problem.probs <= 2 * usual
    n = kish_n(1 / problem.probs[own])
    share = float(heavy.mean())
    if n >= FEW or share < _LARGE:
        return _unequal(problem)
    told = (
        f"{share:.0%} of the texts, those with the lowest probabilities to be drawn, "
        f"have {n:.0f} codes ({FEW} are few): intervals may be too short; code more of "
        "them, or draw with a larger floor"
    )
    return [told]


def _unequal(problem: Problem) -> list[str]:
    """Notes on codes that weigh so unequally that they count for less than half."""
    n, effective = len(problem.probs), kish_n(1 / problem.probs)
    if effective >= n / 2:
        return []
    told = (
        f"codes weigh unequally: {n} count as {effective:.0f} (Kish's effective number), "
        "intervals may be too short; draw with probabilities that differ less"
    )
    return [told]


def few_events(y: Floats, weights: Floats, p: int) -> list[str]:
    """Notes on few codes of the rarer outcome of a logistic regression.

    Counted by Kish's effective number, as one of great weight counts for many. Source:
    Peduzzi et al., J. Clin. Epidemiol. 49, 1996, on ten events a coefficient.
    """
    least = min(kish_n(weights[y == value]) for value in (0, 1))
    if least >= _EVENTS * p:
        return []
    told = (
        f"the rarer outcome has {least:.0f} codes (effective number) for {p} "
        f"coefficients, fewer than {_EVENTS} each: intervals may be too short; code more "
        "texts that have it"
    )
    return [told]


def few_clusters(problem: Problem) -> list[str]:
    """Notes on few clusters of coded texts.

    Source: Cameron, Miller, "A practitioner's guide to cluster-robust inference", J. Hum.
    Resour. 50, 2015, on 20 to 50.
    """
    if problem.clusters is None:
        return []
    n = len(np.unique(problem.clusters[problem.rows]))
    if n >= _CLUSTERS:
        return []
    return [f"{n} clusters have codes ({_CLUSTERS} are few): intervals may be too short"]


def high_leverage(problem: Problem) -> list[str]:
    """Notes on a coded text that alone decides a coefficient.

    Source: Huber, "Robust Statistics", 1981, section 7.2. It is compared with six times
    the mean leverage, and with 0.1.
    """
    root = np.sqrt(1 / problem.probs)[:, None] * problem.x
    q, _ = np.linalg.qr(root)
    most = float((q**2).sum(axis=1).max())
    usual = max(_LEVERAGE, 6 * problem.x.shape[1] / len(problem.y))
    if most <= usual:
        return []
    told = (
        f"one coded text has a leverage of {most:.2f} (above {usual:.2f} is much): "
        "intervals may be too short; transform covariates with extreme values, or code "
        "more texts"
    )
    return [told]


def few_errors(outcome: str, problem: Problem, strata: Mapping[int, str]) -> list[str]:
    """Notes on a regression that rests on a few errors."""
    wrong = problem.y != problem.y_hat[problem.rows]
    wrong |= (problem.x != problem.x_hat[problem.rows]).any(axis=1)
    if problem.is_all_coded:
        return []
    if not wrong.any():
        return [_NO_ERRORS]
    _, at = problem.of_all_texts
    if np.ptp(at) > 0 and np.ptp(problem.probs) > 0:
        return _rare_in_strata(outcome, problem, strata)
    if wrong.sum() >= RARE:
        return []
    why = "coded texts have a wrong label, intervals of dsl and ppi may be too short"
    return [f"{int(wrong.sum())} {why}"]


def unseen(
    problem: Problem, outcome: str, method: str, names: Sequence[str], wider: Reach
) -> str:
    """The note on an interval widened as codes show no error or difference; or ""."""
    none = few_codes.n_errors(problem) == 0
    if method == "gold":
        none = np.array([len({*problem.y[own]}) < 2 for own in problem.x.T != 0])
    where = [
        name or "all"
        for name, no_error, far in zip(
            names, none, wider.above + wider.below, strict=True
        )
        if no_error and far > 0
    ]
    return f"{method}: {outcome} ({', '.join(where)})" if where else ""


def by_the_rule(bounds: Sequence[str]) -> list[str]:
    """All that `unseen` told, as a note."""
    told = [each for each in bounds if each]
    return [f"intervals {_UNSEEN}{'; '.join(told)}"] if told else []


def beyond(rows: Sequence[Estimate]) -> list[str]:
    """Shares that cannot be; their intervals can."""
    why = "which no share is: right on average, but of few codes; tell the interval"
    return [
        f"{row.method}: the share of {row.outcome} {row.group}".rstrip()
        + f" is estimated as {row.estimate:.3f}, {why}"
        for row in rows
        if row.term == "share" and not (np.isnan(row.estimate) or 0 <= row.estimate <= 1)
    ]


def warned(notes: Sequence[str], stacklevel: int) -> list[str]:
    """Each note once. Those that make intervals worse than they look are warned of."""
    told = list(dict.fromkeys(notes))
    for note in told:
        if (
            note not in {WEIGHTED, TEXTS, CLUSTERS, RIGHT, _NO_ERRORS}
            and _UNSEEN not in note
        ):
            warnings.warn(note, UserWarning, stacklevel=stacklevel + 1)
    return told


def _counted(names: Sequence[str], counts: Floats | Ints, which: Flags) -> str:
    groups = zip(names, counts, which, strict=True)
    return ", ".join(f"{name or 'all'} ({n:.0f})" for name, n, told in groups if told)
