"""Renders the page of a report: tables, plots, and their JSON data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jinja2
from markupsafe import Markup

from llamaherd.research.reports import drawing, drawing_style, report_blocks, report_parts
from llamaherd.research.reports.report_data import to_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from llamaherd.research.reports.report_data import Contents
    from llamaherd.research.reports.shapes import Picture

JSON_ID = "llamaherd-report"
# Characters that could end a script element or confuse an HTML parser, with equivalent
# JSON escapes.
_ESCAPED: dict[str, str | int | None] = {
    "<": "\\u003c",
    ">": "\\u003e",
    "&": "\\u0026",
    "\u2028": "\\u2028",
}
_ESCAPED["\u2029"] = "\\u2029"
_TEMPLATES = jinja2.Environment(
    loader=jinja2.PackageLoader("llamaherd.research.reports"),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def page_of(contents: Contents) -> str:
    """Render the page, which also contains its data as JSON."""
    drawn = Drawn()
    parts = report_parts.parts_of(contents, drawn.block)
    return _TEMPLATES.get_template("report.html.j2").render(
        title=report_blocks.shown(contents["title"]),
        lead=report_parts.lead_of(contents),
        version=contents["run"]["versions"].get("llamaherd", ""),
        created=contents["created"],
        parts=parts,
        plots_missing=drawn.missing,
        json=embedded(contents),
    )


def embedded(contents: Contents) -> Markup:
    """Return JSON that is safe inside a script element."""
    text = to_json(contents).translate(str.maketrans(_ESCAPED))
    return Markup(text)  # noqa: S704 - all markup is escaped


class Drawn:
    """Renderer of a page's pictures, if matplotlib is installed.

    Attributes:
        missing: Message if matplotlib is not installed; otherwise "".
    """

    def __init__(self) -> None:
        self.missing = ""
        self._n = 0

    def block(
        self, make: Callable[[], Picture], *, narrow: bool = False
    ) -> dict[str, Any] | None:
        """Render a picture as a block of the page; None without matplotlib.

        Args:
            make: Function that returns the picture.
            narrow: True for a picture narrower than the page.
        """
        if self.missing:
            return None
        self._n += 1
        picture = make()
        try:
            svg = drawing.svg_of(picture, f"plot{self._n}")
        except ImportError:
            self.missing = f"There are no plots in this report: {drawing_style.MISSING}"
            return None
        title = Markup.escape(f"{picture.words.title}. {picture.words.alt}")
        drawn = svg.replace("<svg", f'<svg aria-label="{title}"', 1)
        # matplotlib escapes texts in SVG.
        return {"kind": "picture", "svg": Markup(drawn), "narrow": narrow}  # noqa: S704
