"""Writes the rows of steps.py and coverage_steps.py into docs/steps.md.

python benchmarks/steps_report.py [--steps ROWS.json] [--coverage ROWS.json]
    [--recalibrated ROWS.json]
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import marked
import numpy as np
from bounds import at_least, at_most

PAGE = Path(__file__).resolve().parents[1] / "docs/steps.md"


def table(found: dict[str, Any]) -> str:
    """Return a table of means over seeds, by set and method."""
    head = [
        "texts",
        "way",
        "accuracy",
        "Brier score",
        "ECE",
        "width",
        "agrees",
        "seconds",
    ]
    lines = [f"| {' | '.join(head)} |", "| --- | --- |" + " ---: |" * 6]
    for one in found["sets"]:
        name = f"{one['set']}, {one['n_texts']}, {one['n_codes']} coded"
        for i, first in enumerate(one["draws"][0]):
            draws = [draw[i] for draw in one["draws"]]
            accuracy = [draw["accuracy"] for draw in draws]
            cells = [f"{np.mean(accuracy):.3f} ± {np.std(accuracy):.3f}"]
            cells += [
                f"{np.mean([draw[column] for draw in draws]):.3f}"
                for column in ("brier", "ece", "width")
            ]
            known = [draw["agreement"] for draw in draws]
            is_known = known[0] is not None and not np.isnan(known[0])
            cells.append(f"{np.mean(known):.3f}" if is_known else "")
            cells.append(f"{np.mean([draw['seconds'] for draw in draws]):.1f}")
            lines.append(f"| {name} | {first['way']} | {' | '.join(cells)} |")
            name = ""
    return "\n".join(lines)


def setting(found: dict[str, Any]) -> str:
    """Return a sentence on models, examples and seeds."""
    seeds = found["sets"][0]["seeds"]
    return (
        f"Model {found['model']}, larger model {found['larger']}, embeddings by "
        f"{found['embeddings']}, 8 examples, {seeds} seeds. Seconds are of processor "
        "time, one thread.\n"
    )


def coverage(found: dict[str, Any]) -> str:
    """Return a table of coverage and width by labels and by probabilities."""
    error = 3 * np.sqrt(0.95 * 0.05 / found["draws"])
    head = [
        "design",
        "right: model, steps",
        "codes alone",
        "labels, DSL",
        "labels, PPI++",
    ]
    head += ["probabilities, DSL", "probabilities, PPI++"]
    note = (
        f"{found['draws']} draws per design; Monte Carlo error of a coverage, three "
        f"standard errors: ±{error:.1%}. Cells show the coverage and the median width.\n"
    )
    lines = [
        note,
        f"| {' | '.join(head)} |",
        "| --- |" + " ---: |" * 6,
    ]
    for row in found["steps"]:
        cells = {(each["way"], each["method"]): each for each in row["cells"]}
        shown = [
            ("labels", "gold"), ("labels", "dsl"), ("labels", "ppi"),
            ("probs", "dsl"), ("probs", "ppi"),
        ]  # fmt: skip
        numbers = [
            f"{cells[key]['coverage']:.1%}, {cells[key]['width']:.3f}" for key in shown
        ]
        right = f"{row['accuracy']['model']:.2f}, {row['accuracy']['steps']:.2f}"
        lines.append(f"| {row['design']} | {right} | {' | '.join(numbers)} |")
    return "\n".join(lines)


def recalibrated(found: dict[str, Any]) -> str:
    """Return a sentence on coverages, and right labels, after `recalibrate`."""
    coverages = [
        cell["coverage"]
        for row in found["steps"]
        for cell in row["cells"]
        if cell["way"] == "recalibrated" and cell["method"] in ("dsl", "ppi")
    ]
    lowest = at_least(min(coverages), 1, as_percent=True)
    highest = at_most(max(coverages), 1, as_percent=True)
    right = {
        way: [row["accuracy"][way] for row in found["steps"]]
        for way in ("steps", "recalibrated")
    }
    before, after = (f"{min(x):.2f} to {max(x):.2f}" for x in right.values())
    return (
        f"After `recalibrate()`, {len(coverages)} coverages by DSL and PPI++ are from "
        f"{lowest} to {highest} ({found['draws']} draws per design), and {after} of the "
        f"labels are right instead of {before}."
    )


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=Path)
    parser.add_argument("--coverage", type=Path)
    parser.add_argument("--recalibrated", type=Path)
    args = parser.parse_args()
    parts = {}
    if args.steps is not None:
        found = json.loads(args.steps.read_text(encoding="utf-8"))
        parts["steps"] = setting(found) + "\n" + table(found)
    if args.coverage is not None:
        found = json.loads(args.coverage.read_text(encoding="utf-8"))
        parts["coverage of steps"] = coverage(found)
    if args.recalibrated is not None:
        found = json.loads(args.recalibrated.read_text(encoding="utf-8"))
        parts["recalibrated after steps"] = recalibrated(found)
    marked.write(PAGE, parts)


if __name__ == "__main__":
    main()
