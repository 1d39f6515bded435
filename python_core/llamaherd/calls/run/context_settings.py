"""Checks of the arguments of `Context`, also before a model is loaded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from llamaherd.engine.core import checks
from llamaherd.engine.core.errors import ArgumentError
from llamaherd.engine.core.words import setting, words
from llamaherd.engine.loop.sizing import check_cells, fixed_memory
from llamaherd.engine.memory import hardware, kv_cells
from llamaherd.engine.memory.device import device_of
from llamaherd.engine.memory.kv_cells import buffers_of
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
from llamaherd.engine.native.engine import EngineParams

if TYPE_CHECKING:
    from collections.abc import Mapping

    from llamaherd.engine.memory.device import Device, Placement
    from llamaherd.engine.memory.kv_cells import Buffers
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
        least = kv_cells.least_bytes_per_cell(metadata, info, self.type_k, self.type_v)
        check_cells(self.sizes.n_ctx or 0, least, device)


def checked_settings(
    arguments: Mapping[str, Any], told: Mapping[str, Any]
) -> ContextSettings:
    """Check the arguments of `Context`; `told` replaces None and "auto"."""
    chosen = dict(arguments)
    for name in ("n_ctx", "kv_layout", "flash_attn"):
        if isinstance(chosen[name], str) and chosen[name] == "auto":
            chosen[name] = told.get(name, "auto")
    ropes = {name: told[name] for name in loading.ROPE_NAMES if name in told}
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
    keys = told.get("type_k", "f16") if chosen["type_k"] is None else chosen["type_k"]
    keys = checks.choice("type_k", keys, type_names)
    usual = told.get("type_v", "bf16" if deterministic else "f16")
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
            f"must be an integer or {words().literal('auto')}, not {checks.shown(value)}",
            argument=name,
            code="unknown_choice",
        )
    return checks.integer(name, value, 1, high)


def _integer_or(name: str, value: object, low: int, high: int, default: int) -> int:
    return default if value is None else checks.integer(name, value, low, high)


def _threads(name: str, value: object, default: int) -> int:
    return _integer_or(name, value, 1, MAX_THREADS, default)
