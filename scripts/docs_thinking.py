"""Writes the table of docs/thinking.md: which interface has which tested behaviour.

    python scripts/docs_thinking.py

Runs the tests of the table (tests/python/thinking/test_doors.py and
tests/python/ray/test_thinking.py). A row says which interfaces passed, which failed (NO),
and to which the behaviour does not apply, with the reason.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "python"))

PAGE = ROOT / "docs/thinking.md"
BEGIN = "<!-- scripts/docs_thinking.py writes this table -->\n"
END = "<!-- end of the table -->\n"
TESTS = ("tests/python/thinking/test_doors.py", "tests/python/ray/test_thinking.py")


class Outcomes:
    """Plugin of pytest that stores the outcome of each cell.

    Attributes:
        passed: True for each pair of a behaviour and an interface whose test passed.
    """

    def __init__(self) -> None:
        self.passed: dict[tuple[str, str], bool] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Store the outcome of a phase of a test."""
        if "test_a_behaviour_is_right" not in report.nodeid:
            return
        name = report.nodeid.partition("[")[2].removesuffix("]")
        behaviour, dash, door = name.rpartition("-")
        cell = (behaviour, door) if dash else (name, "Ray")
        self.passed[cell] = self.passed.get(cell, True) and not report.failed


def table(passed: dict[tuple[str, str], bool]) -> str:
    """Return the table, with the reasons of interfaces to which a row does not apply."""
    # Imported here, because pytest can rewrite only modules that are not imported yet.
    behaviours = import_module("thinking_behaviours").BEHAVIOURS
    names = [door.name for door in import_module("thinking_doors").DOORS]
    lines = [
        f"Interfaces: {', '.join(names)}.",
        "",
        "| what the model or the call does | tested and right | does not apply |",
        "|---|---|---|",
    ]
    rows: dict[str, list[str]] = {}
    for each in behaviours:
        tested = [name for name in names if name not in each.lacks]
        wrong = [name for name in tested if not passed.get((each.name, name))]
        right = "all" if len(tested) == len(names) else "all others"
        result = f"NO: {', '.join(wrong)}" if wrong else right
        reasons: dict[str, list[str]] = {}
        for name, reason in each.lacks.items():
            reasons.setdefault(reason, []).append(name)
        lacks = "; ".join(f"{', '.join(k)}: {text}" for text, k in reasons.items())
        rows.setdefault(f"{result} | {lacks}", []).append(each.name)
    lines += [f"| {'; '.join(rows[cells])} | {cells} |" for cells in rows]
    return "\n".join([*lines, ""])


def page(text: str, found: str) -> str:
    """Return the page with a new table."""
    before, _, rest = text.partition(BEGIN)
    _, _, behind = rest.partition(END)
    return before + BEGIN + found + END + behind


def main() -> int:
    """Run the tests and write the table; return 1 if a test failed."""
    outcomes = Outcomes()
    status = pytest.main(["-q", "-n", "0", *TESTS], plugins=[outcomes])
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(page(text, table(outcomes.passed)), encoding="utf-8")
    return int(status != 0)


if __name__ == "__main__":
    sys.exit(main())
