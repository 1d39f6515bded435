"""Models of a server by name, and the memory that they share."""

from __future__ import annotations

from contextlib import asynccontextmanager, nullcontext
from typing import TYPE_CHECKING

from llamaherd.core.errors import ModelLoadError
from llamaherd.model.header import read_header
from llamaherd.server.file_contents import FileContents
from llamaherd.server.model_view import sum_of_counts, sum_of_loads
from llamaherd.server.models.model_file import ServedFile, not_loaded
from llamaherd.server.models.residency import Residency
from llamaherd.server.models.spec import cache_sizes

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from starlette.types import Receive

    from llamaherd.core.outcome import Counts
    from llamaherd.core.stats import Load
    from llamaherd.loop.slot_times import SlotTimes
    from llamaherd.model.header import ModelHeader
    from llamaherd.native.models import LoadInterrupt
    from llamaherd.server.model_view import ShownModel
    from llamaherd.server.models.model_file import InMemoryFile
    from llamaherd.server.models.spec import ModelSpec
    from llamaherd.server.served_model import ServedModel

_PATIENCE_S = 10.0
_BATCH_PATIENCE_S = 600.0


class ModelRegistry:
    """`ModelView` of several models. A model is loaded when a request asks for it.

    Args:
        specs: Models; requests that name no model get the first.
        load: Function that loads a file; its other arguments are the memory for KV
            caches and buffers in bytes, and a flag that interrupts it.
        n_bytes: Memory of weights, KV caches and buffers of all models in bytes.
        n_waiting: Maximum number of waiting requests of each model.
        wait_s: Maximum time in seconds that a request waits for memory.
        any_model: Whether requests with an unknown name get the first model.
        least: Least memory for caches and buffers of each model in bytes, see
            `cache_sizes`.
        patience_s: Time in seconds after which models in use are unloaded for a waiting
            request.
        batch_patience_s: The same time for requests of batches.
        contents: Files that the server has loaded; None for no record of them.
    """

    has_several = True

    def __init__(
        self,
        specs: Sequence[ModelSpec],
        load: Callable[[ModelSpec, int, LoadInterrupt], InMemoryFile],
        *,
        n_bytes: int,
        n_waiting: int,
        wait_s: float,
        any_model: bool = False,
        least: Sequence[int] | None = None,
        patience_s: float = _PATIENCE_S,
        batch_patience_s: float = _BATCH_PATIENCE_S,
        contents: FileContents | None = None,
    ) -> None:
        weights = [spec.n_bytes for spec in specs]
        caches = cache_sizes(weights, n_bytes, least)
        self._files = [
            ServedFile(spec, n, n_cache, n_waiting)
            for spec, n, n_cache in zip(specs, weights, caches, strict=True)
        ]
        self._of_name = {name: file for file in self._files for name in file.spec.names}
        self._any_model = any_model
        self._contents = FileContents() if contents is None else contents
        self._headers: dict[str, tuple[object, ModelHeader]] = {}
        self._residency = Residency(
            self._files,
            load,
            n_bytes=n_bytes,
            wait_s=wait_s,
            patience_s=patience_s,
            batch_patience_s=batch_patience_s,
        )

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all models and adapters."""
        return tuple(self._of_name)

    def name_of(self, asked: str | None) -> str | None:
        """Return the name of the model for a request; None if `asked` is unknown."""
        first = next(iter(self._of_name))
        if asked is None:
            return first
        for name in (asked, asked.removesuffix(".gguf")):
            if name in self._of_name:
                return name
        return first if self._any_model else None

    def identity(self, asked: str | None, endpoint: str) -> str | None:  # noqa: ARG002
        """Return the identity of the model that answers; see `ModelView`."""
        name = self.name_of(asked)
        if name is None:
            return None
        file = self._of_name[name]
        spec = file.spec
        adapter = {each.name: each.path for each in spec.adapters}.get(name)
        is_loaded = name in file.served
        return self._contents.identity(spec.path, adapter, is_loaded=is_loaded)

    @asynccontextmanager
    async def lease(
        self, name: str, receive: Receive, *, is_patient: bool = False
    ) -> AsyncIterator[ServedModel]:
        """Load a model if it is not in memory, and keep it there within the block.

        Args:
            name: Name of the model.
            receive: Channel that reports a disconnect.
            is_patient: Whether models in use are unloaded for the request after
                `batch_patience_s`, not after `patience_s`.

        Raises:
            ApiError: The model can never fit, cannot be loaded, got no memory in time, or
                has too many waiting requests.
            ClientGoneError: The client disconnected while it waited.
        """
        file = self._of_name[name]
        with nullcontext() if is_patient else file.queue.slot():
            await self._residency.enter(file, name, receive, is_patient=is_patient)
            try:
                served = file.served.get(name)
                if served is None:
                    problems = {} if file.loaded is None else file.loaded.problems
                    reason = problems.get(name, "it was unloaded")
                    raise not_loaded(name, reason, file.spec)
                yield served
            finally:
                self._residency.leave(file)

    def header(self, name: str) -> ModelHeader:
        """Return the metadata of a model file without loading it; safe on any thread.

        Raises:
            ApiError: The file cannot be read.
        """
        spec = self._of_name[name].spec
        state = spec.state
        known = self._headers.get(spec.name)
        if known is None or known[0] != state:
            try:
                known = (state, read_header(spec.path))
            except ModelLoadError as error:
                raise not_loaded(name, str(error), spec) from None
            self._headers[spec.name] = known
        return known[1]

    def stop_loading(self) -> None:
        """Refuse requests that wait for a model, and interrupt the loading of models."""
        self._residency.stop_loading()

    async def close(self) -> None:
        """Refuse waiting requests, then unload all models."""
        await self._residency.close()

    @property
    def load(self) -> Load:
        """Running and waiting prompts of all models in memory."""
        return sum_of_loads(file.load for file in self._files)

    @property
    def counts(self) -> Counts:
        """Counts of the engines of all models, including unloaded ones."""
        return sum_of_counts(
            [
                self._residency.past,
                *(x.counts for file in self._files for x in file.served.values()),
            ]
        )

    @property
    def is_closed(self) -> bool:
        """Whether no prompts can run."""
        return self._residency.is_closed

    def slots(self) -> dict[str, SlotTimes]:
        """Return the times of the slots of models and adapters in memory, by name."""
        served = (each for file in self._files for each in file.served.items())
        return {name: model.slots for name, model in served}

    def shown(self) -> list[ShownModel]:
        """Return the data that pages show about each model and adapter."""
        return [file.shown(name) for name, file in self._of_name.items()]
