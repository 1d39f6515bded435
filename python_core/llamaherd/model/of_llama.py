"""Settings of a `llama_cpp.Llama` that affect its results.

Most settings are attributes of the Llama. Adapters and control vectors that were set
with low-level functions of llama_cpp are not attributes, and libllama cannot return
them. From its import on, llamaherd therefore records the calls of these functions.
"""

from __future__ import annotations

import ctypes
import importlib.machinery
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llamaherd.core.errors import ContextError
from llamaherd.memory import kv_cells
from llamaherd.model import rope
from llamaherd.model.adapters import ControlVector, Lora
from llamaherd.model.file import ModelFile

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from importlib.abc import Loader
    from types import ModuleType

    from llama_cpp import Llama

_BINDINGS = "llama_cpp.llama_cpp"
_NON_CAUSAL = 1  # LLAMA_ATTENTION_TYPE_NON_CAUSAL
_F16 = 1
_OWN_TEMPLATE = "chat_template.default"
# Types of rotary embeddings that do not depend on the size of the context.
_FIXED_ROPE = {"none", "linear", "yarn"}


@dataclass(frozen=True, slots=True)
class Told:
    """Settings of a Llama that affect its results, in addition to its model.

    Attributes:
        loras: Adapters of the Llama.
        cvec: Control vector; None if none is set.
        context: Arguments of an equivalent Context.
        template: Chat template that replaces the model's template; None uses the model's
            template.
        chat_format: Chat format of the Llama that llamaherd cannot render; None if its
            template is used.
    """

    loras: tuple[Lora, ...] = ()
    cvec: ControlVector | None = None
    context: tuple[tuple[str, Any], ...] = ()
    template: str | None = None
    chat_format: str | None = None


# ---- attributes of the Llama -----------------------------------------------------------


def told_of(llama: Llama) -> Told:
    """Return the settings of a Llama.

    Raises:
        ContextError: llamaherd does not support a setting of the Llama.
    """
    address = llama._ctx.ctx  # noqa: SLF001 - there is no public way to it
    _check_kind(llama, address)
    template, chat_format = _chat_of(llama)
    return Told(
        loras=_loras_of(llama, address),
        cvec=_cvecs.get(address),
        context=tuple(_context_of(llama).items()),
        template=template,
        chat_format=chat_format,
    )


def _check_kind(llama: Llama, address: int) -> None:
    kind = llama.context_params.attention_type
    if not _causal.get(address, kind != _NON_CAUSAL):
        raise _refused(
            "attention_type=LLAMA_ATTENTION_TYPE_NON_CAUSAL, or llama_set_causal_attn",
            "with which tokens depend on later tokens",
        )
    tokenizer = type(llama.tokenizer_).__name__
    if tokenizer != "LlamaTokenizer":
        raise _refused(f"tokenizer={tokenizer}", "and the model gives other tokens")


def _refused(what: str, why: str) -> ContextError:
    return ContextError(
        f"ctx: the Llama was made with {what}, {why}: llamaherd would compute other "
        "results; load the file with llamaherd.Model"
    )


def _loras_of(llama: Llama, address: int) -> tuple[Lora, ...]:
    own = _address(llama._lora_adapter)  # noqa: SLF001 - as above
    file = Path(llama.lora_path or "")
    default = [(own, llama.lora_scale)] if own else []
    loras = []
    for adapter, scale in _loras.get(address, default):
        if adapter != own:
            raise ContextError(
                "ctx: LoRA adapters were set on the Llama's context by "
                "llama_set_adapters_lora, which llamaherd cannot take over; use "
                "Llama(lora_path=, lora_scale=) or llamaherd.Model(path, lora=)"
            )
        if scale != 0:
            content = ModelFile(file) if file.is_file() else None
            loras.append(Lora(file, rope.as_float32(scale), content, own))
    return tuple(loras)


def _context_of(llama: Llama) -> dict[str, Any]:
    params = llama.context_params
    try:
        context = rope.of_context_params(params, llama.metadata)
    except ValueError as error:
        raise ContextError(f"ctx: of the Llama, {error}") from error
    names = {number: name for name, (number, *_) in kv_cells.TYPES.items()}
    for argument in ("type_k", "type_v"):
        number = getattr(params, argument)
        if number not in names:
            raise _refused(f"{argument}={number}", "a type that llamaherd does not know")
        if number != _F16:
            context[argument] = names[number]
    if params.flash_attn_type == 1:
        context["flash_attn"] = True
    if not params.offload_kqv:
        context["offload_kqv"] = False
    if _depends_on_size(llama.metadata):
        n_ctx = llama._n_ctx  # noqa: SLF001 - without asking a context that may be gone
        context |= {"n_ctx": n_ctx, "kv_layout": "unified"}
    return context


def _depends_on_size(metadata: Mapping[str, str]) -> bool:
    """Return whether rotary embeddings depend on the size of the context (Phi-3)."""
    kind = metadata.get("general.architecture", "")
    scaling = metadata.get(f"{kind}.rope.scaling.type", "")
    trained = metadata.get(f"{kind}.rope.scaling.original_context_length")
    return trained is not None and scaling not in _FIXED_ROPE


def _chat_of(llama: Llama) -> tuple[str | None, str | None]:
    """Return the chat template of a Llama, and the name of an unsupported format."""
    if llama.chat_handler is not None:
        return None, f"a chat_handler ({type(llama.chat_handler).__name__})"
    name, metadata = llama.chat_format, llama.metadata
    if name == _OWN_TEMPLATE or "tokenizer.chat_template" not in metadata:
        return None, None
    template = metadata.get(f"tokenizer.{name}")
    if template is not None:
        return template, None
    formats = sys.modules["llama_cpp.llama_chat_format"]
    if name == formats.guess_chat_format_from_gguf_metadata(metadata):
        return None, None
    return None, f"chat_format={name!r}"


# ---- calls of low-level functions ------------------------------------------------------

# Recorded settings by the address of the llama_context.
_loras: dict[int, list[tuple[int, float]]] = {}
_cvecs: dict[int, ControlVector] = {}
_causal: dict[int, bool] = {}


def _after_loras(ctx: object, adapters: Any, n: int, scales: Any) -> None:  # noqa: ANN401
    pairs = [(_address(adapters[i]), scales[i]) for i in range(n)]
    _loras[_address(ctx)] = pairs


def _after_cvec(
    ctx: object, data: object, n: int, _n_embd: int, first: int, last: int
) -> None:
    _cvecs.pop(_address(ctx), None)
    if data is not None:
        numbers = ctypes.string_at(_address(data), n * ctypes.sizeof(ctypes.c_float))
        _cvecs[_address(ctx)] = ControlVector(numbers, first, last)


def _after_causal(ctx: object, value: object) -> None:
    _causal[_address(ctx)] = bool(value)


def _after_free(ctx: object) -> None:
    for records in (_loras, _cvecs, _causal):
        records.pop(_address(ctx), None)


def _address(pointer: Any) -> int:  # noqa: ANN401 - whatever ctypes takes for one
    return ctypes.cast(pointer, ctypes.c_void_p).value or 0


_WATCHED = {
    "llama_set_adapters_lora": _after_loras,
    "llama_set_adapter_cvec": _after_cvec,
    "llama_set_causal_attn": _after_causal,
    "llama_free": _after_free,
}


def _watch(bindings: ModuleType) -> None:
    """Record calls of the functions in `_WATCHED`, with the `errcheck` of ctypes."""
    for name, after in _WATCHED.items():

        def errcheck(
            result: int | None,
            _function: object,
            arguments: tuple[Any, ...],
            after: Any = after,  # noqa: ANN401 - one of three signatures
        ) -> int | None:
            if not result:  # 0, or None for void: the call succeeded
                after(*arguments)
            return result

        getattr(bindings, name).errcheck = errcheck


class _ImportWatcher:
    """Import hook that records calls if llama_cpp is imported after llamaherd."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != _BINDINGS:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)  # type: ignore[assignment]
        return spec


class _Loader:
    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - all others are the loader's
        return getattr(self._loader, name)

    def exec_module(self, module: ModuleType) -> None:
        sys.meta_path.remove(_ImportWatcher)
        if module.__spec__ is not None:
            module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        _watch(module)


if _BINDINGS in sys.modules:
    _watch(sys.modules[_BINDINGS])
else:
    sys.meta_path.insert(0, _ImportWatcher)
