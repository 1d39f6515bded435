"""GPUs that libllama can use, and their memory."""

from __future__ import annotations

from dataclasses import dataclass

from llamaherd.engine.native.shim import check, decoded, ffi, lib

_MOST = 64  # larger than the number of GPUs of any machine


@dataclass(frozen=True, slots=True)
class GpuMemory:
    """Current memory of a GPU.

    Attributes:
        name: Name of the device, such as "CUDA0".
        description: Name of the product.
        free_bytes: Free memory in bytes.
        total_bytes: Total memory in bytes.
        shares_memory: Whether its memory is the processor's memory.
    """

    name: str
    description: str
    free_bytes: int
    total_bytes: int
    shares_memory: bool = False


def gpus() -> tuple[GpuMemory, ...]:
    """Return the GPUs that libllama can use, in the order of `main_gpu`."""
    found = ffi.new("lh_gpu[]", _MOST)
    count = ffi.new("int32_t *")
    error = ffi.new("lh_error *")
    check(lib.lh_gpus(found, _MOST, count, error), error)
    return tuple(
        GpuMemory(
            decoded(ffi.string(gpu.name)),
            decoded(ffi.string(gpu.description)),
            gpu.free_bytes,
            gpu.total_bytes,
            bool(gpu.shares_memory),
        )
        for gpu in found[0 : count[0]]
    )
