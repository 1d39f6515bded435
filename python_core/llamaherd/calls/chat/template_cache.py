"""Cache of properties of chat templates."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

_K = TypeVar("_K")
_V = TypeVar("_V")
_MOST = 64  # maximum number of templates


class TemplateCache(Generic[_K, _V]):
    """Values found for the latest templates, for several threads."""

    def __init__(self) -> None:
        self._found: dict[_K, _V] = {}
        self._lock = Lock()

    def get(self, key: _K, find: Callable[[], _V]) -> _V:
        """Return the value of a key; `find` computes it, outside the lock, if missing."""
        with self._lock:
            if key in self._found:
                return self._found[key]
        found = find()
        with self._lock:
            while len(self._found) >= _MOST:
                self._found.pop(next(iter(self._found)))
            return self._found.setdefault(key, found)
