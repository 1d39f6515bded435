"""Each class name has one meaning, in Python and in C++."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

import llamaherd as lh

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
    found: defaultdict[str, list[str]] = defaultdict(list)
    for name, place in classes:
        found[name].append(place)
    assert len(found) > 20
    return {name: places for name, places in found.items() if len(places) > 1}


def test_no_class_of_python_has_the_name_of_another() -> None:
    assert several(python_classes()) == {}


def test_no_class_of_cpp_has_the_name_of_another() -> None:
    assert several(cpp_classes()) == {}
