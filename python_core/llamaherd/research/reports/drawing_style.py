"""Style, colours and parts shared by all drawings."""

from __future__ import annotations

import textwrap
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from llamaherd.core import installing

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


# Okabe and Ito, "Color Universal Design", 2008, without yellow, which is too light
# for lines on white.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#E69F00", "#CC79A7", "#56B4E9", "#000000")


MARKERS = ("o", "s", "^", "D", "v", "P", "X")


# One hue from dark to light, also distinguishable in grey.
SHADES = ("#08306B", "#3787C0", "#9AC8E1", "#DBE9F6")


# Shades of shares from 0 to 1, as in R; black or white text is readable on each.
SHARES = ("#F7FBFF", "#6BAED6", "#154E86")


PHASE_COLORS = ("#C8C8C8", "#E69F00", "#0072B2")  # phases: waiting, reading, writing


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


def resolve_backend() -> None:
    """Let pyplot choose its backend now, outside of `style`.

    The backend of notebooks makes pyplot interactive when it is chosen. Within `style`
    this setting would be undone at its end, and no later figure would be shown.

    Raises:
        ImportError: matplotlib is not installed.
    """
    try:
        import matplotlib.pyplot as plt  # noqa: PLC0415 - optional
    except ImportError as error:
        raise ImportError(MISSING) from error
    plt.draw_if_interactive()  # type: ignore[no-untyped-call] # it needs the backend


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


def wrapped(name: str) -> str:
    """Wrap a row's name to a few lines; the name may contain any characters."""
    clean = "".join(c if c.isprintable() else " " for c in name).strip() or " "
    lines = textwrap.wrap(clean, _NAME_WIDTH) or [" "]
    if len(lines) > _NAME_LINES:
        lines = lines[:_NAME_LINES]
        lines[-1] = lines[-1][: _NAME_WIDTH - 3] + "..."
    return "\n".join(lines)


def name_rows(ax: Axes, names: Sequence[str]) -> None:
    """Put names on the vertical axis, from top to bottom."""
    ax.set_yticks(range(len(names)), [wrapped(name) for name in names])
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.tick_params(axis="y", length=0)


def draw_legend(
    ax: Axes, figure: Figure | None, handles: list[Any], title: str | None = None
) -> None:
    """Draw the legend; in a figure of this package it is below the plot."""
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
