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
# Options and commands of the command line, which a user of R cannot use.
_COMMANDS = (
    "annotate|bench|chat|classify|code|codebooks|doctor|embed|gold|merge|methods|models|"
    "optimize|pairs|recalibrate|run|serve|slurm|spans"
)
_OF_COMMANDS = re.compile(rf"(?<![\w-])--[a-z]|\bllamaherd (?:{_COMMANDS})\b")
# Files of the server are read, too: jobs of R show messages of the server.
_COMMANDS_OF_OTHERS = {
    "core/words.py": "these are the words",
    "asks/interfaces.py": "reasons for documentation and tests",
    "native/abi.py": "a command of pip",
    "loop/threads.py": "a command of pip",
    "server/limits.py": "servers that R starts accept their own host name",
    "server/embeddings.py": "no job computes embeddings",
    "server/wording.py": "terms of clients that use neither R nor Python",
    "server/batches/pages.py": "R shows `words().max_file` instead",
    "server/batches/upload.py": "R shows `words().max_file` instead",
    "ray/connect.py": "a command of Ray",
}
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


def command_words(source: str) -> list[str]:
    """Return texts that are no docstrings and name options or commands."""
    tree = ast.parse(source)
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    skipped = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, documented)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and id(node) not in skipped
        and " " in node.value  # not an argument of another program
        and _OF_COMMANDS.search(node.value)
    ]


def test_messages_for_r_name_no_commands() -> None:
    rooms = {"cli", "tables", "tasks", "coding_page"}
    found = {
        (str(path.relative_to(PACKAGE)), text)
        for path in sorted(PACKAGE.rglob("*.py"))
        if path.relative_to(PACKAGE).parts[0] not in rooms
        for text in command_words(path.read_text(encoding="utf-8"))
    }
    assert {each for each in found if each[0] not in _COMMANDS_OF_OTHERS} == set()
    unused = _COMMANDS_OF_OTHERS.keys() - {file for file, _ in found}
    assert unused == set()


@pytest.mark.parametrize(
    ("text", "is_found"),
    [
        ("see --max-file", True),
        ("`llamaherd models download` downloads it", True),
        ("a -- b", False),
        ("llamaherd computes it", False),
        ("in `llamaherd run`, too", True),
    ],
)
def test_commands_are_found(text: str, *, is_found: bool) -> None:
    assert bool(command_words(f"raise ValueError({text!r})")) == is_found


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
