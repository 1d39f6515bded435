"""The loaded shim: its errors, what it holds, and what it knows of the library."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, TypeAlias
from weakref import ref

from llamaherd.core.errors import (
    ContextError,
    ForkError,
    LlamaHerdError,
    ModelLoadError,
    NativeError,
    NoSpaceError,
    SamplerError,
)
from llamaherd.native import _build_info, abi

abi.check_installation(_build_info.LLAMA_CPP_PYTHON_VERSION, _build_info.HEADER_SHA256)
abi.preload(abi.libllama_folder())

from llamaherd.native._shim import ffi, lib  # noqa: E402 - after the preload

if TYPE_CHECKING:
    from array import array

    from llamaherd.native._shim import CData

__all__ = ["ffi", "lib"]  # for the other modules of this room

# Sizes that drivers of the engine plan with: see llamaherd.h.
CELL_BLOCK = lib.LH_CELL_BLOCK
UNIFORM_ROWS = lib.LH_UNIFORM_ROWS
MAX_LOGPROBS = lib.LH_MAX_LOGPROBS
AMX_ROWS = lib.LH_AMX_ROWS
MAX_PREFIX_DEPTH = lib.LH_MAX_PREFIX_DEPTH

Handle: TypeAlias = "CData"  # what other rooms hold, and hand back


def check(status: int, error: CData) -> None:
    """Raises what an `lh_status` stands for.

    Args:
        status: What the shim's function returned.
        error: The `lh_error *` that it filled.

    Raises:
        ValueError: An argument was wrong.
        LlamaHerdError: Any other failure.
    """
    if status != lib.LH_OK:
        raise _exception(status, decoded(ffi.string(error.message)))


# Exceptions that take a message alone.
_PLAIN_EXCEPTIONS: dict[int, type[LlamaHerdError | ValueError]] = {
    lib.LH_INVALID_ARGUMENT: ValueError,
    lib.LH_MODEL_ERROR: ModelLoadError,
    lib.LH_CONTEXT_ERROR: ContextError,
    lib.LH_FORKED: ForkError,
}


def _exception(status: int, message: str) -> LlamaHerdError | ValueError:
    plain = _PLAIN_EXCEPTIONS.get(status)
    if plain is not None:
        return plain(message)
    if status == lib.LH_NO_SPACE:
        return NoSpaceError(message, status)
    if status == lib.LH_SAMPLER_ERROR:
        return SamplerError(message, status)
    return NativeError(message, status)


def decoded(utf8: bytes) -> str:
    """Text; what is no UTF-8 becomes U+FFFD."""
    return utf8.decode(errors="replace")


def text_or_none(pointer: CData) -> str | None:
    """The text that a `char *` points to; None for NULL."""
    return None if pointer == ffi.NULL else decoded(ffi.string(pointer))


# What goes with an object.
_held: dict[ref[object], tuple[object, ...]] = {}


def free_with(owner: object, *held: object) -> None:
    """Holds objects until `owner` is gone. The last of them goes first, as tuples do it.

    `ffi.gc` alone does not do: in a cycle of garbage Python calls the destructors in any
    order, also of what others in the cycle still use. At the interpreter's end it does so
    with what is held here, too; native objects keep the model that they point to. Nothing
    here is written in Python, so that Ctrl-C cannot come between.
    """
    _held[ref(owner, _held.pop)] = held


def free_early(owner: object) -> None:
    """Does now what `free_with` has put off, while `owner` is there still."""
    _held.pop(ref(owner), None)


# ---- library --------------------------------------------------------------------------


def backend_init(*, chain: bool = False) -> None:
    """Starts libllama's backends and takes over its log. Calling it again is harmless.

    Args:
        chain: Pass log lines on to the callback that was set before.
    """
    lib.lh_backend_init(chain)


def backend_free() -> None:
    """Frees what libllama keeps for all models. Nothing may be in use any more."""
    lib.lh_backend_free()


def check_process() -> None:
    """Tells a child that was forked after a model was loaded.

    Raises:
        ForkError: This is one.
    """
    error = ffi.new("lh_error *")
    check(lib.lh_process_check(error), error)


def own_threads() -> bool:
    """Whether ggml computes on llamaherd's threads, see `lh_own_threads`."""
    return bool(lib.lh_own_threads())


def supports_gpu() -> bool:
    """Whether the loaded libllama can use a GPU."""
    return bool(lib.lh_supports_gpu_offload())


def has_amx() -> bool:
    """Whether the loaded libllama multiplies by AMX, see `lh_has_amx`."""
    return bool(lib.lh_has_amx())


def llama_cpp_python() -> str:
    """Version of llama-cpp-python that the shim was compiled for, and is loaded with."""
    return _build_info.LLAMA_CPP_PYTHON_VERSION


def ggml_commit() -> str:
    """Commit of the loaded library."""
    return decoded(ffi.string(lib.lh_ggml_commit()))


def derive_seed(seed: int, index: int) -> int:
    """The seed, a uint32, of prompt number `index` in a call with seed `seed`."""
    return lib.lh_derive_seed(seed, index)


def _check_library() -> None:
    probe = ffi.new("int32_t[4]")
    lib.lh_abi_probe(probe)
    abi.check_library(ggml_commit(), _build_info.LLAMA_BUILD_COMMIT, probe[3])


def min_prefix_tokens(n_cells: int) -> int:
    """Tokens that a prefix must have to be worth a fork: `lh_min_prefix_tokens`."""
    return lib.lh_min_prefix_tokens(n_cells)


def prefix_tree(
    tokens: array[int], offsets: array[int], min_tokens: int
) -> tuple[list[int], list[int], list[int], list[int], list[int]]:
    """Calls `lh_prefix_tree`.

    Args:
        tokens: int32[offsets[-1]], the prompts one after the other.
        offsets: int64[n_prompts + 1], where each prompt starts.
        min_tokens: Tokens that a node adds to its parent at least.

    Returns:
        order and node_of, each [n_prompts]; parent, length and prompt, each [n_nodes].
    """
    n = len(offsets) - 1
    order, node_of, parent, length, prompt = (ffi.new("int32_t[]", n) for _ in range(5))
    n_nodes = ffi.new("int32_t *")
    error = ffi.new("lh_error *")
    status = lib.lh_prefix_tree(
        ffi.from_buffer("int32_t[]", tokens),
        ffi.from_buffer("int64_t[]", offsets),
        n,
        min_tokens,
        order,
        node_of,
        parent,
        length,
        prompt,
        n_nodes,
        error,
    )
    check(status, error)
    return (
        ffi.unpack(order, n),
        ffi.unpack(node_of, n),
        ffi.unpack(parent, n_nodes[0]),
        ffi.unpack(length, n_nodes[0]),
        ffi.unpack(prompt, n_nodes[0]),
    )


_check_library()
# A user who imported llama_cpp first goes on seeing what it logs.
backend_init(chain="llama_cpp" in sys.modules)
