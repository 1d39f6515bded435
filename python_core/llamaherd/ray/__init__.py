"""Computation on many machines with Ray: `map`, `Cluster` and `serve_app`."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from llamaherd.ray.cluster import Cluster as Cluster
    from llamaherd.ray.config import Config as Config
    from llamaherd.ray.processor import Processor as Processor
    from llamaherd.ray.processor import map as map  # noqa: A004 - as Ray names it
    from llamaherd.ray.serving import serve_app as serve_app

_HOMES = {
    "Cluster": "cluster",
    "Config": "config",
    "Processor": "processor",
    "map": "processor",
    "serve_app": "serving",
}
# Removed in 0.1; the messages stay for one version.
_REMOVED = {
    "Herd": 'with lh.ray.Cluster(lh.ray.Config("model.gguf", concurrency=2)) as cluster',
    "Annotator": 'lh.ray.map(lh.ray.Config("model.gguf"), task="classify", labels=...)',
}
__all__ = ["Cluster", "Config", "Processor", "map", "serve_app"]


def __getattr__(name: str) -> object:
    """Import a name on first use, so that only its optional packages are needed."""
    if name in _REMOVED:
        raise AttributeError(
            f"lh.ray.{name} was removed: use {_REMOVED[name]} (docs/cluster.md)"
        )
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
