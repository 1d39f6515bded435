"""Writes the table of docs/thinking.md: which interface has which tested behaviour.

    python scripts/docs_thinking.py

Runs the tests of the table (tests/python/thinking/test_doors.py and
tests/python/ray/test_thinking.py). A cell is "yes" if its test passed, "NO" if its test
failed, and "-" with a reason if the behaviour does not apply.
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
    """Return the table, and the reasons of cells that do not apply."""
    # Imported here, because pytest can rewrite only modules that are not imported yet.
    behaviours = import_module("thinking_behaviours").BEHAVIOURS
    names = [door.name for door in import_module("thinking_doors").DOORS]
    reasons: list[str] = []
    lines = [
        f"| what the model or the call does | {' | '.join(names)} |",
        f"|---|{'---|' * len(names)}",
    ]
    for each in behaviours:
        cells = []
        for name in names:
            if name not in each.lacks:
                cells.append("yes" if passed.get((each.name, name)) else "NO")
                continue
            reason = each.lacks[name]
            if reason not in reasons:
                reasons.append(reason)
            cells.append(f"- ({reasons.index(reason) + 1})")
        lines.append(f"| {each.name} | {' | '.join(cells)} |")
    notes = [f"{i}. {reason}" for i, reason in enumerate(reasons, start=1)]
    return "\n".join([*lines, "", *notes, ""])


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
