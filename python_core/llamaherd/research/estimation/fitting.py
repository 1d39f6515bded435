"""Estimates by all methods, from matrices: what Python's and R's fronts share."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.research.estimation.estimates import Estimate, Method
from llamaherd.research.statistics import dsl, ppi
from llamaherd.research.statistics.dsl import Problem
from llamaherd.research.statistics.intervals import within
from llamaherd.research.statistics.regression import Estimated, FitError, check_rank

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from llamaherd.research.estimation.formulas import Matrices
    from llamaherd.research.estimation.gold_use import GoldUsed
    from llamaherd.research.statistics.regression import Kind
    from llamaherd.research.statistics.sampling import Floats, Ints, Target

FEW = 10  # codes of a group, or of a coefficient, below which there is a warning
_RARE = 5  # codes of a label, likewise
_WEIGHTED = (
    "ppi: texts were drawn with unequal probabilities, so that PPI's assumption, codes "
    "from a random sample, does not hold; its estimates are weighted by the inverse "
    "probabilities (active inference, arXiv 2403.03208)"
)
_NO_OTHERS = "all texts have codes: there is none whose code is to be predicted"
_TEXTS = "ppi: for target='texts' the variance is that of the draw alone, as for dsl"
_RIGHT = "ppi is left out: the label is a covariate, and PPI is for labels as the outcome"


@dataclass(frozen=True, kw_only=True, eq=False)
class Found:
    """Rows of the result, covariances and notes, as `Estimates` has them."""

    rows: list[Estimate]
    covariances: dict[tuple[str, str], Floats]
    notes: list[str]


@dataclass(frozen=True, kw_only=True, eq=False)
class Settings:
    """What all estimates of a call have in common."""

    gold: GoldUsed
    methods: Sequence[Method]
    level: float
    target: Target
    clusters: Ints | None = None

    def problem(
        self, kind: Kind, x_hat: Floats, y_hat: Floats, x: Floats, y: Floats
    ) -> Problem:
        """A regression of the texts."""
        return Problem(
            kind=kind,
            x_hat=x_hat,
            y_hat=y_hat,
            rows=self.gold.rows,
            x=x,
            y=y,
            probs=self.gold.probs,
            strata=self.gold.strata,
            clusters=self.clusters,
            target=self.target,
        )

    @property
    def is_plain(self) -> bool:
        """Whether PPI++ is what its authors wrote it for."""
        return self.gold.is_even and self.target == "population" and self.clusters is None

    @property
    def notes_of_ppi(self) -> list[str]:
        """What a user has to know of "ppi"."""
        if "ppi" not in self.methods or self.is_plain:
            return []
        return [_TEXTS if self.gold.is_even else _WEIGHTED]


def fit_regression(kind: Kind, made: Matrices, settings: Settings) -> Found:
    """A regression by all methods.

    Raises:
        ValueError: No method gives an estimate.
    """
    if len({*made.y_hat.tolist(), *made.y.tolist()}) == 1:
        raise ValueError(
            f"the left side {made.outcome!r} is {made.y[0]:g} for all labels and codes: "
            "is the label in it one that there is, spelled the same?"
        )
    if kind == "logit":
        _check_binary(made)
    n_gold, p = made.x.shape
    notes = list(settings.notes_of_ppi)
    if n_gold < FEW * p:
        notes.append(
            f"{n_gold} codes for {p} coefficients are few: intervals may be too short"
        )
    methods = list(settings.methods)
    if made.has_label_right and "ppi" in methods:
        methods.remove("ppi")
        notes = [note for note in notes if note != _WEIGHTED] + [_RIGHT]
    problem = settings.problem(kind, made.x_hat, made.y_hat, made.x, made.y)
    rows: list[Estimate] = []
    covariances: dict[tuple[str, str], Floats] = {}
    for method in methods:
        by = partial(_by, method, problem, settings)
        found = _tried(method, by, notes, made.terms)
        covariances[made.outcome, method] = _covariance(found, p)
        for i, term in enumerate(made.terms):
            rows.append(
                _row(
                    made.outcome,
                    term,
                    "",
                    method,
                    found=found,
                    weights=_unit(i, p),
                    settings=settings,
                )
            )
    return _found(rows, covariances, notes)


def fit_means(
    outcomes: Sequence[tuple[str, Floats, Floats]],
    term: str,
    groups: Ints,
    names: Sequence[str],
    settings: Settings,
) -> Found:
    """Means of outcomes in groups, and differences from the first group, by all methods.

    Args:
        outcomes: For each its name, float64[N] by the labels, float64[n] by the codes.
        term: "share" or "mean".
        groups: int64[N], the group of each text.
        names: Of the groups.
        settings: What all have in common.

    Raises:
        ValueError: No method gives an estimate.
    """
    notes = list(settings.notes_of_ppi)
    x_hat = (groups[:, None] == np.arange(len(names))).astype(np.float64)
    x = x_hat[settings.gold.rows]
    counts = x.sum(axis=0)
    few = [
        f"{n or 'all'} ({c:.0f})" for n, c in zip(names, counts, strict=True) if c < FEW
    ]
    if few:
        notes.append(
            f"few codes, intervals may be too short (below 2 there are none): "
            f"{', '.join(few)}"
        )
    rows: list[Estimate] = []
    covariances: dict[tuple[str, str], Floats] = {}
    p = len(names)
    most = 1.0 if term == "share" else np.inf
    for outcome, y_hat, y in outcomes:
        _note_rare(outcome, term, y, notes)
        problem = settings.problem("ols", x_hat, y_hat, x, y)
        for method in settings.methods:
            by = partial(_mean_by, method, problem, settings)
            found = _tried(method, by, notes, names)
            covariances[outcome, method] = _covariance(found, p)
            for i, name in enumerate(names):
                rows.append(
                    _row(
                        outcome,
                        term,
                        name,
                        method,
                        found=found,
                        weights=_unit(i, p),
                        settings=settings,
                        limits=(0.0, 1.0) if term == "share" else (-np.inf, np.inf),
                    )
                )
            for i, name in enumerate(names[1:], start=1):
                weights = _unit(i, p) - _unit(0, p)
                group = f"{name} - {names[0]}"
                rows.append(
                    _row(
                        outcome,
                        "difference",
                        group,
                        method,
                        found=found,
                        weights=weights,
                        settings=settings,
                        limits=(-most, most),
                    )
                )
    notes += _beyond(rows)
    return _found(rows, covariances, notes)


def _by(method: Method, problem: Problem, settings: Settings) -> Estimated:
    if method == "naive":
        return dsl.naive(problem)
    # What no code tells of would be left as the labels have it.
    check_rank(problem.x, np.ones(len(problem.y)))
    if method == "dsl":
        return dsl.dsl(problem)
    if method == "gold":
        return dsl.gold_alone(problem)
    if not settings.is_plain:
        return dsl.tuned(problem)
    samples = _samples(problem)
    return ppi.ppi_ols(samples) if problem.kind == "ols" else ppi.ppi_logit(samples)


def _mean_by(method: Method, problem: Problem, settings: Settings) -> Estimated:
    """Means of the groups; NaN by codes where a group has fewer than two."""
    if method == "naive":
        return dsl.naive(problem)
    there = np.flatnonzero(problem.x.sum(axis=0) >= 2)
    part = replace(problem, x_hat=problem.x_hat[:, there], x=problem.x[:, there])
    if len(there) == 0:
        raise FitError("no group has two codes")
    if method == "ppi" and settings.is_plain:
        found = _ppi_means(part)
    else:
        found = _by(method, part, settings)
    p = problem.x.shape[1]
    theta, covariance = np.full(p, np.nan), np.full((p, p), np.nan)
    theta[there] = found.theta
    covariance[np.ix_(there, there)] = found.covariance
    return Estimated(theta=theta, covariance=covariance, lam=found.lam)


def _samples(problem: Problem) -> ppi.Samples:
    """A simple sample, and all texts that are not in it."""
    others = np.ones(len(problem.y_hat), dtype=bool)
    others[problem.rows] = False
    if not others.any():
        raise FitError(_NO_OTHERS)
    return ppi.Samples(
        x=problem.x,
        y=problem.y,
        y_hat=problem.y_hat[problem.rows],
        x_others=problem.x_hat[others],
        y_hat_others=problem.y_hat[others],
    )


def _ppi_means(problem: Problem) -> Estimated:
    """A mean in each group: what was drawn of a group is a simple sample of it."""
    samples = _samples(problem)
    means = []
    for g in range(problem.x_hat.shape[1]):
        own, others = samples.x[:, g] == 1, samples.x_others[:, g] == 1
        if not others.any():
            raise FitError(_NO_OTHERS)
        means.append(
            ppi.ppi_mean(samples.y[own], samples.y_hat[own], samples.y_hat_others[others])
        )
    return Estimated(
        theta=np.array([mean.theta[0] for mean in means]),
        covariance=np.diag([mean.covariance[0, 0] for mean in means]),
        lam=means[0].lam if len(means) == 1 else float("nan"),
    )


def _tried(
    method: str,
    by: Callable[[], Estimated],
    notes: list[str],
    terms: Sequence[str],
) -> Estimated | None:
    """An estimate, or None and a note why there is none."""
    try:
        return by()
    except FitError as error:
        columns = ", ".join(f"{i}: {term or 'all'}" for i, term in enumerate(terms, 1))
        notes.append(f"{method} gives no estimate: {error} (columns {columns})")
        return None


def _row(
    outcome: str,
    term: str,
    group: str,
    method: Method,
    *,
    found: Estimated | None,
    weights: Floats,
    settings: Settings,
    limits: tuple[float, float] = (-np.inf, np.inf),
) -> Estimate:
    """A weighted sum of the coefficients as a row; `limits` are what it can be."""
    nan = float("nan")
    if found is None:
        return Estimate(
            outcome=outcome,
            term=term,
            group=group,
            method=method,
            estimate=nan,
            std_error=nan,
            low=nan,
            high=nan,
        )
    used = np.flatnonzero(weights)  # others may be NaN
    weights, matrix = weights[used], found.covariance[np.ix_(used, used)]
    one = Estimated(
        theta=np.array([weights @ found.theta[used]]),
        covariance=np.array([[weights @ matrix @ weights]]),
    )
    lows, highs = one.interval(settings.level)
    low, high = within(float(lows[0]), float(highs[0]), *limits)
    return Estimate(
        outcome=outcome,
        term=term,
        group=group,
        method=method,
        estimate=float(one.theta[0]),
        std_error=float(one.std_errors[0]),
        low=low,
        high=high,
        lam=found.lam if method == "ppi" else nan,
    )


def _beyond(rows: Sequence[Estimate]) -> list[str]:
    """Notes on shares that cannot be; their intervals can."""
    why = "which no share is: right on average, but of few codes; tell the interval"
    return [
        f"{row.method}: the share of {row.outcome} {row.group}".rstrip()
        + f" is estimated as {row.estimate:.3f}, {why}"
        for row in rows
        if row.term == "share" and not (np.isnan(row.estimate) or 0 <= row.estimate <= 1)
    ]


def _found(
    rows: list[Estimate], covariances: dict[tuple[str, str], Floats], notes: list[str]
) -> Found:
    if all(np.isnan(row.estimate) for row in rows):
        raise ValueError(f"there is no estimate: {'; '.join(notes)}")
    told = list(dict.fromkeys(notes))
    for note in told:
        if note not in {_WEIGHTED, _TEXTS, _RIGHT}:
            warnings.warn(note, UserWarning, stacklevel=3)
    return Found(rows=rows, covariances=covariances, notes=told)


def _note_rare(outcome: str, term: str, y: Floats, notes: list[str]) -> None:
    n_rare = min(int((y == 1).sum()), int((y == 0).sum()))
    if term == "share" and n_rare < _RARE:
        notes.append(
            f"{outcome}: people gave this label {int((y == 1).sum())} times in {len(y)}; "
            "its intervals are not to be relied on"
        )


def _check_binary(made: Matrices) -> None:
    for values in (made.y_hat, made.y):
        if not np.isin(values, (0.0, 1.0)).all():
            raise ValueError(
                f"the outcome of a logistic regression must be 0 or 1, or a condition "
                f"such as label == 'x', not {made.outcome!r}"
            )


def _covariance(found: Estimated | None, p: int) -> Floats:
    return np.full((p, p), np.nan) if found is None else found.covariance


def _unit(i: int, p: int) -> Any:  # noqa: ANN401 - Floats
    return np.eye(p)[i]
