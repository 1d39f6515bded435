"""Coverage of 95% intervals of means of skewed numbers, and of the warning about them.

python benchmarks/coverage_skewed.py [--draws 1000] [--workers 1] [--seed 3]
    [--skip N] [--save FILE] [--merge FILE ...]

Human codes are numbers from distributions without and with heavy tails. The model's
number is the code times a random factor between 0.3 and 1, so that it is too low. Each
simulation draws 2,000 texts and a simple gold sample of them. The true value is the mean
of the distribution. The table is written into docs/estimates.md.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Any

import draws
import marked
import numpy as np
from llamaherd.coding.statistics import dsl
from llamaherd.coding.statistics.dsl import Problem
from llamaherd.coding.statistics.influences import Influences
from llamaherd.coding.statistics.intervals import student_quantile

Floats = np.ndarray[Any, np.dtype[np.float64]]
PAGE = Path(__file__).resolve().parent.parent / "docs" / "estimates.md"
N_TEXTS, SIZES, METHODS = 2000, (50, 100, 400), {"gold": 0.0, "dsl": 1.0}
NORMAL, T5, EXPONENTIAL, LOGNORMAL = "normal", "t, 5 df", "exponential", "lognormal"
WIDE = "lognormal, sigma 1.5"
TRUTH = {
    NORMAL: 10.0,
    T5: 10.0,
    EXPONENTIAL: 1.0,
    LOGNORMAL: math.exp(0.5),
    WIDE: math.exp(1.5**2 / 2),
}


def numbers(case: str, rng: np.random.Generator) -> Floats:
    """Draw the human codes of all texts, float64[N]."""
    if case == NORMAL:
        return 10 + rng.normal(size=N_TEXTS)
    if case == T5:
        return 10 + rng.standard_t(5, N_TEXTS)
    if case == EXPONENTIAL:
        return rng.exponential(size=N_TEXTS)
    return rng.lognormal(0, 1.5 if case == WIDE else 1.0, N_TEXTS)


def one_draw(case: str, seed: int, k: int) -> list[list[Any]]:
    """Simulate draw k.

    Returns:
        For each size and method: both, if the interval contains the true value, and if
        there is a warning.
    """
    rng = np.random.default_rng([seed, k])
    people = numbers(case, rng)
    labels = people * rng.uniform(0.3, 1, N_TEXTS)
    found = []
    for n in SIZES:
        rows = rng.choice(N_TEXTS, n, replace=False)
        made = Problem(
            kind="ols",
            x_hat=np.ones((N_TEXTS, 1)),
            y_hat=labels,
            rows=rows,
            x=np.ones((n, 1)),
            y=people[rows],
            probs=np.full(n, n / N_TEXTS),
            strata=np.zeros(n, dtype=np.int64),
        )
        reach = student_quantile(0.95, n - 1)
        for method, lam in METHODS.items():
            fitted = dsl.rectified(made, lam)
            away = abs(float(fitted.theta[0]) - TRUTH[case])
            hit = away <= reach * float(fitted.std_errors[0])
            influences = Influences.of(made, lam, fitted.theta, np.ones((1, 1)))
            needed = influences.codes_needed()
            found.append([n, method, bool(hit), bool(n < needed[0])])
    return found


def table(found: draws.Drawn) -> str:
    """Return the table of coverage and warnings."""
    head = [f"{method}, {n} codes" for method in METHODS for n in SIZES]
    rows = [["numbers", *head], ["---", *["---:"] * len(head)]]
    for case, values in found.cases.items():
        cells: dict[tuple[str, int], list[tuple[bool, bool]]] = {}
        for n, method, hit, is_warned in (each for value in values for each in value):
            cells.setdefault((method, n), []).append((hit, is_warned))
        means = [np.mean(cells[m, n], axis=0) for m in METHODS for n in SIZES]
        rows.append([case, *(f"{hit:.0%} ({warned:.0%})" for hit, warned in means)])
    lines = [f"| {' | '.join(row)} |" for row in rows]
    said = (
        f"{found.n_draws:,} draws each: share of intervals that contain the true mean; "
        "in brackets the share of samples with a warning.\n"
    )
    return "\n".join([said, *lines])


def main() -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    draws.add_options(parser, 1000, 3)
    simulation = draws.Simulation(name="skewed", cases=list(TRUTH), draw=one_draw)
    found = draws.results(simulation, parser.parse_args())
    if found is not None:
        marked.write(PAGE, {"skewed": table(found)})


if __name__ == "__main__":
    main()
