"""Rules of the sources that no linter knows: names, errors, replaced files."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

import llamaherd as lh
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


ROOT = Path(__file__).resolve().parents[3]
PACKAGE = Path(lh.__file__).parent
_DEFINED = re.compile(r"^(?:class|struct|enum class) (\w+)[^;]*?\{", re.MULTILINE)


def python_classes() -> Iterator[tuple[str, str]]:
    """Return names of all classes of the package, and the files that define them."""
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                yield node.name, str(path.relative_to(PACKAGE))


def cpp_classes() -> Iterator[tuple[str, str]]:
    """Return names of all classes and structs of the shim at the start of a line."""
    for path in sorted((ROOT / "capi_shim").rglob("*.[ch]pp")):
        for name in _DEFINED.findall(path.read_text(encoding="utf-8")):
            yield name, str(path.relative_to(ROOT))


def several(classes: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Return names that are defined more than once, with their files."""
    by_name: defaultdict[str, list[str]] = defaultdict(list)
    for name, place in classes:
        by_name[name].append(place)
    assert len(by_name) > 20
    return {name: places for name, places in by_name.items() if len(places) > 1}


def test_no_class_of_python_has_the_name_of_another() -> None:
    assert several(python_classes()) == {}


def test_no_class_of_cpp_has_the_name_of_another() -> None:
    assert several(cpp_classes()) == {}


PLAIN = ("ValueError", "TypeError")

# Functions whose plain errors concern no argument, by file, with the reason.
ALLOWED = {
    (
        "calls/api/turns.py",
        "last_question",
    ): "the state of a conversation, no argument",
    ("engine/core/process.py", "__reduce__"): "pickle and copy call it, not a user",
    ("calls/journal/entry.py", "_check_types"): "becomes a DamagedError of the journal",
    (
        "calls/journal/recording.py",
        "_read_logprobs",
    ): "becomes a DamagedError of the journal",
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
    raises = []

    def visit(node: ast.AST, where: str) -> None:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            where = node.name
        if isinstance(node, ast.Raise):
            raised = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
            if isinstance(raised, ast.Name) and raised.id in PLAIN:
                raises.append((where, node.lineno))
        for child in ast.iter_child_nodes(node):
            visit(child, where)

    visit(ast.parse(source), "<module>")
    return raises


def test_errors_about_arguments_have_fields() -> None:
    raises = {
        (str(path.relative_to(PACKAGE)), function): line
        for path in sorted(PACKAGE.rglob("*.py"))
        for function, line in plain_raises(path.read_text(encoding="utf-8"))
    }
    assert {place: line for place, line in raises.items() if place not in ALLOWED} == {}
    assert set(ALLOWED) - set(raises) == set()  # no entry is out of date


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


HOME = "engine/core/files.py"


def replacements(source: str) -> list[int]:
    """Return the lines that call `Path.replace` or `os.replace`.

    Texts are replaced by calls with two arguments, fields of dataclasses and dates by
    keywords.
    """
    numbers = []
    for node in ast.walk(ast.parse(source)):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        owner = node.func.value
        of_os = isinstance(owner, ast.Name) and owner.id == "os"
        of_files = isinstance(owner, ast.Name) and owner.id == "files"
        of_path = len(node.args) == 1 and not node.keywords
        if node.func.attr == "replace" and not of_files and (of_os or of_path):
            numbers.append(node.lineno)
    return numbers


def test_no_other_code_replaces_a_file() -> None:
    by_file = {
        path.relative_to(PACKAGE).as_posix(): lines
        for path in sorted(PACKAGE.rglob("*.py"))
        if (lines := replacements(path.read_text(encoding="utf-8")))
    }
    assert set(by_file) == {HOME}


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
