"""The loaded C++ shim: errors, lifetimes of native objects, library functions, GPUs."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias
from weakref import ref

from llamaherd.engine.core.errors import (
    ContextError,
    ForkError,
    LlamaHerdError,
    ModelLoadError,
    NativeError,
    NoSpaceError,
    SamplerError,
)
from llamaherd.engine.native import _build_info, abi

abi.check_installation(_build_info.LLAMA_CPP_PYTHON_VERSION, _build_info.HEADER_SHA256)
abi.preload(abi.libllama_folder())

from llamaherd.engine.native._shim import ffi, lib  # noqa: E402 - after the preload

if TYPE_CHECKING:
    from array import array
    from collections.abc import Callable

    from llamaherd.engine.native._shim import CData

__all__ = ["ffi", "lib"]  # for the other modules of this package

# Sizes for planning a context, see llamaherd.h.
CELL_BLOCK: int = lib.LH_CELL_BLOCK
UNIFORM_ROWS: int = lib.LH_UNIFORM_ROWS
MAX_LOGPROBS: int = lib.LH_MAX_LOGPROBS
AMX_ROWS: int = lib.LH_AMX_ROWS
MAX_PREFIX_DEPTH: int = lib.LH_MAX_PREFIX_DEPTH

Handle: TypeAlias = "CData"  # opaque to other packages


def check(status: int, error: CData) -> None:
    """Raise the exception of an `lh_status`; do nothing for LH_OK."""
    if status != lib.LH_OK:
        raise _exception(status, decode_text(ffi.string(error.message)))


# Exceptions whose only argument is a message.
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


def decode_text(utf8: bytes) -> str:
    """Decode UTF-8; invalid bytes become U+FFFD."""
    return utf8.decode(errors="replace")


def text_or_none(pointer: CData) -> str | None:
    """Return the text of a `char *`; None for NULL."""
    return None if pointer == ffi.NULL else decode_text(ffi.string(pointer))


def new_struct(name: str) -> CData:
    """Allocate a zeroed struct for the shim and set its struct_size."""
    struct = ffi.new(f"{name} *")
    struct.struct_size = ffi.sizeof(name)
    return struct


def create_object(kind: str, function: Callable[..., int], *arguments: object) -> CData:
    """Return an object that a function of the shim creates; it frees itself."""
    out, error = ffi.new(f"{kind} **"), ffi.new("lh_error *")
    check(function(*arguments, out, error), error)
    return ffi.gc(out[0], getattr(lib, f"{kind}_free"))


# Objects to be freed together with an owner.
_held: dict[ref[object], tuple[object, ...]] = {}


def keep_alive(owner: object, kind: str, native: CData, *others: object) -> CData:
    """Keep an object and others alive until `owner` is freed, then free them in order.

    Returns a pointer that does not keep it alive. `ffi.gc` does not suffice: in a garbage
    cycle, and at interpreter exit, Python calls destructors in any order; native objects
    therefore keep their model alive. No Python code runs here that Ctrl-C could
    interrupt.
    """
    _held[ref(owner, _held.pop)] = (*others, native)
    return ffi.cast(f"{kind} *", native)


def free_early(owner: object) -> None:
    """Free the objects of `keep_alive` now, while `owner` is still alive."""
    _held.pop(ref(owner), None)


# ---- library --------------------------------------------------------------------------


def backend_init(*, chain: bool = False) -> None:
    """Start the backends of libllama and redirect its log. May be called repeatedly."""
    lib.lh_backend_init(chain)


def backend_free() -> None:
    """Free the global state of libllama. No model or context may be in use."""
    lib.lh_backend_free()


def check_process() -> None:
    """Check that this process was not forked after a model was loaded."""
    error = ffi.new("lh_error *")
    check(lib.lh_process_check(error), error)


def is_forked() -> bool:
    """Return whether this is a forked child. It frees nothing: locks may be held."""
    return bool(lib.lh_process_check(ffi.new("lh_error *")) == lib.LH_FORKED)


def own_threads() -> bool:
    """Return whether ggml runs on the threads of llamaherd, see `lh_own_threads`."""
    return bool(lib.lh_own_threads())


def supports_gpu() -> bool:
    """Return whether the loaded libllama can use a GPU."""
    return bool(lib.lh_supports_gpu_offload())


def has_amx() -> bool:
    """Return whether the loaded libllama uses AMX, see `lh_has_amx`."""
    return bool(lib.lh_has_amx())


def llama_cpp_python() -> str:
    """Return the version of llama-cpp-python that the shim was compiled for."""
    return _build_info.LLAMA_CPP_PYTHON_VERSION


def ggml_commit() -> str:
    """Return the commit of ggml from which the loaded library was built."""
    return decode_text(ffi.string(lib.lh_ggml_commit()))


def derive_seed(seed: int, index: int) -> int:
    """Return the seed, a uint32, of prompt `index` in a call with seed `seed`."""
    return int(lib.lh_derive_seed(seed, index))


def _check_library() -> None:
    abi.check_shim(lib.lh_abi_version(), lib.LH_ABI_VERSION)
    probe = ffi.new("int32_t[4]")
    lib.lh_abi_probe(probe)
    abi.check_library(ggml_commit(), _build_info.LLAMA_BUILD_COMMIT, probe[3])


def min_prefix_tokens(n_cells: int) -> int:
    """Return the minimum length of a prefix in tokens: `lh_min_prefix_tokens`."""
    return int(lib.lh_min_prefix_tokens(n_cells))


def prefix_tree(
    tokens: array[int], offsets: array[int], min_tokens: int
) -> tuple[list[int], list[int], list[int], list[int], list[int]]:
    """Call `lh_prefix_tree` on int32 tokens[offsets[-1]], int64 offsets[n_prompts + 1].

    Returns arrays order and node_of, each [n_prompts]; parent, length and prompt, each
    [n_nodes].
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


_MOST_GPUS = 64  # larger than the number of GPUs of any machine


@dataclass(frozen=True, slots=True)
class GpuMemory:
    """Current memory of a GPU, such as "CUDA0"; `description` names the product."""

    name: str
    description: str
    free_bytes: int
    total_bytes: int
    shares_memory: bool = False


def gpus() -> tuple[GpuMemory, ...]:
    """Return the GPUs that libllama can use, in the order of `main_gpu`."""
    devices = ffi.new("lh_gpu[]", _MOST_GPUS)
    count = ffi.new("int32_t *")
    error = ffi.new("lh_error *")
    check(lib.lh_gpus(devices, _MOST_GPUS, count, error), error)
    return tuple(
        GpuMemory(
            decode_text(ffi.string(gpu.name)),
            decode_text(ffi.string(gpu.description)),
            gpu.free_bytes,
            gpu.total_bytes,
            bool(gpu.shares_memory),
        )
        for gpu in devices[0 : count[0]]
    )


_check_library()
# If llama_cpp was imported first, its log callback is still called.
backend_init(chain="llama_cpp" in sys.modules)
