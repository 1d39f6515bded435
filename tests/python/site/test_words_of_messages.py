"""Messages shown by both Python and R use the terms of the caller's language."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE = Path(__file__).parents[3] / "python_core" / "llamaherd"

# Words that a user of R does not know; `core.words` has them in both languages.
_OF_PYTHON = re.compile(
    r"\b(True|False|None|str|dict|tuple|isinstance)\b|\b\w+=(True|False|None|')"
)
# Rooms whose messages R never shows.
_OF_PYTHON_ALONE = {"cli", "server", "tables", "tasks", "ray"}
# Files that R does not call, or whose texts are no messages.
_NOT_IN_R = {
    "core/words.py": "these are the words",
    "research/frames.py": "data frames of Python; R sends columns",
    "api/generate.py": "streams",
    "api/decorators.py": "decorators",
}


def _texts(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and text of each string of an exception or a warning."""
    for node in ast.walk(ast.parse(source)):
        is_warning = (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "warn"
        )
        if not isinstance(node, ast.Raise) and not is_warning:
            continue
        for part in ast.walk(node):
            if isinstance(part, ast.Constant) and isinstance(part.value, str):
                yield part.lineno, part.value


def python_words(source: str) -> list[tuple[int, str]]:
    return [(line, text) for line, text in _texts(source) if _OF_PYTHON.search(text)]


def test_messages_have_the_words_of_their_caller() -> None:
    found = [
        (str(path.relative_to(PACKAGE)), line, text)
        for path in sorted(PACKAGE.rglob("*.py"))
        if path.relative_to(PACKAGE).parts[0] not in _OF_PYTHON_ALONE
        for line, text in python_words(path.read_text(encoding="utf-8"))
    ]
    assert [each for each in found if each[0] not in _NOT_IN_R] == []


@pytest.mark.parametrize(
    "line",
    [
        'raise ValueError(f"must be True or False, not {value}")',
        'raise ValueError("needs chat=True")',
        "raise ValueError(\"kv_layout='unified'\")",
        'warnings.warn("a dict is no schema", stacklevel=2)',
    ],
)
def test_words_of_python_are_found(line: str) -> None:
    assert python_words(line)
    assert not python_words(line.replace("raise ", "problem = ").replace("warn(", "log("))


def unclear_negations(source: str) -> list[str]:
    """Return phrases such as "is no number", which should be "is not a number"."""
    joined = re.sub(r"[\"'#\s]*\n\s*[\"'#f]*", " ", source)
    return re.findall(r"(?<!here )\b(?:is|are|was) no (?!longer)\w+", joined)


def test_negations_are_plain() -> None:
    found = [
        (str(path.relative_to(PACKAGE)), phrase)
        for path in sorted(PACKAGE.rglob("*.py"))
        for phrase in unclear_negations(path.read_text(encoding="utf-8"))
    ]
    assert found == []
    assert unclear_negations('"the line is "\n    f"no JSON; there is no list"') == [
        "is no JSON"
    ]
