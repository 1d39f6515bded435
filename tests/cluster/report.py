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
sys.path.insert(0, str(ROOT / "benchmarks"))

import marked  # noqa: E402 - from there

FOLDER = ROOT / "build/cluster"
PAGE = ROOT / "docs/cluster.md"


def namespaces(found: dict[str, Any]) -> list[str]:
    """Return a table of the delays by a cut cable."""
    names = {
        "whole": "is not cut",
        "while": f"is cut for {found['while']['cut_s']} s",
        "for good": "is cut permanently",
    }
    return [
        "| the cable | answers | s |",
        "| --- | ---: | ---: |",
        *(
            f"| {name} | {found[key]['n']} | {found[key]['wall_s']:.0f} |"
            for key, name in names.items()
        ),
        "",
        "Each prompt had exactly one answer, the same as on one machine.",
    ]


def kills(found: dict[str, Any]) -> list[str]:
    """Return sentences on the time of a call during which actors are killed."""
    return [
        f"{found['n_kills']} times one of two workers was killed (SIGKILL) while they",
        f"answered {found['n_prompts']:,} prompts: {found['n_lost']} answers were lost,",
        "no answer was delivered twice, and all answers were the same as on one",
        f"machine. The cluster needed {found['wall_s']:.0f} s, and one context needed",
        f"{found['wall_alone_s']:.0f} s.",
    ]


def main() -> None:
    """Write the page."""
    parts = {}
    for name, source, lines_of in (
        ("namespaces", "namespaces", namespaces),
        ("kills", "kills", kills),
    ):
        file = FOLDER / f"{source}.json"
        if not file.exists():
            continue
        lines = "\n".join(lines_of(json.loads(file.read_text())))
        parts[f"{name}: made by tests/cluster/report.py"] = lines
    marked.write(PAGE, parts)


if __name__ == "__main__":
    main()
