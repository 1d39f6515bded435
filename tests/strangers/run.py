"""Repeats the trials in which outside users found faults, for docs/reliability.md.

python run.py [TOPIC ...]      runs topics; writes the table if all topics were run

A topic is a script in this folder. It prints rows, one JSON object a line: `item` (its
order in the table), `what`, `tries`, `held` (number of trials that passed) and `note`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

import marked

PAGE = ROOT / "docs" / "reliability.md"
MARK = "strangers: made by tests/strangers/run.py"


def rows_of(topic: Path) -> list[dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, str(topic)], stdout=subprocess.PIPE, text=True, check=False
    )
    if done.returncode != 0:
        raise SystemExit(f"{topic.name} ended with {done.returncode}")
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    return [json.loads(line) for line in lines]


def table(rows: list[dict[str, Any]]) -> str:
    head = ["| what | tries | held | |", "|---|---|---|---|"]
    return "\n".join([*head, *map(line_of, sorted(rows, key=lambda row: row["item"]))])


def line_of(row: dict[str, Any]) -> str:
    return f"| {row['what']} | {row['tries']} | {row['held']} | {row['note']} |"


def main() -> None:
    topics = sorted(set(FOLDER.glob("*.py")) - {Path(__file__), FOLDER / "rows.py"})
    chosen = [path for path in topics if path.stem in sys.argv[1:]] or topics
    rows = []
    for topic in chosen:
        for row in rows_of(topic):
            print(line_of(row), flush=True)
            rows.append(row)
    if chosen == topics:
        marked.write(PAGE, {MARK: table(rows)})
    failed = [row for row in rows if row["held"] < row["tries"]]
    if failed:
        raise SystemExit(f"{len(failed)} of {len(rows)} did not hold")


if __name__ == "__main__":
    main()
