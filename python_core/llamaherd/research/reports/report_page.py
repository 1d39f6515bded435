"""A report as a page: tables, plots, and the JSON that it was made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jinja2
from markupsafe import Markup

from llamaherd.research.reports import drawing, report_parts
from llamaherd.research.reports.report_data import to_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from llamaherd.research.reports.report_data import Contents
    from llamaherd.research.reports.shapes import Picture

JSON_ID = "llamaherd-report"
# Within a script element these could end it, or begin what a reader of HTML takes for
# something else; as escapes JSON says the same.
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
    """The page, which holds all that it shows as JSON, too."""
    drawn = Drawn()
    parts = report_parts.parts_of(contents, drawn.block)
    return _TEMPLATES.get_template("report.html.j2").render(
        title=report_parts.shown(contents["title"]),
        lead=report_parts.lead_of(contents),
        version=contents["run"]["versions"].get("llamaherd", ""),
        created=contents["created"],
        parts=parts,
        plots_missing=drawn.missing,
        json=embedded(contents),
    )


def embedded(contents: Contents) -> Markup:
    """JSON for the inside of a script element."""
    text = to_json(contents).translate(str.maketrans(_ESCAPED))
    return Markup(text)  # noqa: S704 - nothing in it is markup any more


class Drawn:
    """Draws the pictures of a page, if matplotlib is there.

    Attributes:
        missing: What to tell if it is not; "" if it is.
    """

    def __init__(self) -> None:
        self.missing = ""
        self._n = 0

    def block(
        self, make: Callable[[], Picture], *, narrow: bool = False
    ) -> dict[str, Any] | None:
        """A picture as a part of the page; None without matplotlib.

        Args:
            make: Says what it shows.
            narrow: Whether it needs less than the page's width.
        """
        if self.missing:
            return None
        self._n += 1
        picture = make()
        try:
            svg = drawing.svg_of(picture, f"plot{self._n}")
        except ImportError:
            self.missing = f"There are no plots in this report: {drawing.MISSING}"
            return None
        title = Markup.escape(f"{picture.words.title}. {picture.words.alt}")
        drawn = svg.replace("<svg", f'<svg aria-label="{title}"', 1)
        # matplotlib escapes the texts that it writes.
        return {"kind": "picture", "svg": Markup(drawn), "narrow": narrow}  # noqa: S704
