"""Methods paragraphs for codings and reports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import llamaherd as lh
from llamaherd._r.boundary import boundary, clean
from llamaherd._r.reports import report_contents
from llamaherd.research.reports.methods import methods_of

if TYPE_CHECKING:
    from collections.abc import Mapping


@boundary
def methods_text(
    coded: Mapping[str, Any] | None, path: str | None, parts: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the methods paragraph for a coding or for a report.

    Args:
        coded: Coded texts as in `report`; None if `path` is given.
        path: Path of a report; None if `coded` is given.
        parts: As in `report`.
    """
    if coded is None:
        found = lh.methods_text(str(path))
    else:
        options = {"title": None, "texts": False, "n_examples": 0}
        found = methods_of(report_contents(coded, parts, options))
    return {
        "text": clean(found.text),
        "bibtex": clean(found.bibtex),
        "references": list(found.references),
        "checklist": {
            **{
                name: [clean(getattr(item, name)) for item in found.checklist]
                for name in ("question", "state", "answer")
            },
            "sources": [clean("; ".join(item.sources)) for item in found.checklist],
        },
    }
