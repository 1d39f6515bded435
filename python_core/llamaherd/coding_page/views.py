"""Data of the page of a coder: the codebook, and a text with the coder's progress."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from llamaherd.coding_page.form import form_of
from llamaherd.coding_page.values import are_fields, plain_value

if TYPE_CHECKING:
    from llamaherd.coding.annotation.codebook import Codebook
    from llamaherd.coding_page.desk import Desk


def codebook_view(codebook: Codebook) -> dict[str, Any]:
    """Return a codebook as coders see it, as JSON types."""
    return {
        "question": codebook.question,
        "labels": [
            {"name": name, "definition": codebook.definitions.get(name, "")}
            for name in codebook.names
        ],
        "kind": _kind(codebook),
        "max_spans": codebook.max_spans,
        "fields": [asdict(each) for each in form_of(codebook.schema)]
        if are_fields(codebook)
        else [],
        "examples": [
            {"text": each.text, "label": each.label, "reason": each.reason}
            for each in codebook.examples
        ],
    }


def text_view(desk: Desk, coder: str, i: int | None) -> dict[str, Any]:
    """Return a text with its code, and the coder's progress.

    If the coder of ties asks for a text that is not a tie any more, the next text is
    returned.
    """
    texts = desk.texts_of(coder)
    if i is not None and i not in texts:
        i = desk.next_text(coder)
        texts = desk.texts_of(coder)
    view: dict[str, Any] = {
        "progress": asdict(desk.progress(coder)),
        "can_undo": desk.can_undo(coder),
        "last_entry": desk.last_entry_of(coder),
        "text": None,
    }
    if i is None or i not in texts:
        return view
    act = desk.act(coder, i)
    value = None if act is None or act.value is None else plain_value(act.value)
    view["text"] = {
        "i": i,
        "entry": desk.entry_of(coder, i),
        "position": texts.index(i),
        "text": desk.sheet.texts[i],
        "value": value,
        "is_skipped": act is not None and act.value is None,
        "note": "" if act is None else act.entry.act.note,
    }
    return view


def _kind(codebook: Codebook) -> str:
    """Return the kind of codes: "one" (label), "several", "number" and others."""
    kind = codebook.kind
    if are_fields(codebook):
        return "fields"
    if kind.is_generated:
        return "spans"
    if kind.is_several:
        return "several"
    return "number" if kind.is_numeric else "one"
