"""Writes reports for Word and LibreOffice with python-docx, which is optional.

The document has the sections of the page: their HTML is read, and each element becomes a
paragraph, a table or a picture.
"""

from __future__ import annotations

import io
import re
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from llamaherd.coding.plots import drawing
from llamaherd.coding.reports.page import Figures, sections_of
from llamaherd.engine.core import phrases
from llamaherd.engine.core.words import call

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from docx.document import Document
    from docx.table import Table

    from llamaherd.coding.plots.description import Plot
    from llamaherd.coding.reports.report_data import Contents

_WIDTH = 6.3  # inches between the margins
_NARROW = 4.6
_MARGIN = 0.98
_FACTS = 2.0  # inches of the first column of facts
# Characters that XML 1.0 does not allow.
_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_CATEGORY = "Report of llamaherd"
MISSING = (
    "documents need python-docx, which is not installed: "
    f"{phrases.install_command('docx')}"
)


def document_of(contents: Contents) -> bytes:
    """Return the bytes of a .docx file with the report."""
    try:
        import docx  # optional
        from docx.shared import Inches  # optional
    except ImportError as error:
        raise ImportError(MISSING) from error
    document = docx.Document()
    for section in document.sections:
        section.left_margin = section.right_margin = Inches(_MARGIN)
    pictures: list[bytes] = []

    def image(plot: Plot, n: int, description: str) -> Markup:
        pictures.append(drawing.png_of(plot))
        return Markup('<img id="{}" alt="{}">').format(n, description)

    figures = Figures(image)
    sections = sections_of(contents, figures)
    title = _clean(contents["title"])
    document.core_properties.title = title[:255]
    document.core_properties.author = ""
    document.core_properties.category = _CATEGORY
    document.core_properties.revision = 1  # programs count it up when people save
    document.add_heading(title, 0)
    document.add_paragraph(_clean(sections.lead.unescape()))
    if figures.missing:
        document.add_paragraph(figures.missing)
    writer = _Writer(document, pictures)
    for _, heading, content in sections.parts:
        document.add_heading(_clean(heading), 1)
        writer.feed(content)
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
        import docx  # optional

        properties = docx.Document(str(path)).core_properties
    except Exception:  # noqa: BLE001 - a file of any kind
        return False
    is_document = properties.category == _CATEGORY and properties.revision == 1
    return is_document and not properties.last_modified_by


class _Writer(HTMLParser):
    """Parser of sections that adds each element, and its PNG, to a document."""

    def __init__(self, document: Document, pictures: list[bytes]) -> None:
        super().__init__()
        self._document, self._pictures = document, pictures
        self._runs: list[tuple[str, bool]] = []  # text, and True for marked text
        self._is_marked = False
        self._style = ""
        self._rows: list[list[str]] = []
        self._right: set[int] = set()
        self._has_head = False
        self._is_narrow = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        if tag in {"p", "h3", "pre", "caption", "th", "td"}:
            self._runs, self._style = [], attributes.get("class", "")
        if tag == "mark":
            self._is_marked = True
        elif tag == "table":
            self._rows, self._right, self._has_head = [], set(), False
        elif tag == "tr":
            self._rows.append([])
        elif tag in {"th", "td"} and self._style == "number":
            self._right.add(len(self._rows[-1]))
        elif tag == "thead":
            self._has_head = True
        elif tag == "figure":
            self._is_narrow = attributes.get("class") == "narrow"
        elif tag == "img":
            self._add_picture(
                self._pictures[int(attributes["id"]) - 1], attributes["alt"]
            )

    def handle_data(self, data: str) -> None:
        self._runs.append((data, self._is_marked))

    def handle_endtag(self, tag: str) -> None:
        text = _clean("".join(text for text, _ in self._runs))
        if tag == "mark":
            self._is_marked = False
        elif tag in {"th", "td"}:
            self._rows[-1].append(text)
        elif tag == "h3":
            self._document.add_heading(text, 2)
        elif tag == "caption":
            self._document.add_paragraph(text, style="Caption")
        elif tag == "p" and self._style == "note":
            self._document.add_paragraph(text, style="Intense Quote")
        elif tag == "p" and self._style == "marked":
            self._add_runs("", None)
        elif tag == "p":
            self._document.add_paragraph(text.strip())
        elif tag == "pre":
            self._add_runs("Courier New", 8.5)
        elif tag == "table" and self._rows:
            self._add_table()

    def _add_runs(self, font: str, size: float | None) -> None:
        """Add a paragraph with its marked parts in bold."""
        from docx.shared import Pt  # optional

        paragraph = self._document.add_paragraph()
        for text, is_marked in self._runs:
            run = paragraph.add_run(_clean(text))
            if font and size is not None:
                run.font.name, run.font.size = font, Pt(size)
            run.bold = is_marked

    def _add_picture(self, png: bytes, description: str) -> None:
        from docx.shared import Inches  # optional

        width = Inches(_NARROW if self._is_narrow else _WIDTH)
        shape = self._document.add_picture(io.BytesIO(png), width=width)
        shape._inline.docPr.set("descr", _clean(description))  # noqa: SLF001 - no other way

    def _add_table(self) -> None:
        from docx.enum.text import WD_ALIGN_PARAGRAPH  # optional
        from docx.shared import Pt  # optional

        rows = self._rows
        table = self._document.add_table(rows=len(rows), cols=len(rows[0]))
        table.style = "Light List Accent 1" if self._has_head else "Table Grid"
        if self._has_head:
            _repeat(table.rows[0])
        for table_row, row in zip(table.rows, rows, strict=True):
            for i, (cell, text) in enumerate(zip(table_row.cells, row, strict=True)):
                paragraph = cell.paragraphs[0]
                paragraph.paragraph_format.space_after = Pt(2)
                paragraph.add_run(text).font.size = Pt(9)
                if i in self._right:
                    paragraph.alignment = WD_ALIGN_PARAGRAPH.RIGHT
        _size(table, rows, is_facts=not self._has_head)
        self._document.add_paragraph()


def _repeat(row: Any) -> None:  # row of python-docx
    """Repeat a table's row at the top of each page."""
    from docx.oxml import OxmlElement  # optional

    row._tr.get_or_add_trPr().append(OxmlElement("w:tblHeader"))  # noqa: SLF001


def _size(table: Table, rows: list[list[str]], *, is_facts: bool) -> None:
    """Set the widths of columns by the longest text in each column."""
    from docx.shared import Inches  # optional

    table.autofit = False
    widths = [_FACTS, _WIDTH - _FACTS] if is_facts else list(_shares(rows))
    for column, width in zip(table.columns, widths, strict=True):
        for cell in column.cells:
            cell.width = Inches(width)


def _shares(rows: list[list[str]]) -> Iterator[float]:
    """Yield the width of each column in inches, by the column's longest text."""
    longest = [min(max(map(len, column)), 45) + 4 for column in zip(*rows, strict=True)]
    yield from (_WIDTH * length / sum(longest) for length in longest)


def _clean(text: object) -> str:
    """Return a text without characters that XML does not allow."""
    return _FORBIDDEN.sub("\ufffd", str(text))
