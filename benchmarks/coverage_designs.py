"""Designs with little information: rare labels, few errors or clusters, extreme values.

Each design draws texts, codes, labels and a gold sample, and estimates one number by all
valid methods. The module counts how often the 95% interval contains the true value, and
how often a warning was issued. `coverage.py` runs the designs, `coverage_report.py`
writes the table.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import sources  # noqa: F401 - before llamaherd
from llamaherd.coding.estimation.fitting import FitSettings
from llamaherd.coding.estimation.formulas import Matrices, fit_regression
from llamaherd.coding.estimation.means import fit_means
from llamaherd.coding.gold.used import GoldUsed
from llamaherd.coding.statistics import accuracy_of, sampling

if TYPE_CHECKING:
    from collections.abc import Callable

    Floats = np.ndarray[Any, np.dtype[np.float64]]
    Rng = np.random.Generator

METHODS = ("dsl", "ppi", "gold")
LEVEL = 0.95


@dataclass(frozen=True, kw_only=True)
class Design:
    """Design to simulate.

    Attributes:
        name: Description of the design.
        share: Share of texts with the label.
        found: Share of texts that get the label from the model, among texts whose code is
            the label.
        alarms: The same share, among texts whose code is another label.
        n_texts: Number of texts.
        n: Number of codes.
        kind: "simple", "equal", "proportional", "tilted" (a fifth of the codes from texts
            with the label), "groups", "uncertainty", "floor" (0.05), or "length".
        target: "population" or "texts".
        estimate: "share", "mean", "difference", "ols", "logit", "covariate", "recall".
        n_groups: Number of strata of "groups", or of clusters.
        has_clusters: True if texts of a cluster have similar labels and errors.
    """

    name: str
    share: float
    found: float
    alarms: float
    n_texts: int = 2000
    n: int = 200
    kind: str = "simple"
    target: str = "population"
    estimate: str = "share"
    n_groups: int = 2
    has_clusters: bool = False


def _rare(share: float, found: float, alarms: float, **more: Any) -> Design:  # noqa: ANN401 - of Design
    name = f"label of {share:.0%}, {found:.0%} found, {alarms:.0%} false alarms"
    return Design(
        name=f"{name}, equal strata{more.pop('also', '')}",
        share=share, found=found, alarms=alarms, kind="equal", **more,
    )  # fmt: skip


DESIGNS = (
    _rare(0.01, 0.6, 0.01, target="texts"),
    _rare(0.03, 0.6, 0.01, target="texts"),
    _rare(0.03, 0.8, 0.03, target="texts"),
    _rare(0.03, 0.9, 0.03, also=", population"),
    _rare(0.05, 0.8, 0.03, also=", population"),
    _rare(0.1, 0.8, 0.05, target="texts"),
    _rare(0.2, 0.9, 0.05, target="texts"),
    _rare(0.03, 0.6, 0.01, n=400, also=", 400 codes"),
    Design(name="misses only, simple, 50", share=0.4, found=0.8, alarms=0, n=50),
    Design(name="misses only, simple, 200", share=0.1, found=0.8, alarms=0),
    Design(name="95% of confidences 1, 50", share=0.4, found=0.92, alarms=0.08, n=50,
           kind="uncertainty"),
    Design(name="the same, misses only", share=0.4, found=0.8, alarms=0, n=50,
           kind="uncertainty"),
    Design(name="the same, floor 0.05", share=0.4, found=0.8, alarms=0, n=50,
           kind="floor"),
    Design(name="ten strata of three codes", share=0.4, found=0.8, alarms=0.2, n=30,
           kind="groups", n_groups=10),
    Design(name="logit, outcome of 4%, equal strata", share=0.04, found=0.8, alarms=0.02,
           kind="equal", estimate="logit"),
    Design(name="OLS, skewed covariate, 100", share=0.5, found=0.8, alarms=0.2, n=100,
           estimate="ols"),
    Design(name="OLS, skewed covariate, 200", share=0.5, found=0.8, alarms=0.2,
           estimate="ols"),
    # Ten further designs.
    Design(name="label of 97%, equal strata", share=0.97, found=0.98, alarms=0.3,
           kind="equal"),
    Design(name="rare label, proportional strata", share=0.05, found=0.7, alarms=0.02,
           kind="proportional"),
    Design(name="rare label, a fifth of the codes from it", share=0.05, found=0.7,
           alarms=0.02, kind="tilted"),
    Design(name="false alarms only, simple", share=0.05, found=1.0, alarms=0.03),
    Design(name="no error at all, simple, 50", share=0.3, found=1.0, alarms=0, n=50,
           target="texts"),
    Design(name="a label of 1%, simple, 100", share=0.01, found=0.7, alarms=0.01, n=100),
    Design(name="difference of groups, rare label, equal", share=0.05, found=0.7,
           alarms=0.02, kind="equal", estimate="difference"),
    Design(name="mean of a score, equal strata", share=0.05, found=0.7, alarms=0.02,
           kind="equal", estimate="mean"),
    Design(name="probabilities by length, few errors", share=0.1, found=0.8, alarms=0.01,
           kind="length"),
    Design(name="twelve clusters", share=0.4, found=0.8, alarms=0.1, n_groups=12,
           has_clusters=True),
    Design(name="forty clusters", share=0.4, found=0.8, alarms=0.1, n_groups=40,
           has_clusters=True),
    Design(name="rare label as a covariate, equal strata", share=0.05, found=0.7,
           alarms=0.02, kind="equal", estimate="covariate"),
    Design(name="recall: label of 1%, equal strata", share=0.01, found=0.6, alarms=0.01,
           kind="equal", estimate="recall"),
    Design(name="recall: label of 3%, equal strata", share=0.03, found=0.6, alarms=0.01,
           kind="equal", estimate="recall"),
    Design(name="recall: 3%, 80% found, equal strata", share=0.03, found=0.8, alarms=0.03,
           kind="equal", estimate="recall"),
    Design(name="recall: label of 3%, uncertainty", share=0.03, found=0.6, alarms=0.01,
           kind="uncertainty", estimate="recall"),
)  # fmt: skip


def measured(n_draws: int, seed: int) -> list[dict[str, Any]]:
    """Return a row per design: lowest coverage, width, share of draws with warnings."""
    return [
        _measured(each, np.random.default_rng([seed, i]).spawn(n_draws))
        for i, each in enumerate(DESIGNS)
    ]


def _measured(design: Design, generators: list[Rng]) -> dict[str, Any]:
    found: dict[str, list[tuple[bool, float, bool]]] = {}
    for rng in generators:
        truth, intervals, is_warned = _ESTIMATES[design.estimate](design, rng)
        for method, (low, high) in intervals.items():
            if np.isnan(low):
                continue
            one = (bool(low <= truth <= high), high - low, is_warned)
            found.setdefault(method, []).append(one)
    least = min(found, key=lambda method: np.mean([h for h, _, _ in found[method]]))
    rows = np.array(found[least], dtype=float)
    silent = rows[rows[:, 2] == 0]
    return {
        "design": design.name,
        "method": least,
        "coverage": float(rows[:, 0].mean()),
        "width": float(rows[:, 1].mean()),
        "warned": float(rows[:, 2].mean()),
        "silent": float(silent[:, 0].mean()) if len(silent) else None,
        "draws": len(rows),
    }


def _texts(design: Design, rng: Rng) -> tuple[Floats, Floats, Any, Floats]:
    """Draw codes, labels, groups and a covariate."""
    n = design.n_texts
    groups = rng.integers(0, design.n_groups, n)
    shift = np.zeros(n)
    if design.has_clusters:
        shift = rng.normal(0, 0.1, design.n_groups)[groups]
    code = (rng.random(n) < np.clip(design.share + shift, 0, 1)).astype(float)
    alarms = np.clip(design.alarms + shift / 2, 0, 1)
    label = np.where(code == 1, rng.random(n) < design.found, rng.random(n) < alarms)
    return code, label.astype(float), groups, rng.normal(size=n)


def _drawn(design: Design, label: Floats, groups: Any, rng: Rng) -> sampling.Draw:  # noqa: ANN401 - int64[N]
    n_texts, n = design.n_texts, design.n
    if design.kind == "simple":
        return sampling.draw_simple(n_texts, n, rng)
    if design.kind in {"uncertainty", "floor"}:
        sure = np.where(rng.random(n_texts) < 0.95, 1.0, rng.random(n_texts))
        floor = 0.3 if design.kind == "uncertainty" else 0.05
        return sampling.draw_unequal(sampling.inclusion_probs(1 - sure, n, floor), rng)
    if design.kind == "length":
        lengths = np.exp(rng.normal(0, 1, n_texts))
        return sampling.draw_unequal(sampling.inclusion_probs(lengths, n, 0.0), rng)
    strata = (groups if design.kind == "groups" else label.astype(int)).tolist()
    allocation: Any = "proportional" if design.kind == "proportional" else "equal"
    if design.kind == "tilted":
        few = min(n // 5, strata.count(1))
        allocation = {0: n - few, 1: few}
    return sampling.draw_stratified(strata, n, rng, allocation)


def _settings(design: Design, draw: sampling.Draw, clusters: Any) -> FitSettings:  # noqa: ANN401 - int64[N]
    gold = GoldUsed(
        rows=draw.rows, codes=[], probs=draw.probs, strata=draw.strata[draw.rows],
        is_even=design.kind == "simple", design=design.kind, all_probs=draw.all_probs,
        all_strata=draw.strata,
    )  # fmt: skip
    return FitSettings(
        gold=gold, methods=METHODS, level=LEVEL, target=design.target,
        clusters=clusters if design.has_clusters else None,
    )  # fmt: skip


def _of(fit: Callable[[], Any], term: str) -> tuple[dict[str, tuple[float, float]], bool]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            rows = fit().rows
        except ValueError:
            return {}, True
    return {r.method: (r.low, r.high) for r in rows if r.term == term}, bool(caught)


def _means(design: Design, rng: Rng) -> tuple[float, Any, bool]:
    code, label, groups, _ = _texts(design, rng)
    draw = _drawn(design, label, groups, rng)
    settings = _settings(design, draw, groups)
    truth = design.share if design.target == "population" else float(code.mean())
    term, names, number = "share", [""], np.zeros(design.n_texts, dtype=np.int64)
    if design.estimate == "difference":
        term, names, number, truth = "difference", ["0", "1"], groups, 0.0
    kind = "share"
    if design.estimate == "mean":
        kind = term = "mean"
        truth, label, code = 2 * truth, 2 * label, 2 * code
    intervals, is_warned = _of(
        lambda: fit_means([("x", label, code[draw.rows])], kind, number, names, settings),
        term,
    )
    return truth, intervals, is_warned


def _regression(design: Design, rng: Rng) -> tuple[float, Any, bool]:
    code, label, groups, x = _texts(design, rng)
    draw = _drawn(design, label, groups, rng)
    ones = np.ones(design.n_texts)
    y_hat, y, truth, kind = label, code, 0.0, "ols"
    right = right_hat = np.column_stack([ones, x])
    if design.estimate == "logit":
        kind = "logit"
    elif design.estimate == "ols":  # the noise grows with a skewed covariate
        x = np.exp(x)
        noise = rng.normal(size=design.n_texts) * x
        right = right_hat = np.column_stack([ones, x])
        y, y_hat, truth = code + x + noise, label + x + noise, 1.0
    else:
        right, right_hat = (np.column_stack([ones, each]) for each in (code, label))
        y = y_hat = code + rng.normal(size=design.n_texts)
        truth = 1.0
    made = Matrices(
        x_hat=right_hat, y_hat=y_hat, x=right[draw.rows], y=y[draw.rows],
        terms=("1", "x"), outcome="y", has_label_right=design.estimate == "covariate",
    )  # fmt: skip
    settings = _settings(design, draw, None)
    intervals, is_warned = _of(lambda: fit_regression(kind, made, settings), "x")
    return truth, intervals, is_warned


def _recall(design: Design, rng: Rng) -> tuple[float, Any, bool]:
    code, label, groups, _ = _texts(design, rng)
    draw = _drawn(design, label, groups, rng)
    given, gold = label[draw.rows].astype(int), code[draw.rows].astype(int)
    weights = 1 / draw.probs
    found = accuracy_of(
        given.tolist(), gold.tolist(), labels=[0, 1], unit_weights=weights
    )
    scores = found.per_label[1]
    recall = scores.recall
    truth = float(label[code == 1].mean())
    is_warned = scores.unfound is not None or int(gold.sum()) < 10
    return truth, {"recall": (recall.low, recall.high)}, is_warned


_ESTIMATES = {
    "share": _means,
    "mean": _means,
    "difference": _means,
    "ols": _regression,
    "logit": _regression,
    "covariate": _regression,
    "recall": _recall,
}
