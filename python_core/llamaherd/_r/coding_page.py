"""Coding of texts by human coders in a browser."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import llamaherd as lh
from llamaherd._r.boundary import form_of
from llamaherd._r.forms import Part, parts, table, vector
from llamaherd.coding_page.code_texts import first_link, make_page, path_for
from llamaherd.coding_page.desk import Desk
from llamaherd.coding_page.results import coded_notes, results_of
from llamaherd.coding_page.sheet import make_sheet
from llamaherd.coding_page.store import CodeStore

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llamaherd.coding.gold.sample import GoldSample
    from llamaherd.coding_page.serving import CodingPage, CodingProgress

_LOOK_S = 0.02


class CodingPageResult(NamedTuple):
    """Result of a coding page.

    Attributes:
        codes: Codes, as returned by `results_of`.
        notes: Notes of the coders: columns `coder`, `id`, `note`.
    """

    codes: Any
    notes: dict[str, list[str]]


class CodingPageRun:
    """Work of a `Job`: serves a coding page and returns its codes at the end.

    Args:
        data: Sample, or columns of a data frame.
        desk: Codes of all coders.
        store: Store of the codes, closed at the end.
        page: Page to serve.
    """

    def __init__(self, data: Any, desk: Desk, store: CodeStore, page: CodingPage) -> None:  # noqa: ANN401 - of two kinds
        self._data = data
        self._desk = desk
        self._store = store
        self._page = page

    @property
    def progress(self) -> CodingProgress:
        """Return the number of codes so far."""
        return self._page.progress

    @property
    def problem(self) -> str:
        """Return no warning."""
        return ""

    def cancel(self) -> None:
        """Stop serving soon."""
        self._page.cancel()

    def run(self) -> CodingPageResult:
        """Serve the page; return the codes and notes."""
        try:
            self._page.run()
            return CodingPageResult(
                results_of(self._desk, self._data), coded_notes(self._desk)
            )
        finally:
            self._store.close()


def code_start(
    data: GoldSample | Mapping[str, Sequence[Any]],
    codebook: lh.Codebook | None,
    options: Mapping[str, Any],
) -> dict[str, Any]:
    """Serve a coding page.

    Args:
        data: Sample, or columns of a data frame.
        codebook: Codebook, or None.
        options: As in `code_texts`: `coders`, `tie_coder`, `path`, `text`, `id`, `seed`,
            `host`, `port`, `allowed_hosts`, `keys`.

    Returns:
        `job`; `lines`, with the links for all coders; and `link`, the first link.
    """
    of = dict(options)
    path, coders, tie_coder = (of.pop(name) for name in ("path", "coders", "tie_coder"))
    columns = {name: of.pop(name) for name in ("text", "id", "seed")}
    sheet = make_sheet(data, codebook, coders, tie_coder, **columns)
    store = CodeStore(Path(path_for(data, sheet, path)), sheet)
    try:
        desk = Desk(sheet, store)
        page = make_page(desk, store, **of)
        job = lh.Job(CodingPageRun(data, desk, store, page))
    except BaseException:
        store.close()
        raise
    while not page.is_ready and not job.wait(_LOOK_S):
        pass
    return {"job": job, "lines": page.lines(), "link": first_link(page)}


@form_of.register
def _(found: CodingPageResult) -> Part:
    """Return `codes`: a sample, passages, or samples by field; or `columns` by name."""
    codes, notes = found
    made: dict[str, Part | None] = dict.fromkeys(("codes", "columns"))
    if isinstance(codes, lh.GoldSample | lh.SpanCodes):
        made["codes"] = form_of(codes)
    elif all(isinstance(each, lh.GoldSample) for each in codes.values()):
        made["codes"] = parts(**{name: form_of(each) for name, each in codes.items()})
    else:
        made["columns"] = parts(**{k: vector("text", each) for k, each in codes.items()})
    columns = [vector("text", cells, name) for name, cells in notes.items()]
    return parts(**made, notes=table(columns, len(notes["id"])))
