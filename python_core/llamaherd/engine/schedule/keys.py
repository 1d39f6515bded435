"""Storage for the tokens of very many prompts, with little additional memory."""

from __future__ import annotations

import heapq
import sys
from array import array
from itertools import islice, pairwise
from typing import TYPE_CHECKING, TypeVar

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

_CHUNK = 8192  # number of prompts that are sorted together, because Python objects need
# much memory
_TOKEN_BYTES = 4

_S = TypeVar("_S", bytearray, "array[int]")


class Keys:
    """Keys of prompts: bytes that have the same sort order as the prompts' tokens.

    The common beginning of all prompts, such as a codebook, is stored once.

    Args:
        prompts: Token ids of each prompt, int32[n_tokens]. The prompts are read one at
            a time.
    """

    def __init__(self, prompts: Iterable[array[int]]) -> None:
        self._head: array[int] | None = None
        self._bytes = bytearray()
        self._ends = array("q", [0])
        self._sorted: list[array[int]] = []  # indices of prompts, in several lists
        left = iter(prompts)
        while chunk := list(islice(left, _CHUNK)):
            n_head = self._shorten_head(chunk)
            keys = [_key(prompt[n_head:]) for prompt in chunk]
            first = len(self)
            ranks = sorted(range(len(keys)), key=keys.__getitem__)
            self._sorted.append(array("q", [first + k for k in ranks]))
            self._append(keys)

    def __len__(self) -> int:
        return len(self._ends) - 1

    def __getitem__(self, i: int) -> bytearray:
        """Return the key of prompt i, without the common beginning of all prompts."""
        return self._bytes[self._ends[i] : self._ends[i + 1]]

    @property
    def lengths(self) -> NDArray[np.int64]:
        """int64[n_prompts], number of tokens of each prompt."""
        own = np.diff(np.array(self._ends, dtype=np.int64)) // _TOKEN_BYTES
        return np.asarray(own + len(self._head or ()))

    def order(self) -> NDArray[np.int64]:
        """int64[n_prompts], indices of the prompts in sorted (stable) order."""
        merged = heapq.merge(*self._sorted, key=self.__getitem__)
        return np.fromiter(merged, dtype=np.int64, count=len(self))

    def shared(self, order: NDArray[np.int64]) -> NDArray[np.int64]:
        """int64[n_prompts], count of tokens shared with the previous key in `order`."""
        shared = np.zeros(len(self), dtype=np.int64)
        n_head = len(self._head or ())
        before = None
        for k, i in enumerate(order.tolist()):
            key = self[i]
            if before is not None:
                shared[k] = n_head + _n_common(before, key, _TOKEN_BYTES)
            before = key
        return shared

    def _append(self, keys: Iterable[bytes]) -> None:
        for key in keys:
            self._bytes += key
            self._ends.append(len(self._bytes))

    def _shorten_head(self, chunk: list[array[int]]) -> int:
        """Shorten the common beginning to fit further prompts, and return it."""
        old = head = chunk[0] if self._head is None else self._head
        for prompt in chunk:
            if prompt[: len(head)] != head:
                head = head[: _n_common(prompt, head, 1)]
        self._head = head[:]
        if len(head) < len(old) and len(self):
            dropped, kept, ends = _key(old[len(head) :]), self._bytes, self._ends
            self._bytes, self._ends = bytearray(), array("q", [0])
            self._append(dropped + kept[a:b] for a, b in pairwise(ends))
        return len(head)


def _key(tokens: array[int]) -> bytes:
    """Return bytes with the sort order of the tokens; swaps the bytes in `tokens`."""
    if sys.byteorder == "little":
        tokens.byteswap()
    return tokens.tobytes()


def _n_common(a: _S, b: _S, width: int) -> int:
    """Return the number of first tokens that two keys share."""
    low, high = 0, min(len(a), len(b)) // width
    while low < high:
        middle = (low + high + 1) // 2
        start, end = low * width, middle * width
        if a[start:end] == b[start:end]:
            low = middle
        else:
            high = middle - 1
    return low
