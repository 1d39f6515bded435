"""Writes the tables of systems (README.md) and of versions (docs/install.md).

    systems.py record SYSTEM COLUMN STATE   STATE: run, emulated or compiled
    systems.py version NAME RESULT          a row of the table of versions, dated today
    systems.py write                        both tables

The records are docs/systems.json and docs/versions.json; "not tried": without a record.
"""

from __future__ import annotations

import json
import sys
from datetime import date
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "benchmarks"))

import marked  # noqa: E402 - a module of that folder

RECORD = ROOT / "docs" / "systems.json"
README = ROOT / "README.md"
VERSIONS_RECORD = ROOT / "docs" / "versions.json"
PAGE = ROOT / "docs" / "install.md"
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


def read() -> Record:
    """Return the recorded states by system and column."""
    record: Record = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    return record


def record(system: str, column: str, state: str) -> None:
    """Record one cell, and write the table."""
    for value, known in ((system, SYSTEMS), (column, COLUMNS), (state, STATES)):
        if value not in known:
            sys.exit(f"{value!r} is none of {', '.join(known)}")
    found = read()
    found.setdefault(system, {})[column] = state
    ordered = {name: found[name] for name in SYSTEMS if name in found}
    RECORD.write_text(json.dumps(ordered, indent=1) + "\n")
    write()


def table(found: Record) -> str:
    """Return the table in Markdown."""
    lines = ["| system | " + " | ".join(COLUMNS.values()) + " |"]
    lines.append("| --- " * (1 + len(COLUMNS)) + "|")
    for name, title in SYSTEMS.items():
        cells = [STATES.get(found.get(name, {}).get(x, ""), NOT_TRIED) for x in COLUMNS]
        lines.append(f"| {title} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def record_version(name: str, result: str) -> None:
    """Record one row of the table of versions, and write the tables."""
    if name not in VERSIONS:
        sys.exit(f"{name!r} is none of {', '.join(VERSIONS)}")
    found = read_versions()
    found[name] = {"date": date.today().isoformat(), "result": result.strip(" =")}  # noqa: DTZ011 - a day
    ordered = {name: found[name] for name in VERSIONS if name in found}
    VERSIONS_RECORD.write_text(json.dumps(ordered, indent=1) + "\n")
    write()


def read_versions() -> Record:
    """Return the recorded date and result of each row of the table of versions."""
    record: Record = (
        json.loads(VERSIONS_RECORD.read_text()) if VERSIONS_RECORD.exists() else {}
    )
    return record


def versions_table(found: Record) -> str:
    """Return the table of versions in Markdown."""
    lines = ["| tried | command | result | date |", "| --- | --- | --- | --- |"]
    for name, (title, command) in VERSIONS.items():
        row = found.get(name, {"result": NOT_TRIED, "date": ""})
        lines.append(f"| {title} | `{command}` | {row['result']} | {row['date']} |")
    return "\n".join(lines) + "\n"


def write() -> None:
    """Replace both tables."""
    marked.write(README, {"systems": table(read())})
    marked.write(PAGE, {"versions": versions_table(read_versions())})


def main(arguments: list[str]) -> None:
    """Run `record`, `version` or `write`."""
    match arguments:
        case ["record", system, column, state]:
            record(system, column, state)
        case ["version", name, result]:
            record_version(name, result)
        case ["write"]:
            write()
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
