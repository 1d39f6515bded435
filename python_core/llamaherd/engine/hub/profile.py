"""Hardware of this machine, and rough speeds of models on it."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil

from llamaherd.engine.core import checks
from llamaherd.engine.hub.quantizations import gigabytes, needed_bytes
from llamaherd.engine.memory import hardware
from llamaherd.engine.native import shim

if TYPE_CHECKING:
    from collections.abc import Callable

# Bits per weight in files of models with some billion weights.
_BITS = {"Q4_K_M": 4.85, "Q8_0": 8.5, "F16": 16.0}
_BILLIONS = (0.5, 1.0, 3.0, 8.0, 14.0, 32.0, 70.0)
# Features of processors that affect matrix products and memory bandwidth.
_FEATURES = (
    *("avx", "avx2", "fma", "f16c", "avx_vnni", "avx512f", "avx512_vnni"),
    *("avx512_bf16", "avx512_fp16", "amx_int8", "amx_bf16", "asimd", "asimddp", "i8mm"),
    *("sve", "sme"),
)
_READ_BYTES = 1 << 28  # bytes; larger than the caches
_MATRIX = 1024  # rows
_LEAST_S = 0.1  # minimum duration of a measurement
_ROUNDS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """A graphics processor.

    Attributes:
        name: Name reported by the driver.
        source: Program or library that lists it: "libllama" or "nvidia-smi".
    """

    name: str
    memory_bytes: int
    source: str = "nvidia-smi"


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeEstimate:
    """Rough estimate for models of one size and type on the processor.

    Attributes:
        fits: Whether the model fits, with a context, into the memory that is available
            now.
        decode_per_s: Upper bound of tokens per second if only one answer is generated:
            memory bandwidth divided by the size of the file. None if not measured.
        prefill_per_s: Tokens per second for prompts, or for many answers at once: speed
            of float32 matrix products divided by twice the number of weights. None if
            not measured.
    """

    billions: float
    quantization: str
    size_bytes: int
    fits: bool
    decode_per_s: float | None
    prefill_per_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HardwareProfile:
    """Hardware of this machine. `str(profile)` is a readable summary.

    Attributes:
        os: Name of the operating system.
        release: Version of the operating system.
        cpu: Name of the processor.
        cpu_cores: Physical cores that this process may use.
        cpu_features: Features of the processor that speed models up.
        memory_bytes: Total memory of the machine.
        available_bytes: Memory that this process can still allocate.
        gpus: Graphics processors, see `gpus`.
        uses_gpu: Whether this build of llama-cpp-python can use a GPU.
        bandwidth_bytes_per_s: Memory bandwidth of all cores together; None if not
            measured.
        flops: Operations per second of float32 matrix products; None if not measured.
        sizes: Estimates for models of several sizes.
    """

    os: str
    release: str
    cpu: str
    cpu_cores: int
    cpu_features: tuple[str, ...]
    memory_bytes: int
    available_bytes: int
    gpus: tuple[Gpu, ...]
    uses_gpu: bool
    bandwidth_bytes_per_s: float | None
    flops: float | None
    sizes: tuple[SizeEstimate, ...]

    def __str__(self) -> str:
        features = " ".join(self.cpu_features) or "no known features"
        available = gigabytes(self.available_bytes)
        lines = [
            f"{self.os} {self.release}; {self.cpu}, {self.cpu_cores} cores ({features})",
            f"memory: {available} available of {gigabytes(self.memory_bytes)}",
            *(f"GPU: {gpu.name}, {gigabytes(gpu.memory_bytes)}" for gpu in self.gpus),
        ]
        if self.gpus and not self.uses_gpu:
            lines.append("This build of llama-cpp-python cannot use a GPU.")
        if self.bandwidth_bytes_per_s is not None and self.flops is not None:
            lines.append(
                f"measured: {self.bandwidth_bytes_per_s / 1e9:.1f} GB/s read from "
                f"memory, {self.flops / 1e9:.0f} GFLOPS in matrix products"
            )
        return "\n".join([*lines, *_table(self.sizes)])


@cache
def _measure_speed() -> tuple[float, float]:
    """Return the best of several measurements, because other programs may run."""
    rounds = [(_bandwidth(), _flops()) for _ in range(_ROUNDS)]
    return max(bandwidth for bandwidth, _ in rounds), max(flops for _, flops in rounds)


def hardware_profile(*, measure: bool = True) -> HardwareProfile:
    """Describe this machine and estimate the speed of models on it.

    The speeds are rough estimates from two numbers, measured once per process in about a
    second. Memory bandwidth limits the speed of a single answer, because each token
    needs all weights. Arithmetic speed limits the processing of prompts, and of
    many answers that are generated together. Real speeds are often half or double the
    estimates, because kernels for quantized weights do not multiply float32 matrices.
    While other programs run, real speeds and estimates differ by up to a factor of four.
    For real measurements of a model, use `model_optimize`.

    Args:
        measure: Whether to measure; False omits the speeds.
    """
    bandwidth, flops = (
        _measure_speed() if checks.flag("measure", measure) else (None, None)
    )
    available = hardware.available_memory()
    return HardwareProfile(
        os=platform.system(),
        release=platform.release(),
        cpu=cpu_name(),
        cpu_cores=hardware.n_cores(),
        cpu_features=cpu_features(),
        memory_bytes=psutil.virtual_memory().total,
        available_bytes=available,
        gpus=gpus(),
        uses_gpu=shim.supports_gpu(),
        bandwidth_bytes_per_s=bandwidth,
        flops=flops,
        sizes=tuple(
            _estimate(billions, name, available, bandwidth, flops)
            for billions in _BILLIONS
            for name in _BITS
        ),
    )


@cache
def cpu_name() -> str:
    """Return the name of the processor."""
    match = re.search(r"^model name\s*:\s*(.+)$", _cpuinfo(), re.MULTILINE)
    return match[1].strip() if match else platform.processor() or platform.machine()


@cache
def cpu_features() -> tuple[str, ...]:
    """Return the features of the processor that speed models up."""
    match = re.search(r"^(?:flags|Features)\s*:\s*(.+)$", _cpuinfo(), re.MULTILINE)
    has = set(match[1].split()) if match else set()
    return tuple(name for name in _FEATURES if name in has)


def _cpuinfo() -> str:
    try:
        return Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _estimate(
    billions: float,
    quantization: str,
    available: int,
    bandwidth: float | None,
    flops: float | None,
) -> SizeEstimate:
    size = int(billions * 1e9 * _BITS[quantization] / 8)
    return SizeEstimate(
        billions=billions,
        quantization=quantization,
        size_bytes=size,
        fits=needed_bytes(size) <= available,
        decode_per_s=None if bandwidth is None else bandwidth / size,
        prefill_per_s=None if flops is None else flops / (2e9 * billions),
    )


def gpus() -> tuple[Gpu, ...]:
    """Return the graphics processors of this machine.

    These are the GPUs that libllama can use, in the order of `Model(main_gpu=)`. If
    there are none, they are the GPUs that nvidia-smi lists.
    """
    used = shim.gpus()
    if not used:
        return _gpus_of_tools()
    return tuple(
        Gpu(name=x.description or x.name, memory_bytes=x.total_bytes, source="libllama")
        for x in used
    )


def _gpus_of_tools() -> tuple[Gpu, ...]:
    """Return the graphics processors that nvidia-smi lists."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return ()
    query = ["--query-gpu=name,memory.total", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(  # noqa: S603 - a program of the system's
            [program, *query], capture_output=True, text=True, timeout=10, check=True
        )
        rows = [line.rsplit(",", 1) for line in done.stdout.splitlines() if line.strip()]
        return tuple(
            Gpu(name=name.strip(), memory_bytes=int(mib) * 2**20) for name, mib in rows
        )
    except (OSError, ValueError, subprocess.SubprocessError):
        return ()


def _bandwidth() -> float:
    """Measure the memory bandwidth of all cores together, in bytes per second."""
    n_cores = hardware.n_cores()
    parts = np.array_split(np.ones(_READ_BYTES // 4, dtype=np.float32), n_cores)

    def read(part: np.ndarray[Any, Any]) -> None:
        np.dot(part, part)  # reads all memory once, as fast as BLAS allows

    # Not above: exit handlers, which use this module, cannot import it.
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(n_cores) as pool:
        list(pool.map(read, parts))  # this allocates pages and starts threads
        return _READ_BYTES / _shortest(lambda: list(pool.map(read, parts)))


def _flops() -> float:
    """Measure the float32 operations per second of a matrix product."""
    matrix = np.ones((_MATRIX, _MATRIX), dtype=np.float32)
    product = matrix @ matrix
    return 2 * _MATRIX**3 / _shortest(lambda: np.matmul(matrix, matrix, out=product))


def _shortest(function: Callable[[], object]) -> float:
    """Return the shortest duration of several calls, in seconds."""
    times: list[float] = []
    while sum(times) < _LEAST_S or len(times) < 3:
        start = perf_counter()
        function()
        times.append(perf_counter() - start)
    return min(times)


def _table(sizes: tuple[SizeEstimate, ...]) -> list[str]:
    """Format the estimates as a table."""

    def speed(value: float | None) -> str:
        return "?" if value is None else f"{value:.3g}"

    lines = ["weights  type    file      fits  tokens/s: one answer  prompts or many"]
    lines += [
        f"{row.billions:>5g} B  {row.quantization:<6}  {gigabytes(row.size_bytes):>8}"
        f"  {'yes' if row.fits else 'no':<4}  {speed(row.decode_per_s):>20}"
        f"  {speed(row.prefill_per_s):>15}"
        for row in sizes
        if row.quantization != "F16"
    ]
    return [
        *lines,
        "Speeds are rough estimates: bandwidth / size, matrix products / (2 x weights).",
        "Real speeds are often half or double, and a quarter while other programs run.",
    ]
