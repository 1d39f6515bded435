"""Coverage of PPI++ intervals of a slope if regressions on labels and on codes differ.

python benchmarks/coverage_ppi_ols.py [--draws 2000]

Texts have a covariate x and codes y = x + error; labels are a + b x plus the same error
and noise. 100 of 1,000 texts have codes. The last column contains the same estimates with
the covariance that the paper of PPI++ gives for the minimum of its loss, as ppi-python
computes it. The table is written into docs/estimates-simulated.md.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Any

import marked
import numpy as np
from llamaherd.research.statistics import ppi
from llamaherd.research.statistics.intervals import student_quantile

Floats = np.ndarray[Any, np.dtype[np.float64]]
PAGE = Path(__file__).resolve().parent.parent / "docs" / "estimates-simulated.md"
N, N_OTHERS, SEED, LEVEL = 100, 900, 1, 0.95
CASES = {
    "the same line": (0.0, 1.0),
    "one lower": (-1.0, 1.0),
    "half the slope": (0.0, 0.5),
    "no slope": (0.0, 0.0),
    "the opposite slope": (0.0, -1.0),
}


def drawn(
    rng: np.random.Generator, size: int, case: tuple[float, float]
) -> tuple[Floats, Floats, Floats]:
    """Draw covariates with a constant, codes and labels."""
    x, error = rng.normal(size=size), rng.normal(size=size)
    a, b = case
    label = a + b * x + error + rng.normal(0, 0.5, size)
    return np.column_stack([np.ones(size), x]), x + error, label


def of_minimum(samples: ppi.Samples, found: ppi.Estimated) -> float:
    """Return the slope's variance by the paper's formula for the minimum of its loss."""
    own, hat, others = (
        x * (y - x @ found.theta)[:, None]
        for x, y in (
            (samples.x, samples.y),
            (samples.x, samples.y_hat),
            (samples.x_others, samples.y_hat_others),
        )
    )
    meat = np.cov((own - found.lam * hat).T) / N
    meat += np.cov(found.lam * others.T) / N_OTHERS
    x = np.concatenate([samples.x, samples.x_others])
    inverse = np.linalg.inv(x.T @ x / len(x))
    return float((inverse @ meat @ inverse)[1, 1])


def row(name: str, n_draws: int) -> str:
    """Return coverage and mean width of the slope's interval by three formulas."""
    hits: dict[str, list[bool]] = {}
    widths: dict[str, list[float]] = {}
    for seed in range(n_draws):
        rng = np.random.default_rng([SEED, seed])
        x, y, y_hat = drawn(rng, N, CASES[name])
        others, _, hat = drawn(rng, N_OTHERS, CASES[name])
        samples = ppi.Samples(x=x, y=y, y_hat=y_hat, x_others=others, y_hat_others=hat)
        far = student_quantile(LEVEL, N - 3)
        limits = {}
        for way, found in (
            ("codes alone", ppi.ppi_ols(samples, 0.0)),
            ("PPI++", ppi.ppi_ols(samples)),
        ):
            reach = far * found.std_errors[1] * math.sqrt((N - 1) / (N - 3))
            limits[way] = (found.theta[1] - reach, found.theta[1] + reach)
        found = ppi.ppi_ols(samples)
        reach = far * math.sqrt((N - 1) / (N - 3) * of_minimum(samples, found))
        limits["minimum"] = (found.theta[1] - reach, found.theta[1] + reach)
        for way, (lower, upper) in limits.items():
            hits.setdefault(way, []).append(bool(lower <= 1 <= upper))
            widths.setdefault(way, []).append(float(upper - lower))
    cells = [f"{np.mean(hits[way]):.1%} ({np.mean(widths[way]):.3f})" for way in hits]
    return f"| {name} | {' | '.join(cells)} |"


def main() -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=2000)
    n_draws = parser.parse_args().draws
    lines = [
        "| labels have | codes alone | PPI++ | variance of the minimum |",
        "|---|---:|---:|---:|",
    ]
    lines += [row(name, n_draws) for name in CASES]
    error = math.sqrt(LEVEL * (1 - LEVEL) / n_draws)
    said = (
        f"{n_draws:,} draws each; standard error of a coverage of 95%: {error:.1%}. In "
        "parentheses the mean width."
    )
    marked.write(PAGE, {"coverage: ppi ols": "\n".join([said, "", *lines])})


if __name__ == "__main__":
    main()
