"""Drawing of plot shapes with matplotlib, which is optional and imported late."""

from __future__ import annotations

import io
import math
import re
import textwrap
import warnings
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.core import installing
from llamaherd.research.reports.shapes import (
    PHASES,
    Bars,
    Curve,
    Forest,
    Matrix,
    Panels,
    Scatter,
    Timeline,
    Tradeoff,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from llamaherd.research.reports.shapes import Picture, Point

# Okabe and Ito, "Color Universal Design", 2008, without yellow, which is too light
# for lines on white.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#E69F00", "#CC79A7", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
# One hue from dark to light, also distinguishable in grey.
SHADES = ("#08306B", "#3787C0", "#9AC8E1", "#DBE9F6")
# Shades of shares from 0 to 1, as in R; black or white text is readable on each.
SHARES = ("#F7FBFF", "#6BAED6", "#154E86")
WAITED, READ, WROTE = "#C8C8C8", "#E69F00", "#0072B2"
WIDTH = 6.5  # inches, width of a page's text
DPI = 300
_STYLE: dict[Any, Any] = {
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "legend.fontsize": 9,
    "legend.frameon": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "llamaherd",
    "text.parse_math": False,  # labels may contain dollar signs
    "axes.unicode_minus": True,
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
_NAME_WIDTH = 26  # characters per line of a row's name
_NAME_LINES = 3
MISSING = f"plots need matplotlib, which is not installed: {installing.command('plot')}"


@contextmanager
def style() -> Iterator[None]:
    """Context manager that applies the style of all drawings.

    Raises:
        ImportError: matplotlib is not installed.
    """
    try:
        import matplotlib as mpl  # noqa: PLC0415 - optional
        from matplotlib.font_manager import get_font_names  # noqa: PLC0415 - optional
    except ImportError as error:
        raise ImportError(MISSING) from error
    there = set(get_font_names())
    fonts = ["DejaVu Sans", *(name for name in _FONTS if name in there)]
    with mpl.rc_context({**_STYLE, "font.family": fonts}), warnings.catch_warnings():
        # A viewer of the SVG may have fonts with the missing glyphs.
        warnings.filterwarnings("ignore", "Glyph .* missing", UserWarning)
        yield


def draw(picture: Picture, ax: Axes | None = None) -> Axes:
    """Draw a picture.

    Args:
        picture: Shape of the plot.
        ax: Axes to draw on; None for a new pyplot figure with a size and resolution for
            print.

    Raises:
        ImportError: matplotlib is not installed.
    """
    with style():
        if ax is not None:
            _draw_in(picture, ax, None)
            return ax
        import matplotlib.pyplot as plt  # noqa: PLC0415 - optional

        figure = plt.figure(figsize=_size(picture), dpi=DPI, layout="constrained")
        return _draw_alone(picture, figure)


def svg_of(picture: Picture, name: str) -> str:
    """Draw a picture as an SVG element for a page.

    Args:
        picture: Shape of the plot.
        name: Name of the picture, unique on the page.

    Raises:
        ImportError: matplotlib is not installed.
    """
    with style():
        from matplotlib.figure import Figure  # noqa: PLC0415 - optional

        figure = Figure(figsize=_size(picture), layout="constrained")
        _draw_alone(picture, figure)
        out = io.StringIO()
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    svg = out.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    # matplotlib's ids are unique only within a figure.
    svg = re.sub(r'\bid="', f'id="{name}-', svg)
    svg = re.sub(r'(xlink:href="#|url\(#)', rf"\g<1>{name}-", svg)
    svg = re.sub(r'width="[\d.]+pt" height="[\d.]+pt"', "", svg, count=1)
    return svg.replace("<svg", '<svg role="img"', 1).strip()


def png_of(picture: Picture) -> bytes:
    """Draw a picture as PNG, for documents.

    Raises:
        ImportError: matplotlib is not installed.
    """
    with style():
        from matplotlib.figure import Figure  # noqa: PLC0415 - optional

        figure = Figure(figsize=_size(picture), dpi=DPI // 2, layout="constrained")
        _draw_alone(picture, figure)
        out = io.BytesIO()
        figure.savefig(out, format="png", metadata={"Software": None})
    return out.getvalue()


def _draw_alone(picture: Picture, figure: Figure) -> Axes:
    ax = figure.add_subplot()
    _draw_in(picture, ax, figure)
    return ax


def _size(picture: Picture) -> tuple[float, float]:
    """Return the size in inches, which grows with the number of rows."""
    if isinstance(picture, (Bars, Forest)):
        n_lines = sum(row.count("\n") + 1 for row in map(wrapped, picture.rows))
        n_series = len(picture.series) if isinstance(picture, Forest) else 1
        per_row = max(0.14 * n_series, 0.1)
        high = 1.2 + 0.17 * n_lines + per_row * len(picture.rows)
        if isinstance(picture, Forest):
            high += 0.18 * max(0, n_series - 3)
        return WIDTH, min(max(high, 2.0), 30.0)
    if isinstance(picture, Panels):
        per_panel = 0.55 + 0.19 * len(picture.series)
        return WIDTH, min(0.9 + per_panel * len(picture.panels), 30.0)
    if isinstance(picture, Matrix):
        return WIDTH, min(max(2.7 + 0.38 * len(picture.rows), 3.6), 30.0)
    if isinstance(picture, Curve):
        return WIDTH * 0.75, 3.9
    return WIDTH, 3.6


def _draw_in(picture: Picture, ax: Axes, figure: Figure | None) -> None:
    if isinstance(picture, Bars):
        _bars(picture, ax, figure)
    elif isinstance(picture, Forest):
        _forest(picture, ax, figure)
    elif isinstance(picture, Panels):
        _panels(picture, ax)
    elif isinstance(picture, Matrix):
        _matrix(picture, ax, figure)
    elif isinstance(picture, Scatter):
        _scatter(picture, ax)
    elif isinstance(picture, Curve):
        _curve(picture, ax, figure)
    elif isinstance(picture, Tradeoff):
        _tradeoff(picture, ax, figure)
    else:
        _timeline(picture, ax, figure)
    words = picture.words
    ax.set_title(textwrap.fill(words.title, 52), loc="left")
    ax.set_xlabel(textwrap.fill(words.x, 70))
    ax.set_ylabel(textwrap.fill(words.y, 30))


def wrapped(name: str) -> str:
    """Wrap a row's name to a few lines; the name may contain any characters."""
    clean = "".join(c if c.isprintable() else " " for c in name).strip() or " "
    lines = textwrap.wrap(clean, _NAME_WIDTH) or [" "]
    if len(lines) > _NAME_LINES:
        lines = lines[:_NAME_LINES]
        lines[-1] = lines[-1][: _NAME_WIDTH - 3] + "..."
    return "\n".join(lines)


def _rows(ax: Axes, names: Sequence[str]) -> None:
    """Put names on the vertical axis, from top to bottom."""
    ax.set_yticks(range(len(names)), [wrapped(name) for name in names])
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.tick_params(axis="y", length=0)


def _legend(
    ax: Axes, figure: Figure | None, handles: list[Any], title: str | None = None
) -> None:
    """Draw the legend; in a figure of our own below the plot, where it hides no data."""
    # matplotlib omits names that begin with "_".
    names = [textwrap.shorten(str(h.get_label()), 84).lstrip("_") for h in handles]
    wide = max(map(len, names), default=0)
    n_columns = max(1, min(len(names), 82 // (wide + 6)))
    if figure is None:
        ax.legend(handles, names, title=title, loc="best")
    else:
        figure.legend(
            handles, names, title=title, loc="outside lower center", ncols=n_columns
        )


def _bars(picture: Bars, ax: Axes, figure: Figure | None) -> None:
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
    _rows(ax, picture.rows)
    if not single:
        _legend(ax, figure, handles, picture.legend)


def _forest(picture: Forest, ax: Axes, figure: Figure | None) -> None:
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
    _rows(ax, picture.rows)
    if len(handles) > 1:
        _legend(ax, figure, handles)


def _panels(picture: Panels, ax: Axes) -> None:
    """Draw small axes within a large one that has only the title and labels."""
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
        _rows(inner, picture.series)
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


def _matrix(picture: Matrix, ax: Axes, figure: Figure | None) -> None:
    from matplotlib.colors import LinearSegmentedColormap  # noqa: PLC0415 - optional
    from matplotlib.patches import Patch  # noqa: PLC0415 - optional

    counts = np.array(picture.counts, dtype=float).reshape(
        len(picture.rows), len(picture.columns)
    )
    shades = LinearSegmentedColormap.from_list("shares", SHARES)
    shares = np.array(picture.shares).reshape(counts.shape)
    # Vector shapes instead of an image, which a page may not load.
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
            label=f"{step:.0%}",
        )
        for step in (0.0, 0.25, 0.5, 0.75, 1.0)
    ]
    _legend(ax, figure, handles, picture.legend)
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


def _curve(picture: Curve, ax: Axes, figure: Figure | None) -> None:
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
    _legend(ax, figure, handles)


def _tradeoff(picture: Tradeoff, ax: Axes, figure: Figure | None) -> None:
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
        _legend(ax, figure, handles)


def _scatter(picture: Scatter, ax: Axes) -> None:
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


def _timeline(picture: Timeline, ax: Axes, figure: Figure | None) -> None:
    from matplotlib.patches import Patch  # noqa: PLC0415 - optional
    from matplotlib.ticker import MaxNLocator  # noqa: PLC0415 - optional

    n = len(picture.end_s)
    edges = np.arange(n + 1) - 0.5
    zeros = np.zeros(n)
    waited, first, end = (
        np.array(each) for each in (picture.waited_s, picture.first_s, picture.end_s)
    )
    bounds = ((zeros, waited, WAITED), (waited, first, READ), (first, end, WROTE))
    handles = []
    for (start, stop, color), name in zip(bounds, PHASES, strict=True):
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
    _legend(ax, figure, handles)
