"""A model file of a server, its loading state and its requests."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from llamaherd.server.errors import ApiError
from llamaherd.server.limits import RequestQueue
from llamaherd.server.model_view import ShownModel, sum_of_loads

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Mapping

    from llamaherd.core.stats import Load
    from llamaherd.native.models import LoadInterrupt
    from llamaherd.server.models.decision import State
    from llamaherd.server.models.spec import ModelSpec
    from llamaherd.server.served_model import ServedModel

_BATCH_PAUSE_S = 10.0  # more than the time until a refused request of a batch comes again


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
class Waiter:
    """A request that waits for a model.

    Attributes:
        future: Future that is done when the request has a lease of the model, or is
            refused.
        place: Number in the order of arrival.
        is_urgent: Whether the request has waited so long that models in use have to be
            unloaded.
    """

    future: asyncio.Future[None]
    place: int
    is_urgent: bool = False


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
        waiters: Requests that wait for the model.
        batch_since_s: Time since which requests of batches have waited for the model.
        batch_left_s: Time at which such a request last ended its wait; None if none has
            waited since the last loading.
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
    waiters: list[Waiter] = field(default_factory=list)
    batch_since_s: float = 0.0
    batch_left_s: float | None = None
    load_s: float = 1.0
    n_loads: int = 0
    n_unloads: int = 0
    n_failures: int = 0
    interrupt: LoadInterrupt | None = None
    was_interrupted: bool = False
    queue: RequestQueue = field(init=False)

    def __post_init__(self) -> None:
        self.queue = RequestQueue(self, self.n_waiting)

    def batch_wait_s(self, now_s: float) -> float:
        """Return for how long requests of batches have waited for the model.

        A request that got no memory in time comes again soon. A longer pause means that
        its batch has ended.
        """
        if self.batch_left_s is None or now_s - self.batch_left_s > _BATCH_PAUSE_S:
            self.batch_since_s = now_s
        self.batch_left_s = now_s
        return now_s - self.batch_since_s

    def end_loading(self) -> None:
        """Note that the loading has ended, with or without success."""
        self.interrupt = None
        self.batch_left_s = None

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
        return self.state == "loaded" and not self.is_held

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

    def refuse(self, error: ApiError) -> None:
        """Refuse all waiting requests."""
        waiters, self.waiters = self.waiters, []
        for waiter in waiters:
            if not waiter.future.done():
                waiter.future.set_exception(error)

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
