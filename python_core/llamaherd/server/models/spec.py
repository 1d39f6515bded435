"""Models that a server can load: files, memory, content."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from llamaherd.engine.core.errors import ArgumentError, ContextError, ModelLoadError
from llamaherd.engine.core.words import words
from llamaherd.engine.memory.kv_cells import buffers_of_encoder
from llamaherd.engine.model.file import ModelFile, content_of, parts_of
from llamaherd.engine.model.loading import ModelHeader, read_header
from llamaherd.engine.native.shim import CELL_BLOCK

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from llamaherd.calls.run.context import ContextSettings
    from llamaherd.engine.memory.device import Placement
    from llamaherd.engine.model.model import Model


@dataclass(frozen=True, slots=True)
class AdapterSpec:
    """A LoRA adapter that requests select by its name."""

    name: str  # name in requests and answers
    path: Path  # path of the file


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """A model file with its adapters, which are loaded and unloaded together."""

    name: str  # name in requests and answers
    path: Path  # path of the file; for a split model, of its first file
    adapters: tuple[AdapterSpec, ...] = ()  # adapters; each has its own context

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the model and its adapters."""
        return (self.name, *(adapter.name for adapter in self.adapters))

    @property
    def n_bytes(self) -> int:
        """Size of all files in bytes, which is the memory reserved for weights."""
        return sum(map(_size, parts_of(self.path))) + sum(
            _size(adapter.path) for adapter in self.adapters
        )

    def n_working(self, settings: ContextSettings, placement: Placement) -> int:
        """Return the least memory that a useful model needs in addition to its weights.

        The memory is summed over the model and its adapters: KV caches of a fixed
        `n_ctx`, or else with a total size of an eighth of the weights, and compute
        buffers. If the file cannot be read, only this eighth is returned, since loading
        it will fail.
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
        """Check that the memory can hold a fixed `n_ctx`; encoders have no cache."""
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
        status = path.stat()
    except OSError:
        return None
    return (status.st_ino, status.st_size, status.st_mtime_ns)


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _is_encoder(header: ModelHeader) -> bool:
    kind = header.metadata.get("general.architecture", "")
    causal = header.metadata.get(f"{kind}.attention.causal")
    return causal == "false" or f"{kind}.pooling_type" in header.metadata


def _working(
    header: ModelHeader, settings: ContextSettings, placement: Placement, n_cache: int
) -> int:
    """Return the bytes of a context; its cache has `n_cache` if `n_ctx` is not fixed."""
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


def check_each_fits(needs: Mapping[str, int], n_bytes: int, *, is_given: bool) -> None:
    """Check that each of several models fits into the memory of a server alone."""
    large = {repr(name): n for name, n in needs.items() if n > n_bytes}
    if large:
        raise _too_small(large, n_bytes, is_given=is_given)


def memory_of_cache(
    specs: Sequence[ModelSpec],
    n_bytes: int,
    settings: ContextSettings,
    placement: Placement,
) -> int:
    """Check that models fit into memory at once; return the first's cache in bytes."""
    first, *others = specs
    n_others = sum(
        other.n_bytes + other.n_working(settings, placement) for other in others
    )
    n_fixed = n_others + first.n_bytes
    n_needed = n_fixed + first.n_working(settings, placement)
    if n_needed > n_bytes:
        names = " and ".join(repr(spec.name) for spec in specs)
        raise _too_small({names: n_needed}, n_bytes, is_given=True)
    return n_bytes - n_fixed


def _too_small(
    needs: Mapping[str, int], n_bytes: int, *, is_given: bool
) -> ArgumentError | ContextError:
    needed = ", ".join(f"{shown_up(n)} for {names}" for names, n in needs.items())
    problem = f"with KV cache and buffers the server needs {needed}"
    if is_given:
        text = f"is {shown_down(n_bytes)}, but {problem}"
        return ArgumentError(text, argument=words().memory, code="out_of_range")
    return ContextError(
        f"{shown_down(n_bytes)} of memory are available for models, but {problem}: free "
        "memory, or leave such models out"
    )


def shown_down(n_bytes: int) -> str:
    """Return a size as text, rounded down: memory that exists."""
    unit, size = _unit(n_bytes)
    return f"{math.floor(10 * n_bytes / size) / 10:.1f} {unit}"


def shown_up(n_bytes: int) -> str:
    """Return a size as text, rounded up: memory that is sufficient."""
    unit, size = _unit(n_bytes)
    return f"{math.ceil(10 * n_bytes / size) / 10:.1f} {unit}"


def _unit(n_bytes: int) -> tuple[str, float]:
    return ("GB", 1e9) if n_bytes >= 1e9 else ("MB", 1e6)


def identity_of(models: Sequence[Model]) -> str | None:
    """Return the identity of models with their adapters; None if a file was replaced."""
    contents = [content_of(model.file, model.loras) for model in models]
    return None if None in contents else json.dumps(contents)


class FileContents:
    """Model and adapter files that a server has loaded.

    A file that was replaced since is not loaded again under the same name: a client
    would get the answers of another model.
    """

    def __init__(self) -> None:
        self._loaded: dict[Path, ModelFile] = {}
        self._seen: dict[Path, ModelFile] = {}

    def check(self, path: Path) -> None:
        """Check that a file exists, and has not changed since it was loaded."""
        if not path.exists():  # `Model` would search the cache for its name
            raise ModelLoadError(f"{path} was removed")
        loaded = self._loaded.get(path)
        if loaded is not None and not loaded.is_unchanged:
            raise ModelLoadError(
                f"{path} was changed or replaced since the server loaded it: restart the "
                "server to serve the new file"
            )

    def keep(self, path: Path, file: ModelFile | None) -> None:
        """Note that a file was loaded, in the state that it had before."""
        self.check(path)
        if file is not None:
            self._loaded.setdefault(path, file)

    def identity(
        self, path: Path, adapter: Path | None, *, is_loaded: bool
    ) -> str | None:
        """Return what `identity_of` returns for a model with at most one adapter."""
        paths = [path] if adapter is None else [path, adapter]
        hashes = [self._sha256(file, is_loaded=is_loaded) for file in paths]
        if None in hashes:
            return None
        return json.dumps([[hashes[0], [[sha256, 1.0] for sha256 in hashes[1:]]]])

    def _sha256(self, path: Path, *, is_loaded: bool) -> str | None:
        file = self._loaded.get(path)
        try:
            if file is None:
                file = self._seen.get(path)
                if file is None or not file.is_unchanged:
                    file = self._seen[path] = ModelFile(path)
            elif not is_loaded and not file.is_unchanged:
                return None
            sha256 = file.sha256_of_loaded()
        except OSError:
            return None
        return None if sha256 is None else sha256.hex()
