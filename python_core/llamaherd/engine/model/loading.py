"""Loading of models: arguments for GPUs and rotary position embeddings, and headers.

A `llama_cpp.Llama` gives the arguments that compute what it computes. A header is the
metadata of a file that is not loaded.
"""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

from llamaherd.engine.core import checks
from llamaherd.engine.core.errors import ArgumentError, ArgumentTypeError, ContextError
from llamaherd.engine.memory import kv_cells
from llamaherd.engine.memory.device import Placement
from llamaherd.engine.memory.kv_cells import number_of
from llamaherd.engine.model.file import as_float32
from llamaherd.engine.native import models, shim

if TYPE_CHECKING:
    from pathlib import Path

    from llama_cpp import Llama

    from llamaherd.engine.native.models import ModelInfo


ScalingType = Literal["none", "linear", "yarn", "longrope"]
ROPE_TYPES: dict[ScalingType, int] = {"none": 0, "linear": 1, "yarn": 2, "longrope": 3}

_TINY, _HUGE = 1e-9, 1e30
# For each name, the value that means the model's own setting, and the range of values
# that users may set.
ROPE_NUMBERS = {
    "rope_freq_base": (0.0, _TINY, _HUGE),
    "rope_freq_scale": (0.0, _TINY, _HUGE),
    "yarn_ext_factor": (-1.0, 0.0, _HUGE),
    "yarn_attn_factor": (-1.0, 0.0, _HUGE),
    "yarn_beta_fast": (-1.0, 0.0, _HUGE),
    "yarn_beta_slow": (-1.0, 0.0, _HUGE),
}
ROPE_NAMES = ("rope_scaling_type", *ROPE_NUMBERS, "yarn_orig_ctx")


def checked_rope(arguments: Mapping[str, object]) -> dict[str, Any]:
    """Check the settings that are not None, and round numbers to the types of C."""
    settings: dict[str, Any] = {}
    for name in ROPE_NAMES:
        value = arguments.get(name)
        if value is None:
            continue
        if name == "rope_scaling_type":
            settings[name] = checks.choice(name, value, tuple(ROPE_TYPES))
        elif name == "yarn_orig_ctx":
            settings[name] = checks.integer(name, value, 1)
        else:
            _, low, high = ROPE_NUMBERS[name]
            settings[name] = as_float32(checks.real(name, value, low, high))
    return settings


def rope_params(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Convert the result of `checked_rope` to fields of `lh_engine_params`."""
    kind = settings.get("rope_scaling_type")
    defaults = {name: default for name, (default, *_) in ROPE_NUMBERS.items()}
    params: dict[str, Any] = {**defaults, "yarn_orig_ctx": 0, **settings}
    return {**params, "rope_scaling_type": -1 if kind is None else ROPE_TYPES[kind]}


SPLIT_MODES = {"none": 0, "layer": 1, "row": 2}  # of libllama
_FLAGS = ("use_mmap", "use_mlock", "check_tensors", "check_memory")


def checked_layers(n_gpu_layers: object) -> int:
    """Check a number of layers in GPU memory; "auto" is all, or 0 without a GPU."""
    if isinstance(n_gpu_layers, str):
        if n_gpu_layers != "auto":
            raise ArgumentError(
                f'must be a whole number or "auto", not {checks.brief(n_gpu_layers)}',
                argument="n_gpu_layers",
            )
        return -1 if shim.supports_gpu() else 0
    return checks.integer("n_gpu_layers", n_gpu_layers, -checks.INT32_MAX)


def checked_placement(
    n_gpu_layers: int,
    split_mode: str,
    main_gpu: int,
    tensor_split: object,
) -> Placement:
    """Check the arguments for GPUs and return them."""
    mode = checks.choice("split_mode", split_mode, tuple(SPLIT_MODES))
    shares = None
    if tensor_split is not None:
        if isinstance(tensor_split, str) or not isinstance(tensor_split, Sequence):
            raise ArgumentTypeError(
                f"must be a list of numbers, not {type(tensor_split).__name__}",
                argument="tensor_split",
            )
        shares = tuple(checks.real("tensor_split", x, 0, 1e9) for x in tensor_split)
        if not any(shares):
            raise ArgumentError(
                f"must have a share above 0, not {list(shares)}", argument="tensor_split"
            )
    gpu = checks.integer("main_gpu", main_gpu, 0)
    n_gpus = len(shim.gpus()) if n_gpu_layers != 0 else 0
    if n_gpus and gpu >= n_gpus:
        raise ArgumentError(
            f"must be less than the number of GPUs ({n_gpus}), not {gpu}",
            argument="main_gpu",
        )
    if n_gpus and shares is not None and len(shares) > n_gpus:
        raise ArgumentError(
            f"must have a share for each of the {n_gpus} GPUs, not {len(shares)} shares",
            argument="tensor_split",
        )
    return Placement(
        n_gpu_layers=n_gpu_layers, split_mode=mode, main_gpu=gpu, tensor_split=shares
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadSettings:
    """Checked arguments of `Model` other than its files."""

    placement: Placement
    use_mmap: bool
    use_mlock: bool
    check_tensors: bool
    check_memory: bool

    @property
    def fits_file_to_memory(self) -> bool:
        """Whether host memory decides which file of a repository is loaded."""
        return self.check_memory and self.placement.n_gpu_layers == 0


def checked_loading(loading: Mapping[str, Any]) -> LoadSettings:
    """Check arguments of `Model` before a file is read."""
    placement = checked_placement(
        checked_layers(loading["n_gpu_layers"]),
        loading["split_mode"],
        loading["main_gpu"],
        loading["tensor_split"],
    )
    flags = {name: checks.flag(name, loading[name]) for name in _FLAGS}
    return LoadSettings(placement=placement, **flags)


# Numbers that a Llama passes on if its user sets none, as libllama does without a file's.
_YARN_DEFAULTS = {"yarn_attn_factor": 1.0, "yarn_beta_fast": 32.0, "yarn_beta_slow": 1.0}


def check_llama(llama: object) -> None:
    """Raise ArgumentTypeError if a value is no Llama."""
    llama_cpp = sys.modules.get("llama_cpp")
    if llama_cpp is None or not isinstance(llama, llama_cpp.Llama):
        raise ArgumentTypeError(
            f"must be a llama_cpp.Llama, not {type(llama).__name__}", argument="llama"
        )


def share_log() -> None:
    """Pass libllama's log on until the process ends.

    llama_cpp's callback is Python code, which must not run in an interpreter that exits.
    """
    shim.backend_init(chain=True)
    _stop_sharing_at_exit()


@cache
def _stop_sharing_at_exit() -> None:
    atexit.register(_stop_sharing)


def _stop_sharing() -> None:
    if not shim.is_forked():
        lib = sys.modules["llama_cpp"]
        lib.llama_log_set(lib.llama_log_callback(), None)  # then ours has no next one
        shim.backend_init()


def model_arguments(llama: Llama) -> dict[str, Any]:
    """Return the arguments of `Model` that load what a Llama loaded."""
    check_llama(llama)
    tokenizer = type(llama.tokenizer_).__name__
    if llama.kv_overrides:
        raise _refused_context("kv_overrides", "which change the model of the file")
    if tokenizer != "LlamaTokenizer":
        raise _refused_context(
            f"tokenizer={tokenizer}", "and the model gives other tokens"
        )
    params = llama.model_params
    modes = {number: name for name, number in SPLIT_MODES.items()}
    has_lora = llama.lora_path is not None and llama.lora_scale != 0
    return {
        "path": llama.model_path,
        "lora": (llama.lora_path, llama.lora_scale) if has_lora else None,
        "n_gpu_layers": int(params.n_gpu_layers) if shim.supports_gpu() else 0,
        "split_mode": modes.get(int(params.split_mode), "layer"),
        "main_gpu": max(0, int(params.main_gpu)),
        "tensor_split": llama.tensor_split,
    }


def context_arguments(llama: Llama) -> dict[str, Any]:
    """Return the arguments of `Context` that change results as those of the Llama."""
    params, metadata = llama.context_params, llama.metadata
    if params.attention_type == 1:  # LLAMA_ATTENTION_TYPE_NON_CAUSAL
        raise _refused_context(
            "attention_type=1", "with which tokens depend on later tokens"
        )
    scaling = f"{metadata.get('general.architecture', '')}.rope.scaling"
    arguments = _rope_arguments(params, metadata, scaling)
    types = {number: name for name, (number, *_) in kv_cells.TYPES.items()}
    for name in ("type_k", "type_v"):
        if (number := getattr(params, name)) not in types:
            raise _refused_context(
                f"{name}={number}", "a type that llamaherd does not know"
            )
        if types[number] != "f16":
            arguments[name] = types[number]
    if params.flash_attn_type == 1:
        arguments["flash_attn"] = True
    if not params.offload_kqv:
        arguments["offload_kqv"] = False
    fixed = metadata.get(f"{scaling}.type") in {"none", "linear", "yarn"}
    if f"{scaling}.original_context_length" in metadata and not fixed:  # as of Phi-3
        arguments |= {"n_ctx": int(params.n_ctx), "kv_layout": "unified"}
    return arguments


def _rope_arguments(
    params: Any,  # a ctypes struct
    metadata: Mapping[str, str],
    scaling: str,
) -> dict[str, Any]:
    arguments: dict[str, Any] = {}
    for name, (default, *_) in ROPE_NUMBERS.items():
        value = getattr(params, name)
        is_set = value != 0 if default == 0 else value >= 0
        is_in_file = f"{scaling}.{name}" in metadata
        if is_set and (is_in_file or value != _YARN_DEFAULTS.get(name)):
            arguments[name] = value
    kinds: dict[int, object] = {number: kind for kind, number in ROPE_TYPES.items()}
    if (kind := params.rope_scaling_type) != -1:
        arguments["rope_scaling_type"] = kinds.get(kind, kind)
    if params.yarn_orig_ctx:
        arguments["yarn_orig_ctx"] = params.yarn_orig_ctx
    try:
        return checked_rope(arguments)
    except ValueError as error:
        raise ContextError(f"context: of the Llama, {error}") from error


def chat_of(llama: Llama) -> tuple[str | None, str | None]:
    """Return another template than the model's, and the name of a format without one."""
    if llama.chat_handler is not None:
        return None, f"a chat_handler ({type(llama.chat_handler).__name__})"
    name, metadata = llama.chat_format, llama.metadata
    formats = sys.modules["llama_cpp.llama_chat_format"]
    guessed = formats.guess_chat_format_from_gguf_metadata(metadata)
    has_template = "tokenizer.chat_template" in metadata
    if name in {"chat_template.default", guessed} or not has_template:
        return None, None
    template = metadata.get(f"tokenizer.{name}")
    return template, None if template else f"chat_format={name!r}"


def _refused_context(what: str, why: str) -> ContextError:
    return ContextError(
        f"context: the Llama was made with {what}, {why}: llamaherd would compute other "
        "results; load the file with llamaherd.Model"
    )


@dataclass(frozen=True, slots=True)
class ModelHeader:
    """Metadata of a model file. The sizes do not show whether the model is an encoder."""

    metadata: Mapping[str, str]
    chat_template: str | None
    info: ModelInfo


def read_header(path: Path) -> ModelHeader:
    """Read the metadata of a model file, without its weights."""
    handle = models.vocabulary_load(os.fsencode(path))
    metadata = models.model_metadata(handle)
    n_embd = number_of(metadata, "embedding_length")
    info = replace(  # libllama does not read sizes if it loads only the vocabulary
        models.model_info(handle),
        n_ctx_train=number_of(metadata, "context_length"),
        n_embd=n_embd,
        n_embd_out=n_embd,
        n_layer=number_of(metadata, "block_count"),
    )
    return ModelHeader(metadata, models.chat_template(handle), info)
