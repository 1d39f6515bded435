"""Writes the README's table of systems, from the records in docs/systems.json.

    systems.py record SYSTEM COLUMN STATE   STATE: run, emulated or compiled
    systems.py write                        the table into README.md

A cell without a record is "not tried".
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

import marked  # noqa: E402 - a module of that folder

RECORD = ROOT / "docs" / "systems.json"
README = ROOT / "README.md"
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
STATES = {"run": "run", "emulated": "run in emulation", "compiled": "compiled"}
NOT_TRIED = "not tried"

Record = dict[str, dict[str, str]]


def read() -> Record:
    """Return the recorded states by system and column."""
    record: Record = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    return record


def record(system: str, column: str, state: str) -> None:
    """Record one cell, and write the table.

    Raises:
        SystemExit: A name is not one of SYSTEMS, COLUMNS or STATES.
    """
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


def write() -> None:
    """Replace the table in the README."""
    marked.write(README, {"systems": table(read())})


def main(arguments: list[str]) -> None:
    """Run `record SYSTEM COLUMN STATE` or `write`."""
    match arguments:
        case ["record", system, column, state]:
            record(system, column, state)
        case ["write"]:
            write()
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
