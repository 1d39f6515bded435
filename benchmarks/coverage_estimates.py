"""Simulated studies of `estimate()`: waves, coders, weights, many intervals, numbers.

coverage.py runs them.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import lru_cache
from typing import Any

import llamaherd as lh
import numpy as np
from coverage_designs import (
    METHODS,
    NAMES,
    Design,
    Rng,
    frame_of,
    intervals,
    sample_of,
    texts_of,
    truth_of,
)
from llamaherd.coding.statistics.sampling import label_check
from studies import Hit, hit, joined, studies

ALL = ("naive", *METHODS)
BY_GROUP = Design(share=(0.25, 0.55), recall=(0.9, 0.55), alarms=(0.15, 0.05), slope=0.0)
ERRORS = "by errors found"


def coded_sample(
    frame: Any, n: int, codes: list[Any], rng: Rng, **how: Any
) -> lh.GoldSample:
    """Draw a gold sample of n texts, with their codes."""
    seed = int(rng.integers(2**31))
    gold = lh.gold_sample(frame, n, text="text", label="label", seed=seed, **how)
    return gold.with_codes([codes[row] for row in gold.rows])


def draw_waves(case: tuple[str, tuple[int, ...], str], rng: Rng) -> dict[str, Hit]:
    """Simulate codes in waves; later waves may depend on the codes of earlier ones."""
    first, sizes, then = case
    is_declared = not then.endswith("as one simple sample")
    then = then.partition(",")[0]
    texts = texts_of(BY_GROUP, rng)
    frame, codes = frame_of(BY_GROUP, texts, rng)
    gold = sample_of(replace(BY_GROUP, n=sizes[0], kind=first), frame, rng)
    for n in sizes[1:]:
        how: dict[str, Any] = {}
        if then == "groups":
            how = {"by": "group", "allocation": "equal"}
        elif then == ERRORS:
            rows = np.array(gold.rows)
            cells = 2 * texts.label + np.array(texts.group)
            wrong = texts.label[rows] != texts.code[rows]
            n_codes = np.bincount(cells[rows], minlength=4)
            rate = (np.bincount(cells[rows], wrong, minlength=4) + 0.5) / (n_codes + 1)
            sizes_of = np.sqrt(rate)[cells]
            left = np.setdiff1d(np.arange(len(cells)), rows)
            how = {"prob": (n * sizes_of / sizes_of[left].sum()).tolist()}
        gold = lh.gold_sample(frame, n, after=gold, seed=int(rng.integers(2**31)), **how)
    declared: dict[str, Any] = {}
    coded: Any = gold.with_codes([codes[row] for row in gold.rows])
    if not is_declared:
        coded = [None] * len(codes)
        for row in gold.rows:
            coded[row] = codes[row]
        declared = {"prob": "simple"}
    share = intervals(BY_GROUP, frame, coded, **declared)
    difference = replace(BY_GROUP, what="difference")
    return {
        "share: codes alone": hit(share["gold"], truth_of(BY_GROUP)),
        "share: DSL": hit(share["dsl"], truth_of(BY_GROUP)),
        "difference: DSL": hit(
            intervals(difference, frame, coded, **declared)["dsl"], truth_of(difference)
        ),
    }


def draw_coders(case: tuple[float, ...], rng: Rng) -> dict[str, Hit]:
    """Simulate codes by the majority of coders who make independent errors."""
    hits = {}
    for what, kind in (("share", "simple"), ("share", "equal"), ("difference", "simple")):
        design = replace(BY_GROUP, what=what, kind=kind)
        texts = texts_of(design, rng)
        frame, _ = frame_of(design, texts, rng)
        gold = sample_of(design, frame, rng)
        truth = texts.code[gold.rows]
        right = rng.random((len(case), len(truth))) < np.array(case)[:, None]
        coders = NAMES[np.where(right, truth, 1 - truth)].tolist()
        gold = gold.with_codes({f"coder {i}": row for i, row in enumerate(coders)})
        title = what if kind == "simple" else f"{what}, equal strata"
        hits[title] = hit(intervals(design, frame, gold)["dsl"], truth_of(design))
    return hits


def draw_weights(kind: str, rng: Rng) -> dict[str, Hit]:
    """Simulate texts in which group B is four times overrepresented."""
    design = replace(BY_GROUP, in_b=8 / 11, kind="equal" if kind == "equal" else "simple")
    texts = texts_of(design, rng)
    frame, codes = frame_of(design, texts, rng)
    frame["w"] = np.where(texts.group == 1, 1.0, 4.0).tolist()
    if kind == "weights":
        gold = coded_sample(frame, 200, codes, rng, prob="weights", weights="w")
    else:
        gold = sample_of(design, frame, rng)
        gold = gold.with_codes([codes[row] for row in gold.rows])
    truth = truth_of(BY_GROUP)
    return {
        "with weights": hit(intervals(design, frame, gold, weights="w")["dsl"], truth),
        "without": hit(intervals(design, frame, gold)["dsl"], truth),
    }


SHARES = np.array([[0.4, 0.3, 0.2, 0.1], [0.3, 0.3, 0.2, 0.2], [0.2, 0.3, 0.3, 0.2]])


def draw_many(way: str, rng: Rng) -> dict[str, Hit]:
    """Simulate twenty intervals: whether all hold, and their mean width."""
    group = rng.integers(3, size=1500)
    edges = np.cumsum(SHARES, axis=1)[group]
    code = (rng.random(1500)[:, None] > edges[:, :3]).sum(axis=1)
    label = np.where(rng.random(1500) < 0.2, rng.integers(4, size=1500), code)
    frame = {
        "text": [f"text {i}" for i in range(1500)],
        "label": [f"l{k}" for k in label],
        "group": group.tolist(),
    }
    gold = coded_sample(frame, 400, [f"l{k}" for k in code], rng)
    joint = None if way == "none" else way
    estimates = lh.estimate(frame, gold, by="group", methods=("dsl",), simultaneous=joint)
    hits = [hit(row, true_share(row)) for row in estimates.rows]
    return {"all hold": joined(hits, "bonferroni")}


def true_share(row: Any) -> float:
    """Return the true share of a label in a group, or the difference of two groups."""
    k, groups = int(row.outcome[1:]), [int(name) for name in row.group.split(" - ")]
    return float(SHARES[groups[0], k] - (SHARES[groups[1], k] if groups[1:] else 0.0))


def draw_check(odds: float, rng: Rng) -> dict[str, Hit]:
    """Simulate codes that are declared as a simple sample."""
    texts = texts_of(BY_GROUP, rng)
    labels = NAMES[texts.label]
    p = np.where(labels == "yes", odds, 1.0)
    rows = rng.choice(len(labels), 200, replace=False, p=p / p.sum())
    check = label_check(labels.tolist(), labels[rows].tolist())
    return {"warned of": Hit(float(check.is_unlikely))}


def draw_numbers(kind: str, rng: Rng) -> dict[str, Hit]:
    """Simulate medians of numbers from 0 to 10, and regressions on them."""
    people, model = numbers_of(kind, 1000, rng)
    frame = {
        "text": [f"text {i}" for i in range(1000)],
        "label": model.tolist(),
        "outcome": (0.5 * people + rng.normal(size=1000)).tolist(),
    }
    gold = coded_sample(frame, 150, people.tolist(), rng)
    rows = [
        *lh.estimate(frame, gold, outcome="median", methods=ALL).rows,
        *lh.estimate(frame, gold, "outcome ~ label", methods=ALL).rows,
    ]
    hits = {}
    for row in rows:
        if row.term == "label":
            hits[f"slope: {row.method}"] = hit(row, 0.5)
        elif row.outcome == "median":
            hits[f"median: {row.method}"] = hit(row, true_median(kind))
    return hits


def numbers_of(kind: str, n: int, rng: Rng) -> tuple[Any, Any]:
    """Draw skewed codes, and numbers of a model that are shrunk and shifted."""
    people = 10 * rng.beta(1.2, 2.5, n)
    people = np.round(people) if kind == "whole" else people
    model = 1.2 + 0.75 * people + rng.normal(size=n) * (0.8 + 0.15 * people)
    if kind != "whole":
        return people, model
    return people.astype(int), np.round(np.clip(model, 0, 10)).astype(int)


@lru_cache
def true_median(kind: str) -> float:
    """Return the median of the distribution of codes."""
    people, _ = numbers_of(kind, 1_000_000, np.random.default_rng(1))
    return float(np.quantile(people, 0.5, method="inverted_cdf"))


TAILS = {
    "normal": lambda rng, n: 10 + rng.normal(size=n),
    "t, 5 df": lambda rng, n: 10 + rng.standard_t(5, n),
    "exponential": lambda rng, n: rng.exponential(size=n),
    "lognormal": lambda rng, n: rng.lognormal(0, 1.0, n),
    "lognormal, sigma 1.5": lambda rng, n: rng.lognormal(0, 1.5, n),
}
MEANS = {
    **dict.fromkeys(("normal", "t, 5 df"), 10.0),
    "exponential": 1.0,
    "lognormal": float(np.exp(0.5)),
    "lognormal, sigma 1.5": float(np.exp(1.5**2 / 2)),
}


def draw_tails(name: str, rng: Rng) -> dict[str, Hit]:
    """Simulate means of numbers with heavy tails; the model's numbers are too low."""
    people = TAILS[name](rng, 2000)
    frame = {
        "text": [f"text {i}" for i in range(2000)],
        "label": (people * rng.uniform(0.3, 1, 2000)).tolist(),
    }
    hits: dict[str, Hit] = {}
    for n in (50, 100, 400):
        gold = coded_sample(frame, n, people.tolist(), rng)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            rows = lh.estimate(frame, gold, outcome="mean", methods=("gold", "dsl")).rows
        hits |= {
            f"{row.method}, {n} codes": Hit(hit(row, MEANS[name]).share) for row in rows
        }
        hits[f"warned of, {n} codes"] = Hit(float(bool(caught)))
    return hits


STUDIES = studies(
    waves=draw_waves,
    coders=draw_coders,
    weights=draw_weights,
    many=draw_many,
    check=draw_check,
    medians=draw_numbers,
    skewed=draw_tails,
)
