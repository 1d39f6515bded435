"""Coverage of intervals if a model labels a sample, and a classifier the other texts.

    python benchmarks/coverage_steps.py [--draws 500] [--workers 1] [--seed 20261126]
        [--skip N] [--save FILE] [--merge FILE ...] [--output FILE] [--first N]

Texts are simulated as in coverage_heads.py, with embeddings of 20 dimensions. In each
simulation, a model labels 300 of 2,000 texts. A classifier on embeddings (head) is fitted
to the model's probabilities and labels the rest. As in `annotate(until=)`, the model then
labels some texts again: the tenth of the texts for which the head has the lowest
probabilities. The gold sample is drawn from all texts. The share (or the difference of
two groups, or a coefficient) is estimated from labels, from probabilities, and from
probabilities that `recalibrate` improved with the codes after the steps. steps_report.py
writes the rows into docs/steps.md. With `--first`, only the first designs are simulated.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

import coverage_heads as base
import draws
import numpy as np
from llamaherd.coding.statistics import sampling
from llamaherd.coding.statistics.heads import least_sure, text_head

UNTIL, UNSURE = 300, 0.1
STRATA_BY_STEP = "by step"

DESIGNS = (
    base.HeadDesign(name="simple, 150", n_vectors=20),
    base.HeadDesign(name="simple, 60", n=60, n_vectors=20),
    base.HeadDesign(name="these texts, 150", target="texts", n_vectors=20),
    base.HeadDesign(name="equal strata of the labels, 150", kind="equal", n_vectors=20),
    base.HeadDesign(
        name="equal strata of the steps, 150", kind=STRATA_BY_STEP, n_vectors=20
    ),
    base.HeadDesign(name="uncertainty, 150", kind="uncertainty", n_vectors=20),
    base.HeadDesign(name="model without information", signal=0.0, n_vectors=20),
    base.HeadDesign(name="difference of groups", estimate="difference", n_vectors=20),
    base.HeadDesign(name="OLS", estimate="ols", n_vectors=20),
)


def in_steps(texts: base.Texts, rng: base.Rng) -> tuple[base.Texts, base.Ints]:
    """Return texts with the probabilities from the steps, and the step of each text."""
    assert texts.vectors is not None  # noqa: S101 - see DESIGNS
    n = len(texts.code)
    sample = np.sort(rng.choice(n, UNTIL, replace=False))
    rest = np.setdiff1d(np.arange(n), sample)
    head = text_head(texts.vectors[sample], texts.probs[sample], rng)
    probs, step = texts.probs.copy(), np.zeros(n, dtype=np.int64)
    probs[rest], step[rest] = head.probs(texts.vectors[rest]), 1
    unsure = rest[least_sure(probs[rest], round(UNSURE * len(rest)))]
    probs[unsure], step[unsure] = texts.probs[unsure], 2
    return replace(texts, probs=probs), step


def one_draw(case: str, seed: int, k: int) -> dict[str, Any] | None:
    """Simulate draw k of a design; see `coverage_heads.one_draw`."""
    i = [design.name for design in DESIGNS].index(case)
    design, rng = DESIGNS[i], base.generator(seed, i, k)
    alone = base.made(design, rng)
    texts, step = in_steps(alone, rng)
    draw = (
        sampling.draw_stratified(step.tolist(), design.n, rng, "equal")
        if design.kind == STRATA_BY_STEP
        else base.drawn(design, texts, rng)
    )
    if len(np.unique(texts.code[draw.rows])) < 3:
        return None
    new = base.recalibrated(replace(texts, vectors=None), draw, rng)
    right = {"model": alone.probs, "steps": texts.probs, "recalibrated": new}
    ways = {
        "labels": np.eye(3)[texts.probs.argmax(axis=1)],
        "probs": texts.probs,
        "recalibrated": new,
    }
    return {
        "accuracy": base.accuracy(texts, right),
        **base.hits(design, texts, draw, ways, rng),
    }


def main() -> None:
    """Measure, and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    draws.add_options(parser, 500, 20261126)
    default = Path(__file__).resolve().parent / "results/coverage_steps.json"
    parser.add_argument("--output", type=Path, default=default)
    parser.add_argument("--first", type=int)
    args = parser.parse_args()
    cases = [design.name for design in DESIGNS[: args.first]]
    simulation = draws.Simulation(name="steps", cases=cases, draw=one_draw)
    found = draws.results(simulation, args)
    if found is not None:
        base.write(args.output, "steps", found)


if __name__ == "__main__":
    main()
