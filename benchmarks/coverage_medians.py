"""Coverage of 95% intervals of medians of numbers, and of regressions on them.

python benchmarks/coverage_medians.py [--draws 200] [--workers 1] [--seed 2]
    [--skip N] [--save FILE] [--merge FILE ...]

Human codes are skewed numbers from 0 to 10, whole or with fractions. The model's numbers
are shrunk towards the middle and shifted, with an error that grows with the number. Each
simulation draws 1,000 texts and a gold sample of 150 of them. An outcome depends on the
human codes with a slope of 0.5; estimates from the model's numbers are biased. True
values are the values of the distribution, computed from 1,000,000 texts. The table is
written into docs/estimates.md.
"""

from __future__ import annotations

import argparse
from functools import lru_cache
from pathlib import Path
from typing import Any

import draws
import marked
import numpy as np
from llamaherd.coding.estimation.estimate import estimate
from llamaherd.coding.gold.draw import gold_sample

Floats = np.ndarray[Any, np.dtype[np.float64]]
PAGE = Path(__file__).resolve().parent.parent / "docs" / "estimates.md"
N_TEXTS, N_GOLD, N_TRUTH, SLOPE = 1000, 150, 1_000_000, 0.5
METHODS = ("naive", "gold", "ppi", "dsl")


def texts(n: int, rng: np.random.Generator, *, whole: bool) -> tuple[Floats, ...]:
    """Draw human codes, numbers of the model, and an outcome, each float64[n]."""
    people = 10 * rng.beta(1.2, 2.5, n)
    people = np.round(people) if whole else people
    model = 1.2 + 0.75 * people + rng.normal(size=n) * (0.8 + 0.15 * people)
    model = np.round(np.clip(model, 0, 10)) if whole else model
    return people, model, SLOPE * people + rng.normal(size=n)


CASES = {"whole": True, "fractions": False}
TITLES = {"median": "median", "label": "slope of label"}


@lru_cache
def truths(*, whole: bool) -> dict[str, float]:
    """Return the true median and slope."""
    people, _, _ = texts(N_TRUTH, np.random.default_rng(1), whole=whole)
    median = float(np.quantile(people, 0.5, method="inverted_cdf"))
    return {"median": median, "label": SLOPE}


def one_draw(case: str, seed: int, k: int) -> list[list[Any]]:
    """Simulate draw k.

    Returns:
        For each quantity and method: their names, if the interval contains the true
        value, and its width.
    """
    whole = CASES[case]
    truth, kind = truths(whole=whole), int if whole else float
    people, model, outcome = texts(N_TEXTS, np.random.default_rng([seed, k]), whole=whole)
    data = {
        "text": [f"text {i}" for i in range(N_TEXTS)],
        "label": [kind(each) for each in model],
        "outcome": outcome.tolist(),
    }
    gold = gold_sample(data, N_GOLD, text="text", label="label", seed=k)
    gold = gold.with_codes([kind(people[row]) for row in gold.rows])
    rows = [
        *estimate(data, gold, outcome="median", methods=METHODS).rows,
        *estimate(data, gold, "outcome ~ label", methods=METHODS).rows,
    ]
    found = []
    for row in rows:
        name = row.term if row.term == "label" else row.outcome
        if name in truth:
            hit = bool(row.low <= truth[name] <= row.high)
            found.append([name, row.method, hit, float(row.high - row.low)])
    return found


def table(found: draws.Drawn) -> str:
    """Return the table of coverage and mean widths."""
    rows = [["numbers", "estimate", *METHODS], ["---", "---", *["---:"] * len(METHODS)]]
    for case, values in found.cases.items():
        cells: dict[tuple[str, str], list[tuple[bool, float]]] = {}
        for name, method, hit, width in (each for value in values for each in value):
            cells.setdefault((name, method), []).append((hit, width))
        means = {key: np.mean(pairs, axis=0) for key, pairs in cells.items()}
        for name, title in TITLES.items():
            shown = [means.get((name, method)) for method in METHODS]
            rows.append([
                case,
                title,
                *("" if one is None else f"{one[0]:.1%} ({one[1]:.2f})" for one in shown),
            ])  # fmt: skip
    lines = [f"| {' | '.join(row)} |" for row in rows]
    said = f"{found.n_draws:,} draws each; in brackets the mean width of the intervals.\n"
    return "\n".join([said, *lines])


def main() -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    draws.add_options(parser, 200, 2)
    simulation = draws.Simulation(name="medians", cases=list(CASES), draw=one_draw)
    found = draws.results(simulation, parser.parse_args())
    if found is not None:
        marked.write(PAGE, {"medians": table(found)})


if __name__ == "__main__":
    main()
