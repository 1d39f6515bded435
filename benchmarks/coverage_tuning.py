"""Coverage of PPI++ with one weight of the labels, and with a weight for each estimate.

python benchmarks/coverage_tuning.py [--draws 1000] [--workers 1] [--seed 3] [--skip N]
    [--save FILE] [--merge FILE ...]

Texts are simulated as in coverage.py: 2,000 texts in two groups. The labels are right in
95% of the texts of group 0 and in 60% (or 95%) of those of group 1. Shares of the groups
and their difference are estimated from stratified and unequal samples of 200 texts, and
coefficients of a linear regression from simple samples. True values are those of the
distribution. The table is written into docs/decisions/0042-research.md.
"""

from __future__ import annotations

import argparse
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import coverage
import draws
import marked
import numpy as np
from llamaherd.research.estimation import fitting_means
from llamaherd.research.estimation.fitting import FitSettings
from llamaherd.research.estimation.gold_use import GoldUsed
from llamaherd.research.statistics import ppi, tuning
from llamaherd.research.statistics.intervals import student_quantile
from llamaherd.research.statistics.regression import Estimated

Floats = np.ndarray[Any, np.dtype[np.float64]]
PAGE = Path(__file__).resolve().parents[1] / "docs/decisions/0042-research.md"
ACCURACY = {"95% and 60%": (0.95, 0.6), "95% and 95%": (0.95, 0.95)}
SAMPLES = {"stratified": 200, "uncertainty": 200, "stratified, 60": 60}
CASES = {
    f"{sample}; {right}": (sample, right)
    for sample in (*SAMPLES, "regression")
    for right in ACCURACY
}
TERMS = {
    "means": ("group 0", "group 1", "difference"),
    "regression": ("intercept", "group", "age"),
}
Cell = tuple[bool, float]


def one_draw(case: str, seed: int, k: int) -> dict[str, list[Cell]]:
    """Simulate draw k: hits and widths of three estimates, by way of tuning."""
    sample, right = CASES[case]
    rng = np.random.default_rng([seed, k])
    texts = coverage.made(rng, coverage.N_TEXTS)
    odds = np.where(texts.group == 1, ACCURACY[right][1], ACCURACY[right][0])
    is_right = rng.random(coverage.N_TEXTS) < odds
    texts = replace(texts, label=np.where(is_right, texts.code, 1 - texts.code))
    if sample == "regression":
        return _regression(texts, rng)
    draw = coverage.drawn(texts, sample.split(",")[0], rng, SAMPLES[sample])
    gold = GoldUsed(
        rows=draw.rows,
        codes=[],
        probs=draw.probs,
        strata=draw.strata[draw.rows],
        is_even=False,
        design=sample,
        all_probs=draw.all_probs,
        all_strata=draw.strata,
    )
    outcome = ("x", texts.label, texts.code[draw.rows])
    found = {}
    for way, methods in (("codes", "gold"), ("one", "ppi"), ("each", "ppi")):
        settings = FitSettings(
            gold=gold, methods=(methods,), level=0.95, target="population"
        )
        own = fitting_means._tuned_means  # noqa: SLF001 - replaced for comparison
        if way == "one":
            fitting_means._tuned_means = _one_weight  # noqa: SLF001
        try:
            rows = fitting_means.fit_means(
                [outcome], "share", texts.group.astype(int), ["0", "1"], settings
            ).rows
        finally:
            fitting_means._tuned_means = own  # noqa: SLF001
        found[way] = [
            (bool(row.low <= truth <= row.high), float(row.high - row.low))
            for row, truth in zip(rows, _shares(), strict=True)
        ]
    return found


def _one_weight(problem: Any) -> Estimated:  # noqa: ANN401 - dsl.Problem
    n, p = problem.x.shape
    found = tuning.tuned(problem)
    factor = (n - p) / (n - p - 1)
    return replace(found, covariance=found.covariance * factor)


def _shares() -> tuple[float, float, float]:
    """Return the true shares of both groups, and their difference."""
    zero, one = (
        float(coverage._code_prob(np.full(5, g), coverage.AGES).mean())  # noqa: SLF001
        for g in (0.0, 1.0)
    )
    return zero, one, one - zero


def _regression(texts: coverage.Texts, rng: np.random.Generator) -> dict[str, list[Cell]]:
    x = np.column_stack([np.ones(len(texts.code)), texts.group, texts.age])
    chosen = np.zeros(len(texts.code), dtype=bool)
    chosen[rng.choice(len(chosen), 200, replace=False)] = True
    samples = ppi.Samples(
        x=x[chosen],
        y=texts.code[chosen],
        y_hat=texts.label[chosen],
        x_others=x[~chosen],
        y_hat_others=texts.label[~chosen],
    )
    slopes = coverage.truths()["ols"]
    share = float(_shares()[0] * (1 - 0.4) + _shares()[1] * 0.4)
    truth = np.array([share - 0.4 * slopes[0], *slopes])  # the mean age is 0
    far = student_quantile(0.95, 200 - 4) * math.sqrt(199 / 196)
    found = {}
    for way, fit in (
        ("codes", ppi.ppi_ols(samples, 0.0)),
        ("one", ppi.ppi_ols(samples)),
        ("each", ols_by_coefficient(samples)),
    ):
        reach = far * fit.std_errors
        hits = np.abs(fit.theta - truth) <= reach
        found[way] = list(zip(hits.tolist(), (2 * reach).tolist(), strict=True))
    return found


def ols_by_coefficient(samples: ppi.Samples) -> Estimated:
    """Estimate least squares with a weight of the labels for each coefficient."""
    x, others = samples.x, samples.x_others
    n, n_others = len(x), len(others)
    bread, bread_others = np.linalg.inv(x.T @ x / n), np.linalg.inv(others.T @ others)
    fits = []
    for rows, y in ((x, samples.y), (x, samples.y_hat), (others, samples.y_hat_others)):
        theta = np.linalg.lstsq(rows, y, rcond=None)[0]
        inverse = bread if rows is x else bread_others * n_others
        fits.append((theta, rows * (y - rows @ theta)[:, None] @ inverse))
    (own, of_own), (hat, of_hat), (rest, of_rest) = fits
    shared = (of_own * of_hat).mean(axis=0)
    spread = np.concatenate([of_hat, of_rest]).var(axis=0, ddof=1)
    lam = np.clip(shared / ((1 + n / n_others) * spread), 0, 1)
    covariance = np.cov((of_own - lam * of_hat).T) / n
    covariance += np.cov((lam * of_rest).T) / n_others
    return Estimated(theta=own + lam * (rest - hat), covariance=covariance)


WAYS = {"codes": "codes alone", "one": "one weight", "each": "a weight for each"}


def table(found: draws.Drawn) -> str:
    """Return the table of coverage and mean widths."""
    error = math.sqrt(0.95 * 0.05 / found.n_draws)
    ways = " | ".join(WAYS.values())
    said = f"standard error of a coverage of 95%: {error:.1%}"
    lines = [
        f"{found.n_draws:,} draws; {said}. Mean widths are in parentheses.",
        "",
        f"| sample | labels right in groups 0, 1 | estimate | {ways} |",
        "|---|---|---|---:|---:|---:|",
    ]
    for case, values in found.cases.items():
        sample, right = CASES[case]
        for i, term in enumerate(TERMS["regression" if sample in TERMS else "means"]):
            means = [np.mean([value[way][i] for value in values], axis=0) for way in WAYS]
            cells = [f"{hit:.1%} ({width:.3f})" for hit, width in means]
            name = "simple, OLS" if sample == "regression" else sample
            lines.append(f"| {name} | {right} | {term} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    draws.add_options(parser, 1000, 3)
    simulation = draws.Simulation(name="tuning", cases=list(CASES), draw=one_draw)
    found = draws.results(simulation, parser.parse_args())
    if found is not None:
        marked.write(PAGE, {"coverage: tuning": table(found)})


if __name__ == "__main__":
    main()
