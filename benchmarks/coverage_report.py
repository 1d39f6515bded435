"""Writes the results of coverage.py or coverage_heads.py into the docs.

The page is docs/estimates-simulated.md.

python benchmarks/coverage_report.py [JSON] [--check]
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bounds import at_least, at_most
from marked import replaced

if TYPE_CHECKING:
    from collections.abc import Sequence

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "docs/estimates-simulated.md"
_METHODS = {"naive": "naive", "gold": "gold alone", "ppi": "PPI++", "dsl": "DSL"}
FEW = (50, 30)
_GOAL = 0.93
_NAMES = {
    ("mean", 0): "share",
    ("difference", 0): "difference of two groups",
    ("ols", 0): "OLS: group",
    ("ols", 1): "OLS: age",
    ("logit", 0): "logit: group",
    ("logit", 1): "logit: age",
    ("covariate", 0): "label as a covariate: its coefficient",
    ("covariate", 1): "label as a covariate: group",
}


def ends(coverages: Sequence[float]) -> tuple[str, str]:
    """Return the ends of the range of some coverages."""
    lowest = at_least(min(coverages), 1, as_percent=True)
    return lowest, at_most(max(coverages), 1, as_percent=True)


def setting(found: dict[str, Any]) -> str:
    """Return a sentence on the simulation."""
    error = 3 * math.sqrt(found["level"] * (1 - found["level"]) / found["draws"])
    whole = [row for row in found["rows"] if row["n_gold"] == found["n_gold"]]
    valid = [row for row in whole if row["method"] != "naive"]
    n_failed = sum(
        n
        for name, n in found["n_failed"].items()
        if name.endswith(f", {found['n_gold']}")
    )
    inside = [abs(row["coverage"] - found["level"]) <= error for row in valid]
    lowest, highest = ends([row["coverage"] for row in valid])
    return (
        f"{found['draws']:,} draws of {found['n_texts']:,} texts with a gold sample of "
        f"{found['n_gold']}; labels are right in {found['accuracy']:.1%}. Monte Carlo "
        f"error (three standard errors): ±{error:.1%}. {sum(inside)} of {len(valid)} "
        "coverages of valid methods differ from the nominal value by at most this "
        f"error; the coverages are from {lowest} to {highest}. Number of "
        f"estimates without a solution: {n_failed}.\n"
    )


def design_table(found: dict[str, Any], design: str, n_gold: int) -> str:
    """Return a table of coverage and mean width, with a column for each method."""
    cells = {
        (row["estimate"], row["coefficient"], row["method"]): (
            f"{row['coverage']:.1%} ({row['width']:.3f})"
        )
        for row in found["rows"]
        if (row["design"], row["n_gold"]) == (design, n_gold)
    }
    lines = [
        f"| {design} sample of {n_gold} | truth | "
        + " | ".join(_METHODS.values())
        + " |",
        "|---|---:|" + "---:|" * len(_METHODS),
    ]
    truths = {
        (row["estimate"], row["coefficient"]): row["truth"] for row in found["rows"]
    }
    for key, title in _NAMES.items():
        values = [cells.get((*key, method), "") for method in _METHODS]
        lines.append(f"| {title} | {truths[key]:.3f} | " + " | ".join(values) + " |")
    return "\n".join(lines) + "\n"


def few_codes(found: dict[str, Any]) -> str:
    """Return a sentence on each small sample."""
    told = []
    for n_gold in FEW:
        coverages = [
            row["coverage"]
            for row in found["rows"]
            if row["n_gold"] == n_gold and row["method"] != "naive"
        ]
        lowest, highest = ends(coverages)
        told.append(
            f"With {n_gold} codes, the {len(coverages)} coverages of valid methods are "
            f"from {lowest} to {highest}; number of estimates "
            f"without a solution: {found['n_failed'][f'simple, {n_gold}']}.\n"
        )
    return "".join(told)


def hard_designs(found: dict[str, Any]) -> str:
    """Return a table for designs with little information: coverage and warnings."""
    columns = ["design", "method", "coverage", "mean width", "draws with a warning"]
    columns.append("coverage without one")
    lines = [f"| {' | '.join(columns)} |", "|---|---|---:|---:|---:|---:|"]
    for row in found["designs"]:
        silent = "" if row["silent"] is None else f"{row['silent']:.1%}"
        lines.append(
            f"| {row['design']} | {row['method']} | {row['coverage']:.1%} | "
            f"{row['width']:.3f} | {row['warned']:.0%} | {silent} |"
        )
    low = [row for row in found["designs"] if row["coverage"] < _GOAL]
    quiet = [row for row in low if row["warned"] < _GOAL]
    names = "; ".join(row["design"] for row in quiet) or "none"
    goal = at_least(_GOAL, 0, as_percent=True)
    head = (
        f"{found['draws']:,} draws per design (standard error of a coverage of 95%: "
        f"{math.sqrt(0.95 * 0.05 / found['draws']):.1%}). In "
        f"{len(found['designs']) - len(low)} of {len(found['designs'])} designs every "
        f"method has a coverage of at least {goal}; in {len(low) - len(quiet)} "
        f"others you get a warning in at least {goal} of the draws. Designs without "
        f"such a coverage or warning: {names}.\n"
    )
    return head + "\n" + "\n".join(lines) + "\n"


_WAYS = {
    ("labels", "gold"): "codes alone",
    ("labels", "dsl"): "labels, DSL",
    ("probs", "dsl"): "probabilities, DSL",
    ("recalibrated", "dsl"): "recalibrated, DSL",
    ("recalibrated", "ppi"): "recalibrated, PPI++",
}


def head_designs(found: dict[str, Any]) -> str:
    """Return a table of coverage and widths by kind of predictions."""
    head = ["design", "right: model, head", *_WAYS.values()]
    lines = [f"| {' | '.join(head)} |", "|---|---:|" + "---:|" * len(_WAYS)]
    coverages = []
    for row in found["heads"]:
        cells = {(each["way"], each["method"]): each for each in row["cells"]}
        coverages += [
            each["coverage"] for (way, _), each in cells.items() if way != "labels"
        ]
        shown = [
            f"{cells[way]['coverage']:.1%} ({cells[way]['width']:.3f})"
            if way in cells
            else ""
            for way in _WAYS
        ]
        right = f"{row['accuracy']['labels']:.0%}, {row['accuracy']['recalibrated']:.0%}"
        lines.append(f"| {row['design']} | {right} | {' | '.join(shown)} |")
    n = found["draws"]
    level = found["level"]
    error = 3 * math.sqrt(level * (1 - level) / n)
    fewest = min(row["draws"] for row in found["heads"])
    lowest, highest = ends(coverages)
    intro = (
        f"{n} draws per design ({fewest} with embeddings); Monte Carlo error of a "
        f"coverage, three standard errors: ±{error:.1%}. Coverages by probabilities "
        f"and recalibrated probabilities are from {lowest} to {highest}. Widths are "
        "medians.\n"
    )
    return intro + "\n" + "\n".join(lines) + "\n"


def main() -> None:
    """Write the page; with `--check`, exit with 1 if the page is not up to date."""
    parser = argparse.ArgumentParser(description=__doc__)
    default = HERE / "results/coverage.json"
    parser.add_argument("json", type=Path, nargs="?", default=default)
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    found = json.loads(args.json.read_text(encoding="utf-8"))
    page = PAGE.read_text(encoding="utf-8")
    if "heads" in found:  # written by coverage_heads.py
        made = replaced(page, "coverage: heads", head_designs(found))
        _finish(page, made, check=args.check)
        return
    made = replaced(page, "coverage: hard designs", hard_designs(found))
    if "rows" not in found:  # written by coverage.py --only designs
        _finish(page, made, check=args.check)
        return
    made = replaced(made, "coverage: setting", setting(found))
    for design in ("simple", "stratified", "uncertainty"):
        table = design_table(found, design, found["n_gold"])
        made = replaced(made, f"coverage: {design}", table)
    for n_gold in FEW[-1:]:  # the sentence tells of the others
        table = design_table(found, "simple", n_gold)
        made = replaced(made, f"coverage: simple, {n_gold}", table)
    made = replaced(made, "coverage: few codes", few_codes(found))
    _finish(page, made, check=args.check)


def _finish(page: str, made: str, *, check: bool) -> None:
    if check:
        sys.exit(made != page)
    PAGE.write_text(made, encoding="utf-8")


if __name__ == "__main__":
    main()
