"""Estimation of right labels where coders disagree, by the model of Dawid and Skene.

Each coder has a matrix of error rates, which gives the probability of each code for each
right label. Labels and matrices are estimated together by expectation maximization,
starting from the shares of each text's codes. In the one-coin form each coder has a
single probability of giving the right code, and all wrong codes are equally probable.

The model assumes that codes of different coders are independent given the right label.
Texts that are hard for everybody violate this assumption: coders then seem better than
they are.

Sources: Dawid, Skene, "Maximum Likelihood Estimation of Observer Error-Rates Using the EM
Algorithm", Applied Statistics 28, 1979; for the one-coin form Zhang, Chen, Zhou, Jordan,
"Spectral Methods Meet EM", J. Mach. Learn. Res. 17, 2016.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from llamaherd.research.codes import Code
    from llamaherd.research.statistics.sampling import Floats, Ints

_LEAST = 1e-300  # lower bound of probabilities, so that their logarithm is finite
_LEAST_CODERS = 3
_LEAST_TEXTS = 20  # least number of texts with two codes or more


class DawidSkeneError(Exception):
    """The codes do not allow a model of the coders; the message says what is missing."""


def coder_matrix(
    codes: Sequence[Sequence[Code]], names: Sequence[Hashable]
) -> tuple[Ints, tuple[Any, ...], list[int]]:
    """Return codes as label numbers, the labels that occur, and the texts with a code.

    Args:
        codes: For each of J coders the codes of all texts; None if a code is missing.
        names: Known labels in their order; other labels follow, sorted.

    Returns:
        int64[J, n] with -1 for missing codes; K labels; n indices of texts.

    Raises:
        DawidSkeneError: There are fewer than three coders, or fewer than 20 texts with
            two codes.
    """
    n_texts = len(codes[0]) if codes else 0
    at = [i for i in range(n_texts) if any(column[i] is not None for column in codes)]
    n_both = sum(sum(column[i] is not None for column in codes) > 1 for i in at)
    if len(codes) < _LEAST_CODERS or n_both < _LEAST_TEXTS:
        raise DawidSkeneError(
            f"must have {_LEAST_CODERS} coders at least, and {_LEAST_TEXTS} texts with "
            f"two codes or more, for a model of their errors; it has {len(codes)} and "
            f"{n_both}"
        )
    there = {code for column in codes for code in column if code is not None}
    found: list[Any] = [name for name in names if name in there]
    found += sorted(there.difference(found), key=str)
    number = {name: k for k, name in enumerate(found)}
    made = [
        [-1 if column[i] is None else number[column[i]] for i in at] for column in codes
    ]
    return np.array(made, dtype=np.int64), tuple(found), at


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Fitted:
    """Estimates by expectation maximization.

    Attributes:
        posteriors: float64[n, K], probability of each label for each text.
        prior: float64[K], share of each label in the sample.
        errors: float64[J, K, K], probability of coder j's code (last axis) given the
            right label (second axis).
        n_steps: Number of steps of expectation maximization.
        log_likelihood: Logarithm of the likelihood of the codes.
    """

    posteriors: Floats
    prior: Floats
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
    """
    n_coders, n = codes.shape
    given = np.zeros((n_coders, n, n_labels))
    at = np.nonzero(codes >= 0)
    given[at[0], at[1], codes[at]] = 1.0
    votes = given.sum(axis=0)
    posteriors = votes / np.maximum(votes.sum(axis=1, keepdims=True), 1.0)
    before = -np.inf
    prior, errors, found, step = np.empty(0), np.empty(0), before, 0
    while step < n_steps:
        step += 1
        prior, errors = _maximized(given, posteriors, smoothing, one_coin=one_coin)
        posteriors, found = _expected(given, prior, errors)
        if found - before < tolerance * max(n, 1):
            break
        before = found
    return Fitted(
        posteriors=posteriors,
        prior=prior,
        errors=errors,
        n_steps=step,
        log_likelihood=found,
    )


def _maximized(
    given: Floats, posteriors: Floats, smoothing: float, *, one_coin: bool
) -> tuple[Floats, Floats]:
    """Return the shares of labels and the error rates for given probabilities."""
    prior = posteriors.sum(axis=0) + smoothing
    counts = np.einsum("nk,jnc->jkc", posteriors, given)
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


def _expected(given: Floats, prior: Floats, errors: Floats) -> tuple[Floats, float]:
    """Return each text's probabilities of labels, and the log-likelihood."""
    logs = np.log(np.maximum(errors, _LEAST))
    joint = np.log(np.maximum(prior, _LEAST)) + np.einsum("jnc,jkc->nk", given, logs)
    most = joint.max(axis=1, keepdims=True)
    parts = np.exp(joint - most)
    sums = parts.sum(axis=1, keepdims=True)
    log_likelihood = float((most + np.log(sums)).sum())
    return np.asarray(parts / sums), log_likelihood
