"""Coverage of intervals if a model labels a sample, and a classifier the other texts.

    python benchmarks/coverage_steps.py [--draws 400] [--seed 20261126] [--output FILE]
        [--first N]

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
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import coverage_heads as base
import numpy as np
from llamaherd.research.coding.head_step import least_sure
from llamaherd.research.statistics import sampling
from llamaherd.research.statistics.text_heads import text_head

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


def measured(n_draws: int, seed: int, first: int | None) -> list[dict[str, Any]]:
    """Return a row for each design: coverage and width by predictions and method."""
    found = []
    for i, design in enumerate(DESIGNS[:first]):
        if design.estimate != "share":
            base._TRUTHS[design.estimate] = base._population(design.estimate)  # noqa: SLF001
        rng = np.random.default_rng([seed, i])
        found.append(_measured(design, rng.spawn(n_draws)))
        print(json.dumps(found[-1]), flush=True)
    return found


def _measured(design: base.HeadDesign, generators: list[base.Rng]) -> dict[str, Any]:
    cells: dict[tuple[str, str], list[tuple[bool, float]]] = {}
    right: dict[str, list[float]] = {}
    n_failed = 0
    for rng in generators:
        alone = base.made(design, rng)
        texts, step = in_steps(alone, rng)
        draw = (
            sampling.draw_stratified(step.tolist(), design.n, rng, "equal")
            if design.kind == STRATA_BY_STEP
            else base.drawn(design, texts, rng)
        )
        if len(np.unique(texts.code[draw.rows])) < 3:
            n_failed += 1
            continue
        ways = {
            "labels": np.eye(3)[texts.probs.argmax(axis=1)],
            "probs": texts.probs,
            "recalibrated": base.recalibrated(replace(texts, vectors=None), draw, rng),
        }
        hits = {"model": alone.probs, "steps": texts.probs}
        hits["recalibrated"] = ways["recalibrated"]
        for name, probs in hits.items():
            right.setdefault(name, []).append(
                float((probs.argmax(axis=1) == texts.code).mean())
            )
        noise = int(rng.integers(2**32))
        truth = base.truth_of(design, texts)
        for way, probs in ways.items():
            same = np.random.default_rng(noise)
            limits = base.estimated(design, texts, draw, probs[:, 0], same, way)
            for method, (low, high) in limits.items():
                if not np.isnan(low):
                    one = (bool(low <= truth <= high), float(high - low))
                    cells.setdefault((way, method), []).append(one)
    return {
        "design": design.name,
        "draws": len(generators),
        "n_failed": n_failed,
        "accuracy": {name: float(np.mean(values)) for name, values in right.items()},
        "cells": [
            {
                "way": way,
                "method": method,
                "coverage": float(np.mean([hit for hit, _ in values])),
                "width": float(np.median([width for _, width in values])),
            }
            for (way, method), values in cells.items()
        ],
    }


def main() -> None:
    """Measure, and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=400)
    parser.add_argument("--seed", type=int, default=20261126)
    default = Path(__file__).resolve().parent / "results/coverage_steps.json"
    parser.add_argument("--output", type=Path, default=default)
    parser.add_argument("--first", type=int)
    args = parser.parse_args()
    start = time.monotonic()
    rows = measured(args.draws, args.seed, args.first)
    settings = {"draws": args.draws, "seed": args.seed, "level": base.LEVEL}
    settings["seconds"] = round(time.monotonic() - start)
    args.output.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({**settings, "steps": rows}, indent=1)
    args.output.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
