"""Signs, after coding, that labels say little of the texts."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llamaherd.core.calibration import Floats
    from llamaherd.research.coding.codebook import Codebook

_LEAST_TEXTS = 20  # with a label; of fewer nothing is said
_ALMOST_ALL = 0.98
_LOW_COVERAGE = 0.05


def notes_of(
    labels: Sequence[str | None],
    coverage: Floats | None,
    codebook: Codebook,
    settings: Mapping[str, Any],
) -> list[str]:
    """Notes on labels, to read before they are used; [] if nothing is unusual.

    Args:
        labels: n labels; None where there is none.
        coverage: float[n], share of the probability that all labels had together, NaN
            where there is none; None: not known.
        codebook: By which texts were coded.
        settings: How, as in `Settings.to_dict`.
    """
    known = [label for label in labels if label is not None]
    if codebook.type == "fields" or len(known) < _LEAST_TEXTS:
        return []
    found = []
    label, n = Counter(known).most_common(1)[0]
    if n >= _ALMOST_ALL * len(known) and len(codebook.names) > 1:
        what = f"the label {label!r}" if label else "none of the labels"
        found.append(f"{n:,} of {len(known):,} texts have {what}")
    middle = np.nan
    if coverage is not None and not np.isnan(coverage).all():
        middle = float(np.nanmedian(coverage))
    if middle < _LOW_COVERAGE:
        found.append(
            f"median coverage is {middle:.2g}: of the model's probability for what comes "
            f"next, all labels together have only that"
        )
    return [
        *found[:-1],
        *(f"{last}. {_remedy(codebook, settings)}" for last in found[-1:]),
    ]


def _remedy(codebook: Codebook, settings: Mapping[str, Any]) -> str:
    """Remedies that were not tried."""
    ways = []
    is_scored = settings.get("method") == "classify" and codebook.type != "multiple"
    if is_scored and settings.get("calibrate") is None:
        ways.append('calibrate = "batch"')
    if not codebook.examples:
        ways.append("examples in the codebook")
    if not settings.get("chat"):
        ways.append("chat = TRUE (in Python chat=True)")
    return f"Try {', '.join(ways)} or another model" if ways else "Try another model"
