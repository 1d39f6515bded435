"""Variability of estimates from labels and codes, by the influences of texts and codes.

The influence of a coded text has two independent parts: psi, as one of the texts, which
are a sample of a population; and the change t = c / pi by its code, which only a draw
with the probability pi reveals, minus the mean of its stratum. The third central moment
of an estimate is

    sum_i R_i (psi_i^3 / pi_i + 3 psi_i (1 - pi_i) t_i^2 + (1 - pi_i) (1 - 2 pi_i) t_i^3).

and the covariance of an estimate with its variance

    sum_i R_i (psi_i + (1 - pi_i) t_i) (psi_i^2 / pi_i + (1 - pi_i) t_i^2).

If estimates describe these texts, only the terms without psi remain. Where most texts are
coded, 1 - 2 pi is negative: the estimate is skewed to the other side, its t value is not.

A case is a text whose code would differ from its label, or from the fitted value where
labels do not count; its influence is that of the largest such difference. Cases of one
cluster are dependent and count together.

The degrees of freedom of a coefficient are the effective number of the codes that
determine it, minus the number of fitted parameters. Codes count by the squares of their
weights in the estimate, so that a few codes with large weights, or a covariate with a few
extreme values, leave few degrees of freedom.

Replicate weights of texts are a generalised bootstrap of texts, draw and clusters. A
regression of the corrected outcome, prediction + R_i / pi_i (code - prediction), has
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

Sources: Joanes, Gill, "Comparing measures of sample skewness and kurtosis", The
Statistician 47, 1998; Bell, McCaffrey, "Bias reduction in standard errors for linear
regression with multi-stage samples", Surv. Methodol. 28, 2002, and Carter, Schnepel,
Steigerwald, "Asymptotic behavior of a t-test robust to cluster heterogeneity", Rev. Econ.
Stat. 99, 2017, for degrees of freedom from the weights. Beaumont, Patak, "On the
generalized bootstrap for sample surveys with special attention to Poisson sampling", Int.
Stat. Rev. 80, 2012; Judkins, "Fay's method for variance estimation", J. Off. Stat. 6,
1990; Hajek, "Asymptotic theory of rejective sampling with varying probabilities", 1964.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from llamaherd.coding.statistics.dsl import Problem, bread_at, centre_terms
from llamaherd.coding.statistics.intervals import ENOUGH, kish_n
from llamaherd.coding.statistics.regression import means, scores
from llamaherd.coding.statistics.uncertainty import (
    OTHER_KIND,
    Cases,
    Spread,
    skewness_noise,
    unseen_case,
)

if TYPE_CHECKING:
    from llamaherd.engine.core.arrays import Flags, Floats, Ints

_BINARY = 2  # values of an outcome; more: a number
_LEAST_DF = 4.0  # degrees of freedom of an estimate by five codes or more
_EQUAL = 1e-9  # relative difference of equal influences
_LEAST = 3  # smallest number of codes with a skewness
MOST_SKEWNESS = 0.2  # of an estimate; above it a t interval may be too short


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Influences:
    """Influences of a regression's texts and codes on q weighted sums of coefficients."""

    problem: Problem  # The regression
    lam: float | Floats  # Weight of the labels, or one weight for each coefficient
    theta: Floats  # float64[p], coefficients
    # float64[p, q], inverse of the derivative of the equation, times the weights of the
    # sums
    slopes: Floats

    @classmethod
    def of(
        cls, problem: Problem, lam: float | Floats, theta: Floats, ways: Floats
    ) -> Influences:
        """Return the influences on sums with the weights `ways`, float64[q, p]."""
        inverse = np.linalg.pinv(bread_at(problem, lam, theta))
        return cls(
            problem=problem, lam=lam, theta=theta, slopes=np.asarray(inverse @ ways.T)
        )

    def moments(self) -> tuple[Floats, Floats, Floats, Floats]:
        """Return third moments, covariances with the variance, variances, and noise.

        The noise is that of the third moments; see `skewness_noise`.
        """
        problem, v = self.problem, self.problem.survey[:, None]
        by_code = scores(problem.kind, problem.x, problem.y, self.theta)
        by_code = by_code * v[problem.rows]
        hat = self.lam * scores(problem.kind, problem.x_hat, problem.y_hat, self.theta)
        hat = hat * v
        change = (by_code - hat[problem.rows]) @ self.slopes
        by_code = by_code @ self.slopes
        if problem.clusters is not None:
            sums = problem.summed(hat @ self.slopes, change / problem.probs[:, None])
            third = np.asarray((sums**3).sum(axis=0))
            variance = np.asarray((sums**2).sum(axis=0))
            return third, third, variance, skewness_noise(sums)
        scale, left = problem.drawn_terms
        drawn, left = change * scale[:, None], left[:, None]
        if problem.strata is not None:
            strata, outside = problem.strata, problem.outside
            drawn, _ = centre_terms(drawn, left[:, 0], strata, outside)
        third = (left * (2 * left - 1) * drawn**3).sum(axis=0)
        squares = left * drawn**2
        if problem.target == "texts":
            joint = (left**2 * drawn**3).sum(axis=0)
            noise = skewness_noise(np.sqrt(left) * drawn)
            return third, joint, squares.sum(axis=0), noise
        probs = problem.probs[:, None]
        third = third + (by_code**3 / probs + 3 * by_code * left * drawn**2).sum(axis=0)
        squares += by_code**2 / probs
        moves = by_code + left * drawn
        noise = skewness_noise(np.sign(moves) * np.sqrt(squares))
        return third, (moves * squares).sum(axis=0), squares.sum(axis=0), noise

    def freedom(self, n_fitted: float | Floats) -> Floats:
        """Return degrees of freedom, float64[q]; a mean has 1 fitted parameter."""
        problem = self.problem
        weights = problem.code_weights
        lost = 1.0
        if problem.strata is not None and problem.clusters is None:
            n = len(weights) + problem.n_outside
            lost = (n - problem.n_strata + 1) / n
        if problem.drawing is None and problem.clusters is None:
            weights = weights * np.sqrt(np.maximum(1 - problem.probs, 1e-9))
        pulls = np.abs(problem.x @ self.slopes) * weights[:, None]
        if problem.clusters is not None:
            clusters = problem.clusters[problem.rows]
            pulls = np.array([np.bincount(clusters, column) for column in pulls.T]).T
        sizes = np.array([kish_n(column**2) for column in pulls.T])
        n = (pulls > 1e-12 * pulls.max(axis=0)).sum(axis=0)
        least = np.clip(n - n_fitted, 1.0, _LEAST_DF)
        return np.asarray(np.maximum(sizes * lost - n_fitted, least))

    def cases(self, ends: tuple[float, float] | None, level: float) -> tuple[Cases, ...]:
        """Return cases of higher and of lower codes; () for labels as covariates."""
        if ends is None:
            return ()
        problem = self.problem
        probs, strata = problem.of_all_texts
        is_known = probs >= 1
        lam = self._lams(is_known)
        middle = means(problem.kind, problem.x_hat, self.theta)
        centre = lam * problem.y_hat + (1 - lam) * middle
        gaps = problem.y - centre[problem.rows]
        gaps[np.abs(gaps) <= 1e-12 * max(np.abs(problem.y).max(), 1e-300)] = 0.0
        is_number = len(np.unique(problem.y)) > _BINARY
        may = ~is_known if problem.target == "texts" else np.ones(len(probs), dtype=bool)
        kinds = []
        for sign, end in zip((1, -1), ends[::-1], strict=True):
            columns = [
                self._kind(
                    sign, end - centre, gaps, slope, (is_number, may, strata), level
                )
                for slope in self.slopes.T
            ]
            kinds.append(np.array(columns).T)
        squares = kinds[0][2] + kinds[1][2]
        return tuple(
            Cases.of(size, mean, kind_squares + (squares - kind_squares) * OTHER_KIND)
            for size, mean, kind_squares in kinds
        )

    def _lams(self, is_known: Flags) -> Floats:
        """Return the weight of each text's label; 0 where the text is certainly coded."""
        x = self.problem.x_hat
        lams = np.full(len(x), self.lam) if np.ndim(self.lam) == 0 else x @ self.lam
        return np.where(is_known, 0.0, lams)

    def _kind(  # noqa: PLR0917 - arrays of one kind
        self,
        sign: int,
        room: Floats,
        gaps: Floats,
        slope: Floats,
        rest: tuple[bool, Flags, Ints],
        level: float,
    ) -> tuple[float, float, float]:
        """Return size, mean and sum of squares of those seen of one kind; see `Cases`.

        `room` float64[N] and `gaps` float64[n] are the largest and the observed
        differences of codes from labels; `rest` are: True for numbers, texts that may be
        cases, and strata of all texts.
        """
        problem = self.problem
        is_number, may, strata = rest
        pull = problem.x_hat @ slope
        code_pull = problem.x @ slope * problem.code_weights
        if problem.strata is not None and problem.drawing is None:
            usual = self._usual_gaps(gaps, np.abs(code_pull), strata)
            gaps, room = gaps - usual[strata[problem.rows]], room - usual[strata]
        room = np.where(may & (sign * room > 0), room, 0.0)
        if is_number and gaps.any():  # a case has the usual size of those seen
            most = float(np.sqrt((gaps[gaps != 0] ** 2).mean()))
            room = np.clip(room, -most, most)
        used = (room != 0) & (pull != 0)
        seen = np.where(sign * gaps > 0, np.abs(code_pull * gaps), 0.0)
        if not used.any():
            return 0.0, 0.0, float((seen**2).sum())
        probs = problem.of_all_texts[0][used]
        moves = _typical(pull[used]) * room[used] * problem.survey[used]
        sizes = np.abs(moves) / probs
        share = 1.0
        if problem.clusters is not None:
            sums = np.bincount(problem.clusters[problem.rows], seen)
            seen = sums[sums > 0]
            if len(seen):  # usual number of cases of a cluster that has some
                share = max(float((seen**2).sum() / seen.sum() / sizes.max()), 1.0)
        squares = float((seen**2).sum())
        if squares >= ENOUGH * (sizes.max() * share) ** 2:
            return float(sizes.max()) * share, 0.0, squares
        size, mean = unseen_case(np.sign(moves) * sizes, probs, level)
        cap = min(share, float(np.abs(moves).sum()) / size)
        if problem.target == "texts":
            cap *= float(np.sqrt(max(1 - probs.min(), 0.0)))
        return size * cap, mean * cap, squares

    def _usual_gaps(self, gaps: Floats, weights: Floats, strata: Ints) -> Floats:
        """Return the mean gap of the codes of each stratum: a case is what is unusual."""
        at, n_strata = strata[self.problem.rows], int(strata.max()) + 1
        total = np.bincount(at, weights, n_strata)
        summed = np.bincount(at, weights * gaps, n_strata)
        return np.asarray(summed / np.where(total > 0, total, 1.0))

    def spread(
        self,
        covariance: Floats,
        n_fitted: float | Floats,
        ends: tuple[float, float] | None,
        level: float,
    ) -> Spread:
        """Return the variability of the estimates."""
        third, joint, _, noise = self.moments()
        known = float(self._counts_events)
        return Spread(
            variance=covariance,
            third=known * third,
            joint=known * joint,
            df=self.freedom(n_fitted),
            noise=noise,
            cases=self.cases(ends, level),
        )

    @property
    def _counts_events(self) -> bool:
        """True if outcomes and covariates have two values, so that skewness is known."""
        arrays = (self.problem.y, *self.problem.x.T)
        return all(len(np.unique(values)) <= _BINARY for values in arrays)

    def codes_needed(self) -> Floats:
        """Return the numbers of codes that Cochran's rule requires, float64[q].

        The rule requires more than 25 G^2 codes, where G is the skewness of the numbers
        whose mean is estimated; the skewness of the mean, G / sqrt(n), is then below 0.2.
        The skewness of a sample is on average much smaller than that of a population with
        a heavy tail. A sample without any of the largest numbers therefore does not show
        that it is too small.

        Source: Cochran, "Sampling Techniques", 3rd ed., 1977, section 2.15.
        """
        q = self.slopes.shape[1]
        n = np.full(q, 0.0)  # of sums of coefficients: not needed
        n[: self.problem.x.shape[1]] = (self.problem.x != 0).sum(axis=0)
        if len(np.unique(self.problem.y)) <= _BINARY or self.problem.kind == "logit":
            return np.full(len(n), np.nan)
        third, _, variance, _ = self.moments()
        has_variance = variance > 1e-300
        skew = third / np.where(has_variance, variance, 1.0) ** 1.5
        small = n * (n - 1) / np.maximum(n - 2, 1) ** 2
        needed = np.where(has_variance, n * small * (skew / MOST_SKEWNESS) ** 2, 0.0)
        return np.asarray(np.where(n < _LEAST, np.nan, needed), dtype=np.float64)


def _typical(pulls: Floats) -> Floats:
    """Return influences of covariates on a slope, with their root mean square as size.

    A slope has influences of both signs, and a case is a text like the others: it has not
    the most extreme covariates. The influences on a mean have one sign, those on a
    difference of groups one size in each group.
    """
    sides = [pulls[pulls > 0], pulls[pulls < 0]]
    if any(len(side) == 0 for side in sides):
        return pulls
    if all(np.ptp(side) <= _EQUAL * np.abs(side).max() for side in sides):
        return pulls
    return np.asarray(np.sign(pulls) * np.sqrt((pulls**2).mean()))


FAY = 0.5  # size of the changes; 1: weights could be 0
_MOST_MOVE = 1.9  # bound of changes before they are halved, so that weights are positive


def replicate_factors(problem: Problem, n: int, rng: np.random.Generator) -> Floats:
    """Return the factors of the texts' weights in n replicates, float64[N, n]."""
    if problem.target == "texts":
        return _factors_of_draw(problem, n, rng)
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
            in_stratum = np.zeros(n_texts, dtype=bool)
            in_stratum[rows[problem.strata == h]] = True
            if problem.drawing is None:
                in_stratum |= others & (all_strata == h)
            more = 0.0 if problem.outside is None else problem.outside.of(int(h))[1]
            signs[in_stratum] = _without(signs[in_stratum], along[in_stratum], more)
    return np.asarray(1 + FAY * sizes[:, None] * signs)


def _factors_of_draw(problem: Problem, n: int, rng: np.random.Generator) -> Floats:
    """Return factors of which only the draw of the sample varies the estimate.

    Only texts with a wrong prediction have replicates. The term of such a text is
    a = c / pi + h, where c = code - prediction, h = prediction - fitted value, for which
    the mean of the outcome is taken; the draw varies c / pi only, so that a sign is
    multiplied by (c / pi) / a.
    """
    rows, (scale, left) = problem.rows, problem.drawn_terms
    change = problem.y - problem.y_hat[rows]
    corrections = change / problem.probs
    total = problem.survey @ problem.y_hat + problem.survey[rows] @ corrections
    terms = corrections + problem.y_hat[rows] - total / problem.survey.sum()
    ratio = np.divide(change * scale, terms, out=np.zeros(len(rows)), where=terms != 0)
    signs = _signs(len(rows), n, rng)
    if problem.strata is not None:
        for h in np.unique(problem.strata):
            in_stratum = problem.strata == h
            more = 0.0 if problem.outside is None else problem.outside.of(int(h))[1]
            signs[in_stratum] = _without(
                signs[in_stratum], np.sqrt(left[in_stratum]), more
            )
    sizes = np.sqrt(left / (1 - problem.stratum_leverage)) * ratio
    moves = np.clip(sizes[:, None] * signs, -_MOST_MOVE, _MOST_MOVE)
    factors = np.ones((len(problem.y_hat), n))
    factors[rows] += FAY * np.where((change == 0)[:, None], 0.0, moves)
    return factors


def _signs(n_rows: int, n: int, rng: np.random.Generator) -> Floats:
    return np.asarray(2.0 * rng.integers(2, size=(n_rows, n)) - 1)


def _without(signs: Floats, along: Floats, more: float) -> Floats:
    """Remove the part of signs along a direction, less for `more` outside its length."""
    length = float(along @ along)
    if length <= 0:  # the whole stratum was drawn
        return signs
    part = (1 - np.sqrt(more / (length + more))) / length
    return np.asarray(signs - part * np.outer(along, along @ signs))
