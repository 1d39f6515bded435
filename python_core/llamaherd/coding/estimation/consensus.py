"""Several coders: agreement, the mean of their numbers, and a model of their errors.

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

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.coding.estimation.gold_drawn import GoldSample
from llamaherd.coding.estimation.outcomes import scores_of
from llamaherd.coding.statistics.many_coders import (
    krippendorff_alpha,
    percent_agreement,
)
from llamaherd.coding.statistics.ratings import CodesByCoder
from llamaherd.engine.core import checks
from llamaherd.engine.core.errors import ArgumentError, ArgumentTypeError
from llamaherd.engine.core.phrases import count_of, decimals, first_rows, percents, verb

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from llamaherd.coding.codes import Code
    from llamaherd.coding.estimation.gold_use import GoldUsed
    from llamaherd.coding.estimation.outcomes import Outcome
    from llamaherd.coding.statistics.ratings import Scale
    from llamaherd.coding.statistics.sampling import Floats, Ints


def all_codes(used: GoldUsed) -> set[str]:
    """Return the codes of a sample, and all codes of single coders."""
    return {*used.codes, *(code for given in used.given for code in given)}


def averaged_sample(
    used: GoldUsed, outcome: Outcome | None, *, several: bool
) -> tuple[GoldUsed, Outcome | None]:
    """Return the sample with the mean number of each text's codes, and the outcome.

    Nothing is averaged if the outcome is not numbers of labels.

    Args:
        used: The sample.
        outcome: See `estimate`; for means a mapping from labels to numbers.
        several: True if a text may have several labels.
    """
    if several or not isinstance(outcome, Mapping):
        return used, outcome
    return averaged(used, scores_of(outcome, all_codes(replace(used, codes=[]))))


def averaged(
    used: GoldUsed, scores: Mapping[str, float]
) -> tuple[GoldUsed, dict[str, float]]:
    """Return the sample with the mean number of each text's codes, and all numbers.

    Args:
        used: The sample, with the codes of all coders.
        scores: Number of each label and code.
    """
    known = dict(scores)
    codes = list(used.codes)
    for i, given in enumerate(used.given):
        numbers = [scores[code] for code in given]
        if len({*numbers}) < 2:
            continue
        mean = sum(numbers) / len(numbers)
        codes[i] = _name_of(mean, known)
        known[codes[i]] = mean
    return replace(used, codes=codes, notes=used.notes_without_ties), known


def _name_of(number: float, known: Mapping[str, float]) -> str:
    """Return a name of a number that no label with another number has."""
    name = repr(number)
    while known.get(name, number) != number:
        name += " "
    return name


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
        one_coin: True if each coder has a single probability of giving the right code.
    """

    ids: list[str]
    names: tuple[str, ...]
    coders: tuple[str, ...]
    probs: Floats
    shares: Floats
    errors: Floats
    one_coin: bool

    @property
    def labels(self) -> list[str]:
        """The most probable label of each text."""
        return [self.names[j] for j in self.probs.argmax(axis=1)]

    @property
    def accuracy(self) -> dict[str, float]:
        """Estimated share of right codes, by coder."""
        right = np.einsum("k,jkk->j", self.shares, self.errors)
        return dict(zip(self.coders, right.tolist(), strict=True))

    def to_pandas(self) -> Any:  # noqa: ANN401 - pandas is optional
        """Return a data frame with `id`, `label` and a column `p_<label>` for each label.

        Raises:
            ImportError: pandas is not installed.
        """
        import pandas as pd  # noqa: PLC0415 - optional

        probs = {f"p_{name}": self.probs[:, k] for k, name in enumerate(self.names)}
        return pd.DataFrame({"id": self.ids, "label": self.labels, **probs})

    def __str__(self) -> str:
        form = "one-coin" if self.one_coin else "a matrix of error rates for each coder"
        n_texts, n_coders = len(self.ids), len(self.coders)
        lines = [f"{count_of(n_texts, 'text')}, {count_of(n_coders, 'coder')}, {form}"]
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


def dawid_skene(gold: GoldSample, *, one_coin: bool = False) -> DawidSkene:
    """Estimate which label is right where coders disagree, and how often each coder errs.

    Args:
        gold: Sample with codes of three coders or more.
        one_coin: True to estimate one probability of a right code for each coder, which
            needs fewer codes; False to estimate a matrix of error rates for each coder.

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
            f"must be a GoldSample, not {checks.shown(gold)}", argument="gold"
        )
    codes, names, at = _matrix(gold)
    found = fitted(codes, len(names), one_coin=one_coin)
    return DawidSkene(
        ids=[gold.ids[i] for i in at],
        names=names,
        coders=tuple(gold.coders),
        probs=found.posteriors,
        shares=found.posteriors.mean(axis=0),
        errors=found.errors,
        one_coin=one_coin,
    )


def _matrix(gold: GoldSample) -> tuple[Ints, tuple[str, ...], list[int]]:
    """Return codes as numbers of labels, int64[J, n]; the labels; and coded texts."""
    if gold.several:
        raise ArgumentError(
            "must have one label for each text, as the model of coders requires",
            argument="gold",
            code="several",
        )
    try:
        return coder_matrix(gold.codes, gold.names)
    except DawidSkeneError as error:
        raise ArgumentError(str(error), argument="gold", code="few_coders") from None


def agreement_line(gold: GoldSample) -> str:
    """Return a sentence on the agreement of the coders; "" for one coder."""
    n_coders = sum(any(code is not None for code in column) for column in gold.codes)
    if n_coders < 2 or gold.several:
        return ""
    weights = (1 / gold.probs).tolist()
    by_coder = CodesByCoder(gold.codes)
    alike = percent_agreement(by_coder, unit_weights=weights)
    if alike.n_units == 0:
        return f"{count_of(n_coders, 'coder')}, no two of whom coded the same text"
    codes = {code for column in gold.codes for code in column if code is not None}
    is_ordinal = gold.design.get("scale") == "ordinal" and codes <= set(gold.names)
    scale: Scale = "ordinal" if is_ordinal else "nominal"
    alpha = krippendorff_alpha(
        by_coder,
        scale=scale,
        levels=gold.names if is_ordinal else None,
        unit_weights=weights,
    )
    value = "undefined" if np.isnan(alpha.value) else decimals(alpha.value)
    return (
        f"{count_of(n_coders, 'coder')} agree in {percents(alike.value, 0)} of the pairs "
        f"of codes of {count_of(alike.n_units, 'text')} "
        f"(Krippendorff's alpha, {scale}: {value})"
    )


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
