"""Writes the measurements of the tests in this folder into docs/cluster.md.

    python tests/cluster/report.py

Figures without a measurement since the last `make clean` are not changed.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "benchmarks"))

import marked  # noqa: E402 - from there

FOLDER = ROOT / "build/cluster"


def kills(call: dict[str, Any]) -> list[str]:
    """Return a sentence on a call during which actors are killed."""
    return [
        f"{call['n_kills']} times one of two workers was killed (SIGKILL) while they",
        f"answered {call['n_prompts']:,} prompts: {call['n_lost']} answers were lost,",
        "no answer was delivered twice, and all answers were the same as on one",
        "machine.",
    ]


def main() -> None:
    """Write the page."""
    file = FOLDER / "kills.json"
    if file.exists():
        lines = "\n".join(kills(json.loads(file.read_text())))
        marked.write("docs/cluster.md", {"kills: made by tests/cluster/report.py": lines})


if __name__ == "__main__":
    main()
