"""Log-probabilities of the output of a native request."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, TypedDict

from llamaherd.engine.native.shim import ffi

if TYPE_CHECKING:
    from llamaherd.engine.native._shim import CData


class _Logprobs(TypedDict, total=False):
    scores: array[float]
    logprobs: list[float]
    top_logprobs: list[dict[int, float]]
    ranks: list[int]


def logprob_fields(info: CData) -> _Logprobs:
    """Return the fields of an `Output` that contain log-probabilities."""
    out: _Logprobs = {}
    if info.n_scores > 0:
        out["scores"] = array("d", ffi.buffer(info.scores, 8 * info.n_scores)[:])
    if info.n_logprobs >= 0:
        n = info.n_logprobs
        out["logprobs"] = ffi.unpack(info.logprobs, n) if n else []
        out["top_logprobs"] = alternatives(info, 0)
        if info.ranks != ffi.NULL:
            out["ranks"] = ffi.unpack(info.ranks, n) if n else []
    return out


def alternatives(info: CData, start: int) -> list[dict[int, float]]:
    """Return the alternatives to each token from the token `start` on."""
    k, n = info.n_top, info.n_logprobs - start
    tokens = ffi.unpack(info.top_tokens + k * start, n * k) if n * k else []
    values = ffi.unpack(info.top_logprobs + k * start, n * k) if n * k else []
    return [
        {
            token: value
            for token, value in zip(
                tokens[k * i : k * (i + 1)], values[k * i : k * (i + 1)], strict=True
            )
            if token >= 0
        }
        for i in range(n)
    ]
