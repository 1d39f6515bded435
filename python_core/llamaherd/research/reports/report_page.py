"""Renders the page of a report: tables, plots, and their JSON data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jinja2
from markupsafe import Markup

from llamaherd.research.plots import drawing
from llamaherd.research.reports import report_blocks, report_parts
from llamaherd.research.reports.report_data import to_json

if TYPE_CHECKING:
    from llamaherd.research.plots.description import Plot
    from llamaherd.research.reports.report_data import Contents

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
    drawn = report_blocks.Drawn(_svg)
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


def _svg(plot: Plot, n: int, description: str) -> dict[str, Any]:
    """Return a plot as an SVG element, whose texts matplotlib escapes."""
    svg = drawing.svg_of(plot, f"plot{n}")
    label = Markup.escape(description)
    labelled = svg.replace("<svg", f'<svg aria-label="{label}"', 1)
    return {"svg": Markup(labelled)}  # noqa: S704 - all texts are escaped
