"""Models that a server can load."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from llamaherd.model.file import parts_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


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


def cache_sizes(weights: Sequence[int], n_bytes: int) -> list[int]:
    """Return the memory reserved for the KV caches of each model in bytes.

    The function finds the largest k such that the k largest models are in memory at once,
    each with caches of at least an eighth of its weights. Each model gets 1/k of the
    memory that the weights of these k models leave, and at least an eighth of its own
    weights. A model that does not fit alone gets an amount with which it needs more than
    `n_bytes`.

    Args:
        weights: Size of the weights of each model in bytes.
        n_bytes: Memory of all models in bytes.
    """
    share = 0
    total = needed = 0
    fitting = sorted((n for n in weights if n + n // 8 <= n_bytes), reverse=True)
    for n_models, n in enumerate(fitting, 1):
        total += n
        needed += n + n // 8
        if needed > n_bytes:
            break
        share = (n_bytes - total) // n_models
    return [max(share, n // 8) for n in weights]
