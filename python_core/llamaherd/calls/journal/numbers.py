"""Conversion of a result's log-probabilities to one sequence of numbers, and back."""

from __future__ import annotations

from array import array
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

from llamaherd.calls.journal.file import DamagedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.engine.core.outcome import Output
    from llamaherd.engine.core.request import Request

_WRONG = "the log-probabilities stored for a prompt do not match its tokens"


def numbers_of(output: Output) -> array[float]:
    """Return the log-probabilities to store for a score or for an answer's tokens.

    For an answer, the alternatives of each token follow: their number, then pairs of
    token and log-probability.
    """
    if output.scores is not None:
        return array("d", output.scores)
    if output.logprobs is None:
        return array("d")
    others = output.top_logprobs or [{} for _ in output.logprobs]
    rows = ([len(row), *chain.from_iterable(row.items())] for row in others)
    return array("d", [*output.logprobs, *chain.from_iterable(rows)])


def with_numbers(output: Output, request: Request, numbers: Sequence[float]) -> Output:
    """Return an output with its stored log-probabilities.

    Raises:
        DamagedError: The numbers do not fit the request.
    """
    if request.tree is not None:
        if len(numbers) != len(request.tree.tokens):
            raise DamagedError(_WRONG)
        return replace(output, scores=array("d", numbers))
    if request.logprobs is None:
        return output
    try:
        logprobs, top = _read(len(output.tokens), numbers)
    except (ValueError, OverflowError, IndexError):
        raise DamagedError(_WRONG) from None
    return replace(output, logprobs=logprobs, top_logprobs=top)


def _read(n: int, numbers: Sequence[float]) -> tuple[list[float], list[dict[int, float]]]:
    top: list[dict[int, float]] = []
    at = n
    while at < len(numbers):
        end = at + 1 + 2 * int(numbers[at])
        if not at < end <= len(numbers):
            raise ValueError
        pairs = numbers[at + 1 : end]
        top.append(dict(zip(map(int, pairs[::2]), pairs[1::2], strict=True)))
        at = end
    if len(top) != n:
        raise ValueError
    return list(numbers[:n]), top
