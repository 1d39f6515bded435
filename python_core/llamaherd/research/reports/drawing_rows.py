"""Drawings of bars, intervals and matrices, whose rows have names."""

from __future__ import annotations

import math
import textwrap
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.core.decimals import percents
from llamaherd.research.reports.drawing_style import (
    MARKERS,
    PALETTE,
    SHADES,
    SHARES,
    draw_legend,
    name_rows,
    wrapped,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from llamaherd.research.reports.shapes import (
        Bars,
        Forest,
        Matrix,
        Panels,
        Point,
    )


def draw_bars(picture: Bars, ax: Axes, figure: Figure | None) -> None:
    """Draw horizontal bars, each divided into its parts."""
    at = np.arange(len(picture.rows))
    left = np.zeros(len(picture.rows))
    single = picture.legend is None
    handles = []
    for i, (name, lengths) in enumerate(picture.parts):
        bar = ax.barh(
            at,
            lengths,
            left=left,
            height=0.7,
            color=PALETTE[0] if single else SHADES[min(i, len(SHADES) - 1)],
            edgecolor="#333333",
            linewidth=0.4,
            label=name,
        )
        handles.append(bar)
        left = left + np.asarray(lengths)
    room = float(left.max(initial=0.0)) or 1.0
    for y, (end, note) in enumerate(zip(left.tolist(), picture.notes, strict=True)):
        ax.text(end + room * 0.012, y, note, va="center", fontsize=9)
    widest = max(map(len, picture.notes), default=0)
    ax.set_xlim(0, room * (1.03 + 0.018 * widest))
    ax.grid(axis="x", color="#E5E5E5", linewidth=0.6)
    name_rows(ax, picture.rows)
    if not single:
        draw_legend(ax, figure, handles, picture.legend)


def draw_forest(picture: Forest, ax: Axes, figure: Figure | None) -> None:
    """Draw values with intervals; each row has a point for each series."""
    n = len(picture.series)
    shifts = _shifts(picture.points, n)
    for row, span in enumerate(picture.spans):
        if span is not None:
            ax.plot(span, (row, row), color="#D9D9D9", linewidth=6, zorder=1)
    handles: list[Any] = []
    for i, name in enumerate(picture.series):
        handles.append(_series(ax, picture.points, i, shifts, name))
    low, high = picture.limits or (0.0, 1.0)
    if picture.is_share:
        ax.set_xlim(low - 0.02 * (high - low), high + 0.02 * (high - low))
    if low < 0 < high:
        ax.axvline(0, color="#999999", linewidth=0.8, zorder=0)
    ax.grid(axis="x", color="#E5E5E5", linewidth=0.6)
    name_rows(ax, picture.rows)
    if len(handles) > 1:
        draw_legend(ax, figure, handles)


def draw_panels(picture: Panels, ax: Axes) -> None:
    """Draw small axes within large axes; the large axes have only title and labels."""
    ax.spines[:].set_visible(False)
    ax.set_xticks([])
    ax.set_yticks([])
    ax.xaxis.labelpad = 16
    n = len(picture.panels)
    for i, name in enumerate(picture.panels):
        inner = ax.inset_axes((0.0, 1 - (i + 0.78) / n, 1.0, 0.56 / n))
        # Rows of a panel are the series.
        mine = [replace(p, row=p.series) for p in picture.points if p.row == i]
        for j, series in enumerate(picture.series):
            _series(inner, mine, j, {}, series)
        inner.axvline(0, color="#999999", linewidth=0.8, zorder=0)
        inner.grid(axis="x", color="#E5E5E5", linewidth=0.6)
        name_rows(inner, picture.series)
        inner.set_title(textwrap.shorten(name, 70), loc="left", fontsize=10, pad=3)


def _shifts(points: Sequence[Point], n_series: int) -> dict[tuple[int, int], float]:
    """Return the offset of each point from the middle of its row."""
    in_row: dict[int, list[int]] = {}
    for p in points:
        if not math.isnan(p.value):
            in_row.setdefault(p.row, []).append(p.series)
    step = 0.6 / max(n_series - 1, 1)
    return {
        (row, series): (index - (len(there) - 1) / 2) * step
        for row, there in in_row.items()
        for index, series in enumerate(sorted(there))
    }


def _series(
    ax: Axes,
    points: Sequence[Point],
    i: int,
    shifts: dict[tuple[int, int], float],
    name: str,
) -> Any:  # noqa: ANN401
    mine = [p for p in points if p.series == i and not math.isnan(p.value)]
    values = np.array([p.value for p in mine])
    low = np.array([p.low for p in mine])
    high = np.array([p.high for p in mine])
    reach = np.nan_to_num(np.clip(np.stack([values - low, high - values]), 0, None))
    return ax.errorbar(
        values,
        np.array([p.row + shifts.get((p.row, i), 0.0) for p in mine]),
        xerr=reach if mine and not np.isnan(low).all() else None,
        fmt=MARKERS[i % len(MARKERS)],
        color=PALETTE[i % len(PALETTE)],
        markersize=5,
        markeredgecolor="white",
        markeredgewidth=0.5,
        elinewidth=1.3,
        capsize=2,
        label=name,
        zorder=3,
    )


def draw_matrix(picture: Matrix, ax: Axes, figure: Figure | None) -> None:
    """Draw a matrix of counts, shaded by share."""
    from matplotlib.colors import LinearSegmentedColormap  # noqa: PLC0415 - optional
    from matplotlib.patches import Patch  # noqa: PLC0415 - optional

    counts = np.array(picture.counts, dtype=float).reshape(
        len(picture.rows), len(picture.columns)
    )
    shades = LinearSegmentedColormap.from_list("shares", SHARES)
    shares = np.array(picture.shares).reshape(counts.shape)
    # Draw vector shapes, not an image: a report's page may not load images.
    ax.pcolormesh(
        np.arange(len(picture.columns) + 1) - 0.5,
        np.arange(len(picture.rows) + 1) - 0.5,
        shares,
        cmap=shades,
        vmin=0,
        vmax=1,
        edgecolors="white",
        linewidth=1,
    )
    handles = [
        Patch(
            facecolor=shades(step),
            edgecolor="#333333",
            linewidth=0.4,
            label=percents(step, 0),
        )
        for step in (0.0, 0.25, 0.5, 0.75, 1.0)
    ]
    draw_legend(ax, figure, handles, picture.legend)
    ax.set_ylim(len(picture.rows) - 0.5, -0.5)
    if len(picture.rows) <= 20:
        for i, j in np.ndindex(counts.shape):
            ax.text(
                j,
                i,
                f"{picture.counts[i][j]:,}",
                ha="center",
                va="center",
                fontsize=9,
                color="white" if shares[i, j] > 0.6 else "black",
            )
    names = [wrapped(name) for name in picture.columns]
    tilted = max((len(line) for n in names for line in n.split("\n")), default=0) > 60 / (
        len(names) + 1
    )
    ax.set_xticks(
        range(len(names)),
        names,
        rotation=40 if tilted else 0,
        ha="right" if tilted else "center",
        rotation_mode="anchor",
        va="center" if tilted else "top",
    )
    ax.set_yticks(range(len(picture.rows)), [wrapped(name) for name in picture.rows])
    ax.tick_params(length=0)
    ax.spines[["left", "bottom"]].set_visible(False)
