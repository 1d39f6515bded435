"""Prediction-powered inference with power tuning (PPI++).

n texts have a code Y and a prediction f; N other texts have only a prediction. All are
drawn from the same population. The estimate weights predictions by their usefulness:

    theta = argmin L_n(Y) + lam (L_N(f) - L_n(f)),    lam in [0, 1],

where L is the mean loss over n or N texts. lam = 0 uses only the codes. The best lam is
estimated, so that asymptotically the interval is never wider than with codes alone. The
coded texts must be drawn at random with equal probabilities. For unequal probabilities
see `llamaherd.research.statistics.tuning`.

Least squares: as in the authors' package ppi-python, the estimate is lam times a fit to
the predictions of the N texts plus a fit to Y - lam f of the n texts. The two fits are
independent, so the covariance is the sum of their sandwiches, each with the residuals of
its own fit. (ppi-python instead computes the covariance of theta, the minimum defined
above, with all residuals from the same coefficients. If predictions and codes have
different slopes, that minimum has a larger variance than the sum of the two fits, so the
intervals of ppi-python are too wide.) The best lam minimizes the sum of the two
variances.

Sources: Angelopoulos, Duchi, Zrnic, "PPI++: Efficient Prediction-Powered Inference", 2023
(arXiv 2311.01453); for the covariance of least squares Angelopoulos, Bates, Fannjiang,
Jordan, Zrnic, "Prediction-Powered Inference", 2023 (arXiv 2301.09633), the algorithm for
linear regression coefficients, here with lam.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from llamaherd.research.statistics.regression import (
    Estimated,
    fitted,
    information,
    sandwich,
    scores,
)

if TYPE_CHECKING:
    from llamaherd.research.statistics.sampling import Floats

# rounds: lam is estimated from the fit with lam = 1, then again from the new fit
_TUNINGS = 2


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Samples:
    """Data of texts with codes, and of texts without codes.

    Attributes:
        x: float64[n, p], covariates of the texts with codes.
        y: float64[n], codes of these texts.
        y_hat: float64[n], predictions of the texts with codes.
        x_others: float64[N, p], covariates of the texts without codes.
        y_hat_others: float64[N], predictions of the texts without codes.
    """

    x: Floats
    y: Floats
    y_hat: Floats
    x_others: Floats
    y_hat_others: Floats


def ppi_mean(
    y: Floats, y_hat: Floats, y_hat_others: Floats, lam: float | None = None
) -> Estimated:
    """Estimate the mean of the codes.

    Args:
        y: float64[n], codes.
        y_hat: float64[n], predictions of the same texts.
        y_hat_others: float64[N], predictions of the texts without codes.
        lam: Weight of the predictions; None to estimate the best weight.
    """
    n, n_others = len(y), len(y_hat_others)
    if lam is None:
        both = np.concatenate([y_hat, y_hat_others])
        spread = float(np.var(both, ddof=1)) * (1 + n / n_others)
        shared = float(np.mean((y - y.mean()) * (y_hat - y_hat.mean())))
        lam = float(np.clip(shared / spread, 0, 1)) if spread > 0 else 0.0
    theta = lam * y_hat_others.mean() + (y - lam * y_hat).mean()
    variance = lam**2 * np.var(y_hat_others) / n_others + np.var(y - lam * y_hat) / n
    return Estimated(
        theta=np.array([theta]), covariance=np.array([[float(variance)]]), lam=lam
    )


def ppi_ols(samples: Samples, lam: float | None = None) -> Estimated:
    """Estimate a least squares regression of the codes; see `ppi_mean`.

    Raises:
        FitError: The covariates are linearly dependent.
    """
    x, others = samples.x, samples.x_others
    n, n_others = len(x), len(others)
    of_codes = _residual_terms(x, samples.y)
    of_hat = _residual_terms(x, samples.y_hat)
    of_others = _residual_terms(others, samples.y_hat_others)
    bread, bread_others = x.T @ x / n, others.T @ others / n_others
    if lam is None:
        both = np.concatenate([of_hat, of_others])
        shared = _traced(bread, of_codes.T @ of_hat / n)
        pooled = (n * bread + n_others * bread_others) / (n + n_others)
        whole = (1 + n / n_others) * _traced(pooled, _covariance(both))
        lam = float(np.clip(shared / whole, 0, 1)) if whole > 0 else 0.0
    theta = fitted("ols", x, samples.y - lam * samples.y_hat, np.ones(n))
    covariance = sandwich(bread, _covariance(of_codes - lam * of_hat)) / n
    if lam:
        hat = lam * samples.y_hat_others
        theta = theta + fitted("ols", others, hat, np.ones(n_others))
        meat = _covariance(lam * of_others)
        covariance = covariance + sandwich(bread_others, meat) / n_others
    return Estimated(theta=theta, covariance=covariance, lam=lam)


def _residual_terms(x: Floats, y: Floats) -> Floats:
    """Return x_i times the residual of a least squares fit, float64[n, p]."""
    return scores("ols", x, y, fitted("ols", x, y, np.ones(len(y))))


def _traced(bread: Floats, meat: Floats) -> float:
    """Return the trace of inv(bread) meat inv(bread)."""
    return float(np.trace(sandwich(bread, meat)))


def ppi_logit(samples: Samples, lam: float | None = None) -> Estimated:
    """Estimate a logistic regression of the codes; see `ppi_mean`.

    Raises:
        FitError: The covariates are linearly dependent, or they separate the codes.
    """
    if lam is None:
        lam = 1.0
        for _ in range(_TUNINGS):
            lam = _best(samples, lam)
    theta = _solution(samples, lam)
    n, n_others = len(samples.y), len(samples.y_hat_others)
    own, hat, others = _terms(samples, theta)
    meat = _covariance(lam * others) / n_others + _covariance(own - lam * hat) / n
    bread = _hessian(samples, lam, theta)
    return Estimated(theta=theta, covariance=sandwich(bread, meat), lam=lam)


def _solution(samples: Samples, lam: float) -> Floats:
    n, n_others = len(samples.y), len(samples.y_hat_others)
    if lam == 0:
        return fitted("logit", samples.x, samples.y, np.ones(n))
    x = np.concatenate([samples.x_others, samples.x, samples.x])
    y = np.concatenate([samples.y_hat_others, samples.y, samples.y_hat])
    sizes = [(lam / n_others, n_others), (1 / n, n), (-lam / n, n)]
    weights = np.concatenate([np.full(size, weight) for weight, size in sizes])
    return fitted("logit", x, y, weights)


def _best(samples: Samples, lam: float) -> float:
    """Return the lam that minimizes the sum of variances at the estimate with `lam`."""
    theta = _solution(samples, lam)
    own, hat, others = _terms(samples, theta)
    inverse = np.linalg.inv(_hessian(samples, lam, theta))
    n, n_others = len(own), len(others)
    crossed = (own - own.mean(axis=0)).T @ (hat - hat.mean(axis=0)) / n
    spread = _covariance(np.concatenate([hat, others]))
    shared = float(np.trace(inverse @ (crossed + crossed.T) @ inverse))
    whole = 2 * (1 + n / n_others) * float(np.trace(inverse @ spread @ inverse))
    return float(np.clip(shared / whole, 0, 1)) if whole > 0 else 0.0


def _terms(samples: Samples, theta: Floats) -> tuple[Floats, Floats, Floats]:
    own = scores("logit", samples.x, samples.y, theta)
    hat = scores("logit", samples.x, samples.y_hat, theta)
    return own, hat, scores("logit", samples.x_others, samples.y_hat_others, theta)


def _hessian(samples: Samples, lam: float, theta: Floats) -> Floats:
    """Return the Hessian of the mean loss; for lam = 0 over coded texts only."""
    x = samples.x if lam == 0 else np.concatenate([samples.x, samples.x_others])
    return information("logit", x, np.full(len(x), 1 / len(x)), theta)


def _covariance(terms: Floats) -> Floats:
    return np.atleast_2d(np.cov(terms, rowvar=False))
