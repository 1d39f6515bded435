"""Notes and warnings for users are whole sentences."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

import llamaherd as lh

if TYPE_CHECKING:
    from collections.abc import Iterator

CODING = Path(lh.__file__).parent / "coding"
_WARNS = {"warn_caller", "warn_notes", "warn"}
_OF_NOTES = re.compile(
    r"(Return|Issue|Yield) (one |a |an )?(note|notes|warning|warnings)\b"
)
_LEAST = 25  # characters; shorter texts are words within a note


def start_of(node: ast.expr) -> str | None:
    """Return the first piece of a text; "{}" for an expression, None for no text."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr) and node.values:
        first = node.values[0]
        return str(first.value) if isinstance(first, ast.Constant) else "{}"
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return start_of(node.left)
    return None


def size_of(node: ast.expr) -> int:
    return sum(
        len(each.value)
        for each in ast.walk(node)
        if isinstance(each, ast.Constant) and isinstance(each.value, str)
    )


def notes_in(tree: ast.Module) -> Iterator[ast.expr]:
    """Yield the texts that functions return as notes, and those of warnings."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node.args:
            called = ast.unparse(node.func)
            if called.split(".")[-1] in _WARNS or called.endswith("notes.append"):
                yield from _texts(node.args[0])
        elif isinstance(node, ast.FunctionDef) and _OF_NOTES.match(
            ast.get_docstring(node) or ""
        ):
            yield from _returned(node)


def _returned(function: ast.FunctionDef) -> Iterator[ast.expr]:
    for node in ast.walk(function):
        is_note = isinstance(node, ast.Assign) and "note" in ast.unparse(node.targets[0])
        if (is_note or isinstance(node, ast.Return)) and node.value is not None:
            yield from _texts(node.value)


def _texts(node: ast.expr) -> Iterator[ast.expr]:
    if isinstance(node, (ast.List, ast.Tuple)):
        for each in node.elts:
            yield from _texts(each)
    elif isinstance(node, ast.IfExp):
        yield from _texts(node.body)
        yield from _texts(node.orelse)
    elif size_of(node) >= _LEAST:
        yield node


def test_notes_begin_as_sentences() -> None:
    wrong, n = [], 0
    for file in sorted(CODING.rglob("*.py")):
        text = file.read_text(encoding="utf-8")
        tree = ast.parse(text) if re.search(r"\bnotes?\b|warn", text) else ast.Module([])
        for node in notes_in(tree):
            start = start_of(node)
            n += start is not None
            # A sentence may begin with a value or a name, but not with a small letter.
            if start is not None and not re.match(r"[A-Z0-9'\"(]|\{\}", start):
                wrong.append(f"{file.name}:{node.lineno}: {start}")
    assert wrong == []
    assert n > 40
