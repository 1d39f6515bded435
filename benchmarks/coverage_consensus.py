"""Coverage of 95% intervals of `validate(consensus=)` if coders make errors.

python benchmarks/coverage_consensus.py [--draws 1000] [--workers 1] [--seed 6] [--skip N]
    [--save FILE] [--merge FILE ...]

40% of the texts have the label "yes". The model is right in 80% of these texts and in 90%
of the others. Three or five coders err independently of the model and of each other. True
values are those of the distribution, for the right codes. A model of coders needs at
least three coders. The table is written into docs/validation.md.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import TYPE_CHECKING

import draws
import marked
import numpy as np
from llamaherd.research.validation.validate import validate

if TYPE_CHECKING:
    from llamaherd.research.coding.texts import Integers
    from llamaherd.research.validation.validation import Validation

PAGE = Path(__file__).resolve().parent.parent / "docs" / "validation.md"
NAMES = ("no", "yes")
SHARE, RECALL, SPECIFICITY = 0.4, 0.8, 0.9
CODERS = {
    "three coders, right in 95, 90, 85%": (0.95, 0.9, 0.85),
    "three coders, right in 90, 75, 75%": (0.9, 0.75, 0.75),
    "five coders, right in 80% each": (0.8,) * 5,
}
SIZES = (100, 300)
CASES = {f"{who} | {n}": (right, n) for who, right in CODERS.items() for n in SIZES}
WAYS = {"majority": "majority", "dawid_skene": "Dawid-Skene", "one_coin": "one-coin"}
MEASURES = {"accuracy": "accuracy", "recall": "recall of yes", "kappa": "kappa"}
Cell = tuple[bool, float]


def truths() -> dict[str, float]:
    """Return the true accuracy, recall of "yes" and kappa of the model."""
    hits = SHARE * RECALL + (1 - SHARE) * SPECIFICITY
    yes = SHARE * RECALL + (1 - SHARE) * (1 - SPECIFICITY)
    chance = SHARE * yes + (1 - SHARE) * (1 - yes)
    return {
        "accuracy": hits,
        "recall": RECALL,
        "kappa": (hits - chance) / (1 - chance),
    }


def one_draw(case: str, seed: int, k: int) -> dict[str, dict[str, Cell]]:
    """Simulate draw k: hits and widths of the measures, by who is right."""
    right, n = CASES[case]
    rng = np.random.default_rng([seed, n, k])
    truth = (rng.random(n) < SHARE).astype(int)
    is_right = rng.random(n) < np.where(truth == 1, RECALL, SPECIFICITY)
    labels = named(np.where(is_right, truth, 1 - truth))
    codes = {
        f"coder {j}": named(np.where(rng.random(n) < p, truth, 1 - truth))
        for j, p in enumerate(right)
    }
    return {way: cells(validate(labels, codes, consensus=way)) for way in WAYS}


def named(numbers: Integers) -> list[str]:
    """Return labels of numbers."""
    return [NAMES[k] for k in numbers]


def cells(found: Validation) -> dict[str, Cell]:
    """Return if the interval of each measure contains the true value, and its width."""
    scores = {each.label: each for each in found.accuracy.per_label}
    kappa = next(each for each in found.model_agreement if "kappa" in each.name)
    of = {
        "accuracy": found.accuracy.accuracy,
        "recall": scores["yes"].recall,
        "kappa": kappa,
    }
    return {
        name: (bool(of[name].low <= truth <= of[name].high), of[name].high - of[name].low)
        for name, truth in truths().items()
    }


def table(found: draws.Drawn) -> str:
    """Return the table of coverage and mean widths."""
    error = math.sqrt(0.95 * 0.05 / found.n_draws)
    setting = (
        f"{found.n_draws:,} draws each; standard error of a coverage of 95%: "
        f"{error:.1%}. Mean widths are in parentheses."
    )
    lines = [setting, "", f"| coders | texts | measure | {' | '.join(WAYS.values())} |"]
    lines.append("|---|---:|---|---:|---:|---:|")
    for case, values in found.cases.items():
        for measure, title in MEASURES.items():
            means = [np.mean([v[way][measure] for v in values], axis=0) for way in WAYS]
            shown = " | ".join(f"{hit:.1%} ({width:.3f})" for hit, width in means)
            lines.append(f"| {case} | {title} | {shown} |")
    return "\n".join(lines)


def main() -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    draws.add_options(parser, 1000, 6)
    simulation = draws.Simulation(name="consensus", cases=list(CASES), draw=one_draw)
    found = draws.results(simulation, parser.parse_args())
    if found is not None:
        marked.write(PAGE, {"coverage: consensus": table(found)})


if __name__ == "__main__":
    main()
