"""The search for the prefixes that prompts share: the shim's `lh_prefix_tree`."""

from __future__ import annotations

from array import array
from itertools import accumulate
from typing import TYPE_CHECKING

from llamaherd.native import shim
from llamaherd.schedule.prefix_tree import PrefixTree

if TYPE_CHECKING:
    from collections.abc import Sequence


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
