"""Majority votes among the samples of a prompt."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from llamaherd.engine.core import checks
from llamaherd.engine.core.errors import ArgumentTypeError
from llamaherd.engine.core.results import Result, Results

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Key = Callable[[Result], Hashable]


@dataclass(frozen=True, slots=True, kw_only=True)
class Vote:
    """Majority label of one prompt's samples, and the shares of all labels.

    Attributes:
        majority: Most frequent label; None if no sample has a label.
        agreement: Share of the votes for the majority; NaN without votes.
        shares: Share of each label, the most frequent label first, equally frequent
            labels in the order of the samples. The shares add up to 1.
        n_votes: Number of samples with a label.
        n_failed: Number of samples without a label: they failed, were cancelled, or `key`
            returned None. Shares exclude them.
        is_tie: Whether another label is as frequent as `majority`. In a tie, `majority`
            is the label that occurs first among the samples.
    """

    majority: Hashable
    agreement: float
    shares: Mapping[Hashable, float]
    n_votes: int
    n_failed: int
    is_tie: bool


def _stripped(result: Result) -> str:
    return (result.text or "").strip()


def vote(results: Results, key: Key = _stripped) -> list[Vote]:
    """Take a majority vote among the samples of each prompt (self-consistency).

    Args:
        results: Results of a call with several samples per prompt, see `n` of
            `generate_parallel`.
        key: Function that returns the label of an answered sample, or None for no vote.
            The default returns the text without surrounding white space. To leave out
            answers that were cut off:
            `lambda result: result.text if result.complete else None`.

    Returns:
        One vote per prompt, in the order of the prompts.

    Raises:
        ArgumentTypeError: `results` is not a `Results`, or `key` not a function.
        TypeError: A label cannot be hashed.

    Source: Wang et al. (2022), arXiv 2203.11171.
    """
    if not isinstance(results, Results):
        raise ArgumentTypeError(
            f"must be Results, not {type(results).__name__}", argument="results"
        )
    if not callable(key):
        raise ArgumentTypeError(
            f"must be a function of a result, not {checks.shown(key)}", argument="key"
        )
    return [
        counted([key(each) if each.is_finished else None for each in samples])
        for samples in results.samples
    ]


def counted(labels: Sequence[Hashable]) -> Vote:
    """Count the labels of one prompt's samples; None means that a sample has no label."""
    counts = Counter(label for label in labels if label is not None)
    n_votes = counts.total()
    ranked = counts.most_common()  # equal counts in order of first occurrence
    return Vote(
        majority=ranked[0][0] if ranked else None,
        agreement=ranked[0][1] / n_votes if ranked else math.nan,
        shares={label: count / n_votes for label, count in ranked},
        n_votes=n_votes,
        n_failed=len(labels) - n_votes,
        is_tie=len(ranked) > 1 and ranked[0][1] == ranked[1][1],
    )
