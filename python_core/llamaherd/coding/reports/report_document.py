"""Writes reports for Word and LibreOffice with python-docx, which is optional."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING, Any

import jinja2
from markupsafe import Markup

from llamaherd.coding.plots import drawing
from llamaherd.coding.reports import report_blocks, report_parts
from llamaherd.coding.reports.report_data import to_json
from llamaherd.engine.core import phrases
from llamaherd.engine.core.words import call

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from docx.document import Document
    from docx.table import Table

    from llamaherd.coding.plots.description import Plot
    from llamaherd.coding.reports.report_data import Contents

    Block = dict[str, Any]

_WIDTH = 6.3  # inches between the margins
_NARROW = 4.6
_MARGIN = 0.98
_FACTS = 2.0  # inches of the first column of facts
# Characters that XML 1.0 does not allow.
_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_CATEGORY = "Report of llamaherd"
MISSING = f"documents need python-docx, which is not installed: {phrases.install_command('docx')}"


def document_of(contents: Contents) -> bytes:
    """Return the bytes of a .docx file with the report."""
    try:
        import docx  # noqa: PLC0415 - optional
        from docx.shared import Inches  # noqa: PLC0415 - optional
    except ImportError as error:
        raise ImportError(MISSING) from error
    document = docx.Document()
    for section in document.sections:
        section.left_margin = section.right_margin = Inches(_MARGIN)
    drawn = report_blocks.Drawn(_png)
    parts = report_parts.parts_of(contents, drawn.block)
    document.core_properties.title = _clean(contents["title"])[:255]
    document.core_properties.author = ""
    document.core_properties.category = _CATEGORY
    document.core_properties.revision = 1  # programs count it up when people save
    document.add_heading(_clean(contents["title"]), 0)
    document.add_paragraph(_clean(report_parts.lead_of(contents)))
    if drawn.missing:
        document.add_paragraph(drawn.missing)
    for part in parts:
        document.add_heading(_clean(part["title"]), 1)
        for block in part["blocks"]:
            _ADDED[block["kind"]](document, block)
    document.add_paragraph(
        f"Written by llamaherd on {contents['created']}. {call('report')} with a path "
        f"that ends with .html or .json also stores what {call('reproduce')} needs."
    )
    out = io.BytesIO()
    document.save(out)
    return out.getvalue()


def is_unedited(path: Path) -> bool:
    """Return whether a file is a document of this module that nobody has saved since."""
    try:
        import docx  # noqa: PLC0415 - optional

        found = docx.Document(str(path)).core_properties
    except Exception:  # noqa: BLE001 - a file of any kind
        return False
    is_own = found.category == _CATEGORY and found.revision == 1
    return is_own and not found.last_modified_by


def _png(plot: Plot, n: int, description: str) -> Block:  # noqa: ARG001 - no number
    return {"png": drawing.png_of(plot), "alt": description}


def _text(document: Document, block: Block) -> None:
    document.add_paragraph(_clean(block["text"]))


def _note(document: Document, block: Block) -> None:
    document.add_paragraph(_clean(block["text"]), style="Intense Quote")


def _heading(document: Document, block: Block) -> None:
    document.add_heading(_clean(block["text"]), 2)


def _picture(document: Document, block: Block) -> None:
    from docx.shared import Inches  # noqa: PLC0415 - optional

    width = Inches(_NARROW if block["narrow"] else _WIDTH)
    shape = document.add_picture(io.BytesIO(block["png"]), width=width)
    shape._inline.docPr.set("descr", _clean(block["alt"]))  # noqa: SLF001 - no other way


def _pre(document: Document, block: Block) -> None:
    from docx.shared import Pt  # noqa: PLC0415 - optional

    if block["title"]:
        document.add_heading(_clean(block["title"]), 2)
    paragraph = document.add_paragraph()
    for name in ("before", "marked", "after"):
        if not block[name]:
            continue
        run = paragraph.add_run(_clean(block[name]))
        run.font.name, run.font.size = "Courier New", Pt(8.5)
        run.bold = name == "marked"


def _table(document: Document, block: Block) -> None:
    if block["caption"]:
        document.add_paragraph(_clean(block["caption"]), style="Caption")
    rows = [block["head"], *block["rows"]] if block["head"] else block["rows"]
    if not rows:
        return
    table = document.add_table(rows=len(rows), cols=len(rows[0]))
    table.style = "Light List Accent 1" if block["head"] else "Table Grid"
    if block["head"]:
        _repeat(table.rows[0])
    for made, row in zip(table.rows, rows, strict=True):
        _fill(made, row, block["numbers"])
    _size(table, rows, is_facts=not block["head"])
    document.add_paragraph()


def _fill(made: Any, row: list[str], numbers: set[int]) -> None:  # noqa: ANN401
    from docx.enum.text import WD_ALIGN_PARAGRAPH  # noqa: PLC0415 - optional
    from docx.shared import Pt  # noqa: PLC0415 - optional

    for i, (cell, text) in enumerate(zip(made.cells, row, strict=True)):
        paragraph = cell.paragraphs[0]
        paragraph.paragraph_format.space_after = Pt(2)
        run = paragraph.add_run(_clean(text))
        run.font.size = Pt(9)
        if i in numbers:
            paragraph.alignment = WD_ALIGN_PARAGRAPH.RIGHT


def _repeat(row: Any) -> None:  # noqa: ANN401 - row of python-docx
    """Repeat a table's row at the top of each page."""
    from docx.oxml import OxmlElement  # noqa: PLC0415 - optional

    row._tr.get_or_add_trPr().append(OxmlElement("w:tblHeader"))  # noqa: SLF001


def _size(table: Table, rows: list[list[str]], *, is_facts: bool) -> None:
    """Set the widths of columns by the longest text in each column."""
    from docx.shared import Inches  # noqa: PLC0415 - optional

    table.autofit = False
    if is_facts:
        widths = [_FACTS, *[(_WIDTH - _FACTS) / (len(rows[0]) - 1)] * (len(rows[0]) - 1)]
    else:
        widths = list(_shares(rows))
    for column, width in zip(table.columns, widths, strict=True):
        for cell in column.cells:
            cell.width = Inches(width)


def _shares(rows: list[list[str]]) -> Iterator[float]:
    """Yield the width of each column in inches, by the column's longest text."""
    longest = [min(max(map(len, each)), 45) + 4 for each in zip(*rows, strict=True)]
    yield from (_WIDTH * each / sum(longest) for each in longest)


def _clean(text: object) -> str:
    """Return a text without characters that XML does not allow."""
    return _FORBIDDEN.sub("\ufffd", str(text))


_ADDED: dict[str, Callable[[Document, Block], None]] = {
    "text": _text,
    "note": _note,
    "heading": _heading,
    "picture": _picture,
    "pre": _pre,
    "table": _table,
    "facts": _table,
}


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
    loader=jinja2.PackageLoader("llamaherd.coding.reports"),
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
