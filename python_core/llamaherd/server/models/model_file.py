"""A model file of a server, its loading state and its requests."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

from llamaherd.server.errors import ApiError
from llamaherd.server.limits import RequestQueue
from llamaherd.server.model_view import ShownModel, sum_of_loads

if TYPE_CHECKING:
    from collections.abc import Mapping

    from llamaherd.core.stats import Load
    from llamaherd.native.models import LoadInterrupt
    from llamaherd.server.models.spec import ModelSpec
    from llamaherd.server.served_model import ServedModel

State = Literal["unloaded", "loading", "loaded", "unloading"]


class InMemoryFile(Protocol):
    """A model file in memory."""

    @property
    def served(self) -> Mapping[str, ServedModel]:
        """The model and its adapters by name."""

    @property
    def problems(self) -> Mapping[str, str]:
        """Reasons why adapters could not be loaded, by name of the adapter."""

    @property
    def n_cache(self) -> int:
        """Memory of all KV caches and buffers in bytes."""

    def has_changed(self, name: str) -> bool:
        """Whether the file of an adapter that could not be loaded has changed."""

    def close(self) -> None:
        """End all requests and free the memory."""


@dataclass(eq=False, slots=True)
class ServedFile:
    """A model file of a server.

    Attributes:
        spec: File with its adapters.
        n_weights: Memory of the weights in bytes.
        n_cache: Memory of all KV caches and buffers in bytes.
        n_waiting: Maximum number of waiting requests.
        state: Loading state: "unloaded", "loading", "loaded" or "unloading".
        loaded: The model and its adapters in memory; None if they are not loaded.
        n_leases: Number of requests that use the model.
        used: Number of the model's last request, counted over all models.
        is_held: Whether new requests wait, because the model must be unloaded for another
            model.
        is_stale: Whether the model must be loaded again, because the file of a damaged
            adapter has changed.
        load_s: Duration of the last loading in seconds; 1 before the first loading.
        n_loads: Number of times that loading began.
        n_unloads: Number of times that the model was unloaded.
        n_failures: Number of times that loading failed.
        interrupt: Flag that interrupts the loading of the model; None if it is not being
            loaded.
        was_interrupted: Whether the last load was interrupted; the next load is not.
        queue: Limit on the requests for the model.
    """

    spec: ModelSpec
    n_weights: int
    n_cache: int
    n_waiting: int
    state: State = "unloaded"
    loaded: InMemoryFile | None = None
    n_leases: int = 0
    used: int = 0
    is_held: bool = False
    is_stale: bool = False
    load_s: float = 1.0
    n_loads: int = 0
    n_unloads: int = 0
    n_failures: int = 0
    interrupt: LoadInterrupt | None = None
    was_interrupted: bool = False
    queue: RequestQueue = field(init=False)

    def __post_init__(self) -> None:
        self.queue = RequestQueue(self, self.n_waiting)

    @property
    def name(self) -> str:
        """Name of the model."""
        return self.spec.name

    @property
    def n_bytes(self) -> int:
        """Memory in bytes that the loaded model takes."""
        return self.n_weights + self.n_cache

    @property
    def is_ready(self) -> bool:
        """Whether requests can use the model now."""
        return self.state == "loaded" and not self.is_held and not self.is_stale

    @property
    def served(self) -> Mapping[str, ServedModel]:
        """The model and the loaded adapters by name; empty if they are not loaded."""
        loaded = self.loaded
        return {} if loaded is None else loaded.served

    @property
    def load(self) -> Load:
        """Running and waiting prompts of the model and its adapters."""
        return sum_of_loads(each.load for each in self.served.values())

    def measure(self) -> None:
        """Update the size of an unloaded model, whose files may have been replaced."""
        if self.state == "unloaded":
            self.n_weights = self.spec.n_bytes

    def note_changes(self, name: str) -> None:
        """Note whether an idle model must be loaded again for a damaged adapter."""
        loaded = self.loaded
        if loaded is not None and not self.n_leases and name not in loaded.served:
            self.is_stale = self.is_stale or loaded.has_changed(name)

    def shown(self, name: str) -> ShownModel:
        """Return the data that pages show about the model or one of its adapters."""
        served = self.served.get(name)
        is_base = name == self.name
        return ShownModel(
            name=name,
            parent=None if is_base else self.name,
            state=self.state,
            model=None if served is None else served.model,
            load=None if served is None else served.load,
            size_bytes=self.n_weights,
            n_bytes=self.n_bytes if self.state != "unloaded" and is_base else 0,
            n_loads=self.n_loads,
            n_unloads=self.n_unloads,
            n_failures=self.n_failures,
        )


def not_loaded(name: str, reason: str, spec: ModelSpec) -> ApiError:
    """Return the error of a model that cannot be loaded.

    Args:
        name: Name of the model or of an adapter.
        reason: Message of the library. Clients do not see the folders of files; the log
            has the whole message.
        spec: Files of the model.
    """
    for path in (spec.path, *(each.path for each in spec.adapters)):
        reason = reason.replace(f"{path.parent}{os.sep}", "")
    return ApiError(
        500,
        f"the model {name!r} cannot be loaded: {reason}",
        param="model",
        code="model_not_loaded",
    )
