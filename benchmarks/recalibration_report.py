"""Writes the rows of recalibration.py into docs/estimates.md.

python benchmarks/recalibration_report.py ROWS.json
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import marked
import numpy as np

PAGE = Path(__file__).resolve().parents[1] / "docs/estimates.md"
_COLUMNS = ["accuracy", "brier", "ece", "width"]


def table(found: dict[str, Any]) -> str:
    """Return a table of means and standard deviations over seeds, by set and method."""
    head = ["texts", "way", "accuracy", "Brier score", "ECE", "width", "seconds"]
    lines = [f"| {' | '.join(head)} |", "| --- | --- |" + " ---: |" * 5]
    for one in found["sets"]:
        ways = [each["way"] for each in one["draws"][0]]
        alone = np.mean([draw[0]["alone"] for draw in one["draws"]])
        name = f"{one['set']}, {one['n_texts']}, {one['n_codes']} coded"
        lines.append(f"| {name} | codes alone |  |  |  | {alone:.3f} |  |")
        for i, way in enumerate(ways):
            draws = [draw[i] for draw in one["draws"]]
            cells = []
            for column in _COLUMNS:
                values = [draw[column] for draw in draws]
                spread = f" ± {np.std(values):.3f}" if column == "accuracy" else ""
                cells.append(f"{np.mean(values):.3f}{spread}")
            seconds = np.mean([draw["seconds"] for draw in draws])
            shown = f"{seconds:.1f}" if seconds else ""
            lines.append(f"| | {way} | {' | '.join(cells)} | {shown} |")
    return "\n".join(lines)


def setting(found: dict[str, Any]) -> str:
    """Return a sentence on models, examples and times."""
    sets = "; ".join(
        f"{one['set']}: labels took {one['seconds']:.0f} s, embeddings "
        f"{one['seconds_vectors']:.0f} s"
        for one in found["sets"]
    )
    return (
        f"{found['model']} with 8 examples, embeddings by {found['embeddings']}, "
        f"{found['sets'][0]['seeds']} draws of codes. On two busy cores, {sets}.\n"
    )


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", type=Path)
    found = json.loads(parser.parse_args().rows.read_text(encoding="utf-8"))
    marked.write(PAGE, {"recalibration": setting(found) + "\n" + table(found)})


if __name__ == "__main__":
    main()
