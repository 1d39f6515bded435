"""Files are replaced by one function, which tries again where Windows refuses."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[3] / "python_core" / "llamaherd"
HOME = "engine/core/files.py"


def replacements(source: str) -> list[int]:
    """Return the lines that call `Path.replace` or `os.replace`.

    Texts are replaced by calls with two arguments, fields of dataclasses and dates by
    keywords.
    """
    found = []
    for node in ast.walk(ast.parse(source)):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        owner = node.func.value
        of_os = isinstance(owner, ast.Name) and owner.id == "os"
        of_files = isinstance(owner, ast.Name) and owner.id == "files"
        of_path = len(node.args) == 1 and not node.keywords
        if node.func.attr == "replace" and not of_files and (of_os or of_path):
            found.append(node.lineno)
    return found


def test_no_other_code_replaces_a_file() -> None:
    found = {
        path.relative_to(PACKAGE).as_posix(): lines
        for path in sorted(PACKAGE.rglob("*.py"))
        if (lines := replacements(path.read_text(encoding="utf-8")))
    }
    assert set(found) == {HOME}


@pytest.mark.parametrize(
    ("line", "is_one"),
    [
        ("draft.replace(path)", True),
        ("os.replace(draft, path)", True),
        ("Path(draft).replace(path)", True),
        ("files.replace(draft, path)", False),
        ("text.replace('a', 'b')", False),
        ("text.replace('a', 'b', 1)", False),
        ("dataclasses.replace(plan, n=1)", False),
        ("now.replace(microsecond=0)", False),
    ],
)
def test_replacements_are_found(line: str, *, is_one: bool) -> None:
    assert bool(replacements(line)) is is_one
