"""Prefix trees of the requests of a call."""

from __future__ import annotations

from array import array
from itertools import accumulate
from typing import TYPE_CHECKING

from llamaherd.engine.memory.plan import MAX_DEPTH
from llamaherd.engine.native import shim
from llamaherd.engine.schedule.prefix_tree import PrefixTree

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.engine.core.request import Request


def find_prefixes(prompts: Sequence[array[int]], min_tokens: int) -> PrefixTree:
    """Find the prefixes that prompts share, in O(total log n).

    Args:
        prompts: Prompts, each an int32[n_tokens].
        min_tokens: Minimum number of tokens that a node adds to its parent.
    """
    tokens = array("i")
    tokens.frombytes(b"".join(map(memoryview, prompts)))
    offsets = array("q", accumulate(map(len, prompts), initial=0))
    return PrefixTree(*shim.prefix_tree(tokens, offsets, min_tokens))


def call_tree(requests: Sequence[Request]) -> PrefixTree:
    """Return the prefix tree of a call, in which equal prompts share all their tokens."""
    if len(requests) == 1:
        return PrefixTree(order=[0], node_of=[-1], parent=[], length=[], prompt=[])
    least = least_tokens(requests)
    indices_of: dict[bytes, list[int]] = {}
    for i, request in enumerate(requests):
        indices_of.setdefault(request.tokens.tobytes(), []).append(i)
    prompts = [requests[equals[0]].tokens for equals in indices_of.values()]
    tree = find_prefixes(prompts, least)
    if len(prompts) == len(requests):
        return tree.limited(MAX_DEPTH)
    # If a whole prompt is held, the first token of each sample is drawn from the held
    # logits. Only the copies of its KV cells cost time.
    n_least = least if least > shim.min_prefix_tokens(0) else 1
    return tree.limited(MAX_DEPTH - 1).with_equals(
        list(indices_of.values()), [len(tokens) for tokens in prompts], n_least
    )


def least_tokens(requests: Sequence[Request]) -> int:
    """Return the minimum number of tokens that a prefix of a call adds to its parent."""
    return shim.min_prefix_tokens(max((r.n_cells for r in requests), default=0))
