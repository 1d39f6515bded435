"""Docstrings begin with a noun for the thing, or with a verb for a function."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
# "Whether" is for booleans alone; "One variant of ..." names a thing.
RELATIVE = re.compile(
    r"(What|How|Has|Of|Which|Where|As|Those|That|Who|When|If|It|They|The same)\b"
)
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def relative_clauses(source: str) -> list[str]:
    """Return the first lines of docstrings that begin with a bare relative clause."""
    docs = [
        (ast.get_docstring(node) or "").split("\n", 1)[0]
        for node in ast.walk(ast.parse(source))
        if isinstance(node, DOCUMENTED)
    ]
    return [line for line in docs if RELATIVE.match(line)]


@pytest.mark.parametrize(
    ("line", "is_found"),
    [
        ("What the engine does.", True),
        ("Of its request.", True),
        ("The same with codes.", True),
        ("Priority of the request.", False),
        ("Return the request.", False),
        ("Whether the file exists.", False),
        ("Aspect ratio of a plot.", False),
    ],
)
def test_the_test_finds_relative_clauses(line: str, is_found: bool) -> None:
    assert bool(relative_clauses(f'def f():\n    """{line}"""\n')) is is_found


@pytest.mark.parametrize(
    "folder", ["python_core", "scripts", "capi_shim", "examples", "benchmarks"]
)
def test_docstrings_name_the_thing(folder: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}: {line}"
        for path in sorted((ROOT / folder).rglob("*.py"))
        for line in relative_clauses(path.read_text(encoding="utf-8"))
    ]
    assert not found
