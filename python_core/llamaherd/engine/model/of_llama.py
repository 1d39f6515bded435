"""Arguments of a model and a context that compute what a `llama_cpp.Llama` computes."""

from __future__ import annotations

import atexit
import sys
from functools import cache
from typing import TYPE_CHECKING, Any

from llamaherd.engine.core.errors import ArgumentTypeError, ContextError
from llamaherd.engine.memory import kv_cells
from llamaherd.engine.model import rope
from llamaherd.engine.model.placement import SPLIT_MODES
from llamaherd.engine.native import shim

if TYPE_CHECKING:
    from collections.abc import Mapping

    from llama_cpp import Llama

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
    """Take libllama's log from llama_cpp, and pass lines on until the process ends.

    llama_cpp's callback is Python code, which must not run while the interpreter exits
    and frees contexts.
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
        raise _refused("kv_overrides", "which change the model of the file")
    if tokenizer != "LlamaTokenizer":
        raise _refused(f"tokenizer={tokenizer}", "and the model gives other tokens")
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
        raise _refused("attention_type=1", "with which tokens depend on later tokens")
    scaling = f"{metadata.get('general.architecture', '')}.rope.scaling"
    arguments = _rope_arguments(params, metadata, scaling)
    types = {number: name for name, (number, *_) in kv_cells.TYPES.items()}
    for name in ("type_k", "type_v"):
        if (number := getattr(params, name)) not in types:
            raise _refused(f"{name}={number}", "a type that llamaherd does not know")
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
    params: Any,  # noqa: ANN401 - a ctypes struct
    metadata: Mapping[str, str],
    scaling: str,
) -> dict[str, Any]:
    arguments: dict[str, Any] = {}
    for name, (own, *_) in rope.NUMBERS.items():
        value = getattr(params, name)
        is_set = value != 0 if own == 0 else value >= 0
        is_in_file = f"{scaling}.{name}" in metadata
        if is_set and (is_in_file or value != _YARN_DEFAULTS.get(name)):
            arguments[name] = value
    kinds: dict[int, object] = {number: kind for kind, number in rope.TYPES.items()}
    if (kind := params.rope_scaling_type) != -1:
        arguments["rope_scaling_type"] = kinds.get(kind, kind)
    if params.yarn_orig_ctx:
        arguments["yarn_orig_ctx"] = params.yarn_orig_ctx
    try:
        return rope.checked(arguments)
    except ValueError as error:
        raise ContextError(f"ctx: of the Llama, {error}") from error


def chat_of(llama: Llama) -> tuple[str | None, str | None]:
    """Return another template than the model's, and the name of a format without one."""
    if llama.chat_handler is not None:
        return None, f"a chat_handler ({type(llama.chat_handler).__name__})"
    name, metadata = llama.chat_format, llama.metadata
    formats = sys.modules["llama_cpp.llama_chat_format"]
    own = formats.guess_chat_format_from_gguf_metadata(metadata)
    has_template = "tokenizer.chat_template" in metadata
    if name in {"chat_template.default", own} or not has_template:
        return None, None
    template = metadata.get(f"tokenizer.{name}")
    return template, None if template else f"chat_format={name!r}"


def _refused(what: str, why: str) -> ContextError:
    return ContextError(
        f"ctx: the Llama was made with {what}, {why}: llamaherd would compute other "
        "results; load the file with llamaherd.Model"
    )
