"""Methods paragraphs for codings and reports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import llamaherd as lh
from llamaherd._r.boundary import boundary, form_of
from llamaherd._r.forms import Part, r_object, table_of, value, vector
from llamaherd._r.reports import report_contents
from llamaherd.coding.reports.methods import MethodsText, methods_of

if TYPE_CHECKING:
    from collections.abc import Mapping


@boundary
def methods_text(
    coded: Mapping[str, Any] | None, path: str | None, parts: Mapping[str, Any]
) -> MethodsText:
    """Return the methods paragraph for a coding or for a report.

    Args:
        coded: Coded texts as in `report`; None if `path` is given.
        path: Path of a report; None if `coded` is given.
        parts: As in `report`.
    """
    if coded is None:
        return lh.methods_text(str(path))
    options = {"title": None, "texts": False, "n_examples": 0}
    return methods_of(report_contents(coded, parts, options))


@form_of.register
def _(found: MethodsText) -> Part:
    names = ("question", "state", "answer", "sources")
    rows = [
        {name: getattr(item, name) for name in names}
        | {"sources": "; ".join(item.sources)}
        for item in found.checklist
    ]
    made = {
        "text": value(found.text),
        "bibtex": value(found.bibtex),
        "references": vector("text", found.references),
        "checklist": table_of(rows, dict.fromkeys(names, "text")),
    }
    return r_object("methods", made, page=found)
