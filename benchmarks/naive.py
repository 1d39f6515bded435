"""Compares naive with corrected regressions, for docs/examples.md.

    python benchmarks/naive.py [RUNS]

Runs the simulation of examples/naive_or_corrected.py RUNS times, by default 500.
"""

from __future__ import annotations

import sys
import warnings

import marked

sys.path.insert(0, str(marked.ROOT / "examples"))

import naive_or_corrected as example

TITLES = {
    "naive": "labels as if they were right",
    "gold": "codes of people alone",
    "dsl": "labels corrected by codes (DSL)",
}


def main() -> None:
    """Run the simulation and write the table."""
    warnings.simplefilter("ignore")
    n = int((sys.argv[1:] or [500])[0])
    covered = "95% intervals that contain the truth"
    head = [f"{n} runs", f"mean slope, truth {example.SLOPE:.2f}", covered, "mean width"]
    rows = [
        [TITLES[name], f"{slope:.3f}", f"{share:.1%}", f"{width:.3f}"]
        for name, (slope, share, width) in example.compare(n).items()
    ]
    marked.write("docs/examples.md", {"naive": marked.table(head, rows)})


if __name__ == "__main__":
    main()
