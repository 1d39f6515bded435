"""Coverage of 95% intervals of strengths from pairwise comparisons.

python benchmarks/coverage_pairs.py [--draws 400]

True strengths are normal. A pair's result has a beta distribution with the Bradley-Terry
probability as its mean ("steady": nu = 8, "noisy": nu = 2). In "off by 1", the log-odds
have a normal error with standard deviation 1 instead; the true strengths are then the
best fit to the mean results of all pairs. The table is written into docs/pairs.md:
coverage with its Monte Carlo standard error over draws, slope of fitted on true
strengths, root mean squared error of strengths, reported reliability, and squared
correlation with the true strengths.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import marked
import numpy as np
from llamaherd.coding.pairs.bradley_terry import StrengthFit, fit_strengths
from llamaherd.coding.pairs.design import ComparedPair, Design, PairDesign
from llamaherd.coding.statistics.intervals import student_quantile

Floats = np.ndarray[Any, np.dtype[np.float64]]
PAGE = Path(__file__).resolve().parent.parent / "docs" / "pairs.md"
SPREAD, SEED = 1.5, 1
NOISES = ("steady", "noisy", "off by 1")
NU = {"steady": 8.0, "noisy": 2.0}
CASES = ((30, 3), (30, 6), (60, 6))
EDGE = 1e-9


def results(d: Floats, noise: str, rng: np.random.Generator) -> Floats:
    """Draw log-odds for pairs whose strengths differ by d."""
    if noise not in NU:
        return np.asarray(d + rng.normal(0, 1, len(d)))
    p, nu = 1 / (1 + np.exp(-d)), NU[noise]
    y = np.clip(rng.beta(p * nu, (1 - p) * nu), EDGE, 1 - EDGE)
    return np.asarray(np.log(y) - np.log1p(-y))


def truth(s: Floats, noise: str) -> Floats:
    """Return the true strengths: the values that 95% of the intervals should contain."""
    if noise in NU:
        return np.asarray(s - s.mean())
    first, second = np.triu_indices(len(s), 1)
    nodes, weights = np.polynomial.hermite_e.hermegauss(21)
    d = (s[first] - s[second])[:, None] + nodes
    means = (1 / (1 + np.exp(-d))) @ (weights / weights.sum())
    return fit_strengths(first, second, means, len(s)).strengths


def fitted(
    s: Floats, n_pairs: int, noise: str, design: Design, rng: np.random.Generator
) -> StrengthFit:
    """Fit strengths to simulated results."""
    drawn = PairDesign(len(s), n_pairs, design, int(rng.integers(2**31)))
    while pairs := drawn.next():
        d = results(np.array([s[i] - s[j] for i, j in pairs]), noise, rng)
        drawn.take(
            [
                ComparedPair(
                    first=i, second=j, round=1, forward=x, backward=x, coverage=1
                )
                for (i, j), x in zip(pairs, d.tolist(), strict=True)
            ]
        )
    first = np.array([each.first for each in drawn.results])
    second = np.array([each.second for each in drawn.results])
    probs = np.array([each.prob for each in drawn.results])
    return fit_strengths(first, second, probs, len(s))


def row(n: int, a_text: int, noise: str, design: Design, n_draws: int) -> list[str]:
    """Return coverage, error, reliability and squared correlation, as cells."""
    hits, slopes, errors, reported, true = [], [], [], [], []
    for seed in range(n_draws):
        rng = np.random.default_rng([SEED, n, a_text, NOISES.index(noise), seed])
        s = rng.normal(0, SPREAD, n)
        target = truth(s, noise)
        found = fitted(s, a_text * n, noise, design, rng)
        se = np.sqrt(np.diag(found.covariance))
        far = student_quantile(0.95, found.df)
        hits.append(np.mean(np.abs(found.strengths - target) <= far * se))
        slopes.append(found.strengths @ target / (target @ target))
        errors.append((found.strengths - target) ** 2)
        reported.append(1 - np.mean(se**2) / np.var(found.strengths, ddof=1))
        true.append(np.corrcoef(found.strengths, s)[0, 1] ** 2)
    return [
        f"{n} texts, {a_text} pairs a text",
        noise,
        design,
        f"{np.mean(hits):.1%} ± {np.std(hits, ddof=1) / np.sqrt(n_draws):.1%}",
        f"{np.mean(slopes):.2f}",
        f"{np.sqrt(np.mean(errors)):.2f}",
        f"{np.mean(reported):.2f}",
        f"{np.mean(true):.2f}",
    ]


def main() -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=400)
    n_draws = parser.parse_args().draws
    rows = [
        ["", "results", "design", "coverage", "slope", "RMSE", "reliability", "true"],
        ["---", "---", "---", *["---:"] * 5],
    ]
    for n, a_text in CASES:
        rows += [
            row(n, a_text, noise, design, n_draws)
            for noise in NOISES
            for design in ("adaptive", "random")
        ]
    lines = [f"| {' | '.join(each)} |" for each in rows]
    said = f"{n_draws:,} draws each; ± one Monte Carlo standard error.\n"
    marked.write(PAGE, {"pairs": "\n".join([said, *lines])})


if __name__ == "__main__":
    main()
