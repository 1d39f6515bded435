"""Models: loading, adapters, requantizing and comparing, on top of llamaherd.h."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from llamaherd.engine.core.errors import ModelLoadError
from llamaherd.engine.native.shim import (
    check,
    create_object,
    decode_text,
    ffi,
    keep_alive,
    lib,
    new_struct,
    text_or_none,
)

if TYPE_CHECKING:
    from array import array
    from collections.abc import Sequence

    from llamaherd.engine.native._shim import CData


_MAGIC = b"GGUF"
_GGUF_HINT = (
    "models for llama.cpp end in .gguf; repositories on the hub that have them are "
    "mostly named -GGUF"
)


class LoraSource(Protocol):
    """A LoRA adapter."""

    @property
    def path(self) -> os.PathLike[str]:
        """Path of the file."""
        ...

    @property
    def scale(self) -> float:
        """Factor of the adapter."""
        ...


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """Content of `lh_model_info`. Token ids are -1 if the model has no such token."""

    n_vocab: int
    n_ctx_train: int
    n_embd: int
    n_embd_out: int
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


class LoadInterrupt:
    """Flag by which another thread interrupts the loading of a model."""

    def __init__(self) -> None:
        self.flag = ffi.new("int32_t *", 0)

    @property
    def is_set(self) -> bool:
        """Whether loading was interrupted."""
        return bool(self.flag[0])

    def set(self) -> None:
        """Stop loading after the current tensor; `model_load` then fails."""
        self.flag[0] = 1


def model_load(
    path: bytes,
    loras: Sequence[LoraSource] = (),
    *,
    n_gpu_layers: int,
    split_mode: int,
    main_gpu: int,
    tensor_split: Sequence[float] | None,
    use_mmap: bool,
    use_mlock: bool,
    check_tensors: bool,
    memory_bytes: int,
    interrupt: LoadInterrupt | None = None,
) -> CData:
    """Load a GGUF file. The model is freed with the last reference to the result."""
    params = ffi.new("lh_model_params *")
    lib.lh_model_default_params(params)
    params.n_gpu_layers = n_gpu_layers
    params.split_mode = split_mode
    params.main_gpu = main_gpu
    shares = ffi.NULL if tensor_split is None else ffi.new("float[]", tensor_split)
    params.tensor_split = shares
    params.n_tensor_split = len(tensor_split or ())
    params.use_mmap = use_mmap
    params.use_mlock = use_mlock
    params.check_tensors = check_tensors
    params.memory_bytes = memory_bytes
    params.is_cancelled = ffi.NULL if interrupt is None else interrupt.flag
    adapters, _kept = _native_adapters(loras)
    params.adapters = adapters
    try:
        return create_object("lh_model", lib.lh_model_load, path, params)
    except ModelLoadError as problem:
        if _is_other(path):
            raise ModelLoadError(f"{problem}; {_GGUF_HINT}") from None
        raise


def vocabulary_load(path: bytes) -> CData:
    """Load the metadata and the vocabulary of a GGUF file, without its weights."""
    params = ffi.new("lh_model_params *")
    lib.lh_model_default_params(params)
    params.vocab_only = 1
    return create_object("lh_model", lib.lh_model_load, path, params)


def _is_other(path: bytes) -> bool:
    """Return whether a file can be read, but does not begin like a GGUF file."""
    try:
        with Path(os.fsdecode(path)).open("rb") as file:
            return file.read(len(_MAGIC)) != _MAGIC
    except OSError:
        return False


def model_adapt(base: CData, loras: Sequence[LoraSource]) -> CData:
    """Load adapters for a model that has no engine yet; the result shares its weights."""
    adapters, _kept = _native_adapters(loras)
    return create_object("lh_model", lib.lh_model_adapt, base, adapters)


def _native_adapters(loras: Sequence[LoraSource]) -> tuple[CData, list[CData]]:
    """Return an `lh_adapters`, and the memory to which it points."""
    native = new_struct("lh_adapters")
    items = ffi.new("lh_lora[]", len(loras))
    kept = [items]
    for item, lora in zip(items, loras, strict=True):
        item.struct_size = ffi.sizeof("lh_lora")
        item.scale = lora.scale
        kept.append(ffi.new("char[]", os.fsencode(lora.path)))
        item.path = kept[-1]
    native.lora, native.n_lora = items, len(loras)
    return native, kept


def model_info(model: CData) -> ModelInfo:
    """Return the sizes and special tokens of a model."""
    info = ffi.new("lh_model_info *")
    error = ffi.new("lh_error *")
    check(lib.lh_model_get_info(model, info, error), error)
    return ModelInfo(*(getattr(info, field.name) for field in fields(ModelInfo)))


def model_metadata(model: CData) -> dict[str, str]:
    """Return all metadata of the GGUF file as text, sorted by key."""
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
            return decode_text(ffi.string(key)), decode_text(ffi.string(value))
        size = needed


def chat_template(model: CData) -> str | None:
    """Return the chat template of the model; None if it has none."""
    return text_or_none(lib.lh_model_chat_template(model))


MAX_CHUNK = 256  # maximum number of tokens per `Comparison.add`


def model_quantize(path: bytes, out_path: bytes, *, ftype: int, n_threads: int) -> None:
    """Write a copy in another tensor type over `out_path`, without interruption."""
    error = ffi.new("lh_error *")
    check(lib.lh_model_quantize(path, out_path, ftype, n_threads, error), error)


@dataclass(frozen=True, slots=True)
class Closeness:
    """Content of `lh_comparison_result`; divergences KL(base || other) in nats."""

    n_tokens: int
    base_perplexity: float
    other_perplexity: float
    mean_kl: float
    p99_kl: float
    max_kl: float
    same_top: float


class Comparison:
    """Comparison of the predictions of two models with the same vocabulary."""

    def __init__(self, base: CData, other: CData, n_threads: int) -> None:
        new = lib.lh_comparison_new
        native = create_object("lh_comparison", new, base, other, n_threads)
        self._comparison = keep_alive(self, "lh_comparison", native, base, other)
        self._error = ffi.new("lh_error *")

    def add(self, tokens: array[int]) -> None:
        """Compare predictions of the second half of 2 to MAX_CHUNK tokens."""
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
