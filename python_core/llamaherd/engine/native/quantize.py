"""Requantization and comparison of models, on top of llamaherd.h."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from llamaherd.engine.native.shim import check, ffi, free_with, lib

if TYPE_CHECKING:
    from array import array

    from llamaherd.engine.native._shim import CData

MAX_CHUNK = 256  # maximum number of tokens per `Comparison.add`


def model_quantize(path: bytes, out_path: bytes, *, ftype: int, n_threads: int) -> None:
    """Write a copy of a model in another tensor type (`llama_model_quantize`).

    The call cannot be interrupted. It overwrites `out_path`.
    """
    error = ffi.new("lh_error *")
    check(lib.lh_model_quantize(path, out_path, ftype, n_threads, error), error)


@dataclass(frozen=True, slots=True)
class Closeness:
    """Content of `lh_comparison_result`.

    Attributes:
        n_tokens: Number of compared predictions.
        mean_kl: Mean KL divergence (base || other) of the predictions, in nats.
        p99_kl: 99th percentile of the KL divergence, in nats.
        same_top: Share of predictions with the same most likely token, in [0, 1].
    """

    n_tokens: int
    base_perplexity: float
    other_perplexity: float
    mean_kl: float
    p99_kl: float
    max_kl: float
    same_top: float


class Comparison:
    """Comparison of the predictions of two models with the same vocabulary.

    Args:
        base: An `lh_model *`, kept alive.
        other: An `lh_model *`, kept alive.
        n_threads: Number of threads.
    """

    def __init__(self, base: CData, other: CData, n_threads: int) -> None:
        out = ffi.new("lh_comparison **")
        self._error = ffi.new("lh_error *")
        status = lib.lh_comparison_new(base, other, n_threads, out, self._error)
        check(status, self._error)
        self._comparison = out[0]
        free_with(self, base, other, ffi.gc(out[0], lib.lh_comparison_free))

    def add(self, tokens: array[int]) -> None:
        """Compare the models' predictions of the second half of a token sequence.

        Args:
            tokens: int32[n], with n from 2 to MAX_CHUNK.
        """
        chunk = ffi.from_buffer("int32_t[]", tokens)
        status = lib.lh_comparison_add(self._comparison, chunk, len(tokens), self._error)
        check(status, self._error)

    def abort(self) -> None:
        """Abort the running `add` and all later calls. Thread-safe."""
        lib.lh_comparison_abort(self._comparison, 1)

    def result(self) -> Closeness:
        """Return averages over all chunks."""
        out = ffi.new("lh_comparison_result *")
        check(lib.lh_comparison_get(self._comparison, out, self._error), self._error)
        return Closeness(*(getattr(out, field.name) for field in fields(Closeness)))
