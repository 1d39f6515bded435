"""Models and what is added to them, on top of llamaherd.h."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Protocol

from llamaherd.core.errors import ModelLoadError
from llamaherd.native.shim import check, decoded, ffi, lib, text_or_none

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.native._shim import CData

_GGUF_HINT = (
    "models for llama.cpp end in .gguf; repositories on the hub that have them are "
    "mostly named -GGUF"
)


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


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """What `lh_model_info` says. Token ids are -1 where the model has no such token.

    Attributes:
        n_embd_out: Numbers of the vectors that it makes of texts.
        n_swa: Sliding window in tokens; 0: none.
    """

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
    try:
        check(lib.lh_model_load(path, params, out, error), error)
    except ModelLoadError as problem:
        if "is not a GGUF file" in str(problem):
            raise ModelLoadError(f"{problem}; {_GGUF_HINT}") from None
        raise
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
            return decoded(ffi.string(key)), decoded(ffi.string(value))
        size = needed


def chat_template(model: CData) -> str | None:
    """The model's own chat template."""
    return text_or_none(lib.lh_model_chat_template(model))
