"""Writes docs/files.md: each file of the project with its purpose in one line.

    python scripts/docs_files.py

The purpose is the first sentence of the file's own documentation: the docstring of a
Python module, the first comment of a C++ header, the title of a help page or the first
comment of an R file.
"""

from __future__ import annotations

import ast
import re
from itertools import takewhile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "files.md"
HEAD = """# Every file in one line

`scripts/docs_files.py` writes this page from the first line of each file.
[architecture.md](architecture.md) describes how the files work together. To find the code
of a behaviour, search this page for a word that describes the behaviour.
"""
_SENTENCE = re.compile(r"(?<=[.!?])\s")
_PLACES = {
    "Python": ("python_core/llamaherd", "*.py"),
    "R": ("r_package/R", "*.R"),
    "C++": ("capi_shim", "*.hpp"),
}


def first_of_python(text: str) -> str:
    """Return the first paragraph of a module's docstring."""
    return (ast.get_docstring(ast.parse(text)) or "").split("\n\n", 1)[0]


def first_of_r(text: str) -> str:
    """Return the first comment on the whole file, or the title of the first help page.

    A comment directly above code describes that code, not the file.
    """
    for block in re.split(r"\n\s*\n", text):
        lines = block.strip().splitlines()
        if lines and lines[0].startswith("#'"):
            page = takewhile(lambda line: line.startswith("#'") and line != "#'", lines)
            return " ".join(line.removeprefix("#'").strip() for line in page)
        if lines and all(line.startswith("#") for line in lines):
            return " ".join(line.removeprefix("#").strip() for line in lines)
    return ""


def first_of_cpp(text: str) -> str:
    """Return the first comment of a header."""
    lines = text.strip().splitlines()
    block = takewhile(lambda line: line.startswith("//"), lines)
    return " ".join(line.removeprefix("//").strip() for line in block)


_READERS = {".py": first_of_python, ".R": first_of_r, ".hpp": first_of_cpp}


def purpose(path: Path) -> str:
    """Return the first sentence about a file; "" if it has none."""
    text = " ".join(_READERS[path.suffix](path.read_text(encoding="utf-8")).split())
    return _SENTENCE.split(text, 1)[0].rstrip(".:").replace("|", "\\|")


def page() -> str:
    """Return the text of the page."""
    parts = [HEAD]
    for language, (folder, pattern) in _PLACES.items():
        root = ROOT / folder
        parts.append(f"## {language}\n")
        files = [path for path in root.rglob(pattern) if path.name != "__init__.py"]
        for room in sorted({path.parent for path in files}):
            name = room.relative_to(root).as_posix()
            parts.append(f"### {folder if name == '.' else name + '/'}\n")
            parts.append("| file | purpose |\n| --- | --- |")
            parts.extend(
                f"| `{path.name}` | {purpose(path)} |"
                for path in sorted(files)
                if path.parent == room
            )
            parts.append("")
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
