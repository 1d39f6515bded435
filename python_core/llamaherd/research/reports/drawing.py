"""Drawing of plot shapes with matplotlib, an optional package imported when needed."""

from __future__ import annotations

import io
import re
import textwrap
from typing import TYPE_CHECKING

from llamaherd.research.reports.drawing_planes import (
    draw_curve,
    draw_scatter,
    draw_timeline,
    draw_tradeoff,
)
from llamaherd.research.reports.drawing_rows import (
    draw_bars,
    draw_forest,
    draw_matrix,
    draw_panels,
)
from llamaherd.research.reports.drawing_style import (
    DPI,
    WIDTH,
    resolve_backend,
    style,
    wrapped,
)
from llamaherd.research.reports.shapes import (
    Bars,
    Curve,
    Forest,
    Matrix,
    Panels,
    Scatter,
    Tradeoff,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from llamaherd.research.reports.shapes import Picture


def draw(picture: Picture, ax: Axes | None = None) -> Axes:
    """Draw a picture.

    Args:
        picture: Shape of the plot.
        ax: Axes to draw on; None for a new pyplot figure with a size and resolution for
            print.

    Raises:
        ImportError: matplotlib is not installed.
    """
    if ax is None:
        resolve_backend()
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
        draw_bars(picture, ax, figure)
    elif isinstance(picture, Forest):
        draw_forest(picture, ax, figure)
    elif isinstance(picture, Panels):
        draw_panels(picture, ax)
    elif isinstance(picture, Matrix):
        draw_matrix(picture, ax, figure)
    elif isinstance(picture, Scatter):
        draw_scatter(picture, ax)
    elif isinstance(picture, Curve):
        draw_curve(picture, ax, figure)
    elif isinstance(picture, Tradeoff):
        draw_tradeoff(picture, ax, figure)
    else:
        draw_timeline(picture, ax, figure)
    words = picture.words
    ax.set_title(textwrap.fill(words.title, 52), loc="left")
    ax.set_xlabel(textwrap.fill(words.x, 70))
    ax.set_ylabel(textwrap.fill(words.y, 30))
