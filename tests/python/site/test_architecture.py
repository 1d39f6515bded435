"""docs/architecture.md: all names in it exist, and no room is missing."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
BASES = [
    ROOT / name
    for name in (
        "",
        "docs",
        "capi_shim",
        "r_package",
        "r_package/R",
        "python_core/llamaherd",
        "python_core/llamaherd/research",
    )
]
MOST_LINES = 500  # of a Python file of the package; a longer one has two purposes
FILE = re.compile(r"`((?:[\w.-]+/)*[\w*-]+\.(?:py|R|cpp|hpp|h|md|toml|yml|sh))`")


def rooms(folder: Path) -> set[str]:
    """Return the folders with sources in a folder."""
    return {
        path.name
        for path in folder.iterdir()
        if path.is_dir() and any(p.suffix in {".py", ".cpp"} for p in path.iterdir())
    }


def exists(name: str) -> bool:
    """Return whether a path exists in a root, or a file of this name in a room."""
    if any(list(base.glob(name)) for base in BASES):
        return True
    folders = ("python_core/llamaherd", "capi_shim")
    return "/" not in name and any(list((ROOT / f).rglob(name)) for f in folders)


def test_every_file_that_is_named_exists() -> None:
    named = {name for name in FILE.findall(PAGE) if "NAME" not in name}
    assert len(named) > 150
    assert sorted(name for name in named if not exists(name)) == []


def test_every_room_is_named() -> None:
    for folder in (
        "python_core/llamaherd",
        "capi_shim",
        "python_core/llamaherd/research",
    ):
        missing = {name for name in rooms(ROOT / folder) if f"`{name}/`" not in PAGE}
        assert missing == set(), folder


def test_no_file_of_the_package_is_too_long() -> None:
    files = (ROOT / "python_core" / "llamaherd").rglob("*.py")
    lengths = {
        path.name: len(path.read_text(encoding="utf-8").splitlines()) for path in files
    }
    assert {name: n for name, n in lengths.items() if n > MOST_LINES} == {}


def test_every_file_of_r_is_in_the_map() -> None:
    files = {path.name for path in (ROOT / "r_package" / "R").glob("*.R")}
    assert sorted(name for name in files if f"`{name}`" not in PAGE) == []
