"""Plots of compared codebooks, as shapes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from llamaherd.core.plurals import count_of
from llamaherd.research.reports.picture_parts import apart, interval, short
from llamaherd.research.reports.shapes import Forest, Point, Tradeoff, Words
from llamaherd.research.selection.effect import TITLES
from llamaherd.research.statistics.paired import MEASURES

if TYPE_CHECKING:
    from llamaherd.research.selection.comparison import CodebookComparison

_GAP = 0.03  # minimum distance between points, as a share of the largest time
_SERIES = ("may be the best", "worse than the best")


def comparison_picture(x: CodebookComparison) -> Tradeoff | Forest:
    """Show agreement against seconds per text, or in rows if seconds are unknown."""
    measure = TITLES[x.measure]
    names = short(list(x.names))
    if x.is_error:
        measure += " (smaller is better)"
    what = f"{measure} on {count_of(x.n, 'text')}, with {interval(x.level)}"
    rows = [i for i, each in enumerate(x.candidates) if not math.isnan(each.value.value)]
    timed = [i for i in rows if not math.isnan(x.candidates[i].seconds)]
    kinds = [0 if x.is_tied(i) else 1 for i in range(len(names))]
    alt = "; ".join(
        f"{x.names[i]}: {x.candidates[i].value.value:.3g}, {x.verdict(i)}" for i in rows
    )
    title = f"{count_of(len(names), 'candidate')} on the same texts"
    if not timed:
        values = [x.candidates[i].value for i in rows]
        return Forest(
            words=Words(title=title, x=what, alt=alt),
            rows=[names[i] for i in rows],
            series=list(_SERIES),
            points=[
                Point(row=row, series=kinds[i], value=v.value, low=v.low, high=v.high)
                for row, (i, v) in enumerate(zip(rows, values, strict=True))
            ],
            is_share=x.measure in MEASURES and x.measure != "kappa",
        )
    left = len(rows) - len(timed)
    without = f" ({left} with unknown time omitted)" if left else ""
    there = sorted({kinds[i] for i in timed})
    values = [x.candidates[i].value for i in timed]
    seconds = [x.candidates[i].seconds for i in timed]
    return Tradeoff(
        words=Words(title=title + without, x="seconds per text", y=what, alt=alt),
        names=[names[i] for i in timed],
        # Intervals of equal times would cover each other.
        x=apart(seconds, _GAP * max(seconds)),
        y=[each.value for each in values],
        low=[each.low for each in values],
        high=[each.high for each in values],
        kinds=[there.index(kinds[i]) for i in timed],
        series=[_SERIES[kind] for kind in there],
    )
