"""Replicate weights of texts: a generalised bootstrap of texts, draw and clusters.

A regression of the corrected outcome, prediction + R_i / pi_i (code - prediction), has
terms s_i = h_i + R_i c_i / pi_i, where h_i is the term of the prediction and c_i that of
its correction. DSL's variance of their sum is

    sum_i s_i^2 - sum_h (sum_(i in h) (1 - pi_i) c_i / pi_i)^2 / sum_(i in h) (1 - pi_i),

with sums over the coded texts of each stratum h, because their number is fixed. What is
subtracted is the part of s along q_i = R_i - pi_i within the stratum: the terms of
predictions have a mean of about 0 in this direction. Replicate b therefore multiplies the
weight of text i by 1 + e_i / 2, where e is a vector of random signs without its part
along q in each stratum. As in Fay's method, the factor 1 / 2 keeps weights positive; the
variance of an estimate is 4 times the mean squared change by the replicates.

Clusters have one sign each. In a sample of several waves a code has the scale and the
strata of its own wave, see `Drawing`.

Sources: Beaumont, Patak, "On the generalized bootstrap for sample surveys with special
attention to Poisson sampling", Int. Stat. Rev. 80, 2012; Judkins, "Fay's method for
variance estimation", J. Off. Stat. 6, 1990; Hajek, "Asymptotic theory of rejective
sampling with varying probabilities", 1964.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from llamaherd.research.statistics.dsl import Problem
    from llamaherd.research.statistics.sampling import Floats

FAY = 0.5  # size of the changes; 1: weights could be 0


def replicate_factors(problem: Problem, n: int, rng: np.random.Generator) -> Floats:
    """Return the factors of the texts' weights in n replicates, float64[N, n].

    Args:
        problem: Design of the sample; outcomes and covariates are not used.
        n: Number of replicates.
        rng: Random numbers.
    """
    n_texts, clusters = len(problem.y_hat), problem.clusters
    if clusters is not None:
        c = int(clusters.max()) + 1
        signs = _signs(c, n, rng) * np.sqrt(c / max(c - 1, 1))
        return np.asarray(1 + FAY * signs[clusters])
    signs = _signs(n_texts, n, rng)
    rows, probs = problem.rows, problem.probs
    scale, left = problem.drawn_terms
    unbiased = 1 / (1 - problem.stratum_leverage)
    sizes = np.ones(n_texts)
    sizes[rows] = np.sqrt(probs + probs**2 * left * scale**2 * unbiased)
    if problem.strata is not None:
        along = np.zeros(n_texts)
        along[rows] = np.sqrt(unbiased) * left * scale * probs / sizes[rows]
        all_probs, all_strata = problem.of_all_texts
        others = np.ones(n_texts, dtype=bool)
        others[rows] = False
        if problem.drawing is None:  # strata of all texts are those of one draw
            along[others] = -all_probs[others]
        for h in np.unique(problem.strata):
            there = np.zeros(n_texts, dtype=bool)
            there[rows[problem.strata == h]] = True
            if problem.drawing is None:
                there |= others & (all_strata == h)
            more = 0.0 if problem.outside is None else problem.outside.of(int(h))[1]
            signs[there] = _without(signs[there], along[there], more)
    return np.asarray(1 + FAY * sizes[:, None] * signs)


def _signs(n_rows: int, n: int, rng: np.random.Generator) -> Floats:
    return np.asarray(2.0 * rng.integers(2, size=(n_rows, n)) - 1)


def _without(signs: Floats, along: Floats, more: float) -> Floats:
    """Remove the part of signs along a direction; codes outside make it smaller.

    Args:
        signs: float64[m, n].
        along: float64[m], the direction.
        more: Squared length that codes outside of these texts add.
    """
    length = float(along @ along)
    if length <= 0:  # the whole stratum was drawn
        return signs
    part = (1 - np.sqrt(more / (length + more))) / length
    return np.asarray(signs - part * np.outer(along, along @ signs))
