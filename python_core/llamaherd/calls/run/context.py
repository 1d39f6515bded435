"""Context: a KV cache on a model, allocated when it is first needed; its settings."""

from __future__ import annotations

import inspect
import warnings
from dataclasses import dataclass
from threading import RLock
from typing import TYPE_CHECKING, Any, Literal
from weakref import WeakKeyDictionary

from llamaherd.calls.run.host import Host
from llamaherd.engine.core import checks
from llamaherd.engine.core.declaration import suggests_names
from llamaherd.engine.core.errors import ArgumentError, ArgumentTypeError, ContextError
from llamaherd.engine.core.words import name_of, setting, words
from llamaherd.engine.loop.loop import Loop
from llamaherd.engine.loop.sizing import NativeSizing, fixed_memory
from llamaherd.engine.loop.threads import warn_of_foreign
from llamaherd.engine.memory import hardware, kv_cells
from llamaherd.engine.memory.device import Device, Placement, device_of
from llamaherd.engine.memory.kv_cells import Buffers, buffers_of
from llamaherd.engine.memory.plan import (
    AUTO_SLOTS,
    MAX_CTX,
    MAX_HOLD,
    MAX_SLOTS,
    UNIFORM_ROWS,
    Layout,
    Sizes,
)
from llamaherd.engine.model import loading
from llamaherd.engine.model.loading import ScalingType, check_llama
from llamaherd.engine.model.model import Model, model_of_llama
from llamaherd.engine.native.engine import EngineParams

if TYPE_CHECKING:
    from collections.abc import Mapping

    from llama_cpp import Llama

    from llamaherd.engine.native.models import ModelInfo


FLASH_ATTN: dict[object, int] = {"auto": -1, False: 0, True: 1}
_LAYOUTS: tuple[Layout | Literal["auto"], ...] = ("auto", "unified", "per_sequence")
MAX_THREADS = 1024
_MAX_BATCH = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextSettings:
    """Checked arguments of a `Context`, and the memory that they need for a model.

    `params` are without the sizes of a plan; `rope` differs from the model's settings.
    """

    sizes: Sizes
    params: EngineParams
    keeps_prefixes: bool
    rope: dict[str, Any]
    type_k: str
    type_v: str

    def device(self, placement: Placement, info: ModelInfo) -> Device:
        """Return the device of the KV cache of a model."""
        offload = self.params.offload_kqv
        return device_of(placement, info.n_layer, offload_kqv=offload)

    def bytes_per_cell(self, metadata: Mapping[str, str], info: ModelInfo) -> int:
        """Return the size of one token in the KV cache of a model in bytes."""
        return kv_cells.bytes_per_cell(metadata, info, self.type_k, self.type_v)

    def buffers(
        self, metadata: Mapping[str, str], info: ModelInfo, device: Device
    ) -> Buffers:
        """Return the memory that a context needs in addition to its KV cache."""
        return buffers_of(
            metadata,
            info,
            n_ubatch=self.params.n_ubatch,
            n_sequences=(self.sizes.n_seq_max or device.auto_slots) + MAX_HOLD,
            flash_attn=self.params.flash_attn != FLASH_ATTN[False],
        )

    def fixed_memory(
        self, metadata: Mapping[str, str], info: ModelInfo, device: Device
    ) -> int | None:
        """Return the memory of a fixed `n_ctx` with its buffers; None without it."""
        return fixed_memory(
            self.sizes,
            device,
            self.bytes_per_cell(metadata, info),
            kv_cells.bytes_per_sequence(metadata, info),
            self.buffers(metadata, info, device),
        )

    def check_cells(
        self, metadata: Mapping[str, str], info: ModelInfo, device: Device
    ) -> None:
        """Check that the memory can hold a fixed `n_ctx` if nothing else runs."""
        n_ctx = self.sizes.n_ctx or 0
        least = kv_cells.least_bytes_per_cell(metadata, info, self.type_k, self.type_v)
        n_bytes, total = n_ctx * least, device.total_memory()
        if n_bytes > total:
            raise ContextError(
                f"a KV cache of {n_ctx} cells takes at least {n_bytes / 1e9:.1f} GB"
                f"{device.memory_name}, and this machine has {total / 1e9:.1f}: lower "
                f"{name_of('n_ctx')} to at most {total // least}"
            )


def checked_settings(
    arguments: Mapping[str, Any], defaults: Mapping[str, Any]
) -> ContextSettings:
    """Check the arguments of `Context`; `defaults` replaces None and "auto"."""
    chosen = dict(arguments)
    for name in ("n_ctx", "kv_layout", "flash_attn"):
        if isinstance(chosen[name], str) and chosen[name] == "auto":
            chosen[name] = defaults.get(name, "auto")
    ropes = {name: defaults[name] for name in loading.ROPE_NAMES if name in defaults}
    ropes |= loading.checked_rope({name: chosen[name] for name in loading.ROPE_NAMES})
    layout = checks.choice("kv_layout", chosen["kv_layout"], _LAYOUTS)
    deterministic = chosen["deterministic"]
    sizes = Sizes(
        n_ctx=_auto_or_integer("n_ctx", chosen["n_ctx"], MAX_CTX),
        n_seq_max=_auto_or_integer("n_seq_max", chosen["n_seq_max"], MAX_SLOTS),
        kv_layout=None if layout == "auto" else layout,
        deterministic=deterministic,
    )
    least_batch = (sizes.n_seq_max or 1) + MAX_HOLD
    batch = _integer_or("n_batch", chosen["n_batch"], least_batch, _MAX_BATCH, 512)
    ubatch = _integer_or("n_ubatch", chosen["n_ubatch"], 1, batch, min(batch, 512))
    threads = _threads("n_threads", chosen["n_threads"], hardware.n_cores())
    type_names = tuple(kv_cells.TYPES)
    keys = defaults.get("type_k", "f16") if chosen["type_k"] is None else chosen["type_k"]
    keys = checks.choice("type_k", keys, type_names)
    usual = defaults.get("type_v", "bf16" if deterministic else "f16")
    values = checks.choice("type_v", chosen["type_v"] or usual, type_names)
    attention = checks.choice("flash_attn", chosen["flash_attn"], tuple(FLASH_ATTN))
    swa_full = chosen["swa_full"]
    if checks.flag("deterministic", deterministic):
        _check_deterministic(sizes, ubatch, attention, {keys, values})
        attention = swa_full = True
    # n_ctx and n_seq_max remain 0 here; NativeSizing.make sets them from the plan.
    params = EngineParams(
        n_ctx=0,
        n_seq_max=0,
        kv_unified=True,
        n_batch=batch,
        n_ubatch=ubatch,
        n_threads=threads,
        n_threads_batch=_threads("n_threads_batch", chosen["n_threads_batch"], threads),
        flash_attn=FLASH_ATTN[attention],
        offload_kqv=checks.flag("offload_kqv", chosen["offload_kqv"]),
        swa_full=checks.flag("swa_full", swa_full),
        type_k=kv_cells.TYPES[keys][0],
        type_v=kv_cells.TYPES[values][0],
        deterministic=deterministic,
        **loading.rope_params(ropes),
    )
    return ContextSettings(
        sizes=sizes,
        params=params,
        keeps_prefixes=checks.flag("keep_prefixes", chosen["keep_prefixes"]),
        rope=ropes,
        type_k=keys,
        type_v=values,
    )


def _check_deterministic(
    sizes: Sizes, n_ubatch: int, flash_attn: object, types: set[str]
) -> None:
    """Refuse settings that make rounding depend on the shape of a batch."""
    reason = ""
    if sizes.kv_layout == "unified":
        reason = setting("kv_layout", "unified")
    elif flash_attn is False:
        reason = setting("flash_attn", False)
    elif types <= {"f16", "f32"}:
        reason = f"type_k and type_v both in f16 and f32 ({', '.join(sorted(types))})"
    least = (sizes.n_seq_max or AUTO_SLOTS) + MAX_HOLD
    if not reason and (n_ubatch % UNIFORM_ROWS or n_ubatch < least):
        must = f"it must be a multiple of {UNIFORM_ROWS}, at least {least}"
        reason = f"{setting('n_ubatch', n_ubatch)}: {must}"
    if reason:
        raise ArgumentError(
            f"{setting('deterministic', True)} cannot be combined with {reason}",
            argument="deterministic",
            code="conflict",
            form="{problem}",
        )


def _auto_or_integer(name: str, value: object, high: int) -> int | None:
    if isinstance(value, str):
        if value == "auto":
            return None
        raise ArgumentError(
            f"must be an integer or {words().literal('auto')}, not {checks.brief(value)}",
            argument=name,
            code="unknown_choice",
        )
    return checks.integer(name, value, 1, high)


def _integer_or(name: str, value: object, low: int, high: int, default: int) -> int:
    return default if value is None else checks.integer(name, value, low, high)


def _threads(name: str, value: object, default: int) -> int:
    return _integer_or(name, value, 1, MAX_THREADS, default)


@suggests_names
class Context(Host):
    """A KV cache on a model with its settings; a context manager.

    The first call allocates the memory. A later call allocates it again only if it
    needs more memory or another layout. Several threads may use a context: their
    prompts share batches.

    Args:
        model: Model, which is kept alive.
        n_ctx: Total number of KV cells. One prompt with its answer may use all of them;
            as many prompts run at once as fit. "auto" allocates what the prompts need,
            within half of the available memory.
        n_seq_max: Maximum number of prompts that run at once, at most 248; sequences for
            shared prefixes are additional. "auto" uses up to 40, or 32 with AMX, or 240
            with a KV cache on a GPU.
        n_threads: Number of threads for generation; None for the physical cores.
        n_batch: Maximum number of tokens in one llama_decode; None for 512. With layout
            "per_sequence" the limit does not include tokens of answers.
        kv_layout: "per_sequence" reserves for each sequence the cells of the longest
            prompt. This layout is fast, and greedy answers hardly depend on other
            prompts. With "unified", all sequences share one pool of cells. This layout
            is fast for prompts that consist mostly of a common prefix, and runs
            more prompts at once if lengths differ and memory is short; prompts are paused
            when no cells are free. "auto" selects the layout that suits the prompts of
            a call; for single prompts (`submit`, a server), the layout that suits the
            latest 32 prompts.
        n_ubatch: Maximum number of tokens computed at once; None for `n_batch`, at most
            512. The number is rounded up to suit the number of sequences, unless the
                 context is `deterministic` and the number is less than `n_batch`.
        n_threads_batch: Number of threads for prompts; None for `n_threads`.
        flash_attn: Use flash attention; "auto" uses it if the model supports it.
        type_k: Type of the cached keys, such as "f16" or "q8_0"; None for f16.
        type_v: Type of the cached values; None for f16, or bf16 if `deterministic`.
        offload_kqv: Keep the KV cache in GPU memory, if any.
        swa_full: Keep all cells of layers with sliding-window attention.
        keep_prefixes: Start each call from the longest beginning that the cells of
            earlier calls hold. False computes all tokens again: a loop of single calls is
            slower, but what came before does not change the last bits of its logits.
        deterministic: Make every answer bit-identical, independent of other prompts,
            their order and `n_seq_max`. Calls then take 1.1 to 1.5 times as long, with
            AMX up to 2.6 times; see docs/decisions/0012. This works only on CPUs; a
            warning is issued if layers of the model are on a GPU.
        rope_scaling_type: Scaling of rotary position embeddings: "none", "linear", "yarn"
            or "longrope". For this and the next seven arguments, None uses the value in
            the model file.
        rope_freq_base: Base frequency of rotary embeddings.
        rope_freq_scale: Factor of the frequencies.
        yarn_ext_factor: YaRN's mix of interpolation and extrapolation.
        yarn_attn_factor: YaRN's factor of the magnitudes of attention.
        yarn_beta_fast: YaRN's low correction dimension.
        yarn_beta_slow: YaRN's high correction dimension.
        yarn_orig_ctx: Context length, in tokens, with which the model was trained
            before scaling.

    If the model was made from a `llama_cpp.Llama`, each argument that is None or "auto"
    is set to the Llama's value.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: An argument is out of range.
        ModelClosedError: The model is closed.
        ContextError: The model cannot generate text, because it has an encoder or
            computes only embeddings; or the memory cannot hold `n_ctx` cells.
    """

    def __init__(  # noqa: PLR0917 - as R and C have them
        self,
        model: Model,
        n_ctx: int | Literal["auto"] = "auto",
        n_seq_max: int | Literal["auto"] = "auto",
        n_threads: int | None = None,
        n_batch: int | None = None,
        kv_layout: Layout | Literal["auto"] = "auto",
        *,
        n_ubatch: int | None = None,
        n_threads_batch: int | None = None,
        flash_attn: bool | Literal["auto"] = "auto",
        type_k: str | None = None,
        type_v: str | None = None,
        offload_kqv: bool = True,
        swa_full: bool = False,
        keep_prefixes: bool = True,
        deterministic: bool = False,
        rope_scaling_type: ScalingType | None = None,
        rope_freq_base: float | None = None,
        rope_freq_scale: float | None = None,
        yarn_ext_factor: float | None = None,
        yarn_attn_factor: float | None = None,
        yarn_beta_fast: float | None = None,
        yarn_beta_slow: float | None = None,
        yarn_orig_ctx: int | None = None,
    ) -> None:
        arguments = locals()  # before any other local variable
        if not isinstance(model, Model):
            raise ArgumentTypeError(
                f"must be a llamaherd.Model, not {type(model).__name__}: "
                'llamaherd.Model("model.gguf") loads a model, and .model of a context '
                "is its model",
                argument="model",
            )
        model.check_generates()
        settings = {name: arguments[name] for name in _DEFAULTS}
        checked = checked_settings(settings, model.context_defaults)
        if checked.sizes.deterministic:
            _warn_of_gpu(model)
        sizes = checked.sizes
        self._params = checked.params
        self._rope = checked.rope
        warn_of_foreign(max(self._params.n_threads, self._params.n_threads_batch))
        self._sizes = sizes
        self.model = model
        device = checked.device(model.placement, model.info)
        checked.check_cells(model.metadata, model.info, device)
        self._sizing = NativeSizing(
            model,
            self._params,
            sizes,
            checked.bytes_per_cell(model.metadata, model.info),
            kv_cells.bytes_per_sequence(model.metadata, model.info),
            device=device,
            buffers=checked.buffers(model.metadata, model.info, device),
            keeps_prefixes=checked.keeps_prefixes,
        )
        self._loop = Loop(self._sizing)
        model.register(self)

    @property
    def numerics(self) -> dict[str, object]:
        """Arguments that change results by more than rounding errors."""
        names = {number: name for name, (number, *_) in kv_cells.TYPES.items()}
        attention = {number: value for value, number in FLASH_ATTN.items()}
        return {
            "type_k": names[self._params.type_k],
            "type_v": names[self._params.type_v],
            "flash_attn": attention[self._params.flash_attn],
            "deterministic": self._params.deterministic,
            **self._rope,
        }

    @property
    def options(self) -> dict[str, object]:
        """Constructor arguments of an equivalent context; "auto" for planned sizes."""
        sizes, params = self._sizes, self._params
        return {
            "n_ctx": sizes.n_ctx or "auto",
            "n_seq_max": sizes.n_seq_max or "auto",
            "kv_layout": sizes.kv_layout or "auto",
            "n_threads": params.n_threads,
            "n_threads_batch": params.n_threads_batch,
            "n_batch": params.n_batch,
            "n_ubatch": params.n_ubatch,
            "offload_kqv": params.offload_kqv,
            "swa_full": params.swa_full,
            "keep_prefixes": self._sizing.keeps_prefixes,
            **self.numerics,
        }

    @property
    def loop(self) -> Loop:
        """Loop that runs the requests."""
        return self._loop

    def limit_memory(self, n_bytes: int) -> int:
        """Limit the memory of the KV cache and the buffers, before the first call.

        Args:
            n_bytes: Maximum memory in bytes, unless `n_ctx` is fixed.

        Returns:
            Maximum memory in bytes: the limit, or more if the buffers or the fixed
            `n_ctx` need more.
        """
        return self._sizing.limit(n_bytes)

    def __repr__(self) -> str:
        state = "closed" if self.closed else self.plan or "not sized yet"
        return f"<Context on {self.model!r}: {state}>"


def _warn_of_gpu(model: Model) -> None:
    """Warn that on a GPU even a deterministic context's rounding depends on the batch."""
    if model.placement.n_gpu_layers != 0:
        warnings.warn(
            f"{setting('deterministic', True)} works only on the processor; with layers "
            "on a GPU, answers depend on the other requests of a batch "
            f"({words().page('gpu')})",
            stacklevel=3,
        )


_contexts_of_llamas: WeakKeyDictionary[Llama, Context] = WeakKeyDictionary()
_llamas_lock = RLock()


def as_context(value: Any) -> Host:
    """Return a host unchanged, or the context of a `llama_cpp.Llama`."""
    if isinstance(value, Host):
        return value
    try:
        check_llama(value)
    except ArgumentTypeError:
        raise ArgumentTypeError(
            "must be a llamaherd.Context or a llama_cpp.Llama, not "
            f"{type(value).__name__}: llamaherd.Context(model) creates a context",
            argument="context",
        ) from None
    with _llamas_lock:
        context = _contexts_of_llamas.get(value)
        if context is None or context.closed:
            model = model_of_llama(value)
            offload = model.context_defaults.get("offload_kqv", True)
            context = _contexts_of_llamas[value] = Context(model, offload_kqv=offload)
        return context


_DEFAULTS = {
    name: parameter.default
    for name, parameter in inspect.signature(Context).parameters.items()
    if name != "model"
}


def checked_options(options: Mapping[str, Any]) -> ContextSettings:
    """Check arguments of `Context` without a model; missing ones have their defaults."""
    return checked_settings({**_DEFAULTS, **options}, {})
