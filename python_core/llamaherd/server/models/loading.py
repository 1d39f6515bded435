"""Loads model files with their adapters, which then answer requests."""

from __future__ import annotations

import os
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from llamaherd.calls.asks.options import GenerateOptions
from llamaherd.calls.asks.requests import make_requests
from llamaherd.calls.run.context import Context
from llamaherd.calls.run.embedders import reads_at_once
from llamaherd.engine.core.errors import ChatTemplateError, LlamaHerdError
from llamaherd.engine.core.outcome import Counts
from llamaherd.engine.core.stats import Load
from llamaherd.engine.loop.slot_times import NO_TIMES
from llamaherd.engine.memory.kv_cells import buffers_of_encoder
from llamaherd.engine.model.model import Model
from llamaherd.server.chats import with_defaults
from llamaherd.server.errors import ApiError
from llamaherd.server.models.spec import identity_of
from llamaherd.server.routes import endpoints_of
from llamaherd.server.shapes import Served
from llamaherd.server.state import RequestQueue, ShownModel, sum_of_loads

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from starlette.types import Receive

    from llamaherd.engine.loop.slot_times import SlotTimes
    from llamaherd.engine.native.models import LoadInterrupt
    from llamaherd.server.models.spec import FileContents, ModelSpec
    from llamaherd.server.settings import ServerSettings
    from llamaherd.server.state import InMemory, SharedState


def load_files(
    spec: ModelSpec,
    n_cache: int,
    interrupt: LoadInterrupt,
    *,
    shared: SharedState,
    settings: ServerSettings,
    options: Mapping[str, Any],
    loading: Mapping[str, Any],
    contents: FileContents,
) -> ModelFiles:
    """Load a model with its adapters, on any thread.

    An adapter that cannot be loaded does not affect the others.
    """
    problems: dict[str, str] = {}
    contents.check(spec.path)
    with ExitStack() as stack:
        base = stack.enter_context(Model(spec.path, interrupt=interrupt, **loading))
        contents.keep(spec.path, base.file)
        models = {spec.name: base}
        for adapter in spec.adapters:  # before the first context
            try:
                contents.check(adapter.path)
                models[adapter.name] = stack.enter_context(base.adapted(adapter.path))
                contents.keep(adapter.path, models[adapter.name].loras[-1].file)
            except LlamaHerdError as error:
                problems[adapter.name] = str(error)
        served = {}
        n_needed = 0
        for name, model in models.items():
            ctx = context_of(model, options)
            if ctx is not None:
                stack.enter_context(ctx)
                n_needed += ctx.limit_memory(n_cache // len(models))
            else:
                n_needed += buffers_of_encoder(model.metadata, model.info)
            named = settings.replaced(model_name=name, aliases=())
            served[name] = ServedModel(shared, LoadedModel(model, ctx), named)
        stack.pop_all()
    return ModelFiles(served, problems, n_needed)


def context_of(model: Model, options: Mapping[str, Any]) -> Context | None:
    """Return a context for a model; None for a model that only computes embeddings."""
    is_both = model.info.has_encoder and model.info.has_decoder  # no answers here
    only_embeds = reads_at_once(model) and not is_both
    return None if only_embeds else Context(model, **options)


@dataclass(eq=False, slots=True)
class ModelFiles:
    """A model and its adapters in memory."""

    served: dict[str, ServedModel]  # the loaded ones by name, the model first
    problems: Mapping[str, str]  # reasons why adapters could not be loaded, by name
    n_cache: int  # bytes of all KV caches and buffers

    def close(self) -> None:
        """End all requests and free the memory."""
        for model in reversed(self.served.values()):  # adapters before their model
            model.close()


# Paths that a model for embeddings may answer.
_OF_VECTORS = ("/v1/embeddings", "/v1/rerank", "/v1/score")
_NO_LOAD = Load(n_running=0, n_waiting=0, n_slots=0, n_prefixes=0, n_ctx=0)


@dataclass(eq=False)
class LoadedModel:
    """A model in memory with its context."""

    model: Model
    ctx: Context | None  # None for a model that computes embeddings only

    @property
    def load(self) -> Load:
        """Running and waiting prompts."""
        return _NO_LOAD if self.ctx is None else self.ctx.load

    @property
    def counts(self) -> Counts:
        """Counts of the engine."""
        return Counts() if self.ctx is None else self.ctx.loop.watched_counts()

    @property
    def slot_times(self) -> SlotTimes:
        """Times of the slots."""
        return NO_TIMES if self.ctx is None else self.ctx.loop.watched_slots()

    @property
    def is_closed(self) -> bool:
        """Whether no prompts can run."""
        return self.model.closed if self.ctx is None else self.ctx.closed

    def close(self) -> None:
        """End all requests and free the memory."""
        if self.ctx is not None:
            self.ctx.close()
        self.model.close()


class ServedModel(LoadedModel):
    """A model in memory that answers requests; `ModelView` of a server with one model.

    Attributes:
        endpoints: Application of each path, without `/v1`.

    Raises:
        ValueError: The model does not support the setting `thinking`.
        ChatTemplateError: The template of the settings cannot be used.
    """

    has_several = False

    def __init__(
        self,
        shared: SharedState,
        loaded: LoadedModel,
        settings: ServerSettings,
        embedding_model: Model | None = None,
    ) -> None:
        super().__init__(loaded.model, loaded.ctx)
        if loaded.ctx is not None:
            _warm_up(loaded.model, settings)
        self._settings = settings
        self._embedding_model = embedding_model
        served = Served(
            model=loaded.model,
            settings=settings,
            ctx=loaded.ctx,
            embedding_model=embedding_model,
        )
        self.endpoints = endpoints_of(shared, served)

    def name_of(self, requested: str | None) -> str | None:
        """Return the name of the model for a request; None if unknown."""
        if requested is not None and requested == self._settings.embedding_name:
            return requested
        name = self._settings.model_name if requested is None else requested
        return self._settings.name_of(name)

    def header(self, name: str) -> Model:
        """Return the model with this name, which has its metadata."""
        other = self._embedding_model
        is_other = other is not None and name == self._settings.embedding_name
        return other if is_other and other is not None else self.model

    def identity(self, requested: str | None, endpoint: str) -> str | None:
        """Return the identity of the model that answers; see `ModelView`."""
        if self.name_of(requested) is None:
            return None
        other = self._embedding_model if endpoint in _OF_VECTORS else None
        return identity_of([self.model] if other is None else [self.model, other])

    @asynccontextmanager
    async def lease(
        self,
        name: str,
        receive: Receive,  # noqa: ARG002 - nobody waits
        *,
        is_patient: bool = False,  # noqa: ARG002
    ) -> AsyncIterator[InMemory]:
        """Return the model with this name, which is always in memory."""
        model = self.header(name)
        yield self if model is self.model else LoadedModel(model, None)

    def slots(self) -> dict[str, SlotTimes]:
        """Return the times of the slots, by the name of the model."""
        return {self._settings.model_name: self.slot_times}

    def shown(self) -> list[ShownModel]:
        """Return an entry for each name of the model and for the model for embeddings."""
        other, names = self._settings.embedding_name, self._settings.names
        entries = [ShownModel(name=name, model=self.model) for name in names]
        if other is not None:
            entries.append(ShownModel(name=other, model=self._embedding_model))
        return entries


def _warm_up(model: Model, settings: ServerSettings) -> None:
    """Compile the chat template, so that no request waits for it; check the settings."""
    options = GenerateOptions(chat=True, **with_defaults({}, settings))
    try:
        make_requests(model, ["Hello"], options)
    except ChatTemplateError:
        if settings.template is not None:
            raise


@dataclass(eq=False, slots=True)
class ServedFile:
    """A model file with its adapters, its loading state and its requests."""

    spec: ModelSpec
    n_weights: int  # bytes
    n_cache: int  # bytes of all KV caches and buffers
    n_waiting: int  # maximum number of waiting requests
    state: Literal["unloaded", "loading", "loaded", "unloading"] = "unloaded"
    loaded: ModelFiles | None = None
    n_leases: int = 0  # requests that use the model
    used: int = 0  # number of the model's last request, counted over all models
    load_s: float = 1.0  # duration of the last loading
    n_loads: int = 0
    n_unloads: int = 0
    n_failures: int = 0
    n_patient: int = 0  # requests of batches that wait until other models are idle
    failure: str = ""  # reason why the last loading failed
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
    def served(self) -> Mapping[str, ServedModel]:
        """The model and the loaded adapters by name; empty if they are not loaded."""
        return {} if self.loaded is None else self.loaded.served

    @property
    def load(self) -> Load:
        """Running and waiting prompts of the model and its adapters."""
        return sum_of_loads(model.load for model in self.served.values())

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
            n_patient=self.n_patient,
        )

    def not_loaded(self, name: str, reason: str) -> ApiError:
        """Return the error of a model or adapter that cannot be loaded.

        Clients do not see the folders of files; the log has the whole message.
        """
        for path in (self.spec.path, *(adapter.path for adapter in self.spec.adapters)):
            reason = reason.replace(f"{path.parent}{os.sep}", "")
        text = f"the model {name!r} cannot be loaded: {reason}"
        return ApiError(500, text, param="model", code="model_not_loaded")
