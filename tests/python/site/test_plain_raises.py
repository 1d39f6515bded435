"""Errors about arguments have fields: no plain ValueError or TypeError is raised."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[3] / "python_core" / "llamaherd"
PLAIN = ("ValueError", "TypeError")

# Functions whose plain errors concern no argument, by file, with the reason.
ALLOWED = {
    (
        "calls/api/turns.py",
        "last_question",
    ): "the state of a conversation, no argument",
    ("engine/core/process.py", "__reduce__"): "pickle and copy call it, not a user",
    ("calls/journal/entry.py", "_check_types"): "becomes a DamagedError of the journal",
    ("calls/journal/recording.py", "_read"): "becomes a DamagedError of the journal",
    ("calls/chat/renderer.py", "_raise"): "a chat template calls it; becomes a refusal",
    ("engine/native/llguidance.py", "finds_pattern"): "the check of an answer",
    ("server/protocol.py", "_refuse_constant"): "a hook of json; becomes status 400",
    ("server/protocol.py", "_number"): "a hook of json; becomes status 400",
    ("server/protocol.py", "_integer"): "a hook of json; becomes status 400",
    ("calls/structured/columns.py", "_number"): "a cell; becomes the error of its row",
    ("calls/structured/patterns.py", "finds"): "the check of an answer",
    ("calls/structured/quoting.py", "place"): "the check of an answer",
    ("calls/structured/shape.py", "read"): "the check of an answer",
    ("tables/record.py", "_check"): "becomes a DamagedError of the journal",
    ("tables/record.py", "_read_type"): "becomes a DamagedError of the journal",
    ("tables/spec_file.py", "_check_size"): "becomes an ArgumentError with the file",
    ("tables/table.py", "_no_constant"): "a hook of json; names the line of the file",
    ("tables/table.py", "_finite_float"): "a hook of json; names the line of the file",
}


def plain_raises(source: str) -> list[tuple[str, int]]:
    """Return function and line of each `raise ValueError(...)` or `TypeError(...)`."""
    found = []

    def visit(node: ast.AST, where: str) -> None:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            where = node.name
        if isinstance(node, ast.Raise):
            raised = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
            if isinstance(raised, ast.Name) and raised.id in PLAIN:
                found.append((where, node.lineno))
        for child in ast.iter_child_nodes(node):
            visit(child, where)

    visit(ast.parse(source), "<module>")
    return found


def test_errors_about_arguments_have_fields() -> None:
    found = {
        (str(path.relative_to(PACKAGE)), function): line
        for path in sorted(PACKAGE.rglob("*.py"))
        for function, line in plain_raises(path.read_text(encoding="utf-8"))
    }
    assert {each: line for each, line in found.items() if each not in ALLOWED} == {}
    assert set(ALLOWED) - set(found) == set()  # no entry is out of date


@pytest.mark.parametrize(
    ("line", "is_plain"),
    [
        ('raise ValueError("n must be 1")', True),
        ("raise TypeError", True),
        ('raise ValueError(f"{x}") from None', True),
        ('raise ArgumentError("must be 1", argument="n")', False),
        ("raise", False),
        ("raise error", False),
    ],
)
def test_plain_raises_are_found(line: str, *, is_plain: bool) -> None:
    source = f"def f(x, error):\n    {line}\n"
    assert bool(plain_raises(source)) is is_plain
