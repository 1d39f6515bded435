"""What a user has to know of estimates: from few codes, few errors, unequal samples."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np

from llamaherd.research.estimation import few_codes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.research.estimation.estimates import Estimate
    from llamaherd.research.statistics.dsl import Problem
    from llamaherd.research.statistics.ratings import Flags
    from llamaherd.research.statistics.sampling import Floats, Ints

FEW = 30  # codes of a group, or of a coefficient, below which there is a warning
RARE = 5  # codes of a label, or errors, likewise
WEIGHTED = (
    "ppi: texts were drawn with unequal probabilities, so that PPI's assumption, codes "
    "from a random sample, does not hold; its estimates are weighted by the inverse "
    "probabilities (active inference, arXiv 2403.03208)"
)
TEXTS = "ppi: for target='texts' the variance is that of the draw alone, as for dsl"
RIGHT = "ppi is left out: the label is a covariate, and PPI is for labels as the outcome"
_UNSEEN = "by the rule of three, as the codes show no wrong label, or no difference: "
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


def rare_errors(outcome: str, names: Sequence[str], problem: Problem) -> list[str]:
    """In which groups intervals about these texts rest on a few errors."""
    if problem.target != "texts" or problem.is_all_coded:
        return []
    counts = few_codes.n_errors(problem)
    few = _counted(names, counts, (counts > 0) & (counts < RARE))
    why = (
        "few coded texts have a wrong label, intervals of dsl and ppi may be too short: "
    )
    return [f"{outcome}: {why}{few}"] if few else []


def few_errors(problem: Problem) -> list[str]:
    """Whether a regression about these texts, or any, rests on a few errors."""
    wrong = problem.y != problem.y_hat[problem.rows]
    wrong |= (problem.x != problem.x_hat[problem.rows]).any(axis=1)
    if problem.is_all_coded or wrong.sum() >= RARE:
        return []
    if not wrong.any():
        return [_NO_ERRORS]
    why = "coded texts have a wrong label, intervals of dsl and ppi may be too short"
    return [f"{int(wrong.sum())} {why}"] if problem.target == "texts" else []


def unseen(outcome: str, method: str, names: Sequence[str], reach: Floats) -> str:
    """Where an interval is by the rule of three; "" if it is nowhere."""
    where = ", ".join(
        name or "all" for name, far in zip(names, reach, strict=True) if far > 0
    )
    return f"{method}: {outcome} ({where})" if where else ""


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
        if note not in {WEIGHTED, TEXTS, RIGHT, _NO_ERRORS} and _UNSEEN not in note:
            warnings.warn(note, UserWarning, stacklevel=stacklevel + 1)
    return told


def _counted(names: Sequence[str], counts: Floats | Ints, which: Flags) -> str:
    groups = zip(names, counts, which, strict=True)
    return ", ".join(f"{name or 'all'} ({n:.0f})" for name, n, told in groups if told)
