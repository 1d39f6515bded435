"""Notes on means of numbers that are too skewed for the number of codes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llamaherd.research.estimation.notes import FEW, first_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llamaherd.research.statistics.sampling import Floats

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
        needed: float64[p] by method, numbers of codes by Cochran's rule, see `skewness`.
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
