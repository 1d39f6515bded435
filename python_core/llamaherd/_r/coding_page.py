"""Coding of texts by human coders in a browser."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import llamaherd as lh
from llamaherd._r.boundary import form_of
from llamaherd._r.forms import Part, parts, table, vector
from llamaherd.coding_page.code_texts import start_coding
from llamaherd.coding_page.results import CodingResult

if TYPE_CHECKING:
    from collections.abc import Mapping


def code_start(data: Any, codebook: Any, options: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ANN401 - see start_coding
    """Serve a coding page; return `job`, the `lines` with all links, and the `link`."""
    return start_coding(data, codebook, **options)._asdict()


@form_of.register(CodingResult)
def _(result: CodingResult) -> Part:
    """Return `codes`: a sample, passages, or samples by field; or `columns` by name."""
    codes, notes = result
    elements: dict[str, Part | None] = dict.fromkeys(("codes", "columns"))
    if isinstance(codes, lh.GoldSample | lh.types.SpanCodes):
        elements["codes"] = form_of(codes)
    elif all(isinstance(sample, lh.GoldSample) for sample in codes.values()):
        elements["codes"] = parts(
            **{name: form_of(sample) for name, sample in codes.items()}
        )
    else:
        elements["columns"] = parts(
            **{k: vector("text", cells) for k, cells in codes.items()}
        )
    columns = [vector("text", cells, name) for name, cells in notes.items()]
    return parts(**elements, notes=table(columns, len(notes["id"])))
