"""What the samples of a prompt have in common: `vote`."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from llamaherd.core.results import Result, Results

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Key = Callable[[Result], Hashable]


@dataclass(frozen=True, slots=True, kw_only=True)
class Vote:
    """What the samples of one prompt say together.

    Attributes:
        majority: The most frequent label; None if no sample has one.
        agreement: Its share of the votes; nan if there are none.
        shares: The share of each label, the most frequent first, those that are equally
            frequent in the order of the samples. They add up to 1.
        n_votes: Samples that have a label.
        n_failed: Samples that have none: they failed, or were cancelled, or `key` gave
            None. They are in no share.
        is_tie: Whether another label is as frequent as `majority`, which is then the one
            that came first among the samples.
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
    """Lets the samples of each prompt vote (self-consistency, arXiv 2203.11171).

    Args:
        results: Of a call with several samples a prompt, see `n` of `generate_parallel`.
        key: Makes a label of a sample that has an answer; None: it has no vote. By
            default the text without white space around it. To leave out what was cut off:
            `lambda result: result.text if result.complete else None`.

    Returns:
        One vote per prompt, in the order of the prompts.

    Raises:
        TypeError: `results` are not `Results`, or `key` gives what cannot be hashed.
    """
    if not isinstance(results, Results):
        raise TypeError(f"results must be Results, not {type(results).__name__}")
    return [_vote(samples, key) for samples in results.samples]


def _vote(samples: Sequence[Result], key: Key) -> Vote:
    labels = [key(sample) for sample in samples if sample.is_finished]
    counts = Counter(label for label in labels if label is not None)
    n_votes = counts.total()
    # Equal counts stay in the order in which their labels came.
    ranked = counts.most_common()
    return Vote(
        majority=ranked[0][0] if ranked else None,
        agreement=ranked[0][1] / n_votes if ranked else math.nan,
        shares={label: count / n_votes for label, count in ranked},
        n_votes=n_votes,
        n_failed=len(samples) - n_votes,
        is_tie=len(ranked) > 1 and ranked[0][1] == ranked[1][1],
    )
