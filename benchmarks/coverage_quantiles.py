"""Coverage of 95% intervals of quantiles of numbers, and of regressions on them.

python benchmarks/coverage_quantiles.py [--draws 200]

Human codes are skewed numbers from 0 to 10, whole or with fractions. The model's numbers
are shrunk towards the middle and shifted, with an error that grows with the number. Each
simulation draws 1,000 texts and a gold sample of 150 of them. An outcome depends on the
human codes with a slope of 0.5; estimates from the model's numbers are biased. True
values are the values of the distribution, computed from 1,000,000 texts. The table is
written into docs/estimates.md.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path
from typing import Any

import llamaherd as lh
import marked
import numpy as np

Floats = np.ndarray[Any, np.dtype[np.float64]]
PAGE = Path(__file__).resolve().parent.parent / "docs" / "estimates.md"
N_TEXTS, N_GOLD, N_TRUTH, SLOPE = 1000, 150, 1_000_000, 0.5
METHODS = ("naive", "gold", "ppi", "dsl")
QUANTILES = (0.5, 0.9)


def texts(n: int, rng: np.random.Generator, *, whole: bool) -> tuple[Floats, ...]:
    """Draw human codes, numbers of the model, and an outcome, each float64[n]."""
    people = 10 * rng.beta(1.2, 2.5, n)
    people = np.round(people) if whole else people
    model = 1.2 + 0.75 * people + rng.normal(size=n) * (0.8 + 0.15 * people)
    model = np.round(np.clip(model, 0, 10)) if whole else model
    return people, model, SLOPE * people + rng.normal(size=n)


def covered(n_draws: int, *, whole: bool) -> dict[tuple[str, str], list[float]]:
    """Return coverage and mean width of intervals, by quantity and method."""
    people, _, _ = texts(N_TRUTH, np.random.default_rng(1), whole=whole)
    at = np.quantile(people, QUANTILES, method="inverted_cdf")
    truth = {"median": at[0], "quantile 0.9": at[1], "label": SLOPE}
    hits: dict[tuple[str, str], list[tuple[bool, float]]] = {}
    for seed in range(n_draws):
        rng = np.random.default_rng([2, seed])
        people, model, outcome = texts(N_TEXTS, rng, whole=whole)
        kind = int if whole else float
        data = {
            "text": [f"text {i}" for i in range(N_TEXTS)],
            "label": [kind(each) for each in model],
            "outcome": outcome.tolist(),
        }
        gold = lh.gold_sample(data, N_GOLD, text="text", label="label", seed=seed)
        gold = gold.with_codes([kind(people[row]) for row in gold.rows])
        rows = [
            *lh.estimate(
                data, gold, outcome="quantile", quantile=list(QUANTILES), methods=METHODS
            ).rows,
            *lh.estimate(data, gold, "outcome ~ label", methods=METHODS).rows,
        ]
        for row in rows:
            name = row.term if row.term == "label" else row.outcome
            if name in truth:
                hit = row.low <= truth[name] <= row.high
                found = hits.setdefault((name, row.method), [])
                found.append((hit, row.high - row.low))
    return {key: np.mean(found, axis=0).tolist() for key, found in hits.items()}


def main() -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=200)
    n_draws = parser.parse_args().draws
    warnings.simplefilter("ignore")
    names = {
        "median": "median",
        "quantile 0.9": "quantile 0.9",
        "label": "slope of label",
    }
    rows = [["numbers", "estimate", *METHODS], ["---", "---", *["---:"] * len(METHODS)]]
    for whole in (True, False):
        found = covered(n_draws, whole=whole)
        for name, title in names.items():
            each = [found.get((name, method)) for method in METHODS]
            cells = [
                "" if one is None else f"{one[0]:.1%} ({one[1]:.2f})" for one in each
            ]
            rows.append(["whole" if whole else "fractions", title, *cells])
    lines = [f"| {' | '.join(row)} |" for row in rows]
    said = f"{n_draws:,} draws each; in brackets the mean width of the intervals.\n"
    marked.write(PAGE, {"quantiles": "\n".join([said, *lines])})


if __name__ == "__main__":
    main()
