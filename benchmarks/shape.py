"""Shape of a workload: number and positions of its distinct tokens.

The shape and two measured rates determine T*, the time of a perfect scheduler whose
sampling costs nothing; see `ideal_seconds`.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True)
class Shape:
    """Workload in numbers of tokens."""

    n_prompts: int  # number of prompts
    n_prompt_tokens: int  # number of tokens of all prompts
    # Number of nodes of the prompts' prefix tree: the tokens to compute if every shared
    # prefix is computed once.
    n_unique_tokens: int
    unique_depth: float  # mean position of the unique tokens, in tokens
    prompt_length: float  # mean length of a prompt, in tokens
    # Number of generated tokens for each prompt. If sampling is greedy, equal prompts
    # have one entry in common: their largest number.
    lengths: list[int]


def measure_shape(
    prompts: Sequence[Sequence[int]], max_tokens: Sequence[int], *, greedy: bool
) -> Shape:
    """Count the tokens of a workload."""
    n_unique = sum_positions = 0
    previous: Sequence[int] = ()
    # In sorted order, a prompt has its longest shared prefix with the previous prompt.
    for prompt in sorted(prompts):
        common = _common_prefix(previous, prompt)
        n_unique += len(prompt) - common
        sum_positions += sum(range(common, len(prompt)))
        previous = prompt
    lengths = list(max_tokens)
    if greedy:
        longest: dict[tuple[int, ...], int] = {}
        for prompt, n in zip(prompts, max_tokens, strict=True):
            longest[tuple(prompt)] = max(n, longest.get(tuple(prompt), 0))
        lengths = list(longest.values())
    n_tokens = sum(map(len, prompts))
    return Shape(
        n_prompts=len(prompts),
        n_prompt_tokens=n_tokens,
        n_unique_tokens=n_unique,
        unique_depth=sum_positions / n_unique,
        prompt_length=n_tokens / len(prompts),
        lengths=lengths,
    )


def _common_prefix(a: Sequence[int], b: Sequence[int]) -> int:
    n = 0
    for x, y in zip(a, b, strict=False):
        if x != y:
            break
        n += 1
    return n


def ideal_seconds(
    shape: Shape, prefill_rate: float, decode_rates: Mapping[int, float]
) -> float:
    """Return T*: the time for all unique prompt tokens and then all answers, in seconds.

    All answers start together. At each step, the batch contains all unfinished answers,
    so the last steps of answers with different lengths have small batches. For these
    steps, the rates of small batches are used.
    """
    seconds = shape.n_unique_tokens / prefill_rate
    for step in range(max(shape.lengths)):
        live = sum(n > step for n in shape.lengths)
        seconds += live / best_rate(live, decode_rates)
    return seconds


def best_rate(n_live: int, rates: Mapping[int, float]) -> float:
    """Return tokens per second for `n_live` unfinished answers, at the best batch size.

    Between two measured sizes the rate is interpolated; if a smaller batch is faster, its
    rate is used.
    """
    sizes = sorted(rates)
    best = max((rates[size] for size in sizes if size <= n_live), default=0.0)
    above = bisect_left(sizes, n_live)
    if 0 < above < len(sizes):
        low, high = sizes[above - 1], sizes[above]
        share = (n_live - low) / (high - low)
        best = max(best, rates[low] + share * (rates[high] - rates[low]))
    # Below the smallest measured size, the rate of that size is used, which is
    # optimistic.
    return best or rates[sizes[0]]
