"""Writes the tables of systems (README.md) and of versions (docs/install.md).

    systems.py record SYSTEM COLUMN=STATE ...   STATE: run, emulated or compiled
    systems.py version NAME RESULT              a row of the table of versions
    systems.py write                            both tables

The records are docs/systems.json and docs/versions.json; "not tried": without a record.
"""

from __future__ import annotations

import json
import sys
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "benchmarks"))

import marked  # noqa: E402 - a module of that folder

RECORD = ROOT / "docs" / "systems.json"
VERSIONS_RECORD = ROOT / "docs" / "versions.json"
SYSTEMS = {
    "linux": "Linux, x86-64",
    "arm64": "Linux, 64-bit ARM",
    "cuda": "Linux, x86-64 with an NVIDIA GPU",
    "vulkan": "Linux, x86-64 with Vulkan",
    "macos": "macOS, ARM",
    "windows": "Windows, x86-64",
}
COLUMNS = {
    "compiles": "compiles",
    "c_tests": "C tests",
    "python": "Python",
    "r": "R",
    "real_model": "real model",
    "wheel": "wheel",
}
# What is tried, and the command that tries it and records the result (with RECORD=1).
VERSIONS = {
    "3.11": ("Python 3.11, all tests", "make test"),
    "3.12": ("Python 3.12, quick tests", "make test-pythons"),
    "3.13": ("Python 3.13, quick tests", "make test-pythons"),
    "3.14": ("Python 3.14, quick tests", "make test-pythons"),
    "lowest": ("lower bounds of all dependencies, quick tests", "make test-lowest"),
    "neighbours": ("together with other programs", "make test-neighbours"),
    "built": ("sdist and wheel, installed and tested", "make test-built"),
    "c": ("C library without Python, three ways to link", "make test-c-install"),
    "ours": ("R CMD check, with the Python package", "make check-r"),
    "lacking": ("R CMD check, Python without llamaherd", "make check-r-pythons"),
    "other": ("R CMD check, another version of it", "make check-r-pythons"),
    "none": ("R CMD check, without Python", "make check-r-pythons"),
}
STATES = {"run": "run", "emulated": "run in emulation", "compiled": "compiled"}
NOT_TRIED = "not tried"

Record = dict[str, dict[str, str]]


def read(path: Path) -> Record:
    """Return the recorded fields of each row of a table."""
    record: Record = json.loads(path.read_text()) if path.exists() else {}
    return record


def add(path: Path, rows: Collection[str], name: str, fields: dict[str, str]) -> None:
    """Record fields of a row, and write the tables."""
    check(name, rows)
    record = read(path)
    record[name] = {**record.get(name, {}), **fields}
    ordered = {name: record[name] for name in rows if name in record}
    path.write_text(json.dumps(ordered, indent=1) + "\n")
    write()


def check(value: str, known: Collection[str]) -> None:
    """End the program if a value is not a known one."""
    if value not in known:
        sys.exit(f"{value!r} is none of {', '.join(known)}")


def table() -> str:
    """Return the table of systems in Markdown."""
    record = read(RECORD)
    rows = []
    for name, title in SYSTEMS.items():
        cells = record.get(name, {})
        rows.append([title, *(STATES.get(cells.get(x, ""), NOT_TRIED) for x in COLUMNS)])
    return marked.table(["system", *COLUMNS.values()], rows, 1 + len(COLUMNS))


def versions_table() -> str:
    """Return the table of versions in Markdown."""
    record = read(VERSIONS_RECORD)
    rows = []
    for name, (title, command) in VERSIONS.items():
        row = record.get(name, {"result": NOT_TRIED, "date": ""})
        rows.append([title, f"`{command}`", row["result"], row["date"]])
    return marked.table(["tried", "command", "result", "date"], rows, 4)


def write() -> None:
    """Replace both tables."""
    marked.write("README.md", {"systems": table()})
    marked.write("docs/install.md", {"versions": versions_table()})


def main(arguments: list[str]) -> None:
    """Run `record`, `version` or `write`."""
    match arguments:
        case ["record", system, *cells]:
            states = dict(cell.split("=") for cell in cells)
            for column, state in states.items():
                check(column, COLUMNS)
                check(state, STATES)
            add(RECORD, SYSTEMS, system, states)
        case ["version", name, result]:
            day = date.today().isoformat()  # noqa: DTZ011 - a day
            fields = {"date": day, "result": result.strip(" =")}
            add(VERSIONS_RECORD, VERSIONS, name, fields)
        case ["write"]:
            write()
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
