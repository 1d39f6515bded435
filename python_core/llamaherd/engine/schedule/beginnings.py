"""Beginnings: the rule by which the prompts of every call continue earlier prompts."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from array import array
    from collections.abc import Sequence

    from llamaherd.engine.core.request import Request
    from llamaherd.engine.schedule.client import Continued
    from llamaherd.engine.schedule.kept_answers import KeptAnswers
    from llamaherd.engine.schedule.prefix_cache import PrefixCache
    from llamaherd.engine.schedule.prefix_tree import PrefixTree

_MOST_NOTED = 32  # number of prompts of a call that are remembered for later calls


def with_beginnings(
    tree: PrefixTree,
    requests: Sequence[Request],
    cache: PrefixCache,
    *,
    least: int,
    max_depth: int,
    n_again: int = 0,
) -> PrefixTree:
    """Return the tree of a call below the beginnings that its prompts continue.

    Each root of the tree, and each prompt without a prefix, continues the longest known
    beginning. If the call has a single root and an earlier prompt shares a longer
    beginning, that beginning is held, because later prompts may share it, too. A single
    prompt that continues an earlier one, as in a conversation, is held as a whole.

    Args:
        tree: Prefix tree of the call, of at most the maximum depth. Its own prefixes take
            precedence: no beginning is added to a tree that has the maximum depth.
        requests: Requests of the call.
        cache: Prefixes of the context.
        least: Minimum number of tokens that a prefix adds to its parent.
        max_depth: Maximum depth of the tree.
        n_again: For a single prompt, number of leading tokens that later prompts will
            share. The KV cells of these tokens are held.
    """
    roots = tree.roots
    room = max_depth - max(tree.depth, default=0)
    beginnings: list[list[int]] = []
    noted: list[tuple[array[int], bool]] = []
    for i, length in roots:
        prompt = requests[i].tokens
        tokens = prompt[:length] if length else prompt
        is_whole = length == len(prompt)
        is_known = length > 0 and cache.find(tokens, is_whole=is_whole) is not None
        wanted: list[int] = []
        if len(roots) == 1:  # otherwise they would need many hold slots at once
            shared = cache.shared(tokens)
            n_later = len(prompt) if shared.continues else n_again
            wanted = sorted({n_later, shared.n_tokens})
        if length:
            wanted = [n for n in wanted if n < length]
        else:  # the last token of a prompt is computed to obtain its logits
            wanted = [min(n, len(prompt) - 1) for n in wanted]
        beginnings.append(
            [] if is_known else _beginnings(tokens, wanted, cache, least, room)
        )
        if len(noted) < _MOST_NOTED:
            noted.append((tokens, length == 0))
    for tokens, is_prompt in noted:
        cache.note(tokens, is_prompt=is_prompt)
    return tree.below(beginnings) if any(beginnings) else tree


def kept_for(
    requests: Sequence[Request], kept: KeptAnswers, cache: PrefixCache, least: int
) -> Continued | None:
    """Return the ended prompt that a single prompt continues; None to use prefixes.

    Args:
        requests: Requests of a call.
        kept: Ended prompts that keep their cells.
        cache: Prefixes of the context.
        least: Minimum number of tokens to continue.
    """
    if len(requests) > 1:
        return None
    tokens = requests[0].tokens
    prefix = cache.match(tokens)
    return kept.find(tokens, least, 0 if prefix is None else prefix.n_tokens)


def _beginnings(
    tokens: array[int], wanted: Sequence[int], cache: PrefixCache, least: int, room: int
) -> list[int]:
    """Return the lengths of the beginnings that a root continues, ascending.

    Args:
        tokens: Tokens of the root.
        wanted: Lengths of beginnings that later prompts may share, ascending.
        cache: Prefixes of the context.
        least: Minimum number of tokens that a prefix adds to its parent.
        room: Number of levels that may be added above the root.
    """
    found = cache.match(tokens)
    lengths: list[int] = []
    depth = 0
    if found is not None and found.n_tokens >= least and found.depth <= room:
        lengths, depth = [found.n_tokens], found.depth
    for n in wanted:
        if n - (lengths[-1] if lengths else 0) >= least and depth < room:
            lengths.append(n)
            depth += 1
    return lengths
