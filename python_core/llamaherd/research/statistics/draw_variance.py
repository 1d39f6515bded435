"""Variance of a total that the draw of a sample causes, with fixed sizes of strata.

Sources: Hajek, "Asymptotic theory of rejective sampling with varying probabilities",
1964; for a part (domain) of the texts Särndal, Swensson, Wretman, "Model Assisted Survey
Sampling", 1992, section 10.3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.research.statistics.sampling import Floats, Ints


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Outside:
    """Coded texts of the same draw that do not belong to the texts of an estimate.

    The sample has a fixed size, but the number of codes in a part of the texts is random.
    The variance of the draw therefore counts all codes of a stratum; codes outside the
    part have terms of 0.

    Attributes:
        strata: int64[k], strata of these texts.
        left: float64[k], 1 - inclusion probability in the draw of the text.
    """

    strata: Ints
    left: Floats

    def of(self, stratum: int) -> tuple[int, float]:
        """Return the number of these texts in a stratum, and the sum of their `left`."""
        own = self.strata == stratum
        return int(own.sum()), float(self.left[own].sum())


def together(parts: Sequence[Outside | None]) -> Outside | None:
    """Join groups of texts outside an estimate; None if there are no such texts."""
    known = [part for part in parts if part is not None and len(part.strata)]
    if not known:
        return None
    return Outside(
        strata=np.concatenate([part.strata for part in known]),
        left=np.concatenate([part.left for part in known]),
    )


def hajek(
    terms: Floats, left: Floats, strata: Ints, outside: Outside | None = None
) -> Floats:
    """Return the variance of a sum of c_i / pi_i, for fixed sample sizes in strata.

        sum_h sum_i (1 - pi_i) (c_i / pi_i - mean)^2

    where the means are weighted by 1 - pi_i. For equal pi_i, and times n_h / (n_h - 1),
    this is exactly the variance of a stratified sample.

    Args:
        terms: float64[n, p], c_i / pi_i of the codes.
        left: float64[n], 1 - pi_i.
        strata: int64[n], strata of the codes.
        outside: Codes of the same strata whose terms are 0.

    Returns:
        Covariances, float64[p, p].
    """
    out = np.zeros((terms.shape[1], terms.shape[1]))
    for h in np.unique(strata):
        own, w = terms[strata == h], left[strata == h]
        n_more, more = (0, 0.0) if outside is None else outside.of(int(h))
        n, whole = len(own) + n_more, w.sum() + more
        if whole <= 0:  # the whole stratum was drawn
            continue
        mean = (w @ own) / whole if n > 1 else np.zeros(out.shape[0])
        away = own - mean
        out += (away * w[:, None]).T @ away + more * np.outer(mean, mean)
    return out
