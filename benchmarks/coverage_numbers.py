"""Coverage of 95% intervals of agreement measures for numbers from 0 to 10.

python benchmarks/coverage_numbers.py [--draws 1000]

Human codes are skewed whole numbers. The model's expected values are shrunk towards the
middle and shifted, with an error that grows with the number. Each simulation draws
2,000 texts and a gold sample of them, with equal probabilities or with higher
probabilities of extreme texts. True values are the measures of the distribution,
computed from 600,000 texts. The table is written into docs/validation.md.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import marked
import numpy as np
from llamaherd.coding.statistics import sampling
from llamaherd.coding.statistics.number_agreement import number_agreement

Floats = np.ndarray[Any, np.dtype[np.float64]]
PAGE = Path(__file__).resolve().parent.parent / "docs" / "validation.md"
N_TEXTS, N_TRUTH, SEED = 2000, 600_000, 1
DESIGNS = (("simple", 30), ("simple", 50), ("simple", 200), ("unequal", 200))
NAMES = {
    "pearson": "Pearson",
    "spearman": "Spearman",
    "icc": "ICC(2,1)",
    "alpha": "alpha",
    "rmse": "RMSE",
    "mae": "MAE",
    "bias": "bias",
}


def texts(n: int, rng: np.random.Generator) -> Floats:
    """Draw numbers of the model and human codes, float64[2, n]."""
    people = np.round(10 * rng.beta(1.2, 2.5, n))
    error = rng.normal(size=n) * (0.8 + 0.15 * people)
    model = np.clip(1.2 + 0.75 * people + error, 0, 10)
    return np.stack([model, people])


def drawn(design: str, n: int, model: Floats, rng: np.random.Generator) -> sampling.Draw:
    """Draw a gold sample: simple, or with a higher probability of extreme texts."""
    if design == "simple":
        return sampling.draw_simple(N_TEXTS, n, rng)
    probs = sampling.inclusion_probs(np.abs(model - model.mean()), n, 0.3)
    return sampling.draw_unequal(probs, rng)


def covered(design: str, n: int, truth: dict[str, float], n_draws: int) -> list[str]:
    """Return the shares of draws whose interval contains the true value, as cells."""
    hits = dict.fromkeys(NAMES, 0)
    for seed in range(n_draws):
        rng = np.random.default_rng([SEED, n, design == "simple", seed])
        both = texts(N_TEXTS, rng)
        draw = drawn(design, n, both[0], rng)
        weights = 1 / draw.all_probs[draw.rows]
        found = number_agreement(both[:, draw.rows], unit_weights=weights)
        for name, each in found.measures.items():
            hits[name] += each.low <= truth[name] <= each.high
    return [f"{hit / n_draws:.1%}" for hit in hits.values()]


def main() -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=1000)
    n_draws = parser.parse_args().draws
    truth = of_distribution(np.random.default_rng(SEED))
    rows = [["", *NAMES.values()], ["---", *["---:"] * len(NAMES)]]
    rows.append(["truth", *(f"{truth[name]:.3f}" for name in NAMES)])
    for design, n in DESIGNS:
        what = "equal" if design == "simple" else "unequal"
        cells = covered(design, n, truth, n_draws)
        rows.append([f"{n} texts, {what} probabilities", *cells])
    lines = [f"| {' | '.join(row)} |" for row in rows]
    marked.write(PAGE, {"numbers": "\n".join([f"{n_draws:,} draws each.\n", *lines])})


def of_distribution(rng: np.random.Generator) -> dict[str, float]:
    """Return the measures of the distribution, as means over parts of 2,000 texts."""
    size = 2000
    parts = [number_agreement(texts(size, rng)).measures for _ in range(N_TRUTH // size)]
    return {name: float(np.mean([part[name].value for part in parts])) for name in NAMES}


if __name__ == "__main__":
    main()
