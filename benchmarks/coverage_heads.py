"""Coverage of 95% intervals from probabilities, original and recalibrated.

python benchmarks/coverage_heads.py [--draws 200] [--workers 1] [--seed 20261125]
    [--skip N] [--save FILE] [--merge FILE ...] [--output FILE]

Each simulation draws texts with three labels, probabilities of a model that prefers one
label and is unsure, and a gold sample. A classifier (head) is fitted to the codes,
cross-fitted as in `recalibrate`. One number is then estimated from labels, from
probabilities and from recalibrated probabilities. `coverage_report.py` writes the table.
"""

from __future__ import annotations

import argparse
import json
import warnings
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import draws
import numpy as np
from llamaherd.coding.estimation.fitting import FitSettings
from llamaherd.coding.estimation.formulas import Matrices, fit_regression
from llamaherd.coding.estimation.means import fit_means
from llamaherd.coding.gold.used import GoldUsed
from llamaherd.coding.statistics import heads, sampling

if TYPE_CHECKING:
    Floats = np.ndarray[Any, np.dtype[np.float64]]
    Ints = np.ndarray[Any, np.dtype[np.int64]]
    Rng = np.random.Generator

LEVEL = 0.95
METHODS = ("dsl", "ppi", "gold")
WAYS = ("labels", "probs", "recalibrated")
N_FOLDS = 5


@dataclass(frozen=True, kw_only=True)
class HeadDesign:
    """Design to simulate.

    Attributes:
        name: Description of the design.
        shares: Shares of texts with each of the three labels; the first share is
            estimated.
        signal: Mean amount by which the true label's logit exceeds the other logits,
            before `bias` is added. The unit is the standard deviation of the noise. This
            amount is multiplied by 0.6 in group 1 and by 1.2 in group 0.
        bias: Preference of the model for the third label.
        n_texts: Number of texts.
        n: Number of codes.
        kind: "simple", "equal" (strata of the model's labels), "uncertainty", "length".
        target: "population" or "texts".
        estimate: "share", "difference", "ols", "logit" or "covariate".
        n_vectors: Number of dimensions of embeddings; 0 without embeddings.
        part: Number of draws as a share of `--draws`; below 1 for slow designs.
    """

    name: str
    shares: tuple[float, float, float] = (0.3, 0.5, 0.2)
    signal: float = 1.2
    bias: float = 1.5
    n_texts: int = 2000
    n: int = 150
    kind: str = "simple"
    target: str = "population"
    estimate: str = "share"
    n_vectors: int = 0
    part: float = 1.0


RARE = (0.05, 0.55, 0.4)
DESIGNS = (
    HeadDesign(name="simple, 150"),
    HeadDesign(name="simple, 60", n=60),
    HeadDesign(name="simple, 40", n=40),
    HeadDesign(name="these texts, 600 of them, 150", n_texts=600, target="texts"),
    HeadDesign(name="model without information", signal=0.0),
    HeadDesign(name="very good model", signal=4.0, bias=0.0),
    HeadDesign(name="label of 5%, simple, 200", shares=RARE, n=200),
    HeadDesign(name="label of 5%, equal strata, 200", shares=RARE, n=200, kind="equal"),
    HeadDesign(name="equal strata, these texts", kind="equal", target="texts"),
    HeadDesign(name="uncertainty, 150", kind="uncertainty"),
    HeadDesign(name="probabilities by length, 150", kind="length"),
    HeadDesign(name="embeddings too, 150", n_vectors=20, part=0.5),
    HeadDesign(name="embeddings too, 60", n_vectors=20, n=60, part=0.5),
    HeadDesign(name="difference of groups", estimate="difference"),
    HeadDesign(name="OLS", estimate="ols"),
    HeadDesign(name="logit", estimate="logit"),
    HeadDesign(name="label as a covariate", estimate="covariate"),
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Texts:
    """Texts of one simulation: codes, probabilities, embeddings, group, covariate."""

    code: Ints
    probs: Floats
    vectors: Floats | None
    group: Ints
    age: Floats


def made(design: HeadDesign, rng: Rng) -> Texts:
    """Draw texts with the first label more frequent in group 1 and at higher age."""
    n = design.n_texts
    group = rng.integers(0, 2, n)
    age = rng.normal(size=n)
    log_odds = np.log(design.shares) + np.zeros((n, 3))
    if design.estimate in {"difference", "ols", "logit"}:
        log_odds[:, 0] += 0.8 * group + 0.5 * age
    code = (heads.softmax(log_odds).cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
    hit = np.eye(3)[code]
    noise = rng.normal(size=(n, 3))
    # In group 1 the model has less information.
    seen = design.signal * np.where(group == 1, 0.6, 1.2)[:, None]
    linear = seen * hit + noise + np.array([0, 0, design.bias])
    vectors = None
    if design.n_vectors:
        means = 0.6 * np.eye(3, design.n_vectors)
        vectors = hit @ means + rng.normal(size=(n, design.n_vectors)) * 0.5
    return Texts(
        code=code, probs=heads.softmax(linear), vectors=vectors, group=group, age=age
    )


def drawn(design: HeadDesign, texts: Texts, rng: Rng) -> sampling.Draw:
    """Draw a gold sample."""
    if design.kind == "simple":
        return sampling.draw_simple(design.n_texts, design.n, rng)
    if design.kind == "equal":
        labels = texts.probs.argmax(axis=1).tolist()
        return sampling.draw_stratified(labels, design.n, rng, "equal")
    sizes = 1 - texts.probs.max(axis=1)
    if design.kind == "length":
        sizes = np.exp(rng.normal(0, 0.7, design.n_texts))
    return sampling.draw_unequal(sampling.inclusion_probs(sizes, design.n, 0.3), rng)


def recalibrated(texts: Texts, draw: sampling.Draw, rng: Rng) -> Floats:
    """Return probabilities by heads as in `recalibrate`, float64[N, 3]."""
    blocks = [heads.log_probs(texts.probs)]
    if texts.vectors is not None:
        blocks.append(heads.components(texts.vectors))
    rows = draw.rows
    strata = draw.strata[rows].tolist()
    folds = heads.deal_folds(range(len(rows)), strata, N_FOLDS, rng)
    fit = heads.cross_fit(
        [block[rows] for block in blocks],
        texts.code[rows],
        1 / draw.probs,
        folds,
        rng,
        n_labels=3,
    )
    probs = fit.mean_probs(np.hstack(blocks))
    probs[rows] = fit.probs
    return probs


def truth_of(design: HeadDesign, texts: Texts) -> float:
    """Return the true value of the estimate."""
    if design.estimate == "share":
        is_texts = design.target == "texts"
        return float((texts.code == 0).mean()) if is_texts else design.shares[0]
    return _population(design.estimate)


@lru_cache
def _population(estimate: str) -> float:
    """Return the true value, computed from a million simulated texts."""
    design = HeadDesign(name="", estimate=estimate, n_texts=1_000_000)
    texts = made(design, np.random.default_rng(1))
    y = (texts.code == 0).astype(float)
    if estimate == "difference":
        return float(y[texts.group == 1].mean() - y[texts.group == 0].mean())
    if estimate == "covariate":
        return 1.0
    x = np.column_stack([np.ones(len(y)), texts.group, texts.age])
    if estimate == "ols":
        return float(np.linalg.lstsq(x, y, rcond=None)[0][2])
    theta = np.zeros(3)
    for _ in range(20):
        mu = 1 / (1 + np.exp(-x @ theta))
        bread = (x * (mu * (1 - mu))[:, None]).T @ x
        theta += np.linalg.solve(bread, x.T @ (y - mu))
    return float(theta[2])


def estimated(  # noqa: PLR0917 - one caller
    design: HeadDesign, texts: Texts, draw: sampling.Draw, hat: Floats, rng: Rng, way: str
) -> dict[str, tuple[float, float]]:
    """Return the limits of the interval by each method.

    Args:
        design: The design.
        texts: Texts of the design.
        draw: Gold sample of the texts.
        hat: float64[N], prediction of the first label.
        rng: Random number generator.
        way: One of `WAYS`.
    """
    gold = GoldUsed(
        rows=draw.rows, codes=[], probs=draw.probs, strata=draw.strata[draw.rows],
        is_even=design.kind == "simple", design=design.kind, all_probs=draw.all_probs,
        all_strata=draw.strata,
    )  # fmt: skip
    settings = FitSettings(
        gold=gold, methods=METHODS, level=LEVEL, target=design.target,
        are_probs=way != "labels",
    )  # fmt: skip
    code, rows = (texts.code == 0).astype(float), draw.rows
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        if design.estimate in {"share", "difference"}:
            groups = texts.group * (design.estimate == "difference")
            names = ["0", "1"] if design.estimate == "difference" else [""]
            found = fit_means([("x", hat, code[rows])], "share", groups, names, settings)
            wanted = design.estimate
        else:
            found = _regression(design, texts, hat, code, rows, settings, rng)
            wanted = "x"
    return {r.method: (r.low, r.high) for r in found.rows if r.term == wanted}


def _regression(  # noqa: PLR0917 - one caller
    design: HeadDesign,
    texts: Texts,
    hat: Floats,
    code: Floats,
    rows: Ints,
    settings: FitSettings,
    rng: Rng,
) -> Any:  # noqa: ANN401 - Found
    ones = np.ones(design.n_texts)
    if design.estimate == "covariate":
        y = y_hat = code + rng.normal(size=design.n_texts)
        x_hat, x = (np.column_stack([ones, each]) for each in (hat, code))
        terms: tuple[str, ...] = ("1", "x")
    else:
        y, y_hat = code, hat
        x = x_hat = np.column_stack([ones, texts.group, texts.age])
        terms = ("1", "group", "x")
    matrices = Matrices(
        x_hat=x_hat, y_hat=y_hat, x=x[rows], y=y[rows], terms=terms, outcome="y",
        has_label_right=design.estimate == "covariate",
    )  # fmt: skip
    return fit_regression(
        "logit" if design.estimate == "logit" else "ols", matrices, settings
    )


def one_draw(case: str, seed: int, k: int) -> dict[str, Any] | None:
    """Simulate draw k of a design.

    Returns:
        Accuracy by predictions, number of failures, and for each kind of predictions and
        method if the interval contains the true value, and its width; None if a label
        has no code.
    """
    names = [design.name for design in DESIGNS]
    i = names.index(case)
    design, rng = DESIGNS[i], generator(seed, i, k)
    texts = made(design, rng)
    draw = drawn(design, texts, rng)
    if len(np.unique(texts.code[draw.rows])) < 3:
        return None
    new = recalibrated(texts, draw, rng)
    labels = np.eye(3)[texts.probs.argmax(axis=1)]
    ways = dict(zip(WAYS, (labels, texts.probs, new), strict=True))
    return {"accuracy": accuracy(texts, ways), **hits(design, texts, draw, ways, rng)}


def generator(seed: int, i: int, k: int) -> Rng:
    """Return the random number generator of draw k of design i."""
    return np.random.default_rng(np.random.SeedSequence([seed, i], spawn_key=(k,)))


def accuracy(texts: Texts, ways: dict[str, Floats]) -> dict[str, float]:
    """Return the share of texts with the right label by each kind of predictions."""
    return {
        way: float((probs.argmax(axis=1) == texts.code).mean())
        for way, probs in ways.items()
    }


def hits(
    design: HeadDesign,
    texts: Texts,
    draw: sampling.Draw,
    ways: dict[str, Floats],
    rng: Rng,
) -> dict[str, Any]:
    """Return hits and widths of intervals by kind of predictions and method."""
    noise, truth = int(rng.integers(2**32)), truth_of(design, texts)
    cells, n_failed = [], 0
    for way, probs in ways.items():
        same = np.random.default_rng(noise)
        try:
            limits = estimated(design, texts, draw, probs[:, 0], same, way)
        except ValueError:
            n_failed += 1
            continue
        for method, (low, high) in limits.items():
            if not np.isnan(low):
                hit = bool(low <= truth <= high)
                cells.append([way, method, hit, float(high - low)])
    return {"n_failed": n_failed, "cells": cells}


def summarized(found: draws.Drawn) -> list[dict[str, Any]]:
    """Return a row for each design: coverage and width by predictions and method."""
    return [_row(case, values) for case, values in found.cases.items()]


def _row(case: str, values: list[Any]) -> dict[str, Any]:
    good = [value for value in values if value is not None]
    cells: dict[tuple[str, str], list[tuple[bool, float]]] = {}
    for value in good:
        for way, method, hit, width in value["cells"]:
            cells.setdefault((way, method), []).append((hit, width))
    ways = good[0]["accuracy"]
    n_failed = sum(value["n_failed"] for value in good) + len(values) - len(good)
    return {
        "design": case,
        "draws": len(values),
        "n_failed": n_failed,
        "accuracy": {
            way: float(np.mean([value["accuracy"][way] for value in good]))
            for way in ways
        },
        "cells": [
            {
                "way": way,
                "method": method,
                "coverage": float(np.mean([hit for hit, _ in pairs])),
                "width": float(np.median([width for _, width in pairs])),
            }
            for (way, method), pairs in cells.items()
        ],
    }


def write(path: Path, name: str, found: draws.Drawn) -> None:
    """Write the rows of a simulation as JSON, under its name."""
    settings = {"draws": found.n_draws, "seed": found.seed, "level": LEVEL}
    settings["core_seconds"] = found.core_seconds
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({**settings, name: summarized(found)}, indent=1)
    path.write_text(text + "\n", encoding="utf-8")


def main() -> None:
    """Measure, and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    draws.add_options(parser, 200, 20261125)
    default = Path(__file__).resolve().parent / "results/coverage_heads.json"
    parser.add_argument("--output", type=Path, default=default)
    args = parser.parse_args()
    simulation = draws.Simulation(
        name="heads",
        cases=[design.name for design in DESIGNS],
        draw=one_draw,
        parts={design.name: design.part for design in DESIGNS},
    )
    found = draws.results(simulation, args)
    if found is not None:
        write(args.output, "heads", found)


if __name__ == "__main__":
    main()
