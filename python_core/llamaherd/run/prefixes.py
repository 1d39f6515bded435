"""Which prefixes requests are computed with: those of a call, those of a single one."""

from __future__ import annotations

from array import array
from itertools import accumulate
from typing import TYPE_CHECKING

from llamaherd.memory.plan import MAX_DEPTH
from llamaherd.native import shim
from llamaherd.schedule.prefix_tree import PrefixTree

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.core.request import Request
    from llamaherd.schedule.prefix_cache import PrefixCache


def find_prefixes(prompts: Sequence[array[int]], min_tokens: int) -> PrefixTree:
    """Finds the prefixes that prompts share, in O(total log n).

    Args:
        prompts: Each an int32[n_tokens].
        min_tokens: Tokens that a node adds to its parent at least.
    """
    tokens = array("i")
    tokens.frombytes(b"".join(map(memoryview, prompts)))
    offsets = array("q", accumulate(map(len, prompts), initial=0))
    return PrefixTree(*shim.prefix_tree(tokens, offsets, min_tokens))


def call_tree(requests: Sequence[Request]) -> PrefixTree:
    """The prefixes that the requests of a call share; equal prompts share all of them."""
    longest = max((len(r.tokens) + r.max_tokens for r in requests), default=0)
    least = shim.min_prefix_tokens(longest)
    places: dict[bytes, list[int]] = {}
    for i, request in enumerate(requests):
        places.setdefault(request.tokens.tobytes(), []).append(i)
    prompts = [requests[equals[0]].tokens for equals in places.values()]
    tree = find_prefixes(prompts, least)
    if len(prompts) == len(requests):
        return tree.limited(MAX_DEPTH)
    # What comes of holding a whole prompt is the first token of each: that is never late,
    # so that only the copies count.
    n_least = least if least > shim.min_prefix_tokens(0) else 1
    return tree.limited(MAX_DEPTH - 1).with_equals(
        list(places.values()), [len(tokens) for tokens in prompts], n_least
    )


def single_tree(request: Request, cache: PrefixCache, n_hold: int) -> PrefixTree:
    """The prefixes that a request shares with those that came before it.

    What is in the cache is used. What it has in common with an earlier prompt beyond
    that is held from now on: what came twice may come again.
    """
    tokens = request.tokens
    found = cache.match(tokens)
    lengths = [] if found is None else [found.n_tokens]
    depth = 0 if found is None else found.depth
    n_common = cache.shared(tokens)
    least = shim.min_prefix_tokens(len(tokens) + request.max_tokens)
    if n_common - sum(lengths) >= least and depth < min(n_hold, MAX_DEPTH):
        lengths.append(n_common)
    nodes = range(len(lengths))
    return PrefixTree(
        order=[0],
        node_of=[len(lengths) - 1],
        parent=[k - 1 for k in nodes],
        length=lengths,
        prompt=[0 for _ in nodes],
    )
