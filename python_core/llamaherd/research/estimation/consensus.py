"""Several coders: their agreement, the right label, and the mean of their numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.core import checks
from llamaherd.core.decimals import decimals, percents
from llamaherd.core.errors import ArgumentError, ArgumentTypeError
from llamaherd.core.plurals import count_of, first_rows, verb
from llamaherd.research.estimation.gold_drawn import GoldSample
from llamaherd.research.estimation.outcomes import scores_of
from llamaherd.research.statistics.agreement import percent_agreement
from llamaherd.research.statistics.dawid_skene import (
    DawidSkeneError,
    coder_matrix,
    fitted,
)
from llamaherd.research.statistics.krippendorff import krippendorff_alpha
from llamaherd.research.statistics.ratings import CodesByCoder

if TYPE_CHECKING:
    from llamaherd.research.estimation.gold_use import GoldUsed
    from llamaherd.research.estimation.outcomes import Outcome
    from llamaherd.research.statistics.ratings import Scale
    from llamaherd.research.statistics.sampling import Floats, Ints


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

    Raises:
        ValueError: A code of one of several coders has no number.
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
