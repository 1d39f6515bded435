"""Means, least squares and logistic regression by one weighted estimating equation.

    sum_i w_i x_i (y_i - mu(x_i theta)) = 0,    mu(t) = t or 1 / (1 + exp(-t))

Weights may be negative: corrections of labels enter as rows that are taken off. So this
is no maximum of a likelihood, and what is solved is the equation.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Literal

import numpy as np

if TYPE_CHECKING:
    from llamaherd.research.statistics.sampling import Floats

Kind = Literal["ols", "logit"]
_STEPS = 100  # of Newton's method; 6 to 10 are usual
_HALVINGS = 40
_TOLERANCE = 1e-10  # of the equation, relative to its terms
_RUNAWAY = 0.1  # of log odds: where the equation is solved, a step is tiny
_NEARLY = 1e-6  # how well an equation is solved whose coefficients grow without bound


class FitError(ValueError):
    """A regression has no solution, or none that can be found."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Estimated:
    """Coefficients with their covariances.

    Attributes:
        theta: float64[p].
        covariance: float64[p, p].
        lam: How much the labels counted, between 0 and 1; NaN where that is no question.
        df: float64[p], degrees of freedom of the variances; None: not known.
    """

    theta: Floats
    covariance: Floats
    lam: float = float("nan")
    df: Floats | None = None

    @property
    def std_errors(self) -> Floats:
        """float64[p]."""
        return np.asarray(np.sqrt(np.diag(self.covariance)))

    def interval(self, level: float) -> tuple[Floats, Floats]:
        """Confidence limits by the normal distribution, float64[p] each."""
        reach = NormalDist().inv_cdf(0.5 + level / 2) * self.std_errors
        return self.theta - reach, self.theta + reach


def fitted(kind: Kind, x: Floats, y: Floats, weights: Floats) -> Floats:
    """Solves the estimating equation.

    Args:
        kind: "ols" or "logit".
        x: float64[n, p].
        y: float64[n]; for "logit" in [0, 1].
        weights: float64[n].

    Returns:
        float64[p].

    Raises:
        FitError: The columns of x are linearly dependent, the outcome is separated, or
            Newton's method found nothing.
    """
    check_rank(x, weights)
    if kind == "ols":
        return _solved((x * weights[:, None]).T @ x, x.T @ (weights * y))
    return _newton(x, y, weights)


def scores(kind: Kind, x: Floats, y: Floats, theta: Floats) -> Floats:
    """The terms x_i (y_i - mu_i), float64[n, p]."""
    return x * (y - means(kind, x, theta))[:, None]


def information(kind: Kind, x: Floats, weights: Floats, theta: Floats) -> Floats:
    """The sum of w_i mu'_i x_i x_i', float64[p, p]."""
    if kind == "logit":
        mu = means(kind, x, theta)
        weights = weights * mu * (1 - mu)
    return np.asarray((x * weights[:, None]).T @ x)


def means(kind: Kind, x: Floats, theta: Floats) -> Floats:
    """The expected outcomes mu_i, float64[n]."""
    linear = x @ theta
    if kind == "ols":
        return np.asarray(linear)
    return np.asarray(0.5 * (1 + np.tanh(linear / 2)))  # never overflows


def sandwich(bread: Floats, meat: Floats) -> Floats:
    """inv(bread) meat inv(bread), float64[p, p]."""
    half = _solved(bread, meat)
    return np.asarray(_solved(bread, half.T))


def check_rank(x: Floats, weights: Floats) -> None:
    """Checks that the columns of rows that count are linearly independent.

    Raises:
        FitError: They are not.
    """
    used = x[weights != 0]
    scales = np.sqrt((used**2).sum(axis=0))
    if len(used) < x.shape[1]:
        raise FitError(f"there are {len(used)} rows for {x.shape[1]} coefficients")
    if not (scales > 0).all():
        raise FitError(
            f"column {int(np.argmin(scales)) + 1} of the model is 0 everywhere"
        )
    if np.linalg.matrix_rank((used / scales).T @ (used / scales), tol=1e-12) < x.shape[1]:
        raise FitError("columns of the model are linearly dependent")


def _newton(x: Floats, y: Floats, weights: Floats) -> Floats:
    theta = np.zeros(x.shape[1])
    scale = np.abs(weights[:, None] * x).sum(axis=0) + 1e-300
    gap, step = _gap(x, y, weights, theta), np.zeros(x.shape[1])
    size = np.abs(gap / scale).max()
    for _ in range(_STEPS):
        try:
            step = _solved(information("logit", x, weights, theta), gap)
        except FitError:  # the columns are independent: theta grows without bound
            break
        if size < _TOLERANCE:
            break
        part = step
        for _ in range(_HALVINGS):
            new = theta + part
            new_gap = _gap(x, y, weights, new)
            if np.abs(new_gap / scale).max() < size:
                break
            part = part / 2
        else:
            break
        theta, gap = new, new_gap
        size = np.abs(gap / scale).max()
    if size < _NEARLY:
        _check_separated(x[weights != 0], step)
    if size < _TOLERANCE:
        return theta
    raise FitError("Newton's method found no solution of the logistic regression")


def _gap(x: Floats, y: Floats, weights: Floats, theta: Floats) -> Floats:
    return np.asarray(x.T @ (weights * (y - means("logit", x, theta))))


def _check_separated(x: Floats, step: Floats) -> None:
    """Checks that theta has come to rest, however large the log odds are.

    Of a separated outcome the equation is solved better and better, with log odds that
    grow by 1 in each of Newton's steps.
    """
    if not np.abs(x @ step).max() < _RUNAWAY:
        at = int(np.argmax(np.abs(step) * np.abs(x).max(axis=0))) + 1
        raise FitError(
            "the outcome is separated: some values of the covariates have one outcome "
            "only "
            f"(column {at} of the model has a coefficient without bound)"
        )


def _solved(matrix: Floats, right: Floats) -> Floats:
    try:
        return np.asarray(np.linalg.solve(matrix, right))
    except np.linalg.LinAlgError as error:
        raise FitError("columns of the model are linearly dependent") from error
