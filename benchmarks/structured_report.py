"""Writes the results of structured.py and maskbench.py into docs/structured.md.

python benchmarks/structured_report.py [--answers JSON] [--maskbench JSON] [--check]
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from marked import replaced

PAGE = Path(__file__).resolve().parents[1] / "docs/structured.md"


def answers_table(found: dict[str, Any]) -> str:
    """Return the table for structured.py, with a column per model."""
    rows = {
        "answers that are valid": lambda f: f"{f['n_valid']} of {f['n']}",
        "their tokens": lambda f: f"{f['n_tokens'][0]:,}",
        "steps / steps of one token each, 200 prompts": lambda f: _ratio(f["steps"]),
        "the same, one prompt at a time": lambda f: _ratio(f["steps_of_one"]),
        "time / time with one token a step, 200 prompts": lambda f: _ratio(f["time_s"]),
        "the same, each prompt by itself": lambda f: _ratio(f["time_of_one_s"]),
        "32 at once: time / time of as many tokens without a schema": lambda f: (
            f"{f['at_once']['together'] / f['at_once']['free']:.2f}"
        ),
        "the same with one token a step": lambda f: (
            f"{f['at_once']['stepwise'] / f['at_once']['free']:.2f}"
        ),
    }
    return _table(found, rows)


def maskbench_table(found: dict[str, Any]) -> str:
    """Return the table for maskbench.py, with a column per model."""
    rows = {
        "valid instances accepted": lambda f: (
            f"{f['valid'] - f['valid_refused']:,} of {f['valid']:,}"
        ),
        "invalid instances accepted by the masks": lambda f: (
            f"{f['invalid_let_through']:,} of {f['invalid']:,}"
        ),
        "invalid instances accepted after check": lambda f: f"{f['invalid_accepted']}",
        "schemas refused": lambda f: f"{len(f['refused'])}",
        "schemas correct by masks alone": lambda f: (
            f"{f['pass_masks']} of {f['schemas']}"
        ),
        "schemas correct after the check": lambda f: (
            f"{f['pass_with_check']} of {f['schemas']}"
        ),
        "a mask, microseconds: median, 99th percentile": lambda f: _pair(f["mask_us"]),
        "in 60 of the schemas": lambda f: _pair(f["mask_us_few"]),
        "llama.cpp's converter and sampler in those": lambda f: _pair(
            f["grammar_us_few"]
        ),
    }
    return _table(found, rows)


def _ratio(pair: list[float]) -> str:
    return f"{pair[0] / pair[1]:.2f}"


def _pair(times: dict[str, float]) -> str:
    return f"{times['p50']:,.0f}, {times['p99']:,.0f}"


def _table(found: dict[str, Any], rows: dict[str, Any]) -> str:
    lines = [
        "| | " + " | ".join(name.split("-")[0] for name in found) + " |",
        "|---|" + "---:|" * len(found),
    ]
    for title, cell in rows.items():
        lines.append(f"| {title} | " + " | ".join(map(cell, found.values())) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Write the page; with `--check`, exit with 1 if the page is not up to date."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--answers", type=Path)
    parser.add_argument("--maskbench", type=Path)
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    page = made = PAGE.read_text(encoding="utf-8")
    tables = {"answers": answers_table, "maskbench": maskbench_table}
    for name, table in tables.items():
        path = getattr(args, name)
        if path is not None:
            part = table(json.loads(path.read_text()))
            made = replaced(made, f"structured: {name}", part)
    if args.check:
        sys.exit(made != page)
    PAGE.write_text(made, encoding="utf-8")


if __name__ == "__main__":
    main()
