"""Computation on many machines with a Ray cluster."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from llamaherd.ray.data import Annotator as Annotator
    from llamaherd.ray.herd import Herd as Herd

_HOMES = {"Annotator": "llamaherd.ray.data", "Herd": "llamaherd.ray.herd"}
__all__ = ["Annotator", "Herd"]


def __getattr__(name: str) -> object:
    """Import a name on first use, so that only its optional packages are needed."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
