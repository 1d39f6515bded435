"""Requantizing and comparing models, on top of llamaherd.h."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from llamaherd.native.shim import check, ffi, free_with, lib

if TYPE_CHECKING:
    from array import array

    from llamaherd.native._shim import CData

MAX_CHUNK = 256  # most tokens that `Comparison.add` takes


def model_quantize(path: bytes, out_path: bytes, *, ftype: int, n_threads: int) -> None:
    """Writes a copy of a model in another type (`llama_model_quantize`).

    It cannot be interrupted. What is at `out_path` is overwritten.

    Args:
        path: A GGUF file.
        out_path: Where the copy goes.
        ftype: An `enum llama_ftype`.
        n_threads: Threads that compute it.

    Raises:
        ModelLoadError: libllama could not; part of a file may be left.
    """
    error = ffi.new("lh_error *")
    check(lib.lh_model_quantize(path, out_path, ftype, n_threads, error), error)


@dataclass(frozen=True, slots=True)
class Closeness:
    """What `lh_comparison_result` says.

    Attributes:
        n_tokens: Predictions compared.
        mean_kl: KL divergence (base || other) of a prediction, in nats.
        p99_kl: Its 99th percentile.
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
    """Compares what two models with one vocabulary predict.

    Args:
        base: An `lh_model *`, kept alive.
        other: An `lh_model *`, kept alive.
        n_threads: Threads that compute.

    Raises:
        ValueError: Their vocabularies differ in size.
        ModelLoadError: A model does not predict text.
        ContextError: There is not enough memory.
    """

    def __init__(self, base: CData, other: CData, n_threads: int) -> None:
        out = ffi.new("lh_comparison **")
        self._error = ffi.new("lh_error *")
        status = lib.lh_comparison_new(base, other, n_threads, out, self._error)
        check(status, self._error)
        self._comparison = out[0]
        free_with(self, base, other, ffi.gc(out[0], lib.lh_comparison_free))

    def add(self, tokens: array[int]) -> None:
        """Has both models read a chunk and compares what they predict in its second half.

        Args:
            tokens: int32[n], 2 to MAX_CHUNK of them.

        Raises:
            NativeError: `abort` was called, or libllama refused the tokens.
        """
        chunk = ffi.from_buffer("int32_t[]", tokens)
        status = lib.lh_comparison_add(self._comparison, chunk, len(tokens), self._error)
        check(status, self._error)

    def abort(self) -> None:
        """Ends a running `add`, and those that follow. From any thread."""
        lib.lh_comparison_abort(self._comparison, 1)

    def result(self) -> Closeness:
        """Averages over all that was added.

        Raises:
            ValueError: Nothing was.
        """
        out = ffi.new("lh_comparison_result *")
        check(lib.lh_comparison_get(self._comparison, out, self._error), self._error)
        return Closeness(*(getattr(out, field.name) for field in fields(Closeness)))
