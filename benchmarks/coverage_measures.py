"""Coverage of the intervals of `validate()` and `agreement()` for labels.

python benchmarks/coverage_measures.py [--draws 1000] [--codes 50 200]

Each population is a table of shares: rows are labels of the model, columns human codes.
Samples are simple, or have as many codes for each label of the model ("equal"). For each
measure the table has the coverage of 95% intervals, and their mean width in parentheses.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from llamaherd.coding.statistics import (
    accuracy_of,
    cohen_kappa,
    gwet_ac1,
    krippendorff_alpha,
)
from llamaherd.coding.statistics.ratings import ModelAndPerson

Floats = np.ndarray[Any, np.dtype[np.float64]]
Ints = np.ndarray[Any, np.dtype[np.int64]]
POPULATIONS: dict[str, list[list[float]]] = {
    "two labels, 80% right": [[0.4, 0.1], [0.1, 0.4]],
    "two labels, 95% right": [[0.475, 0.025], [0.025, 0.475]],
    "two labels, 99% right": [[0.49, 0.005], [0.005, 0.5]],
    "all right": [[0.3, 0], [0, 0.7]],
    "three labels, 85% right": [
        [0.34, 0.03, 0.03],
        [0.02, 0.25, 0.03],
        [0.02, 0.02, 0.26],
    ],
    "a label of 5%": [[0.035, 0.02], [0.015, 0.93]],
    "a label of 3%, equal": [[0.02, 0.01], [0.01, 0.96]],
    "a label of 10%, equal": [[0.08, 0.05], [0.02, 0.85]],
}


def sample(
    table: Floats, n: int, rng: np.random.Generator, *, equal: bool
) -> tuple[Ints, Ints, Floats]:
    """Draw labels, codes and weights of n texts."""
    k = len(table)
    if not equal:
        cells = rng.choice(k * k, n, p=table.ravel())
        return cells // k, cells % k, np.ones(n)
    label = np.repeat(np.arange(k), n // k)
    shares = table.sum(axis=1)
    edges = np.cumsum(table / shares[:, None], axis=1)[label, :-1]
    return label, (rng.random(len(label))[:, None] > edges).sum(axis=1), shares[label]


def measures(label: Ints, code: Ints, w: Floats, k: int) -> dict[str, Any]:
    """Return measures with intervals; the first label is the rare one."""
    codes = ModelAndPerson([label.tolist(), code.tolist()])
    common: dict[str, Any] = {"unit_weights": w, "levels": range(k)}
    found = accuracy_of(*codes, labels=range(k), unit_weights=w)
    first = found.per_label[0]
    return {
        "accuracy": found.accuracy,
        "precision": first.precision,
        "recall": first.recall,
        "F1": first.f1,
        "balanced accuracy": found.balanced_accuracy,
        "macro F1": found.macro_f1,
        "kappa": cohen_kappa(codes, **common),
        "alpha": krippendorff_alpha(codes, **common),
        "AC1": gwet_ac1(codes, **common),
    }


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--codes", type=int, nargs="+", default=[50, 200])
    options = parser.parse_args()
    for name, shares in POPULATIONS.items():
        table, equal = np.array(shares), name.endswith("equal")
        k = len(table)
        label, code = np.divmod(np.arange(k * k), k)
        cells = (np.tile(each, 9) for each in (label, code, table.ravel()))
        truth = {each: found.value for each, found in measures(*cells, k).items()}
        both = (table.sum(axis=0) + table.sum(axis=1)) / 2
        truth["alpha"] = 1 - (1 - np.trace(table)) / (1 - (both**2).sum())
        for n in options.codes:
            rng = np.random.default_rng([1, n])
            hits: dict[str, list[tuple[bool, float]]] = {each: [] for each in truth}
            for _ in range(options.draws):
                found = measures(*sample(table, n, rng, equal=equal), k)
                for each, own in found.items():
                    inside = own.low - 1e-9 <= truth[each] <= own.high + 1e-9
                    if not np.isnan(own.low):  # codes of one label have no interval
                        hits[each].append((inside, own.high - own.low))
            means = (np.mean(each, axis=0) for each in hits.values())
            shown = " | ".join(f"{hit:.1%} ({width:.3f})" for hit, width in means)
            print(f"| {name}, {n} | {shown} |", flush=True)


if __name__ == "__main__":
    main()
