"""Estimation of right labels where coders disagree, by the model of Dawid and Skene.

Each coder has a matrix of error rates, which gives the probability of each code for each
right label. Labels and matrices are estimated together by expectation maximization,
starting from the shares of each text's codes. In the one-coin form each coder has a
single probability of giving the right code, and all wrong codes are equally probable.

The model assumes that codes of different coders are independent given the right label.
Texts that are hard for everybody violate this assumption: coders then seem better than
they are.

Draws of labels for a later analysis depend on the columns that the analysis compares. If
all texts had the same prior, draws of uncertain labels would move the share of each group
towards the share of all texts. Texts may therefore belong to cells, such as groups. Each
cell has its own prior; coders' error rates are the same in all cells.

Sources: Dawid, Skene, "Maximum Likelihood Estimation of Observer Error-Rates Using the EM
Algorithm", Applied Statistics 28, 1979; for the one-coin form Zhang, Chen, Zhou, Jordan,
"Spectral Methods Meet EM", J. Mach. Learn. Res. 17, 2016; for the draws of labels Rubin,
"Multiple Imputation for Nonresponse in Surveys", 1987, chapter 4; for the cells Meng,
"Multiple-Imputation Inferences with Uncongenial Sources of Input", Stat. Sci. 9, 1994.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from llamaherd.research.statistics.sampling import Floats, Ints

_LEAST = 1e-300  # lower bound of probabilities, so that their logarithm is finite
_OF_ALL = 1.0  # weight, in texts, of the prior of all texts in the prior of each cell


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Fitted:
    """Estimates by expectation maximization.

    Attributes:
        posteriors: float64[n, K], probability of each label for each text.
        prior: float64[K], share of each label in the sample.
        priors: float64[G + 1, K], share of each label in each cell, and `prior`.
        errors: float64[J, K, K], probability of coder j's code (last axis) given the
            right label (second axis).
        n_steps: Number of steps of expectation maximization.
        log_likelihood: Logarithm of the likelihood of the codes.
    """

    posteriors: Floats
    prior: Floats
    priors: Floats
    errors: Floats
    n_steps: int
    log_likelihood: float


def fitted(
    codes: Ints,
    n_labels: int,
    *,
    one_coin: bool = False,
    smoothing: float = 0.01,
    n_steps: int = 1000,
    tolerance: float = 1e-8,
    counts: Floats | None = None,
    cells: Ints | None = None,
) -> Fitted:
    """Estimate labels and coders' error rates.

    Args:
        codes: int64[J, n], index of each coder's code for each text; -1 if there is no
            code.
        n_labels: K, the number of labels.
        one_coin: True to fit a single probability for each coder.
        smoothing: Number added to each count of codes, so that no probability is 0.
        n_steps: Largest number of steps.
        tolerance: Change of the log-likelihood per text below which the steps end.
        counts: float64[n], number of times that each text is included; None to include
            each text once.
        cells: int64[n], cell of each text from 0, -1 for no cell; None without cells.
    """
    n_coders, n = codes.shape
    w = np.ones(n) if counts is None else counts
    cells = np.full(n, -1) if cells is None else cells
    given = np.zeros((n_coders, n, n_labels))
    at = np.nonzero(codes >= 0)
    given[at[0], at[1], codes[at]] = 1.0
    votes = given.sum(axis=0)
    posteriors = votes / np.maximum(votes.sum(axis=1, keepdims=True), 1.0)
    before = -np.inf
    prior, priors = np.empty(0), np.empty((0, 0))
    errors, found, step = np.empty(0), before, 0
    while step < n_steps:
        step += 1
        prior, errors = _maximized(given, posteriors, w, smoothing, one_coin=one_coin)
        priors = _of_cells(posteriors * w[:, None], cells, prior)
        posteriors, found = expected(given, priors[cells], errors, w)
        if found - before < tolerance * max(float(w.sum()), 1.0):
            break
        before = found
    return Fitted(
        posteriors=posteriors,
        prior=prior,
        priors=priors,
        errors=errors,
        n_steps=step,
        log_likelihood=found,
    )


def _maximized(
    given: Floats, posteriors: Floats, w: Floats, smoothing: float, *, one_coin: bool
) -> tuple[Floats, Floats]:
    """Return the shares of labels and the error rates for given probabilities."""
    weighted = posteriors * w[:, None]
    prior = weighted.sum(axis=0) + smoothing
    counts = np.einsum("nk,jnc->jkc", weighted, given)
    n_labels = counts.shape[1]
    if one_coin:
        right = np.einsum("jkk->j", counts) + smoothing
        total = counts.sum(axis=(1, 2)) + n_labels * smoothing
        share = (right / np.maximum(total, _LEAST))[:, None, None]
        others = (1 - share) / max(n_labels - 1, 1)
        errors = np.where(np.eye(n_labels, dtype=bool), share, others)
    else:
        counts += smoothing
        errors = counts / np.maximum(counts.sum(axis=2, keepdims=True), _LEAST)
    return np.asarray(prior / prior.sum()), np.asarray(errors)


def _of_cells(weighted: Floats, cells: Ints, prior: Floats) -> Floats:
    """Return the smoothed prior of each cell, and the prior of all texts.

    Args:
        weighted: float64[n, K], probabilities of labels, times the counts of texts.
        cells: int64[n], -1 for no cell.
        prior: float64[K], prior of all texts.

    Returns:
        float64[G + 1, K]; the last row, for cell -1, is the prior of all texts.
    """
    sums = np.zeros((int(cells.max(initial=-1)) + 2, len(prior)))
    there = cells >= 0
    np.add.at(sums, cells[there], weighted[there])
    sums += _OF_ALL * prior
    return np.asarray(sums / sums.sum(axis=1, keepdims=True))


def expected(
    given: Floats, priors: Floats, errors: Floats, w: Floats
) -> tuple[Floats, float]:
    """Return each text's probabilities of labels, and the log-likelihood.

    Args:
        given: float64[J, n, K], 1 for the code of a coder.
        priors: float64[n, K], prior of each text.
        errors: float64[J, K, K].
        w: float64[n], number of times that each text is included.
    """
    logs = np.log(np.maximum(errors, _LEAST))
    joint = np.log(np.maximum(priors, _LEAST)) + np.einsum("jnc,jkc->nk", given, logs)
    most = joint.max(axis=1, keepdims=True)
    parts = np.exp(joint - most)
    sums = parts.sum(axis=1, keepdims=True)
    log_likelihood = float(w @ (most + np.log(sums)).ravel())
    return np.asarray(parts / sums), log_likelihood


def imputed(
    codes: Ints,
    n_labels: int,
    n_draws: int,
    seed: int,
    *,
    one_coin: bool = False,
    cells: Ints | None = None,
) -> Ints:
    """Draw right labels from the model, int64[n_draws, n].

    Each draw first fits the model to a bootstrap sample of texts. Draws therefore vary
    with the uncertainty of the error rates as well as with the uncertainty of each text's
    label at given error rates.

    Args:
        codes: See `fitted`.
        n_labels: K, the number of labels.
        n_draws: Number of draws.
        seed: Seed.
        one_coin: True for one probability per coder.
        cells: int64[n], cell of each text, from all columns of the later analysis; None
            for one prior.
    """
    rng = np.random.default_rng(seed)
    n = codes.shape[1]
    cells = np.full(n, -1) if cells is None else cells
    given = np.zeros((*codes.shape, n_labels))
    at = np.nonzero(codes >= 0)
    given[at[0], at[1], codes[at]] = 1.0
    out = np.empty((n_draws, n), dtype=np.int64)
    for draw in range(n_draws):
        counts = np.bincount(rng.integers(n, size=n), minlength=n).astype(np.float64)
        one = fitted(
            codes,
            n_labels,
            one_coin=one_coin,
            counts=counts,
            tolerance=1e-5,
            cells=cells,
        )
        probs, _ = expected(given, one.priors[cells], one.errors, np.ones(n))
        points = rng.random(n)[:, None]
        out[draw] = np.minimum((np.cumsum(probs, axis=1) < points).sum(1), n_labels - 1)
    return out
