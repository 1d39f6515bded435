"""Means, least squares and logistic regression by one weighted estimating equation.

    sum_i w_i x_i (y_i - mu(x_i theta)) = 0,    mu(t) = t or 1 / (1 + exp(-t))

Weights may be negative, because corrections of labels are rows with negative weights.
There is therefore no likelihood to maximize; the equation itself is solved.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from llamaherd.engine.core.phrases import count_of

if TYPE_CHECKING:
    from llamaherd.engine.core.arrays import Floats

Kind = Literal["ols", "logit"]
_STEPS = 100  # limit of Newton steps; 6 to 10 are usual
_HALVINGS = 40
_TOLERANCE = 1e-10  # residual of the equation, relative to its terms
_ROUNDED = 1e-12  # residual without meaning, relative to the largest term
_RUNAWAY = 0.1  # larger steps in log odds mean divergence
_NEARLY = 1e-6  # residual at which growing coefficients mean separation


class FitError(ValueError):
    """Error of a regression that has no solution, or whose solution was not found."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Estimated:
    """Coefficients with their covariances."""

    theta: Floats  # float64[p], coefficients
    covariance: Floats  # float64[p, p], covariances of the coefficients
    # Weight of the labels, between 0 and 1; NaN if not applicable
    lam: float = float("nan")
    # float64[p], weights of the labels in groups; None if all groups have `lam`
    lams: Floats | None = None

    @property
    def std_errors(self) -> Floats:
        """Standard errors, float64[p]."""
        return np.asarray(np.sqrt(np.diag(self.covariance)))


def solve(kind: Kind, x: Floats, y: Floats, weights: Floats) -> Floats:
    """Solve the estimating equation; return coefficients, float64[p]."""
    check_rank(x, weights)
    if kind == "ols":
        return _solve((x * weights[:, None]).T @ x, x.T @ (weights * y))
    return _newton(x, y, weights)


def scores(kind: Kind, x: Floats, y: Floats, theta: Floats) -> Floats:
    """Return the terms x_i (y_i - mu_i) of the equation, float64[n, p].

    Residuals at the level of rounding errors are 0: a variance made of them is no
    variance, but would give a tiny standard error and any t value.
    """
    residuals = y - means(kind, x, theta)
    largest = np.abs(y).max(initial=0.0) + np.abs(x * theta).max(initial=0.0)
    return x * np.where(np.abs(residuals) <= _ROUNDED * largest, 0.0, residuals)[:, None]


def information(kind: Kind, x: Floats, weights: Floats, theta: Floats) -> Floats:
    """Return the sum of w_i mu'_i x_i x_i', float64[p, p]."""
    if kind == "logit":
        mu = means(kind, x, theta)
        weights = weights * mu * (1 - mu)
    return np.asarray((x * weights[:, None]).T @ x)


def means(kind: Kind, x: Floats, theta: Floats) -> Floats:
    """Return the expected outcomes mu_i, float64[n]."""
    linear = x @ theta
    if kind == "ols":
        return np.asarray(linear)
    return np.asarray(0.5 * (1 + np.tanh(linear / 2)))  # never overflows


def sandwich(bread: Floats, meat: Floats) -> Floats:
    """Return inv(bread) meat inv(bread), float64[p, p]."""
    half = _solve(bread, meat)
    return np.asarray(_solve(bread, half.T))


def check_rank(x: Floats, weights: Floats) -> None:
    """Check that the columns are linearly independent in rows with nonzero weight."""
    used = x[weights != 0]
    scales = np.sqrt((used**2).sum(axis=0))
    if len(used) < x.shape[1]:
        raise FitError(
            f"there are {count_of(len(used), 'row')} for {x.shape[1]} coefficients"
        )
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
            step = _solve(information("logit", x, weights, theta), gap)
        except FitError:  # columns are independent, so theta diverges
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
    """Check that theta has converged; theta never converges for a separated outcome.

    If the outcome is separated, the residual becomes ever smaller while log odds grow by
    1 in each Newton step.
    """
    if not np.abs(x @ step).max() < _RUNAWAY:
        at = int(np.argmax(np.abs(step) * np.abs(x).max(axis=0))) + 1
        raise FitError(
            "the outcome is separated: some values of the covariates have one outcome "
            "only "
            f"(column {at} of the model has a coefficient without bound)"
        )


def _solve(matrix: Floats, right: Floats) -> Floats:
    try:
        return np.asarray(np.linalg.solve(matrix, right))
    except np.linalg.LinAlgError as error:
        raise FitError("columns of the model are linearly dependent") from error
