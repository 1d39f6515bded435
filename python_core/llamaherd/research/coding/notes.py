"""Notes on labels that contain little information about the texts."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.asks.coverage import coverage_cause, low_coverage, opened
from llamaherd.core.plurals import count_of, part_of
from llamaherd.core.words import setting

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llamaherd.asks.calibration import Floats
    from llamaherd.research.coding.codebook import Codebook

_LEAST_TEXTS = 20  # least number of labelled texts for a note on their common label
_ALMOST_ALL = 0.98
_ONE_SIDED = 0.75  # share of a label of which batch calibration takes texts
_LEAST_MOVED = 10  # least number of texts for a note on calibrated labels
_MANY = 0.2  # share of the texts that it takes
_LEAST_FITTED = 5  # least number of texts for batch calibration without a note


def notes_of(  # noqa: PLR0917 - two callers, in this order
    labels: Sequence[str | None],
    coverage: Floats | None,
    codebook: Codebook,
    settings: Mapping[str, Any],
    prompt: str = "",
    raw: Floats | None = None,
) -> list[str]:
    """Return notes to read before labels are used; [] if nothing is unusual.

    Args:
        labels: n labels; None for missing labels.
        coverage: float[n], total probability of all labels, NaN without a label; None if
            unknown.
        codebook: Codebook of the coding.
        settings: Settings, as in `Settings.to_dict`.
        prompt: A prompt as the model reads it, if labels directly follow the prompt; ""
            if labels follow a thought.
        raw: float64[n, k], probabilities before calibration; None if unknown.
    """
    known = [label for label in labels if label is not None]
    if codebook.kind.is_generated or not known:
        return []
    found = []
    label, n = Counter(known).most_common(1)[0]
    is_same = len(known) >= _LEAST_TEXTS and n >= _ALMOST_ALL * len(known)
    if is_same and len(codebook.names) > 1:
        what = f"the label {label!r}" if label else "none of the labels"
        found.append(f"{part_of(n, len(known), 'text')} {what}")
    low = "" if coverage is None else low_coverage(coverage)
    if low:
        marker = opened(prompt)
        cause = f". {coverage_cause(prompt, chat=True)}" if marker else ""
        found.append(f"{low}{cause}")
    return [
        *_of_calibration(len(known), settings),
        *_of_moved(labels, codebook, settings, raw),
        *found[:-1],
        *(f"{last}. {_remedy(codebook, settings, is_same)}" for last in found[-1:]),
    ]


def _of_calibration(n: int, settings: Mapping[str, Any]) -> list[str]:
    """Return a note on a batch calibration that was fitted to few texts."""
    if settings.get("calibrate") != "batch" or n >= _LEAST_FITTED:
        return []
    texts = "1 text, which makes all labels equally probable" if n == 1 else f"{n} texts"
    used = setting("calibrate", "batch")
    return [f"{used} was fitted to only {texts}: labels depend on the other texts"]


def _of_moved(
    labels: Sequence[str | None],
    codebook: Codebook,
    settings: Mapping[str, Any],
    raw: Floats | None,
) -> list[str]:
    """Return a note on a batch calibration that took many texts from a common label."""
    if settings.get("calibrate") != "batch" or raw is None:
        return []
    before = [
        codebook.names[int(np.nanargmax(row))]
        for row, label in zip(raw, labels, strict=True)
        if label is not None and not np.isnan(row).all()
    ]
    after = [label for label in labels if label is not None]
    if len(before) != len(after) or len(before) < _LEAST_MOVED:
        return []
    common, n = Counter(before).most_common(1)[0]
    n_lost = sum(one == common != other for one, other in zip(before, after, strict=True))
    if n < _ONE_SIDED * len(before) or n_lost < _MANY * len(before):
        return []
    return [
        (
            f"{setting('calibrate', 'batch')} gave {n_lost:,} of {count_of(n, 'text')} "
            f"with the label {common!r} another label. It assumes that "
            "people would give all "
            f"labels about equally often; if most texts really are "
            f"{common!r}, these changes "
            "are wrong. Check them with codes of people"
        )
    ]


def _remedy(codebook: Codebook, settings: Mapping[str, Any], is_same: bool) -> str:
    """Suggest settings that were not tried and may give more informative labels."""
    ways = []
    if settings.get("thinking"):
        ways.append("a larger budget of thinking")
    is_scored = settings.get("method") == "classify" and not codebook.kind.is_several
    can_calibrate = is_scored and is_same and settings.get("calibrate") is None
    if not codebook.examples:
        ways.append("examples in the codebook")
    if not settings.get("chat"):
        ways.append(setting("chat", True))
    advice = f"Try {', '.join(ways)} or another model" if ways else "Try another model"
    if can_calibrate:
        advice += (
            ". Only if people would give all labels about equally often, "
            f"{setting('calibrate', 'batch')} helps, too: it makes the labels equally "
            "frequent, whether they are or not"
        )
    return advice
