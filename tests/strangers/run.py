"""Repeats the trials in which outside users found faults, for docs/reliability.md.

python run.py [TOPIC ...]      runs topics; writes the table if all topics were run

A topic is a script in this folder. It prints rows, one JSON object a line: `item` (its
order in the table), `what`, `tries`, `held` (number of trials that passed) and `note`.
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parents[1]
sys.path.append(str(ROOT / "benchmarks"))

import marked

MARK = "strangers: made by tests/strangers/run.py"
HEAD = ("trials", "kinds", "tries", "held")


def rows_of(topic: Path) -> list[dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, str(topic)], stdout=subprocess.PIPE, text=True, check=False
    )
    if done.returncode != 0:
        raise SystemExit(f"{topic.name} ended with {done.returncode}")
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    return [json.loads(line) for line in lines]


def title_of(topic: Path) -> str:
    """Return the first sentence of a topic's docstring without its verb."""
    text = ast.get_docstring(ast.parse(topic.read_text(encoding="utf-8"))) or ""
    first = text.partition("\n")[0].rstrip(".")
    return first.partition(" ")[2].partition(": prints")[0].partition(": one JSON")[0]


def table(rows: dict[str, list[dict[str, Any]]]) -> str:
    """Return the table: a row for each topic, from its title to its rows."""
    sums = (
        [title, len(trials), *(sum(row[key] for row in trials) for key in HEAD[2:])]
        for title, trials in rows.items()
    )
    return marked.table(HEAD, sums)


def line_of(row: dict[str, Any]) -> str:
    return f"{row['what']}: {row['held']} of {row['tries']} held; {row['note']}"


def main() -> None:
    topics = sorted(set(FOLDER.glob("*.py")) - {Path(__file__), FOLDER / "rows.py"})
    chosen = [path for path in topics if path.stem in sys.argv[1:]] or topics
    by_title: dict[str, list[dict[str, Any]]] = {}
    for topic in chosen:
        rows = by_title.setdefault(title_of(topic), [])
        for row in rows_of(topic):
            print(line_of(row), flush=True)
            rows.append(row)
    if chosen == topics:
        marked.write("docs/reliability.md", {MARK: table(by_title)})
    all_rows = [row for rows in by_title.values() for row in rows]
    failed = [row for row in all_rows if row["held"] < row["tries"]]
    if failed:
        raise SystemExit(f"{len(failed)} of {len(all_rows)} did not hold")


if __name__ == "__main__":
    main()
