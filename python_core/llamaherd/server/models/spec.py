"""Models that a server can load."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from llamaherd.core.errors import ModelLoadError
from llamaherd.memory.buffers import buffers_of_encoder
from llamaherd.model.file import parts_of
from llamaherd.model.header import read_header
from llamaherd.native.shim import CELL_BLOCK

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from llamaherd.memory.device import Placement
    from llamaherd.model.header import ModelHeader
    from llamaherd.run.context_settings import ContextSettings


@dataclass(frozen=True, slots=True)
class AdapterSpec:
    """A LoRA adapter that requests select by its name.

    Attributes:
        name: Name in requests and answers.
        path: Path of the file.
    """

    name: str
    path: Path


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """A model file with its adapters, which are loaded and unloaded together.

    Attributes:
        name: Name in requests and answers.
        path: Path of the file; for a split model, of its first file.
        adapters: Adapters; each has its own context.
    """

    name: str
    path: Path
    adapters: tuple[AdapterSpec, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the model and its adapters."""
        return (self.name, *(each.name for each in self.adapters))

    @property
    def n_bytes(self) -> int:
        """Size of all files in bytes, which is the memory reserved for weights."""
        return sum(map(_size, parts_of(self.path))) + sum(
            _size(each.path) for each in self.adapters
        )

    def n_working(self, settings: ContextSettings, placement: Placement) -> int:
        """Return the least memory that a useful model needs in addition to its weights.

        The memory is summed over the model and its adapters: KV caches of a fixed
        `n_ctx`, or else with a total size of an eighth of the weights, and compute
        buffers. If the file cannot be read, only this eighth is returned, since loading
        it will fail.

        Args:
            settings: Settings of each context.
            placement: GPUs that hold the layers.
        """
        n_caches = self.n_bytes // 8
        try:
            header = read_header(self.path)
        except ModelLoadError:
            return n_caches
        n_contexts = len(self.names)
        n_cache = n_caches // n_contexts
        return n_contexts * _working(header, settings, placement, n_cache)

    def check_cells(self, settings: ContextSettings, placement: Placement) -> None:
        """Check that the memory can hold a fixed `n_ctx` if nothing else runs.

        Files that cannot be read, and encoders, which have no cache, are not checked.

        Args:
            settings: Settings of each context.
            placement: GPUs that hold the layers.

        Raises:
            ContextError: The cache is larger than the memory.
        """
        try:
            header = read_header(self.path)
        except ModelLoadError:
            return
        if not _is_encoder(header):
            device = settings.device(placement, header.info)
            settings.check_cells(header.metadata, header.info, device)

    @property
    def state(self) -> object:
        """Value that changes with the content of the model file."""
        return file_state(self.path)


def file_state(path: Path) -> object:
    """Return a value that changes with the content of a file; None if it is missing."""
    try:
        found = path.stat()
    except OSError:
        return None
    return (found.st_ino, found.st_size, found.st_mtime_ns)


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _is_encoder(header: ModelHeader) -> bool:
    kind = header.metadata.get("general.architecture", "")
    causal = header.metadata.get(f"{kind}.attention.causal")
    return causal == "false" or f"{kind}.pooling_type" in header.metadata


def _working(
    header: ModelHeader, settings: ContextSettings, placement: Placement, n_cache: int
) -> int:
    """Return the memory in bytes of a context.

    Its KV cache has `n_cache` bytes if `n_ctx` is not fixed.
    """
    metadata, info = header.metadata, header.info
    if _is_encoder(header):
        return n_cache + buffers_of_encoder(metadata, info)
    device = settings.device(placement, info)
    fixed = settings.fixed_memory(metadata, info, device)
    if fixed is not None:
        return fixed
    cell = settings.bytes_per_cell(metadata, info)
    n_cells = max(CELL_BLOCK, n_cache // cell)
    return n_cells * cell + settings.buffers(metadata, info, device).of(n_cells)


def cache_sizes(
    weights: Sequence[int], n_bytes: int, least: Sequence[int] | None = None
) -> list[int]:
    """Return the memory reserved for KV caches and buffers of each model in bytes.

    The function finds the largest k such that the k largest models fit in memory at once,
    each with its value in `least`. Each model gets 1/k of the memory that the weights of
    these k models leave free, but not less than its value in `least`. If a model does
    not fit even alone, the sum of its weights and its amount exceeds `n_bytes`.

    Args:
        weights: Size of the weights of each model in bytes.
        n_bytes: Memory of all models in bytes.
        least: Least memory of each model in addition to its weights, in bytes; None for
            an eighth of its weights.
    """
    least = [n // 8 for n in weights] if least is None else least
    share = 0
    total = needed = 0
    both = zip(weights, least, strict=True)
    fitting = sorted((x for x in both if sum(x) <= n_bytes), key=sum, reverse=True)
    for n_models, (n, more) in enumerate(fitting, 1):
        total += n
        needed += n + more
        if needed > n_bytes:
            break
        share = (n_bytes - total) // n_models
    return [
        max(more, min(share, n_bytes - n) if n + more <= n_bytes else share)
        for n, more in zip(weights, least, strict=True)
    ]
