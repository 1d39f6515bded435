"""Compares naive and corrected regressions with a model's labels, in a simulation.

    python examples/naive_or_corrected.py [RUNS]

Repeats the comparison of Egami et al. 2023 (arXiv 2306.04746) in its simplest form, with
data simulated by this script. Texts of group B are more often critical, with a slope of
0.20; about nine of ten labels are right, but the labels of 20% of the critical texts of
group B and of 5% of all other texts are wrong. People code 200 of 1,000 texts. Needs no
model.
"""

import sys
import warnings

import llamaherd as lh
import numpy as np

N, N_CODES, SLOPE = 1000, 200, 0.20
METHODS = ("naive", "gold", "dsl")


def run(seed: int) -> dict[str, tuple[float, float, float]]:
    """Return the slope and its interval by each method, for one simulated data set."""
    rng = np.random.default_rng(seed)
    group = np.arange(N) % 2
    truth = rng.random(N) < 0.3 + SLOPE * group
    wrong = rng.random(N) < np.where(truth & (group == 1), 0.2, 0.05)
    names = np.array(["no", "yes"])
    texts = {
        "text": [f"Text {i}." for i in range(N)],
        "group": group.tolist(),
        "label": names[(truth ^ wrong).astype(int)].tolist(),
    }
    gold = lh.gold_sample(texts, N_CODES, text="text", label="label", seed=seed)
    gold = gold.with_codes(names[truth[gold.rows].astype(int)].tolist())
    fit = lh.estimate(texts, gold, "label == 'yes' ~ group")
    rows = [row for row in fit.rows if row.term == "group"]
    return {row.method: (row.estimate, row.low, row.high) for row in rows}


def compare(n_runs: int) -> dict[str, tuple[float, float, float]]:
    """Return, for each method, mean slope, coverage and mean width of the intervals."""
    estimates = [run(seed) for seed in range(n_runs)]
    summary = {}
    for method in METHODS:
        slope, low, high = np.array([row[method] for row in estimates]).T
        covered = (low <= SLOPE) & (high >= SLOPE)
        summary[method] = (slope.mean(), covered.mean(), (high - low).mean())
    return summary


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # few wrong labels among the codes of a group
    print(f"true slope {SLOPE:.2f}")
    for name, (slope, covered, width) in compare(int((sys.argv[1:] or [100])[0])).items():
        print(f"{name:<6} slope {slope:.3f}  coverage {covered:.0%}  width {width:.3f}")
