"""Simulated studies of `estimate()`: designs of samples, probabilities, steps.

coverage.py runs them. Texts have the label *yes* or *no*; a model errs more often in
group B than in group A if the case says so.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import numpy as np
from llamaherd.coding.statistics.heads import least_sure, text_head
from studies import Hit, hit, studies

if TYPE_CHECKING:
    from llamaherd.engine.core.arrays import Floats

Rng = np.random.Generator
NAMES = np.array(["no", "yes"])
METHODS = ("gold", "ppi", "dsl")
RATES = ("share", "recall", "alarms")  # by group
LOGIT = "label == 'yes' ~ group + x"


@dataclass(frozen=True, kw_only=True)
class Design:
    """Texts and a gold sample."""

    # Share of texts with the code *yes*, in group A and in group B.
    share: tuple[float, float] = (0.35, 0.55)
    # Share of them that get the label *yes* from the model, by group.
    recall: tuple[float, float] = (0.9, 0.6)
    # The same share among texts with the code *no*.
    alarms: tuple[float, float] = (0.2, 0.1)
    slope: float = 0.5  # effect of the covariate x on the log odds of *yes*
    n_texts: int = 2000  # number of texts
    n: int = 200  # number of codes
    # "simple", "equal" or "proportional" strata of labels, "tilted" (a fifth of the codes
    # from *yes*), "groups" (strata), "uncertainty", "floor" (uncertainty with
    # `floor=0.05`) or "length" (given probabilities).
    kind: str = "simple"
    sure: bool = False  # true if 95% of the confidences are 1
    target: Any = "population"  # "population" or "texts"
    # "share", "difference", "mean", "ols", "logit", "skewed" (OLS with a skewed
    # covariate), "covariate" (the label on the right side) or "recall".
    what: str = "share"
    in_b: float = 0.4  # share of texts in group B
    n_groups: int = 2  # number of groups; with more than two, groups have equal sizes
    is_clustered: bool = False  # true if texts of a group have similar codes and errors
    # Information in the probabilities of *yes*; None: no probabilities.
    signal: float | None = None
    bias: float = 1.0  # preference of the probabilities for *no*
    # True if a model labels 300 texts and a head on embeddings the rest.
    in_steps: bool = False


@dataclass(kw_only=True, eq=False)
class Texts:
    """Texts of one draw: codes and labels (0 or 1), groups, covariate, probabilities."""

    code: Any
    label: Any
    group: Any
    x: Floats
    confidence: Floats
    prob: Floats | None = None
    vectors: Floats | None = None


def texts_of(design: Design, rng: Rng) -> Texts:
    """Draw texts."""
    n = design.n_texts
    group = (
        (rng.random(n) < design.in_b).astype(int)
        if design.n_groups == 2
        else rng.integers(0, design.n_groups, n)
    )
    of_group = np.minimum(group, 1)
    shift = rng.normal(0, 0.1, design.n_groups)[group] * design.is_clustered
    x = rng.normal(size=n)
    share = np.array(design.share)[of_group]
    odds = np.log(share / (1 - share)) + design.slope * x
    code = (rng.random(n) < 1 / (1 + np.exp(-odds)) + shift).astype(int)
    prob = vectors = None
    if design.signal is None:
        yes = np.where(code == 1, np.array(design.recall)[of_group], 0)
        yes = np.where(code == 0, np.array(design.alarms)[of_group], yes) + shift / 2
        label = (rng.random(n) < yes).astype(int)
    else:
        seen = design.signal * np.where(of_group == 1, 0.6, 1.2) * (2 * code - 1)
        prob = np.asarray(1 / (1 + np.exp(design.bias - seen - rng.normal(size=n))))
        vectors = rng.normal(size=(n, 20)) * 0.5
        vectors[:, 0] += 0.6 * code
        label = (prob > 0.5).astype(int)
    wrong = label != code
    confidence = np.where(wrong, rng.beta(2, 2, n), rng.beta(5, 1.5, n))
    if design.sure:
        confidence = np.where(rng.random(n) < 0.95, 1.0, rng.random(n))
    return Texts(
        code=code,
        label=label,
        group=group,
        x=x,
        confidence=confidence,
        prob=prob,
        vectors=vectors,
    )


@lru_cache
def truth_of(design: Design) -> float:
    """Return the true value in the population, from two million simulated texts."""
    if design.what in {"skewed", "covariate"}:
        return 1.0
    if design.is_clustered:
        return design.share[0]
    total: Any = 0.0
    for seed in range(4):
        texts = texts_of(replace(design, n_texts=500_000), np.random.default_rng(seed))
        total = total + truth_in(design, texts) / 4
    return float(total)


def truth_in(design: Design, texts: Texts) -> float:
    """Return the value of the codes of all texts."""
    code = texts.code
    match design.what:
        case "difference":
            return float(code[texts.group == 1].mean() - code[texts.group == 0].mean())
        case "mean":
            return float(2 * code.mean())
        case "recall":
            return float(texts.label[code == 1].mean())
        case "ols" | "logit":
            x = np.column_stack([np.ones(len(code)), texts.group, texts.x])
            theta = np.linalg.lstsq(x, code, rcond=None)[0]
            for _ in range(20 if design.what == "logit" else 0):
                mu = 1 / (1 + np.exp(-x @ theta))
                bread = (x * (mu * (1 - mu))[:, None]).T @ x
                theta = theta + np.linalg.solve(bread, x.T @ (code - mu))
            return float(theta[2])
    return float(code.mean())


def frame_of(design: Design, texts: Texts, rng: Rng) -> tuple[dict[str, Any], list[Any]]:
    """Return the data frame, and the code of each text, as `estimate` expects them."""
    labels, codes = NAMES[texts.label].tolist(), NAMES[texts.code].tolist()
    x, noise = texts.x, rng.normal(size=design.n_texts)
    outcome = texts.code + noise
    if design.what == "skewed":  # the outcome is a number that the model estimates
        x = np.exp(x)
        labels, codes = ((y + x + noise * x).tolist() for y in (texts.label, texts.code))
    elif design.what == "covariate":
        labels, codes = (
            texts.label.astype(float).tolist(),
            texts.code.astype(float).tolist(),
        )
    frame = {
        "text": [f"text {i}" for i in range(design.n_texts)],
        "label": labels,
        "group": texts.group.tolist(),
        "x": x.tolist(),
        "outcome": outcome.tolist(),
        "confidence": texts.confidence.tolist(),
    }
    if texts.prob is not None:
        frame |= {"p_yes": texts.prob.tolist(), "p_no": (1 - texts.prob).tolist()}
    return frame, codes


def sample_of(design: Design, frame: dict[str, Any], rng: Rng) -> lh.GoldSample:
    """Draw the gold sample, without codes."""
    how: dict[str, Any] = {}
    match design.kind:
        case "equal" | "proportional":
            how = {"by": "label", "allocation": design.kind}
        case "tilted":
            few = min(design.n // 5, frame["label"].count("yes"))
            how = {"by": "label", "allocation": {"yes": few, "no": design.n - few}}
        case "groups":
            how = {"by": "group", "allocation": "equal"}
        case "uncertainty" | "floor":
            floor = 0.3 if design.kind == "uncertainty" else 0.05
            how = {"prob": "uncertainty", "confidence": "confidence", "floor": floor}
        case "length":
            sizes = np.exp(rng.normal(0, 0.7, design.n_texts)).clip(0, 6)
            how = {"prob": (design.n * sizes / sizes.sum()).tolist()}
    seed = int(rng.integers(2**31))
    return lh.gold_sample(frame, design.n, text="text", label="label", seed=seed, **how)


def intervals(
    design: Design, frame: Any, gold: lh.GoldSample, **more: Any
) -> dict[str, Any]:  # the row of each method
    """Return the estimate of each method."""
    how: dict[str, Any] = {"methods": METHODS, "target": design.target, **more}
    term = design.what
    match design.what:
        case "share" | "recall":
            how["outcome"], term = "yes", "share"
        case "difference":
            how |= {"outcome": "yes", "by": "group"}
        case "mean":
            how["outcome"] = {"yes": 2, "no": 0}
        case "ols" | "logit":
            how |= {"formula": LOGIT, "model": design.what}
            term = "x"
        case "skewed":
            how["formula"], term = "label ~ x", "x"
        case "covariate":
            how["formula"], term = "outcome ~ label", "label"
    if design.is_clustered:
        how["cluster"] = "group"
    rows = lh.estimate(frame, gold, **how).rows
    return {
        row.method: row
        for row in rows
        if row.term == term and not np.isnan(row.std_error)
    }


def draw_design(case: dict[str, Any], rng: Rng) -> dict[str, Hit]:
    """Simulate a design: intervals of all methods, and whether there is a warning."""
    design = design_of(case)
    texts = texts_of(design, rng)
    frame, codes = frame_of(design, texts, rng)
    gold = sample_of(design, frame, rng)
    gold = gold.with_codes([codes[row] for row in gold.rows])
    is_texts = design.target == "texts" or design.what == "recall"
    truth = truth_in(design, texts) if is_texts else truth_of(design)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            if design.what == "recall":
                checked = lh.validate(frame, gold, label="label")
                scores = {row.label: row for row in checked.accuracy.per_label}
                estimates = {"recall": scores["yes"].recall}
                caught.extend(checked.warnings)
            else:
                estimates = intervals(design, frame, gold)
        except ValueError:  # no solution, which the error explains
            return {"warned of": Hit(1.0)}
    hits = {name: hit(row, truth) for name, row in estimates.items()}
    return {**hits, "warned of": Hit(float(bool(caught)))}


def draw_probs(case: dict[str, Any], rng: Rng) -> dict[str, Hit]:
    """Simulate estimates by labels, by probabilities, and by recalibrated ones."""
    design = design_of(case)
    texts = texts_of(design, rng)
    if design.in_steps:
        by_steps(texts, rng)
    frame, codes = frame_of(design, texts, rng)
    gold = sample_of(design, frame, rng)
    gold = gold.with_codes([codes[row] for row in gold.rows])
    truth = truth_in(design, texts) if design.target == "texts" else truth_of(design)
    ways: dict[str, tuple[Any, Any]] = {
        "labels": (frame, "labels"),
        "probabilities": (frame, "probs"),
    }
    better = None
    try:
        better = lh.recalibrate(frame, gold, seed=int(rng.integers(2**31)))
    except lh.ArgumentError as error:  # too few codes of a rare label
        if error.code != "too_few_codes":
            raise
    else:
        ways["recalibrated"] = (better, "probs")
    hits: dict[str, Hit] = {}
    for way, (data, predictions) in ways.items():
        estimates = intervals(design, data, gold, predictions=predictions)
        if way == "labels":
            hits["codes alone"] = hit(estimates["gold"], truth)
        hits[f"{way}, DSL"] = hit(estimates["dsl"], truth)
    hits["right: before"] = Hit((texts.label == texts.code).mean())
    if better is not None:
        labels = map(str, better.frame["label"])
        right = [label == code for label, code in zip(labels, codes, strict=True)]
        hits["right: recalibrated"] = Hit(float(np.mean(right)))
    return hits


def by_steps(texts: Texts, rng: Rng) -> None:
    """Replace probabilities and labels by those of a model and a head (docs/steps.md)."""
    n = len(texts.code)
    assert texts.prob is not None  # noqa: S101 - designs with in_steps have probabilities
    assert texts.vectors is not None  # noqa: S101
    both = np.column_stack([1 - texts.prob, texts.prob])
    sample = np.sort(rng.choice(n, 300, replace=False))
    rest = np.setdiff1d(np.arange(n), sample)
    head = text_head(texts.vectors[sample], both[sample], rng)
    probs = both.copy()
    probs[rest] = head.probs(texts.vectors[rest])
    unsure = rest[least_sure(probs[rest], len(rest) // 10)]
    probs[unsure] = both[unsure]
    texts.prob = probs[:, 1]
    texts.label = probs.argmax(axis=1)


def design_of(fields: dict[str, Any]) -> Design:
    """Return the design of a case, see coverage.toml."""
    rates = {key: (fields[key],) * 2 for key in RATES if key in fields}
    slope = {"slope": 0.0} if "share" in fields else {}
    return Design(**(fields | rates | slope))


STUDIES = studies(designs=draw_design, probabilities=draw_probs, steps=draw_probs)
