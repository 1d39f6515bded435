"""Device of the layers and the KV cache of a model: its memory and its batch sizes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from llamaherd.engine.memory import hardware
from llamaherd.engine.memory.plan import AUTO_SLOTS, ROWS, ROWS_AMX
from llamaherd.engine.native import shim

if TYPE_CHECKING:
    from collections.abc import Callable

    from llamaherd.engine.native.shim import GpuMemory

# On the processor, the cost of a step grows with its number of rows, and more than 40
# rows gain little. A GPU needs for 248 rows only 2.6 times the time of 40 rows, see
# docs/gpu.md.
_AUTO_SLOTS_GPU = 240
_ROWS_GPU = 8  # for more rows, ggml uses another kernel, with larger tiles


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Arguments of a model that determine which GPUs hold its layers."""

    n_gpu_layers: int = 0
    split_mode: str = "layer"
    main_gpu: int = 0
    tensor_split: tuple[float, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """Memory that holds layers or a KV cache, and the cost of a step.

    Attributes:
        gpu_share: Share of the layers in GPU memory, from 0 to 1.
        n_rows: Number of rows of a batch that are computed together.
        auto_slots: Maximum number of prompts at once, if the user fixed none.
    """

    placement: Placement
    gpu_share: float
    n_rows: int
    auto_slots: int

    def available_memory(self) -> int:
        """Return the bytes of the largest cache that fits into the free memory.

        The memory of host or GPU that fills up first limits a cache in both; a cache in
        the memory that both share has to fit as a whole.
        """
        return self._largest(
            hardware.available_memory, lambda: free_gpu_memory(self.placement)
        )

    def total_memory(self) -> int:
        """Return the bytes of the largest cache that fits if nothing else runs."""
        return self._largest(
            hardware.total_memory, lambda: total_gpu_memory(self.placement)
        )

    def _largest(self, host: Callable[[], int], gpu: Callable[[], int]) -> int:
        limits = []
        if self.gpu_share < 1:
            limits.append(host() / (1 - self.gpu_share))
        if self.gpu_share > 0:
            limits.append(gpu() / self.gpu_share)
            if shares_memory(self.placement):
                limits.append(host())
        return int(min(limits))

    @property
    def memory_name(self) -> str:
        """Name of the memory in messages."""
        names = {0.0: "", 1.0: " of GPU memory"}
        return names.get(self.gpu_share, " of GPU memory and memory")


def device_of(placement: Placement, n_layer: int, *, offload_kqv: bool = True) -> Device:
    """Return the device of a KV cache; the output is a layer, too, the first on a GPU."""
    n_gpu = placement.n_gpu_layers
    n_layers = n_layer if n_gpu < 0 else min(max(0, n_gpu - 1), n_layer)
    on_gpu = n_gpu != 0 and shim.supports_gpu()
    n_rows = ROWS_AMX if shim.has_amx() else ROWS
    return Device(
        placement=placement,
        gpu_share=n_layers / max(1, n_layer) if on_gpu and offload_kqv else 0.0,
        n_rows=_ROWS_GPU if on_gpu else n_rows,
        auto_slots=_AUTO_SLOTS_GPU if on_gpu and offload_kqv else AUTO_SLOTS,
    )


def free_gpu_memory(placement: Placement) -> int:
    """Return the free bytes of a model's GPUs, as the first that is full allows."""
    return _of_gpus(placement, lambda gpu: gpu.free_bytes)


def total_gpu_memory(placement: Placement) -> int:
    """Return the memory of the GPUs of a model, in bytes; see `free_gpu_memory`."""
    return _of_gpus(placement, lambda gpu: gpu.total_bytes)


def shares_memory(placement: Placement) -> bool:
    """Return whether a GPU of a model shares the processor's memory."""
    return any(gpu.shares_memory for gpu, _ in _used_gpus(placement))


def _used_gpus(placement: Placement) -> list[tuple[GpuMemory, float]]:
    """Return the GPUs that hold layers, each with its share in any unit."""
    gpus = shim.gpus()
    if placement.split_mode == "none":
        return [(gpu, 1.0) for gpu in gpus[placement.main_gpu :][:1]]
    shares = placement.tensor_split
    if shares is None:
        return [(gpu, 1.0) for gpu in gpus]
    # llama.cpp gives no layers to GPUs after the last share.
    used = [
        (gpu, share)
        for gpu, share in zip(gpus[: len(shares)], shares[: len(gpus)], strict=True)
    ]
    return [(gpu, share) for gpu, share in used if share > 0]


def _of_gpus(placement: Placement, memory: Callable[[GpuMemory], int]) -> int:
    used = _used_gpus(placement)
    if placement.split_mode == "none" or placement.tensor_split is None:
        return sum(memory(gpu) for gpu, _ in used)
    total = sum(placement.tensor_split)
    return int(min((memory(gpu) * total / share for gpu, share in used), default=0))


def memory_of_model(placement: Placement) -> int:
    """Return the memory in bytes that the tensors of a model may take at most.

    Tensors in GPU memory use no host memory; layers in both may fill both.
    """
    host = hardware.available_memory()
    if placement.n_gpu_layers == 0 or not shim.supports_gpu():
        return host
    free = free_gpu_memory(placement)
    if shares_memory(placement):
        return min(host, free) if placement.n_gpu_layers < 0 else host
    return free if placement.n_gpu_layers < 0 else host + free
