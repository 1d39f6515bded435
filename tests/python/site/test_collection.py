"""Tests are collected in one order, whatever the hash seed: pytest-xdist needs that.

Each of its processes collects all tests itself, with its own hash seed, and the results
must agree. All tests of a file run in one process, because they share fixtures.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import thorough

if TYPE_CHECKING:
    from collections.abc import Iterator

TESTS = Path(__file__).parents[2]
FILES = sorted(TESTS.rglob("*.py"))
SORTING = {"sorted", "len", "min", "max", "sum", "any", "all"}
SET_OPERATORS = (ast.BitAnd, ast.BitOr, ast.Sub, ast.BitXor)
UNORDERED = {
    *("set", "frozenset", "union", "intersection", "difference"),
    *("symmetric_difference", "glob", "rglob", "iterdir", "listdir", "scandir"),
}


def called(node: ast.Call) -> str:
    """Return the last part of the name of a called function."""
    return ast.unparse(node.func).rpartition(".")[2]


class Module:
    """Finds expressions whose order differs between processes.

    Follows names through the assignments and functions of their module.
    """

    def __init__(self, source: str) -> None:
        self.tree = ast.parse(source)
        self._named: dict[str, list[ast.AST]] = {}
        for node in self.tree.body:
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    self._named.setdefault(ast.unparse(target), []).append(node.value)
            elif isinstance(node, (ast.AnnAssign, ast.AugAssign)) and node.value:
                target = ast.unparse(node.target)
                self._named.setdefault(target, []).append(node.value)
            elif isinstance(node, ast.FunctionDef):
                self._named[node.name] = list(results(node))

    def unordered(self, node: ast.AST, seen: tuple[str, ...] = ()) -> Iterator[ast.AST]:
        """Return the parts of an expression whose elements change their order."""
        if is_unordered(node):
            yield node
            return
        for part in parts(node):
            yield from self.unordered(part, seen)
        if isinstance(node, ast.Name) and node.id not in seen:
            for value in self._named.get(node.id, ()):
                yield from self.unordered(value, (*seen, node.id))


def results(function: ast.FunctionDef) -> Iterator[ast.AST]:
    """Yield the values that a function returns, and those of its loops."""
    for node in ast.walk(function):
        if isinstance(node, ast.Return) and node.value:
            yield node.value
        elif isinstance(node, ast.For):
            yield node.iter


def is_unordered(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        return called(node) in UNORDERED
    if isinstance(node, ast.BinOp) and isinstance(node.op, SET_OPERATORS):
        return ".keys()" in ast.unparse(node)
    return isinstance(node, (ast.Set, ast.SetComp))


def parts(node: ast.AST) -> list[ast.AST]:
    """Return the parts of an expression whose order determines its order."""
    if isinstance(node, ast.Call):
        return [] if called(node) in SORTING else [node.func, *node.args]
    if isinstance(node, (ast.ListComp, ast.GeneratorExp, ast.DictComp)):
        return [each.iter for each in node.generators]
    if isinstance(node, (ast.List, ast.Tuple)):  # elements may be sets
        return [each.value for each in node.elts if isinstance(each, ast.Starred)]
    if isinstance(node, ast.BinOp):
        return [node.left, node.right]
    if isinstance(node, (ast.Attribute, ast.Subscript)):
        return [node.value]
    return []


def changing_cases(source: str) -> list[str]:
    """Return parts of parametrized tests and fixtures without a fixed order."""
    module = Module(source)
    found = []
    for node in ast.walk(module.tree):
        if not isinstance(node, ast.Call):
            continue
        cases = [each.value for each in node.keywords if each.arg in {"params", "ids"}]
        if called(node) == "parametrize":
            cases += node.args[1:2]
            cases += [each.value for each in node.keywords if each.arg == "argvalues"]
        elif called(node) != "fixture":
            continue
        for case in cases:
            found += [ast.unparse(each) for each in module.unordered(case)]
    return found


def test_cases_have_one_order() -> None:
    found = {path: changing_cases(path.read_text(encoding="utf-8")) for path in FILES}
    assert {path.name: cases for path, cases in found.items() if cases} == {}


@pytest.mark.parametrize(
    "cases",
    [
        "{1, 2}",
        "NAMES",
        "[*NAMES, 'c']",
        "list(NAMES)",
        "[name for name in list(NAMES)]",
        "listed()",
        "tuple(frozenset('ab') | {'c'})",
        "A.keys() & B.keys()",
        "FOLDER.glob('*.txt')",
    ],
)
def test_cases_without_an_order_are_found(cases: str) -> None:
    names = "NAMES = {'a'}\ndef listed():\n    for name in NAMES:\n        yield name\n"
    assert changing_cases(f"{names}@pytest.mark.parametrize('x', {cases})\ndef f(x): 0")


@pytest.mark.parametrize(
    "cases",
    ["sorted(NAMES)", "[{1, 2}, {3}]", "[('a', {404, 405})]", "dict.fromkeys([2, 1])"],
)
def test_cases_with_an_order_may_hold_sets(cases: str) -> None:
    module = f"NAMES = {{'a'}}\n@pytest.mark.parametrize('x', {cases})\ndef f(x): 0"
    assert changing_cases(module) == []


def run_pytest(*arguments: str) -> str:
    """Return the output of pytest, run as by `make test`."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *arguments],
        cwd=TESTS.parent,
        env={**os.environ, thorough.VARIABLE: "0"},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.mark.long(reason="starts pytest with two processes: 7 s")
def test_a_file_is_run_by_one_process() -> None:
    files = [f"tests/python/core/{name}.py" for name in ("test_sampling", "test_words")]
    printed = run_pytest("-n", "2", "-v", *files)
    ran = set(re.findall(r"(?m)^\[(gw\d)\] .*? (tests/\S+?\.py)::", printed))
    assert sorted(file for _, file in ran) == files


def test_the_file_of_times_is_no_path_of_tests() -> None:
    """Pytest reads `--times FILE` as a path of tests if the file exists already.

    It knows the option only after it loaded tests/conftest.py, for which it then looks
    beside that file. So a second `make test` failed.
    """
    root = Path(__file__).parents[3]
    script = (root / "scripts" / "test.sh").read_text(encoding="utf-8")
    assert "--times=" in script
    assert "--times " not in script
