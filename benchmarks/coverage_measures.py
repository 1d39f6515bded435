"""Simulated studies of `validate()`, of compared codebooks, and of compared texts.

coverage.py runs them.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from llamaherd.coding.pairs.bradley_terry import Pairs, StrengthFit, fit_strengths
from llamaherd.coding.pairs.design import ComparedPair, Design, PairDesign
from llamaherd.coding.selection.measures import compare
from llamaherd.coding.statistics import sampling
from llamaherd.coding.statistics.accuracy import accuracy_of
from llamaherd.coding.statistics.agreement import cohen_kappa
from llamaherd.coding.statistics.intervals import student_quantile
from llamaherd.coding.statistics.many_coders import gwet_ac1, krippendorff_alpha
from llamaherd.coding.statistics.number_agreement import number_agreement
from llamaherd.coding.statistics.ratings import ModelAndPerson
from studies import KNOWN, Hit, hit, joined, labelled, part_codes, studies

if TYPE_CHECKING:
    from llamaherd.engine.core.arrays import Floats

Rng = np.random.Generator


def measures(label: Any, code: Any, w: Floats, k: int) -> dict[str, Any]:
    """Return measures with intervals; the first label is the rare one."""
    codes = ModelAndPerson([label.tolist(), code.tolist()])
    common: dict[str, Any] = {"unit_weights": w, "levels": range(k)}
    measured = accuracy_of(*codes, labels=range(k), unit_weights=w)
    return {
        "accuracy": measured.accuracy,
        "precision": measured.per_label[0].precision,
        "recall": measured.per_label[0].recall,
        "F1": measured.per_label[0].f1,
        "balanced accuracy": measured.balanced_accuracy,
        "macro F1": measured.macro_f1,
        "kappa": cohen_kappa(codes, **common),
        "alpha": krippendorff_alpha(codes, **common),
        "AC1": gwet_ac1(codes, **common),
    }


@lru_cache
def true_measures(population: str) -> dict[str, float]:
    """Return the values of the measures in a population."""
    table = np.array(KNOWN["populations"][population])
    k = len(table)
    label, code = np.divmod(np.arange(k * k), k)
    cells = (np.tile(values, 9) for values in (label, code, table.ravel()))
    truth = {name: measured.value for name, measured in measures(*cells, k).items()}
    both = (table.sum(axis=0) + table.sum(axis=1)) / 2
    truth["alpha"] = 1 - (1 - np.trace(table)) / (1 - (both**2).sum())
    return truth


def draw_labels(case: tuple[str, int], rng: Rng) -> dict[str, Hit]:
    """Simulate accuracy and agreement of labels from n codes."""
    population, n = case
    table = np.array(KNOWN["populations"][population])
    k = len(table)
    if population.endswith("equal strata"):
        label = np.repeat(np.arange(k), n // k)
        shares = table.sum(axis=1)
        edges = np.cumsum(table / shares[:, None], axis=1)[label, :-1]
        code = (rng.random(len(label))[:, None] > edges).sum(axis=1)
        weights = shares[label]
    else:
        label, code = np.divmod(rng.choice(k * k, n, p=table.ravel()), k)
        weights = np.ones(n)
    truth = true_measures(population)
    measured = measures(label, code, weights, k)
    return {
        name: hit(measure, truth[name])
        for name, measure in measured.items()
        if not np.isnan(measure.low)  # codes of one label have no interval
    }


def numbers_of(n: int, rng: Rng) -> Floats:
    """Draw numbers of a model and skewed codes from 0 to 10, float64[2, n]."""
    people = np.round(10 * rng.beta(1.2, 2.5, n))
    error = rng.normal(size=n) * (0.8 + 0.15 * people)
    return np.stack([np.clip(1.2 + 0.75 * people + error, 0, 10), people])


@lru_cache
def true_agreement() -> dict[str, float]:
    """Return the measures of the distribution, as means over parts of 2,000 texts."""
    rng = np.random.default_rng(1)
    parts = [number_agreement(numbers_of(2000, rng)).measures for _ in range(300)]
    return {
        name: float(np.mean([part[name].value for part in parts])) for name in parts[0]
    }


def draw_numbers(case: tuple[str, int], rng: Rng) -> dict[str, Hit]:
    """Simulate the agreement of numbers from n codes."""
    kind, n = case
    both = numbers_of(2000, rng)
    if kind == "simple":
        draw = sampling.draw_simple(2000, n, rng)
    else:
        sizes = np.abs(both[0] - both[0].mean())
        draw = sampling.draw_unequal(sampling.inclusion_probs(sizes, n, 0.3), rng)
    weights = 1 / draw.all_probs[draw.rows]
    measured = number_agreement(both[:, draw.rows], unit_weights=weights).measures
    return {name: hit(measured[name], true_agreement()[name]) for name in measured}


def three_codebooks(n: int, rng: Rng) -> tuple[Floats, list[Floats]]:
    """Draw codes, and the numbers of three codebooks with correlated errors."""
    people = np.round(10 * rng.beta(1.2, 2.5, n))
    shared = rng.normal(size=n)
    numbers = [
        np.clip(
            shift
            + slope * people
            + size * (0.7 * shared + 0.7 * rng.normal(size=n)) * (0.6 + 0.1 * people),
            0.0,
            10.0,
        )
        for shift, slope, size in ((0.5, 0.9, 1.0), (1.2, 0.75, 1.2), (0.0, 1.1, 1.5))
    ]
    return people, numbers


@lru_cache
def true_differences() -> list[float]:
    """Return the differences of the mean absolute errors in the distribution."""
    people, numbers = three_codebooks(600_000, np.random.default_rng(0))
    errors = [float(abs(values - people).mean()) for values in numbers]
    return [one - other for one, other in combinations(errors, 2)]


def draw_compared(case: tuple[str, int], rng: Rng) -> dict[str, Hit]:
    """Simulate differences of the mean absolute errors of three codebooks."""
    kind, n = case
    people, numbers = three_codebooks(2000, rng)
    strata = np.clip(numbers[0] // 2.5, 0, 3).astype(int).tolist()
    draw = (
        sampling.draw_simple(2000, n, rng)
        if kind == "simple"
        else sampling.draw_stratified(strata, n, rng, "equal")
    )
    ends = ["0", "10"]
    right = list(map(repr, people[draw.rows].tolist()))
    codes = part_codes(right, ends, 1 / draw.probs, draw.strata[draw.rows])
    coded = [
        labelled(list(map(repr, values[draw.rows].tolist())), ends) for values in numbers
    ]
    measured = {}
    for title, adjust in (("each by itself", "none"), ("all three", "bonferroni")):
        rows = compare(coded, codes, "mae", adjust=adjust).differences
        hits = [
            hit(row, truth) for row, truth in zip(rows, true_differences(), strict=True)
        ]
        measured[title] = joined(hits, adjust)
    return measured


SPREAD = 1.5  # standard deviation of true strengths
NU = {"steady": 8.0, "noisy": 2.0}


def draw_pairs(case: tuple[int, int, str], rng: Rng) -> dict[str, Hit]:
    """Simulate strengths from pairwise comparisons by both designs."""
    n, n_a_text, noise = case
    strengths = rng.normal(0, SPREAD, n)
    truth = true_strengths(strengths, noise)
    measured: dict[str, Hit] = {}
    designs: tuple[Design, ...] = ("adaptive", "random")
    for design in designs:
        fit = fitted(strengths, n_a_text * n, noise, design, rng)
        reach = student_quantile(0.95, fit.df) * np.sqrt(np.diag(fit.covariance))
        share = np.mean(np.abs(fit.strengths - truth) <= reach)
        measured[design] = Hit(float(share), float(2 * reach.mean()))
    return measured


def true_strengths(strengths: Floats, noise: str) -> Floats:
    """Return the strengths that 95% of the intervals should contain.

    With an error of the log-odds ("off by 1"), they are the best fit to the mean results
    of all pairs.
    """
    if noise in NU:
        return np.asarray(strengths - strengths.mean())
    pairs = Pairs(*np.triu_indices(len(strengths), 1), len(strengths))
    nodes, weights = np.polynomial.hermite_e.hermegauss(21)
    odds = pairs.odds(strengths)[:, None] + nodes
    means = (1 / (1 + np.exp(-odds))) @ (weights / weights.sum())
    return fit_strengths(pairs, means).strengths


def fitted(
    strengths: Floats, n_pairs: int, noise: str, design: Design, rng: Rng
) -> StrengthFit:
    """Fit strengths to simulated results."""
    drawn = PairDesign(len(strengths), n_pairs, design, int(rng.integers(2**31)))
    while pairs := drawn.next():
        odds = np.array([strengths[i] - strengths[j] for i, j in pairs])
        if noise in NU:
            p = 1 / (1 + np.exp(-odds))
            y = rng.beta(p * NU[noise], (1 - p) * NU[noise]).clip(1e-9, 1 - 1e-9)
            odds = np.log(y) - np.log1p(-y)
        else:
            odds = odds + rng.normal(0, 1, len(odds))
        drawn.take(
            [
                ComparedPair(
                    first=i, second=j, round=1, forward=x, backward=x, coverage=1
                )
                for (i, j), x in zip(pairs, odds.tolist(), strict=True)
            ]
        )
    assert drawn.fit is not None  # noqa: S101 - for mypy
    return drawn.fit


STUDIES = studies(
    measures=draw_labels, numbers=draw_numbers, compared=draw_compared, pairs=draw_pairs
)
