"""Measures of accuracy and agreement, combined over several draws of the right codes.

The values are averaged. The two arms of the interval, value - low and high - value, are
combined separately, so that asymmetric intervals stay asymmetric. Each arm is treated as
a multiple of a standard error. The square of the combined arm is the mean of the squared
arms of the draws, plus t^2 (1 + 1 / m) B. B is the variance of the value over m draws,
and t is the quantile with Rubin's degrees of freedom (Rubin 1987; see `rubin`). Intervals
are truncated to the possible values of the measure. If a measure has no interval in some
draws, for example because all labels are right, the intervals of the other draws are
averaged.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.research.statistics import rubin
from llamaherd.research.statistics.intervals import Measure, student_quantile, within

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.research.statistics.accuracy import Accuracy, LabelScores
    from llamaherd.research.statistics.agreement import Agreement
    from llamaherd.research.statistics.sampling import Floats


def combined_interval(
    values: Floats, lows: Floats, highs: Floats, level: float, least: float = 0.0
) -> tuple[float, float, float]:
    """Return the value and the limits of a measure over m draws.

    Args:
        values: float64[m], values; draws with NaN are left out.
        lows: float64[m], lower limits; NaN without an interval.
        highs: float64[m], upper limits.
        level: Confidence level.
        least: Smallest possible value; the largest is 1.
    """
    there = ~np.isnan(values)
    if not there.any():
        return math.nan, math.nan, math.nan
    values, lows, highs = values[there], lows[there], highs[there]
    value = float(values.mean())
    with_limits = ~np.isnan(lows)
    if not with_limits.any():
        return value, math.nan, math.nan
    z = student_quantile(level, math.inf)
    below = float(np.mean((values - lows)[with_limits] ** 2))
    above = float(np.mean((highs - values)[with_limits] ** 2))
    added = rubin.between(values)
    df = rubin.freedom((below + above) / 2 / z**2, added, len(values), math.inf)
    t = student_quantile(level, df)
    longer, more = (t / z) ** 2, t**2 * added
    low, high = within(
        value - math.sqrt(below * longer + more),
        value + math.sqrt(above * longer + more),
        least,
        1.0,
    )
    return value, low, high


def combined_measure(measures: Sequence[Measure], level: float) -> Measure:
    """Combine the values of one measure over m draws."""
    columns = np.array([(each.value, each.low, each.high) for each in measures]).T
    value, low, high = combined_interval(columns[0], columns[1], columns[2], level)
    n = round(float(np.mean([each.n for each in measures])))
    return replace(measures[0], value=value, low=low, high=high, n=n)


def combined_accuracy(
    found: Accuracy, draws: Sequence[Accuracy], level: float
) -> Accuracy:
    """Return the accuracy with measures over all draws.

    Args:
        found: Accuracy by the most probable right codes; its counts are not changed.
        draws: Accuracy by each draw of right codes, with the same labels.
        level: Confidence level.
    """
    names = (
        "accuracy",
        "balanced_accuracy",
        "macro_precision",
        "macro_recall",
        "macro_f1",
        "majority_accuracy",
    )
    measures: dict[str, Any] = {
        name: combined_measure([getattr(each, name) for each in draws], level)
        for name in names
    }
    per_label = tuple(
        _label(scores, [each.per_label[k] for each in draws], level)
        for k, scores in enumerate(found.per_label)
    )
    return replace(found, per_label=per_label, **measures)


def _label(found: LabelScores, draws: Sequence[LabelScores], level: float) -> LabelScores:
    measures: dict[str, Any] = {
        name: combined_measure([getattr(each, name) for each in draws], level)
        for name in ("precision", "recall", "f1")
    }
    share = float(np.mean([each.share for each in draws]))
    return replace(found, share=share, **measures)


def combined_agreement(draws: Sequence[Agreement], level: float) -> Agreement:
    """Combine the values of one coefficient of agreement over m draws."""
    columns = np.array([(each.value, each.low, each.high) for each in draws]).T
    value, low, high = combined_interval(columns[0], columns[1], columns[2], level, -1.0)
    added = rubin.between(np.array([each.value for each in draws]))
    inside = float(np.mean([each.se**2 for each in draws]))
    return replace(
        draws[0],
        value=value,
        low=low,
        high=high,
        se=math.sqrt(inside + added),
        observed=float(np.mean([each.observed for each in draws])),
        expected=float(np.mean([each.expected for each in draws])),
    )
