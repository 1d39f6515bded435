"""Drawings of curves, points and timelines in a plane of two numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.research.reports.drawing_style import (
    MARKERS,
    PALETTE,
    PHASE_COLORS,
    draw_legend,
    wrapped,
)
from llamaherd.research.reports.shapes import (
    PHASES,
    Curve,
    Scatter,
    Timeline,
    Tradeoff,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def draw_curve(picture: Curve, ax: Axes, figure: Figure | None) -> None:
    """Draw a curve with its interval and a reference line."""
    (x0, y0), (x1, y1), name = picture.reference
    handles: list[Any] = [
        *ax.plot((x0, x1), (y0, y1), color="#777777", linestyle="--", linewidth=1)
    ]
    handles[0].set_label(name)
    if picture.is_steps:
        ax.fill_between(
            picture.x,
            picture.low,
            picture.high,
            color=PALETTE[5],
            alpha=0.35,
            linewidth=0,
        )
        few = "o" if len(picture.x) < 3 else ""
        handles += ax.plot(
            picture.x, picture.y, color=PALETTE[0], linewidth=1.5, marker=few
        )
        handles[1].set_label("labels of the model")
    else:
        y = np.array(picture.y)
        reach = np.clip(np.stack([y - picture.low, np.array(picture.high) - y]), 0, None)
        bar = ax.errorbar(
            picture.x, y, yerr=reach, fmt="o", color=PALETTE[0], markersize=4, capsize=2
        )
        bar.set_label("labels of the model")
        handles.append(bar)
    (left, right), (low, high) = picture.limits
    beyond = 0.01 if picture.is_steps else 0.02
    ax.set_xlim(left, right + beyond)
    ax.set_ylim(low, high + beyond)
    ax.grid(color="#E5E5E5", linewidth=0.6)
    draw_legend(ax, figure, handles)


def draw_tradeoff(picture: Tradeoff, ax: Axes, figure: Figure | None) -> None:
    """Draw points with intervals and names, such as accuracy against time."""
    handles: list[Any] = []
    for kind, series in enumerate(picture.series):
        own = [i for i, each in enumerate(picture.kinds) if each == kind]
        for i in own:
            x = picture.x[i]
            ends = (picture.low[i], picture.high[i])
            ax.plot((x, x), ends, color=PALETTE[kind], linewidth=1.2, zorder=2)
        (points,) = ax.plot(
            [picture.x[i] for i in own],
            [picture.y[i] for i in own],
            linestyle="",
            marker=MARKERS[kind],
            color=PALETTE[kind],
            label=series,
        )
        handles.append(points)
    for x, y, name in zip(picture.x, picture.y, picture.names, strict=True):
        shown = wrapped(name)
        ax.annotate(
            shown, (x, y), (5, 0), textcoords="offset points", va="center", fontsize=9
        )
    across, up = picture.limits
    ax.set_xlim(across)
    ax.set_ylim(up)
    ax.grid(color="#E5E5E5", linewidth=0.6)
    if len(handles) > 1:
        draw_legend(ax, figure, handles)


def draw_scatter(picture: Scatter, ax: Axes) -> None:
    """Draw points whose area shows their size, and horizontal lines."""
    smallest = 4.0  # points, the unit of lengths of print
    areas = [(smallest * size) ** 2 for size in picture.sizes]
    ax.scatter(picture.x, picture.y, s=areas, color=PALETTE[0], alpha=0.5, linewidth=0)
    for i, (height, name) in enumerate(picture.lines):
        ax.axhline(height, color="#555555", linestyle="--" if i else "-", linewidth=1)
        ax.annotate(
            name,
            (1, height),
            xycoords=("axes fraction", "data"),
            xytext=(-2, 2),
            textcoords="offset points",
            horizontalalignment="right",
            fontsize="small",
        )
    ax.margins(0.08)
    ax.grid(color="#E5E5E5", linewidth=0.6)


def draw_timeline(picture: Timeline, ax: Axes, figure: Figure | None) -> None:
    """Draw the phases of each prompt in the course of a call."""
    from matplotlib.patches import Patch  # noqa: PLC0415 - optional
    from matplotlib.ticker import MaxNLocator  # noqa: PLC0415 - optional

    n = len(picture.end_s)
    edges = np.arange(n + 1) - 0.5
    zeros = np.zeros(n)
    waited, first, end = (
        np.array(each) for each in (picture.waited_s, picture.first_s, picture.end_s)
    )
    bounds = ((zeros, waited), (waited, first), (first, end))
    handles = []
    for (start, stop), color, name in zip(bounds, PHASE_COLORS, PHASES, strict=True):
        # One shape for all prompts keeps the file small with 20,000 prompts.
        ax.fill_betweenx(
            edges,
            np.append(start, start[-1]),
            np.append(stop, stop[-1]),
            step="post",
            color=color,
            linewidth=0,
        )
        handles.append(Patch(color=color, label=name))
    ax.set_ylim(n - 0.5, -0.5)
    ax.set_xlim(0, float(end.max()) * 1.01 or 1.0)
    ax.yaxis.set_major_locator(MaxNLocator(integer=True))
    draw_legend(ax, figure, handles)
