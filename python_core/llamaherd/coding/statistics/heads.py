"""Heads: ridge multinomial logistic regressions that predict codes from text features.

With x the features of a text, B the coefficients and a the intercepts,

    p_j = exp(a_j + x B_j) / sum_i exp(a_i + x B_i)

minimize sum_i w_i (-log p of the code) + lam / 2 sum B^2. Intercepts are not penalized,
so that mean probabilities equal the weighted shares of the codes. The minimum is found by
steps with a constant bound of the Hessian (Böhning), accelerated by Nesterov's momentum,
for many weights and penalties together.

`cross_fit` fits a head for each fold on the codes of the other folds. Cross-validation
among these codes alone chooses the penalty. So the prediction of a coded text does not
depend on the code of this text.

A `TextHead` predicts a model's labels from embeddings. The head is fitted to the model's
probabilities in a random sample of texts. To measure the agreement of head and model,
each text is predicted by a head that was fitted without this text; the penalty of all
these heads is the same.

Sources: Böhning, "Multinomial Logistic Regression Algorithm", Ann. Inst. Statist. Math.
44, 1992; Nesterov, 1983, with restarts as O'Donoghue and Candès, "Adaptive Restart for
Accelerated Gradient Schemes", Found. Comput. Math. 15, 2015; Zrnic and Candès,
"Cross-prediction-powered inference", PNAS 121, 2024 (arXiv 2309.16598), for the folds.
Variances are computed for given predictions; the paper estimates them with heads that are
fitted to bootstrap samples.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.coding.statistics.intervals import LEVEL, Measure, share

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.engine.core.arrays import Flags, Floats, Ints

PENALTIES = tuple(10.0**e for e in (2, 1.5, 1, 0.5, 0, -0.5, -1))
SCALES = (0.3, 1.0, 3.0)  # factors of all blocks but the first, chosen with the penalty
_INNER = 5  # folds of the cross-validation that chooses the penalty
_STEPS = 2000  # limit of steps; 30 to 300 are usual
_TOLERANCE = 1e-6  # largest change of log odds in the last step
_ROUGH = 1e-3  # tolerance of fits from which only the loss is used
_LEAST = 1e-6  # lower bound of probabilities before their logarithm


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Head:
    """Fitted head: predicts probabilities of labels from features."""

    coefficients: Floats  # float64[d + 1, k], intercepts in the first row
    scales: Floats  # float64[d], factors of the features
    penalty: float  # The penalty lam

    def probs(self, x: Floats) -> Floats:
        """Return probabilities of the k labels, float64[n, k]."""
        linear = self.coefficients[0] + (x * self.scales) @ self.coefficients[1:]
        return softmax(linear)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Crossed:
    """Heads of all folds, and their predictions of the coded texts."""

    # One head for each fold, fitted on the codes of the other folds
    heads: tuple[Head, ...]
    folds: Ints  # int64[n], fold of each coded text
    # float64[n, k], probabilities of the coded texts by the head of their fold
    probs: Floats

    def mean_probs(self, x: Floats) -> Floats:
        """Return the mean probabilities by all heads, for texts without a code."""
        return np.asarray(np.mean([head.probs(x) for head in self.heads], axis=0))


def log_probs(probs: Floats) -> Floats:
    """Return features made of the probabilities of labels, float64[n, k].

    The features are log-probabilities, centred for each text, in units of their standard
    deviation over all texts and labels.
    """
    logs = np.log(np.maximum(probs, _LEAST))
    logs = logs - logs.mean(axis=1, keepdims=True)
    logs = logs - logs.mean(axis=0)
    spread = float(np.sqrt((logs**2).mean()))
    return np.asarray(logs / spread if spread > 0 else logs)


def components(vectors: Floats) -> Floats:
    """Return features made of embeddings, float64[n, at most 100].

    The features are the principal components of all texts' embeddings, scaled to a total
    variance of 1. The codes are not used.
    """
    return Projection.of(vectors).features(vectors)


def softmax(linear: Floats) -> Floats:
    """Return exp(linear), scaled so that the last axis sums to 1."""
    exponentials = np.exp(linear - linear.max(axis=-1, keepdims=True))
    return np.asarray(exponentials / exponentials.sum(axis=-1, keepdims=True))


def deal_folds(
    units: Sequence[Any], strata: Sequence[Any], n_folds: int, rng: np.random.Generator
) -> Ints:
    """Return folds from 0, int64[n], random in strata; texts of a unit share a fold."""
    first = dict(zip(reversed(units), reversed(strata), strict=True))
    names = list(dict.fromkeys(units))
    order = [names[i] for i in rng.permutation(len(names))]
    order.sort(key=lambda name: str(first[name]))  # stable
    fold_of = {name: i % n_folds for i, name in enumerate(order)}
    return np.array([fold_of[unit] for unit in units], dtype=np.int64)


def cross_fit(
    blocks: Sequence[Floats],
    codes: Ints,
    weights: Floats,
    folds: Ints,
    rng: np.random.Generator,
    *,
    n_labels: int,
) -> Crossed:
    """Fit a head for each fold on the codes, int64[n], of the other folds.

    Features of the first block have the scale 1; the scales of others are chosen.
    """
    heads = []
    probs = np.zeros((len(codes), n_labels))
    for fold in range(int(folds.max()) + 1):
        others = folds != fold
        head = best_head(
            [block[others] for block in blocks],
            codes[others],
            weights[others],
            rng,
            n_labels=n_labels,
        )
        probs[~others] = head.probs(np.hstack([block[~others] for block in blocks]))
        heads.append(head)
    return Crossed(heads=tuple(heads), folds=folds, probs=probs)


def best_head(
    blocks: Sequence[Floats],
    codes: Ints | Floats,
    weights: Floats,
    rng: np.random.Generator,
    *,
    n_labels: int,
) -> Head:
    """Fit a head whose penalty and scales minimize the cross-validated log loss.

    `codes` may also be probabilities of the labels, float64[n, k], see `fit_heads`.
    """
    likeliest = codes if codes.ndim == 1 else codes.argmax(axis=1)
    inner = deal_folds(range(len(codes)), likeliest.tolist(), _INNER, rng)
    weights = weights / weights.mean()
    x = np.hstack(list(blocks))
    tried = _scales_of(blocks)
    best: tuple[float, float, Floats] | None = None
    for scales in tried:
        losses = _losses(x * scales, codes, weights, inner, n_labels)
        at = int(losses.argmin())
        if best is None or losses[at] < best[0] - 1e-9:
            best = (float(losses[at]), PENALTIES[at], scales)
    assert best is not None  # noqa: S101 - there is at least one
    _, penalty, scales = best
    coefficients = fit_heads(
        x * scales, codes, weights[None], np.array([penalty]), n_labels=n_labels
    )
    return Head(coefficients=coefficients[0], scales=scales, penalty=penalty)


def fit_heads(
    x: Floats,
    codes: Ints | Floats,
    weights: Floats,
    penalties: Floats,
    *,
    n_labels: int,
    tolerance: float = _TOLERANCE,
) -> Floats:
    """Fit m heads with weights float64[m, n] and penalties; float64[m, d + 1, k].

    Codes are int64[n], or float64[n, k], probabilities to predict.
    """
    x = np.hstack([np.ones((len(x), 1)), x])
    hits = _targets(codes, n_labels)
    ridge = np.outer(penalties, np.r_[0.0, np.ones(x.shape[1] - 1)])
    inverse = _inverses(x, weights, ridge)
    now = np.zeros((len(weights), x.shape[1], n_labels))
    ahead, pace = now, np.ones(len(weights))
    for _ in range(_STEPS):
        gap = weights[:, :, None] * (softmax(x @ ahead) - hits)
        slope = x.T @ gap + ridge[:, :, None] * ahead
        new = ahead - inverse @ slope
        step = new - now
        if np.abs(x @ step).max() < tolerance:
            return np.asarray(new)
        turned = (slope * step).sum(axis=(1, 2)) > 0  # momentum increased the loss
        pace = np.where(turned, 1.0, pace)
        more = (1 + np.sqrt(1 + 4 * pace**2)) / 2
        ahead = new + np.where(turned, 0.0, (pace - 1) / more)[:, None, None] * step
        now, pace = new, more
    return np.asarray(now)


def _inverses(x: Floats, weights: Floats, ridge: Floats) -> Floats:
    """Return the inverses of the Hessians' bounds, float64[m, d + 1, d + 1]."""
    hessian_bounds = (x.T * weights[:, None, :]) @ x / 2
    at = np.arange(x.shape[1])
    hessian_bounds[:, at, at] += ridge + 1e-9 * weights.sum(axis=1)[:, None]
    return np.asarray(np.linalg.inv(hessian_bounds))


def _targets(codes: Ints | Floats, n_labels: int) -> Floats:
    """Return the probabilities to predict, float64[n, k]; a code has probability 1."""
    return np.asarray(codes if codes.ndim == 2 else np.eye(n_labels)[codes])


def _losses(
    x: Floats, codes: Ints | Floats, weights: Floats, inner: Ints, n_labels: int
) -> Floats:
    """Return the cross-validated log loss of each of `PENALTIES`."""
    n_folds = int(inner.max()) + 1
    held: Flags = inner == np.arange(n_folds)[:, None]
    parts = np.repeat(np.where(held, 0.0, weights), len(PENALTIES), axis=0)
    coefficients = fit_heads(
        x, codes, parts, np.tile(PENALTIES, n_folds), n_labels=n_labels, tolerance=_ROUGH
    )
    probs = softmax(np.hstack([np.ones((len(x), 1)), x]) @ coefficients)
    logs = np.log(np.maximum(probs, _LEAST)) * _targets(codes, n_labels)
    log_likelihoods = logs.sum(axis=2).reshape(n_folds, len(PENALTIES), -1)
    terms = -log_likelihoods * np.where(held, weights, 0.0)[:, None]
    return np.asarray(terms.sum(axis=(0, 2)))


def _scales_of(blocks: Sequence[Floats]) -> list[Floats]:
    """Return the candidate factors of the features."""
    sizes = [block.shape[1] for block in blocks]
    if len(sizes) == 1:
        return [np.ones(sizes[0])]
    return [np.repeat([1.0, scale], sizes) for scale in SCALES]


_MOST_COMPONENTS = 100


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Projection:
    """Principal components of embeddings, from which features of texts are computed."""

    mean: Floats  # float64[d], mean of the vectors
    axes: Floats  # float64[d, at most 100], directions, scaled to a total variance of 1

    @classmethod
    def of(cls, vectors: Floats) -> Projection:
        """Compute the components of vectors, float[n, d]."""
        mean = np.asarray(vectors.mean(axis=0, dtype=np.float64))
        centred = vectors - mean
        values, axes = np.linalg.eigh(centred.T @ centred)
        kept = np.argsort(values)[::-1][:_MOST_COMPONENTS]
        kept = kept[values[kept] > values.max() * 1e-10]
        axes = axes[:, kept]
        signs = np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(len(kept))])
        total = float(np.sqrt((centred**2).sum() / len(centred)))
        return cls(mean=mean, axes=axes * signs / (total if total > 0 else 1.0))

    def features(self, vectors: Floats) -> Floats:
        """Return the features of vectors, float64[n, at most 100]."""
        return np.asarray((vectors - self.mean) @ self.axes)


N_FOLDS = 5


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TextHead:
    """Head that predicts a model's labels from embeddings."""

    projection: Projection  # Components of the sample's embeddings
    head: Head  # Classifier on these components
    # float64[n], for each sampled text, the highest probability by a head that was fitted
    # without this text
    confidence: Floats
    hits: Flags  # bool[n], True if the label by that head equals the model's label

    def probs(self, vectors: Floats) -> Floats:
        """Return probabilities of the k labels, float64[n, k], of float[n, d] vectors."""
        return self.head.probs(self.projection.features(vectors))

    def agreement(self, above: float = 0.0) -> Measure:
        """Return the share of sampled texts on which head and model agree."""
        hits = self.hits[self.confidence >= above].astype(np.float64)
        return share(hits, np.ones(len(hits)), LEVEL)

    def to_dict(self) -> dict[str, Any]:
        """Return the head as JSON types; `from_dict` returns the same numbers."""
        return {
            "mean": self.projection.mean.tolist(),
            "axes": self.projection.axes.tolist(),
            "coefficients": self.head.coefficients.tolist(),
            "penalty": self.head.penalty,
            "confidence": self.confidence.tolist(),
            "hits": self.hits.tolist(),
        }

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> TextHead:
        """Restore a head from the result of `to_dict`."""
        axes = np.array(fields["axes"], dtype=np.float64)
        coefficients = np.array(fields["coefficients"], dtype=np.float64)
        return cls(
            projection=Projection(
                mean=np.array(fields["mean"], dtype=np.float64), axes=axes
            ),
            head=Head(
                coefficients=coefficients,
                scales=np.ones(len(coefficients) - 1),
                penalty=float(fields["penalty"]),
            ),
            confidence=np.array(fields["confidence"], dtype=np.float64),
            hits=np.array(fields["hits"], dtype=bool),
        )


def text_head(vectors: Floats, probs: Floats, rng: np.random.Generator) -> TextHead:
    """Fit a head to a model's probabilities; cross-validate its agreement with them."""
    n, k = probs.shape
    projection = Projection.of(vectors)
    x = projection.features(vectors)
    ones = np.ones(n)
    head = best_head([x], probs, ones, rng, n_labels=k)
    labels = probs.argmax(axis=1)
    folds = deal_folds(range(n), labels.tolist(), N_FOLDS, rng)
    parts = np.where(folds == np.arange(N_FOLDS)[:, None], 0.0, 1.0)
    penalties = np.full(N_FOLDS, head.penalty)
    coefficients = fit_heads(x, probs, parts, penalties, n_labels=k)
    fold_heads = [
        Head(coefficients=matrix, scales=head.scales, penalty=head.penalty)
        for matrix in coefficients
    ]
    held = np.zeros((n, k))
    for fold, fold_head in enumerate(fold_heads):
        held[folds == fold] = fold_head.probs(x[folds == fold])
    return TextHead(
        projection=projection,
        head=head,
        confidence=held.max(axis=1),
        hits=held.argmax(axis=1) == labels,
    )


def least_sure(probs: Floats, n: int) -> Any:  # int64[n]
    """Return the sorted positions of the n texts with the lowest best probability."""
    known = np.asarray(np.isfinite(probs).all(axis=1))
    best = np.where(known, np.where(known[:, None], probs, 0.0).max(axis=1), -1.0)
    return np.sort(np.argsort(best, kind="stable")[:n])
