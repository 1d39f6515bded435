"""The shim as Python sees it. Only this room knows cffi."""

from __future__ import annotations

import os
import sys
from array import array
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Protocol, TypeAlias
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
    from collections.abc import Callable, Sequence

    from llamaherd.native._shim import CData

__all__ = ["ffi", "lib"]  # for the other modules of this room

# Sizes that drivers of the engine plan with: see llamaherd.h.
CELL_BLOCK = lib.LH_CELL_BLOCK
UNIFORM_ROWS = lib.LH_UNIFORM_ROWS
AMX_ROWS = lib.LH_AMX_ROWS
MAX_PREFIX_DEPTH = lib.LH_MAX_PREFIX_DEPTH

Handle: TypeAlias = "CData"  # what other rooms hold, and hand back


class Lora(Protocol):
    """A LoRA adapter: a file, or the address of one that is loaded."""

    @property
    def path(self) -> os.PathLike[str] | None:
        """Its file."""
        ...

    @property
    def scale(self) -> float:
        """What it is multiplied by."""
        ...

    @property
    def address(self) -> int:
        """Of a `llama_adapter_lora`; 0: to be loaded."""
        ...


class ControlVector(Protocol):
    """Arguments of `llama_set_adapter_cvec`."""

    @property
    def data(self) -> bytes:
        """float32[n]."""
        ...

    @property
    def first_layer(self) -> int:
        """The first layer that it is added to."""
        ...

    @property
    def last_layer(self) -> int:
        """The last one."""
        ...


PARSE_AUTO = -1  # of `tokenize_prompt`: decide by how the prompt starts


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
        raise _exception(status, ffi.string(error.message).decode(errors="replace"))


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


# What goes with an object.
_held: dict[ref[object], tuple[object, ...]] = {}


def free_with(owner: object, *held: object) -> None:
    """Holds objects until `owner` is gone. The last of them goes first, as tuples do it.

    For what points to another native object. `ffi.gc` alone does not do: in a cycle of
    garbage Python calls the destructors in any order. Nothing here is written in Python,
    so that Ctrl-C cannot come between.
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


def derive_seed(seed: int, index: int) -> int:
    """The seed, a uint32, of prompt number `index` in a call with seed `seed`."""
    return lib.lh_derive_seed(seed, index)


def _check_library() -> None:
    probe = ffi.new("int32_t[4]")
    lib.lh_abi_probe(probe)
    commit = ffi.string(lib.lh_ggml_commit()).decode()
    abi.check_library(commit, _build_info.LLAMA_BUILD_COMMIT, probe[3])


# ---- models ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """What `lh_model_info` says. Token ids are -1 where the model has no such token.

    Attributes:
        n_swa: Sliding window in tokens; 0: none.
    """

    n_vocab: int
    n_ctx_train: int
    n_embd: int
    n_layer: int
    n_swa: int
    is_recurrent: int
    is_hybrid: int
    has_encoder: int
    has_decoder: int
    add_bos: int
    add_eos: int
    bos: int
    eos: int
    eot: int
    sep: int
    nl: int
    pad: int
    fim_pre: int
    fim_mid: int
    fim_suf: int
    size_bytes: int
    n_params: int


def model_load(
    path: bytes,
    loras: Sequence[Lora] = (),
    *,
    n_gpu_layers: int,
    use_mmap: bool,
    use_mlock: bool,
    check_tensors: bool,
    memory_bytes: int,
) -> CData:
    """Loads a GGUF file. The model is freed with the last reference to the result.

    Raises:
        ModelLoadError: libllama cannot load it or an adapter, or their tensors take more
            than `memory_bytes`, unless that is 0.
    """
    params = ffi.new("lh_model_params *")
    lib.lh_model_default_params(params)
    params.n_gpu_layers = n_gpu_layers
    params.use_mmap = use_mmap
    params.use_mlock = use_mlock
    params.check_tensors = check_tensors
    params.memory_bytes = memory_bytes
    adapters, _kept = _native_adapters(loras, None)
    params.adapters = adapters
    out = ffi.new("lh_model **")
    error = ffi.new("lh_error *")
    check(lib.lh_model_load(path, params, out, error), error)
    return ffi.gc(out[0], lib.lh_model_free)


def model_borrow(
    address: int, loras: Sequence[Lora] = (), cvec: ControlVector | None = None
) -> CData:
    """Wraps the `llama_model` at an address; its owner must keep it alive.

    Args:
        address: Of the model.
        loras: Adapters with addresses, which their owner keeps alive as well.
        cvec: A control vector.
    """
    out = ffi.new("lh_model **")
    error = ffi.new("lh_error *")
    adapters, _kept = _native_adapters(loras, cvec)
    model = ffi.cast("void *", address)
    check(lib.lh_model_borrow(model, adapters, out, error), error)
    return ffi.gc(out[0], lib.lh_model_free)


def _native_adapters(
    loras: Sequence[Lora], cvec: ControlVector | None
) -> tuple[CData, list[CData]]:
    """An `lh_adapters`, and what it points to."""
    native = ffi.new("lh_adapters *")
    items = ffi.new("lh_lora[]", len(loras))
    kept = [items]
    for item, lora in zip(items, loras, strict=True):
        item.scale = lora.scale
        item.adapter = ffi.cast("void *", lora.address)
        if lora.path is not None:
            kept.append(ffi.new("char[]", os.fsencode(lora.path)))
            item.path = kept[-1]
    native.lora, native.n_lora = items, len(loras)
    if cvec is not None:
        native.cvec = ffi.from_buffer("float[]", cvec.data)
        kept.append(native.cvec)
        native.n_cvec = len(cvec.data) // ffi.sizeof("float")
        native.cvec_first_layer = cvec.first_layer
        native.cvec_last_layer = cvec.last_layer
    return native, kept


def model_info(model: CData) -> ModelInfo:
    """Numbers and special tokens of a model."""
    info = ffi.new("lh_model_info *")
    error = ffi.new("lh_error *")
    check(lib.lh_model_get_info(model, info, error), error)
    return ModelInfo(*(getattr(info, field.name) for field in fields(ModelInfo)))


def model_metadata(model: CData) -> dict[str, str]:
    """All metadata of the GGUF file as text, sorted by key."""
    return dict(
        sorted(_metadata_item(model, i) for i in range(lib.lh_model_n_meta(model)))
    )


def _metadata_item(model: CData, i: int) -> tuple[str, str]:
    size = 256
    key_size = ffi.new("int32_t *")
    value_size = ffi.new("int32_t *")
    error = ffi.new("lh_error *")
    while True:
        key = ffi.new("char[]", size)
        value = ffi.new("char[]", size)
        status = lib.lh_model_meta(
            model, i, key, value, size, key_size, value_size, error
        )
        needed = max(key_size[0], value_size[0])
        if status != lib.LH_NO_SPACE or needed <= size:
            check(status, error)
            return _text(ffi.string(key)), _text(ffi.string(value))
        size = needed


def chat_template(model: CData) -> str | None:
    """The model's own chat template."""
    return _optional_text(lib.lh_model_chat_template(model))


def token_text(model: CData, token: int) -> str | None:
    """A token as the vocabulary writes it; None outside the vocabulary."""
    return _optional_text(lib.lh_token_text(model, token))


def _optional_text(pointer: CData) -> str | None:
    return None if pointer == ffi.NULL else _text(ffi.string(pointer))


def _text(utf8: bytes) -> str:
    return utf8.decode(errors="replace")


# ---- text and tokens ------------------------------------------------------------------


def tokenize(
    model: CData, text: str, *, add_special: bool, parse_special: bool
) -> array[int]:
    """Text to tokens (`llama_tokenize`). Returns int32[n_tokens]."""
    utf8 = text.encode()
    return _filled(
        "int32_t",
        len(utf8) + 8,
        lambda *out: lib.lh_tokenize(
            model, utf8, len(utf8), add_special, parse_special, *out
        ),
    )


def tokenize_prompt(model: CData, text: str, parse_special: int) -> array[int]:
    """Text to the tokens of a prompt (`lh_tokenize_prompt`). Returns int32[n_tokens]."""
    utf8 = text.encode()
    return _filled(
        "int32_t",
        len(utf8) + 8,
        lambda *out: lib.lh_tokenize_prompt(model, utf8, len(utf8), parse_special, *out),
    )


def detokenize(
    model: CData, tokens: array[int], *, remove_special: bool, unparse_special: bool
) -> str:
    """Tokens, int32[n], to text; bytes that are no UTF-8 become U+FFFD.

    Raises:
        ValueError: A token is outside the vocabulary.
    """
    pointer = ffi.from_buffer("int32_t[]", tokens)
    filled = _filled(
        "char",
        8 * len(tokens) + 16,
        lambda *out: lib.lh_detokenize(
            model, pointer, len(tokens), remove_special, unparse_special, *out
        ),
    )
    return _text(filled.tobytes())


def mark_literals(model: CData, text: str) -> str:
    """The text with literal marks around what would parse as a special token."""
    utf8 = text.encode()
    filled = _filled(
        "char",
        2 * len(utf8) + 64,
        lambda *out: lib.lh_mark_literals(model, utf8, len(utf8), *out),
    )
    return _text(filled.tobytes())


def _filled(
    ctype: str, capacity: int, function: Callable[[CData, int, CData, CData], int]
) -> array[int]:
    """What a function wrote that fills arrays; calls it again if it needs more room."""
    size = ffi.new("int32_t *")
    error = ffi.new("lh_error *")
    while True:
        out = ffi.new(f"{ctype}[]", capacity)
        status = function(out, capacity, size, error)
        if status != lib.LH_NO_SPACE or size[0] <= capacity:
            check(status, error)
            filled = array("i" if ctype == "int32_t" else "b")
            filled.frombytes(ffi.buffer(out)[: size[0] * filled.itemsize])
            return filled
        capacity = size[0]


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
