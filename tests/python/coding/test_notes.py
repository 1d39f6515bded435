"""Notes for users are whole sentences."""

from __future__ import annotations

import re
from pathlib import Path

import jinja2
import llamaherd as lh
from jinja2 import nodes

TEMPLATES = (Path(lh.__file__).parent / "coding").rglob("templates/notes.txt.j2")
PARTS = {"time"}  # macros that are parts of sentences
NAMES = ("gold has",)  # of arguments


def first_piece(macro: nodes.Macro) -> str:
    """Return the beginning of a sentence; "{}" for a value."""
    pieces = (piece for output in macro.find_all(nodes.Output) for piece in output.nodes)
    for piece in pieces:
        if not isinstance(piece, nodes.TemplateData):
            return "{}"
        if piece.data.strip():
            return piece.data.strip()
    return ""


def test_notes_begin_as_sentences() -> None:
    wrong, n = [], 0
    for file in sorted(TEMPLATES):
        tree = jinja2.Environment().parse(file.read_text(encoding="utf-8"))
        for macro in tree.find_all(nodes.Macro):
            start = first_piece(macro)
            n += 1
            # A sentence may begin with a value or a name, but not with a small letter.
            is_whole = re.match(r"[A-Z0-9'\"(]|\{\}", start) or start.startswith(NAMES)
            if macro.name not in PARTS and not is_whole:
                wrong.append(f"{file.parts[-3]}: {macro.name}: {start}")
    assert wrong == []
    assert n > 40
