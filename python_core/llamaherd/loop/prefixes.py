"""Prefix trees of the requests of a call, and of a single request."""

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
    longest = max((r.n_cells for r in requests), default=0)
    least = shim.min_prefix_tokens(longest)
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


def single_tree(
    request: Request, cache: PrefixCache, n_hold: int, n_again: int = 0
) -> PrefixTree:
    """Return the prefixes that a request shares with earlier and later requests.

    Cached prefixes are reused. If an earlier prompt shares a longer prefix, that prefix
    is held, because later prompts may share it, too.

    Args:
        request: Request.
        cache: Prefixes of the context.
        n_hold: Number of hold slots.
        n_again: Number of leading tokens that later prompts will share. The KV cells of
            these tokens are held.
    """
    tokens = request.tokens
    found = cache.match(tokens)
    lengths = [] if found is None else [found.n_tokens]
    depth = 0 if found is None else found.depth
    least = shim.min_prefix_tokens(request.n_cells)
    for n in sorted({cache.shared(tokens), min(n_again, len(tokens) - 1)}):
        is_longer = n - (lengths[-1] if lengths else 0) >= least
        if is_longer and depth < min(n_hold, MAX_DEPTH):
            lengths.append(n)
            depth += 1
    nodes = range(len(lengths))
    return PrefixTree(
        order=[0],
        node_of=[len(lengths) - 1],
        parent=[k - 1 for k in nodes],
        length=lengths,
        prompt=[0 for _ in nodes],
    )
