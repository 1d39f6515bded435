"""Writes the sizes of rooms into docs/architecture.md.

A row of the plan begins with the name of a room. Its last two cells are the number of
lines, in hundreds, and of files.
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "architecture.md"
PYTHON = ROOT / "python_core" / "llamaherd"
# A room is a folder of the first of these folders that has it; "of C++" is the shim's.
FOLDERS = (
    *(PYTHON / wing for wing in ("engine", "calls", "coding", "")),
    ROOT / "capi_shim",
    ROOT,
)
SOURCES = {".py", ".R", ".cpp", ".hpp", ".c", ".h"}
_ROW = re.compile(
    r"^(\| `(?P<name>[\w./]+)/`(?P<shim> of C\+\+)? \| .*) \| [\d.]+k? \| \d+ \|$",
    re.MULTILINE,
)


def sizes(name: str, *, is_shim: bool = False) -> tuple[int, int]:
    """Return the lines and the files of a room."""
    folders = FOLDERS[-2:] if is_shim else FOLDERS
    for folder in folders:
        room = folder / name
        if room.is_dir():
            files = [path for path in room.rglob("*") if path.suffix in SOURCES]
            return sum(path.read_bytes().count(b"\n") for path in files), len(files)
    raise FileNotFoundError(name)


def rooms(page: str) -> dict[str, tuple[int, int]]:
    """Return the lines and files that a page states, by room."""
    stated = {}
    for row in _ROW.finditer(page):
        lines, files = row[0].rstrip(" |").split(" | ")[-2:]
        name = f"{row['name']}{row['shim'] or ''}"
        stated[name] = (round(float(lines.rstrip("k")) * 1000), int(files))
    return stated


def sized(page: str) -> str:
    """Return a page with the sizes of today."""

    def row(match: re.Match[str]) -> str:
        lines, files = sizes(match["name"], is_shim=match["shim"] is not None)
        return f"{match[1]} | {lines / 1000:.1f}k | {files} |"

    return _ROW.sub(row, page)


if __name__ == "__main__":
    PAGE.write_text(sized(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
