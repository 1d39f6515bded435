"""Writes the results of accuracy.py into docs/probabilities.md.

python benchmarks/accuracy_report.py ROWS.jsonl ...
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import marked

PAGE = Path(__file__).resolve().parents[1] / "docs/probabilities.md"


def table(rows: list[dict[str, Any]]) -> str:
    """Return a table with a row for each model, number of examples and method."""
    lines = [
        f"| {row['model']} | {row['n_tweets']:,} | {row['n_examples']} | {row['way']} | "
        f"{row['accuracy']:.3f} | {row['brier']:.3f} | {row['ece']:.3f} |"
        for row in rows
    ]
    return "\n".join(
        [
            "| model | tweets | examples | way | accuracy | Brier score | ECE |",
            "| --- | ---: | ---: | --- | ---: | ---: | ---: |",
            *lines,
        ]
    )


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="+", type=Path)
    paths = parser.parse_args().rows
    lines = [line for path in paths for line in path.read_text("utf-8").splitlines()]
    marked.write(PAGE, {"accuracy": table([json.loads(line) for line in lines])})


if __name__ == "__main__":
    main()
