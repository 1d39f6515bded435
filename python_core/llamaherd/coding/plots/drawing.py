"""Drawing of plots with matplotlib, an optional package imported when needed."""

from __future__ import annotations

import io
import re
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.coding.plots import fitting
from llamaherd.coding.plots.description import (
    NEUTRAL,
    Band,
    Line,
    Mark,
    Plot,
    Points,
    Rects,
    Series,
    Texts,
)
from llamaherd.engine.core import phrases

if TYPE_CHECKING:
    from collections.abc import Iterator

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from llamaherd.coding.plots.fitting import FittedTexts

MISSING = (
    f"plots need matplotlib, which is not installed: {phrases.install_command('plot')}"
)
_DPI = 300
_EDGE = "#808080"
_STEPS = (1, 2, 2.5, 5, 10)  # distances of ticks
_REFERENCE = "#777777"
_MARKERS = {"circle": "o", "square": "s", "triangle": "^", "diamond": "D", "down": "v"}
_STYLE: dict[Any, Any] = {
    "font.size": fitting.AXIS,
    "axes.titlesize": fitting.TITLE,
    "axes.titleweight": "bold",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.unicode_minus": True,
    "xtick.labelsize": fitting.SMALL,
    "ytick.labelsize": fitting.SMALL,
    "legend.fontsize": fitting.SMALL,
    "legend.frameon": False,
    "grid.color": "#E5E5E5",
    "grid.linewidth": 0.6,
    "svg.fonttype": "none",
    "svg.hashsalt": "llamaherd",
    "text.parse_math": False,  # labels may contain dollar signs
}
# Fallback fonts, if installed, for characters that are missing in the first font.
_FONTS = (
    "Noto Sans CJK SC",
    "Noto Sans CJK JP",
    "Noto Sans Arabic",
    "Noto Sans Hebrew",
    "Noto Sans Devanagari",
    "PingFang SC",
    "Hiragino Sans",
    "Microsoft YaHei",
    "Arial Unicode MS",
)


def draw(plot: Plot, ax: Axes | None = None) -> Axes:
    """Draw a plot on axes, or on a new pyplot figure for print."""
    if ax is not None:
        with _style():
            _draw_in(plot, ax, _fitted_to(plot, ax), None)
        return ax
    _resolve_backend()
    with _style():
        import matplotlib.pyplot as plt  # optional

        fitted = fitting.fit(plot)
        size = (fitted.width, fitted.height)
        figure = plt.figure(figsize=size, dpi=_DPI, layout="constrained")
        return _draw_in(plot, figure.add_subplot(), fitted, figure)


def svg_of(plot: Plot, name: str) -> str:
    """Draw a plot as an SVG element for a page."""
    svg = _file_of(plot, "svg", {"Date": None, "Creator": None}).decode()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    # matplotlib's ids are unique only within a figure.
    svg = re.sub(r'\bid="', f'id="{name}-', svg)
    svg = re.sub(r'(xlink:href="#|url\(#)', rf"\g<1>{name}-", svg)
    svg = re.sub(r'width="[\d.]+pt" height="[\d.]+pt"', "", svg, count=1)
    return svg.replace("<svg", '<svg role="img"', 1).strip()


def png_of(plot: Plot) -> bytes:
    """Draw a plot as PNG, for documents."""
    return _file_of(plot, "png", {"Software": None})


def _file_of(plot: Plot, kind: str, metadata: dict[str, None]) -> bytes:
    with _style():
        from matplotlib.figure import Figure  # optional

        fitted = fitting.fit(plot)
        size = (fitted.width, fitted.height)
        figure = Figure(figsize=size, dpi=_DPI // 2, layout="constrained")
        _draw_in(plot, figure.add_subplot(), fitted, figure)
        out = io.BytesIO()
        figure.savefig(out, format=kind, metadata=metadata)
    return out.getvalue()


def _resolve_backend() -> None:
    """Let pyplot choose its backend now: that of notebooks makes pyplot interactive.

    `_style` would undo this at its end, and no later figure would be shown.
    """
    try:
        import matplotlib.pyplot as plt  # optional
    except ImportError as error:
        raise ImportError(MISSING) from error
    plt.draw_if_interactive()  # type: ignore[no-untyped-call] # it needs the backend


@contextmanager
def _style() -> Iterator[None]:
    """Context manager that applies the style of all drawings."""
    try:
        import matplotlib as mpl  # optional
        from matplotlib.font_manager import get_font_names  # optional
    except ImportError as error:
        raise ImportError(MISSING) from error
    installed = set(get_font_names())
    fonts = ["DejaVu Sans", *(name for name in _FONTS if name in installed)]
    with mpl.rc_context({**_STYLE, "font.family": fonts}), warnings.catch_warnings():
        # A viewer of the SVG may have fonts with the missing glyphs.
        warnings.filterwarnings("ignore", "Glyph .* missing", UserWarning)
        yield


def _fitted_to(plot: Plot, ax: Axes) -> FittedTexts:
    """Fit texts to the room of given axes, which includes their margins."""
    figure, place = ax.figure, ax.get_subplotspec()
    wide, high = figure.bbox.width / figure.dpi, figure.bbox.height / figure.dpi
    if place is not None:
        grid = place.get_gridspec()
        wide *= len(place.colspan) / grid.ncols
        high *= len(place.rowspan) / grid.nrows
    return fitting.fit(plot, wide, high)


def _draw_in(plot: Plot, ax: Axes, fitted: FittedTexts, figure: Figure | None) -> Axes:
    if plot.panels:
        _draw_panels(plot, ax, fitted)
    else:
        for mark in plot.marks:
            _draw_mark(ax, mark, plot.series, fitted, None)
        _set_axes(ax, plot, fitted)
    # The title begins at the left end of the axes, beside the names of rows.
    wide = fitted.axes_width if figure else ax.bbox.width / ax.figure.dpi
    ax.set_title(fitting.in_lines(plot.title, 10 * wide), loc="left")
    ax.set_xlabel(fitted.x)
    ax.set_ylabel(fitted.y)
    if fitted.legend:
        _draw_legend(plot.series, ax, fitted, figure)
    return ax


def _set_axes(ax: Axes, plot: Plot, fitted: FittedTexts) -> None:
    from matplotlib.ticker import MaxNLocator  # optional

    if plot.x.limits is not None:
        ax.set_xlim(plot.x.limits)
    elif fitted.right is not None:
        ax.set_xlim(0, fitted.right)
    if plot.y.limits is not None:
        ax.set_ylim(plot.y.limits)
    if fitted.columns:
        ax.set_xticks(range(len(fitted.columns)), fitted.columns)
        ax.tick_params(axis="x", length=0, labelsize=fitted.column_size * fitting.SMALL)
        for label in ax.get_xticklabels() if fitted.is_tilted else ():
            label.set(rotation=40, ha="right", va="center", rotation_mode="anchor")
    else:
        ax.xaxis.set_major_locator(MaxNLocator(fitted.n_ticks, steps=_STEPS))
        ax.grid(axis="x")
    if fitted.rows:
        _name_rows(ax, fitted)
    else:
        ax.yaxis.set_major_locator(MaxNLocator(6, steps=_STEPS, integer=plot.y.is_whole))
        ax.grid(axis="y", visible=not plot.y.is_whole)
    if fitted.columns and fitted.rows:
        ax.spines[:].set_visible(False)


def _name_rows(ax: Axes, fitted: FittedTexts) -> None:
    ax.set_yticks(range(len(fitted.rows)), fitted.rows)
    ax.tick_params(axis="y", length=0, labelsize=fitted.row_size * fitting.SMALL)


def _draw_panels(plot: Plot, ax: Axes, fitted: FittedTexts) -> None:
    """Draw small axes within large axes; the large axes have only title and labels."""
    from matplotlib.ticker import MaxNLocator  # optional

    ax.spines[:].set_visible(False)
    ax.set_xticks([])
    ax.set_yticks([])
    ax.xaxis.labelpad = 16
    n_columns = fitted.n_columns
    n_rows = -(-len(plot.panels) // n_columns)
    free = fitted.panel_words
    for i, title in enumerate(fitted.panels):
        row, column = divmod(i, n_columns)
        wide = 1.0 if n_columns == 1 else 0.92
        inner = ax.inset_axes(
            (
                column / n_columns + (1 - wide) / n_columns * (column > 0),
                1 - (row + 1 - free / 2) / n_rows,
                wide / n_columns,
                (1 - free) / n_rows,
            )
        )
        for mark in plot.marks:
            _draw_mark(inner, mark, plot.series, fitted, i)
        inner.set_ylim(plot.y.limits)
        inner.xaxis.set_major_locator(MaxNLocator(fitted.n_ticks, steps=_STEPS))
        inner.grid(axis="x")
        _name_rows(inner, fitted)
        inner.tick_params(labelleft=column == 0)
        inner.set_title(title, loc="left", fontsize=fitting.AXIS, pad=3)


def _draw_mark(
    ax: Axes, mark: Mark, series: Series, fitted: FittedTexts, panel: int | None
) -> None:
    if isinstance(mark, Points):
        _draw_points(ax, mark, series, panel)
    elif isinstance(mark, Rects):
        _draw_rects(ax, mark, series)
    elif isinstance(mark, Band):
        fill = ax.fill_between if mark.along == "y" else ax.fill_betweenx
        colour, alpha = series.colour(mark.series), 0.25 if mark.is_light else 1.0
        fill(mark.at, mark.low, mark.high, color=colour, alpha=alpha, linewidth=0)
    elif isinstance(mark, Line):
        if mark.panel is not None and mark.panel != panel:
            return
        is_reference = mark.series is None
        ax.plot(
            mark.x,
            mark.y,
            color=_REFERENCE if mark.series is None else series.colour(mark.series),
            linestyle="--" if mark.is_dashed else "-",
            linewidth=0.9 if is_reference else 1.5,
            zorder=1 if is_reference else 2,
        )
    else:
        _draw_texts(ax, mark, fitted)


def _draw_points(ax: Axes, mark: Points, series: Series, panel: int | None) -> None:
    chosen = np.array(mark.series, dtype=int)
    is_here = ~np.isnan(np.array(mark.x)) & ~np.isnan(np.array(mark.y))
    if panel is not None:
        is_here &= np.array(mark.panel) == panel
    x, y, low, high = (
        np.array(numbers, dtype=float)
        for numbers in (mark.x, mark.y, mark.low, mark.high)
    )
    values = x if mark.along == "x" else y
    reach = np.nan_to_num(np.clip(np.stack([values - low, high - values]), 0, None))
    for i in sorted(set(chosen[is_here].tolist())):
        in_series = is_here & (chosen == i)
        colour, marker = series.colour(i), _MARKERS[series.symbol(i)]
        if mark.size:
            areas = (4.0 * np.array(mark.size)[in_series]) ** 2
            ax.scatter(
                x[in_series], y[in_series], s=areas, color=colour, alpha=0.5, linewidth=0
            )
            continue
        has_intervals = not np.isnan(low[in_series]).all()
        ax.errorbar(
            x[in_series],
            y[in_series],
            **({f"{mark.along}err": reach[:, in_series]} if has_intervals else {}),
            fmt=marker,
            color=colour,
            markersize=5,
            markeredgecolor="white",
            markeredgewidth=0.5,
            elinewidth=1.3,
            capsize=2,
            zorder=3,
        )


def _draw_rects(ax: Axes, mark: Rects, series: Series) -> None:
    """Draw rectangles as one collection of shapes: a page may not load images."""
    from matplotlib.collections import PolyCollection  # optional

    x, x_end, y, y_end = (
        np.array(ends, dtype=float) for ends in (mark.x, mark.x_end, mark.y, mark.y_end)
    )
    corners = np.stack(
        [np.stack([x, x_end, x_end, x], axis=1), np.stack([y, y, y_end, y_end], axis=1)],
        axis=2,
    )
    is_drawn = x < x_end
    chosen = np.zeros(len(x), dtype=int) if mark.series is None else np.array(mark.series)
    colours = [series.colour(i) for i in chosen[is_drawn].tolist()]
    shapes = PolyCollection(
        list(corners[is_drawn]),
        facecolors=[NEUTRAL] if mark.series is None else colours,
        edgecolors="none" if mark.series is None else _EDGE,
        linewidths=0.4,
        zorder=1,
    )
    ax.add_collection(shapes)
    ax.autoscale_view()


def _draw_texts(ax: Axes, mark: Texts, fitted: FittedTexts) -> None:
    shift = {"left": (4, 0), "center": (0, 0), "right": (-2, 2)}[mark.align]
    size = fitting.SMALL * min(fitted.row_size, fitted.column_size)
    whites = mark.is_white or [False] * len(mark.text)
    for x, y, text, is_white in zip(mark.x, mark.y, mark.text, whites, strict=True):
        ax.annotate(
            text,
            (x, y),
            shift,
            textcoords="offset points",
            ha=mark.align,
            va="bottom" if mark.align == "right" else "center",
            fontsize=size,
            color="white" if is_white else "black",
        )


def _draw_legend(
    series: Series, ax: Axes, fitted: FittedTexts, figure: Figure | None
) -> None:
    """Draw the legend; in a figure of this package it is below the plot."""
    from matplotlib.lines import Line2D  # optional
    from matplotlib.patches import Patch  # optional

    handles: list[Any] = []
    for i in range(len(fitted.legend)):
        colour = series.colour(i)
        if series.is_area:
            handles.append(Patch(facecolor=colour, edgecolor=_EDGE, linewidth=0.4))
        else:
            marker = _MARKERS[series.symbol(i)]
            handles.append(Line2D([], [], color=colour, marker=marker, markersize=5))
    # matplotlib omits names that begin with "_".
    names = [name.lstrip("_") for name in fitted.legend]
    title = series.title or None
    if figure is None:
        ax.legend(handles, names, title=title, loc="best")
    else:
        figure.legend(
            handles,
            names,
            title=title,
            loc="outside lower center",
            ncols=fitted.legend_columns,
        )
