"""Model of the errors of several coders, by Dawid and Skene.

Each coder has a matrix of error rates, which gives the probability of each code for each
right label. Labels and matrices are estimated together by expectation maximization,
starting from the shares of each text's codes.

The model assumes that codes of different coders are independent given the right label.
Texts that are hard for everybody violate this assumption: coders then seem better than
they are.

Source: Dawid, Skene, "Maximum Likelihood Estimation of Observer Error-Rates Using the EM
Algorithm", Applied Statistics 28, 1979.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.coding.gold.sample import GoldSample
from llamaherd.engine.core import checks
from llamaherd.engine.core.caller import removed_arguments
from llamaherd.engine.core.errors import ArgumentError, ArgumentTypeError
from llamaherd.engine.core.phrases import count_of, first_rows, percents, verb

if TYPE_CHECKING:
    from llamaherd.engine.core.arrays import Floats, Ints


@dataclass(frozen=True, kw_only=True, eq=False)
class DawidSkene:
    """Labels and coders' error rates by the model of Dawid and Skene.

    Attributes:
        ids: n identifiers of the texts with a code.
        names: The K labels that occur among the codes.
        coders: Names of the J coders.
        probs: float64[n, K], probability that each label is the right one.
        shares: float64[K], share of each label among these texts, unweighted.
        errors: float64[J, K, K], probability of each code (last axis) given the right
            label (second axis), for each coder.
    """

    ids: list[str]
    names: tuple[str, ...]
    coders: tuple[str, ...]
    probs: Floats
    shares: Floats
    errors: Floats

    @property
    def labels(self) -> list[str]:
        """The most probable label of each text."""
        return [self.names[j] for j in self.probs.argmax(axis=1)]

    @property
    def accuracy(self) -> dict[str, float]:
        """Estimated share of right codes, by coder."""
        right = np.einsum("k,jkk->j", self.shares, self.errors)
        return dict(zip(self.coders, right.tolist(), strict=True))

    def to_pandas(self) -> Any:  # pandas is optional
        """Return a data frame with `id`, `label` and a column `p_<label>` for each label.

        Raises:
            ImportError: pandas is not installed.
        """
        import pandas as pd  # optional

        probs = {f"p_{name}": self.probs[:, k] for k, name in enumerate(self.names)}
        return pd.DataFrame({"id": self.ids, "label": self.labels, **probs})

    def __str__(self) -> str:
        texts = count_of(len(self.ids), "text")
        coders = count_of(len(self.coders), "coder")
        lines = [f"{texts}, {coders}, a matrix of error rates for each coder"]
        lines += first_rows(
            [f"  {name}: right in {percents(p)}" for name, p in self.accuracy.items()]
        )
        sure = self.probs.max(axis=1)
        n = int((sure < 0.9).sum())
        has = verb(n, "has", "have")
        lines.append(
            f"  {count_of(n, 'text')} {has} no label with a probability of 90% or more"
        )
        return "\n".join(lines)

    __repr__ = __str__


@removed_arguments(one_coin="each coder has a matrix of error rates")
def dawid_skene(gold: GoldSample) -> DawidSkene:
    """Estimate which label is right where coders disagree, and how often each coder errs.

    Args:
        gold: Sample with codes of three coders or more.

    Returns:
        Probabilities of labels for the texts with a code, and error rates.

    Raises:
        TypeError: `gold` is not a `GoldSample`.
        ValueError: There are fewer than three coders, or fewer than 20 texts with two
            codes; or texts may have several labels.

    Source: Dawid, Skene, Applied Statistics 28, 1979.
    """
    if not isinstance(gold, GoldSample):
        raise ArgumentTypeError(
            f"must be a GoldSample, not {checks.brief(gold)}", argument="gold"
        )
    codes, names, at = _matrix(gold)
    probs, errors = _fit_em(codes, len(names))
    return DawidSkene(
        ids=[gold.ids[i] for i in at],
        names=names,
        coders=tuple(gold.coders),
        probs=probs,
        shares=probs.mean(axis=0),
        errors=errors,
    )


_LEAST = 1e-300  # lower bound of probabilities, so that their logarithm is finite
_SMOOTHING = 0.01  # added to counts, so that no rate is 0
_MOST_STEPS = 1000
_LEAST_GAIN = 1e-8  # of the log-likelihood of a text, by a further step
_LEAST_CODERS = 3
_LEAST_TEXTS = 20  # least number of texts with two codes or more


def _matrix(gold: GoldSample) -> tuple[Ints, tuple[str, ...], list[int]]:
    """Return codes as label numbers, the labels that occur, and the texts with a code."""
    if gold.several:
        raise ArgumentError(
            "must have one label for each text, as the model of coders requires",
            argument="gold",
            code="several",
        )
    columns = gold.codes
    n_codes = [
        sum(code is not None for code in row) for row in zip(*columns, strict=True)
    ]
    at = [i for i, n in enumerate(n_codes) if n > 0]
    n_both = sum(n > 1 for n in n_codes)
    if len(columns) < _LEAST_CODERS or n_both < _LEAST_TEXTS:
        raise ArgumentError(
            f"must have {_LEAST_CODERS} coders at least, and {_LEAST_TEXTS} texts with "
            f"two codes or more, for a model of their errors; it has {len(columns)} and "
            f"{n_both}",
            argument="gold",
            code="few_coders",
        )
    distinct = {code for column in columns for code in column if code is not None}
    names = [name for name in gold.names if name in distinct]
    names += sorted(distinct.difference(names))
    number: dict[str | None, int] = {name: k for k, name in enumerate(names)}
    matrix = [[number.get(column[i], -1) for i in at] for column in columns]
    return np.array(matrix, dtype=np.int64), tuple(names), at


def _fit_em(codes: Ints, n_labels: int) -> tuple[Floats, Floats]:
    """Return the labels' probabilities for each text, and the coders' error rates."""
    n_coders, n = codes.shape
    indicators = np.zeros((n_coders, n, n_labels))
    at = np.nonzero(codes >= 0)
    indicators[at[0], at[1], codes[at]] = 1.0
    votes = indicators.sum(axis=0)
    posteriors = votes / votes.sum(axis=1, keepdims=True)
    errors, before = np.empty(0), -np.inf
    for _ in range(_MOST_STEPS):
        prior, errors = _maximization_step(indicators, posteriors)
        posteriors, log_likelihood = _expectation_step(indicators, prior, errors)
        if log_likelihood - before < _LEAST_GAIN * n:
            break
        before = log_likelihood
    return posteriors, errors


def _maximization_step(indicators: Floats, posteriors: Floats) -> tuple[Floats, Floats]:
    """Return the shares of labels and the error rates for given probabilities."""
    prior = posteriors.sum(axis=0) + _SMOOTHING
    counts = np.einsum("nk,jnc->jkc", posteriors, indicators) + _SMOOTHING
    errors = counts / np.maximum(counts.sum(axis=2, keepdims=True), _LEAST)
    return np.asarray(prior / prior.sum()), np.asarray(errors)


def _expectation_step(
    indicators: Floats, prior: Floats, errors: Floats
) -> tuple[Floats, float]:
    """Return each text's probabilities of labels, and the log-likelihood."""
    logs = np.log(np.maximum(errors, _LEAST))
    joint = np.log(np.maximum(prior, _LEAST)) + np.einsum("jnc,jkc->nk", indicators, logs)
    most = joint.max(axis=1, keepdims=True)
    parts = np.exp(joint - most)
    sums = parts.sum(axis=1, keepdims=True)
    log_likelihood = float((most + np.log(sums)).sum())
    return np.asarray(parts / sums), log_likelihood
