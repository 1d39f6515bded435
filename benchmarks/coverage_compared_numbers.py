"""Coverage of intervals that compare the errors of codebooks for numbers.

python benchmarks/coverage_compared_numbers.py [--draws 1000] [--workers 1] [--seed 1]
    [--skip N] [--save FILE] [--merge FILE ...]

Human codes are skewed whole numbers from 0 to 10. Three codebooks give numbers with
correlated errors of different size and bias. Each simulation draws 2,000 texts and a gold
sample, which is simple or has equal strata by the first codebook's number. True
differences are the differences in the distribution, computed from 600,000 texts. The
column "each" is the lowest coverage of the single intervals of the three differences. The
last column is the share of draws in which all three simultaneous intervals contain the
true differences. The table is written into docs/selection.md.
"""

from __future__ import annotations

import argparse
import math
from functools import lru_cache
from itertools import combinations
from pathlib import Path
from typing import Any

import draws
import marked
import numpy as np
from llamaherd.coding.selection.measures import UnitNumbers, compare_numbers
from llamaherd.coding.statistics import sampling

Floats = np.ndarray[Any, np.dtype[np.float64]]
PAGE = Path(__file__).resolve().parent.parent / "docs" / "selection.md"
N_TEXTS, N_TRUTH, ENDS = 2000, 600_000, (0.0, 10.0)
DESIGNS = (
    ("simple", 30),
    ("simple", 60),
    ("simple", 120),
    ("simple", 200),
    ("equal strata", 200),
)


def texts(n: int, rng: np.random.Generator) -> tuple[Floats, list[Floats]]:
    """Draw human codes, and the numbers that three codebooks give."""
    right = np.round(10 * rng.beta(1.2, 2.5, n))
    shared = rng.normal(size=n)
    given = [
        np.clip(
            shift
            + slope * right
            + size * (0.7 * shared + 0.7 * rng.normal(size=n)) * (0.6 + 0.1 * right),
            *ENDS,
        )
        for shift, slope, size in ((0.5, 0.9, 1.0), (1.2, 0.75, 1.2), (0.0, 1.1, 1.5))
    ]
    return right, given


@lru_cache
def truths() -> list[float]:
    """Return the true differences of the mean absolute errors in the distribution."""
    right, given = texts(N_TRUTH, np.random.default_rng(0))
    values = [float(abs(each - right).mean()) for each in given]
    return [one - other for one, other in combinations(values, 2)]


CASES = {f"{design}, {n}": (design, n) for design, n in DESIGNS}


def one_draw(case: str, seed: int, k: int) -> list[list[Any]]:
    """Simulate draw k.

    Returns:
        Hits of three single intervals, those of three simultaneous intervals, and the
        widths of the single intervals.
    """
    design, n = CASES[case]
    rng = np.random.default_rng([seed, n, len(design), k])
    right, given = texts(N_TEXTS, rng)
    strata = np.clip(given[0] // 2.5, 0, 3).astype(int).tolist()
    draw = (
        sampling.draw_simple(N_TEXTS, n, rng)
        if design == "simple"
        else sampling.draw_stratified(strata, n, rng, "equal")
    )
    units = UnitNumbers(
        numbers=right[draw.rows],
        weights=1 / draw.probs,
        strata=draw.strata[draw.rows],
        ends=ENDS,
    )
    own = [each[draw.rows] for each in given]
    single, together = (
        compare_numbers(own, units, adjust=adjust).differences
        for adjust in ("none", "bonferroni")
    )
    hits = [
        [
            bool(each.low <= value <= each.high)
            for each, value in zip(of, truths(), strict=True)
        ]
        for of in (single, together)
    ]
    return [*hits, [float(each.high - each.low) for each in single]]


def table(found: draws.Drawn) -> str:
    """Return the table of coverage of single, and of all simultaneous intervals."""
    error = math.sqrt(0.95 * 0.05 / found.n_draws)
    setting = (
        f"{found.n_draws:,} draws each; standard error of a coverage of 95%: "
        f"{error:.1%}. Widths are medians."
    )
    lines = [
        setting,
        "",
        "| mean absolute error | each | together | width |",
        "|---|---:|---:|---:|",
    ]
    for case, values in found.cases.items():
        parts = [np.array(each) for each in zip(*values, strict=True)]
        lowest = parts[0].mean(axis=0).min()
        together = parts[1].all(axis=1).mean()
        cells = f"{lowest:.1%} | {together:.1%} | {np.median(parts[2]):.3f}"
        lines.append(f"| {case} | {cells} |")
    return "\n".join(lines)


def main() -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    draws.add_options(parser, 1000, 1)
    simulation = draws.Simulation(
        name="compared numbers", cases=list(CASES), draw=one_draw
    )
    found = draws.results(simulation, parser.parse_args())
    if found is not None:
        marked.write(PAGE, {"coverage of numbers": table(found)})


if __name__ == "__main__":
    main()
