"""Loads model files with their adapters, which then answer requests."""

from __future__ import annotations

import gc
import os
from abc import ABC, abstractmethod
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from llamaherd.calls.asks.options import GenerateOptions
from llamaherd.calls.asks.requests import make_requests
from llamaherd.calls.run.context import Context
from llamaherd.calls.run.embedders import reads_at_once
from llamaherd.engine.core.errors import (
    ChatTemplateError,
    LlamaHerdError,
    ModelLoadError,
)
from llamaherd.engine.core.stats import Load
from llamaherd.engine.core.words import spoken_in
from llamaherd.engine.memory.kv_cells import buffers_of_encoder
from llamaherd.engine.model.loading import ModelHeader, read_header
from llamaherd.engine.model.model import Model
from llamaherd.server.chats import with_defaults
from llamaherd.server.errors import JSON, ApiError
from llamaherd.server.formats import Served
from llamaherd.server.models.spec import FileContents, ModelSpec, cache_sizes, identity_of
from llamaherd.server.state import ModelStatus, RequestQueue

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Mapping, Sequence

    from llamaherd.engine.native.models import LoadInterrupt
    from llamaherd.server.settings import ServerSettings

    LoadFiles = Callable[[ModelSpec, int, LoadInterrupt], "ModelFiles"]


def stored_files(
    specs: Sequence[ModelSpec],
    load: LoadFiles,
    contents: FileContents,
    *,
    n_bytes: int,
    n_waiting: int,
    least: Sequence[int] | None = None,
) -> list[ServedFile]:
    """Return the files of a `ModelStore`, which share `n_bytes` of memory."""
    caches = cache_sizes([spec.n_bytes for spec in specs], n_bytes, least)
    return [
        ServedFile(spec, n_cache, n_waiting, load, contents)
        for spec, n_cache in zip(specs, caches, strict=True)
    ]


def load_files(
    spec: ModelSpec,
    n_cache: int,
    interrupt: LoadInterrupt,
    *,
    settings: ServerSettings,
    options: Mapping[str, Any],
    loading: Mapping[str, Any],
    contents: FileContents,
) -> ModelFiles:
    """Load a model, on any thread, with the adapters that can be loaded."""
    problems: dict[str, str] = {}
    contents.check(spec.path)
    with ExitStack() as stack, spoken_in(JSON):  # clients see why a model is not loaded
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
            served[name] = Served(model=model, settings=named, ctx=ctx)
            warm_up(served[name])
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

    served: dict[str, Served]  # the loaded ones by name, the model first
    problems: Mapping[str, str]  # reasons why adapters could not be loaded, by name
    n_cache: int  # bytes of all KV caches and buffers

    def close(self) -> None:
        """End all requests and free the memory."""
        for model in reversed(self.served.values()):  # adapters before their model
            model.close()
        gc.collect()  # asyncio leaves cycles of ended requests, which keep the model


# Paths that a model for embeddings may answer.
_OF_VECTORS = ("/v1/embeddings", "/v1/rerank", "/v1/score")


def warm_up(served: Served) -> None:
    """Compile the chat template, so that no request waits for it; check the settings.

    Raises:
        ValueError: The model does not support the setting `thinking`.
        ChatTemplateError: The template of the settings cannot be used.
    """
    if served.ctx is None:
        return
    options = GenerateOptions(chat=True, **with_defaults({}, served.settings))
    try:
        make_requests(served.model, ["Hello"], options)
    except ChatTemplateError:
        if served.settings.template is not None:
            raise


State = Literal["unloaded", "loading", "loaded", "unloading"]


class StoredModel(ABC):
    """A model of a `ModelStore`, with the requests that use it.

    The first of `names` is the name in answers; `used` is the number of the last request.
    """

    def __init__(self, names: tuple[str, ...], n_waiting: int) -> None:
        self.names = names
        self.queue = RequestQueue(self, n_waiting)
        self.n_leases = self.used = 0

    state: State = "loaded"
    is_closed = False  # whether no prompts can run any more

    @property
    @abstractmethod
    def served(self) -> Mapping[str, Served]:
        """The parts in memory by name, each once."""

    @abstractmethod
    def served_as(self, name: str) -> Served:
        """Return the part of a loaded model with this name."""

    @abstractmethod
    def header(self, name: str) -> Model | ModelHeader:
        """Return the metadata, without loading the model; safe on any thread."""

    @abstractmethod
    def identity(self, name: str, endpoint: str) -> str | None:
        """Return the identity of the model that answers, see `ModelStore`."""

    @abstractmethod
    def status(self, name: str) -> ModelStatus:
        """Return the data that pages show about one of the names."""

    @property
    def load(self) -> Load:
        """Running and waiting prompts of all parts."""
        return sum((model.load for model in self.served.values()), Load())


class OpenModel(StoredModel):
    """A model that its owner opened and closes: it is always in memory."""

    def __init__(self, served: Served) -> None:
        super().__init__(served.settings.names, served.settings.queue)
        self._served = served

    @property
    def is_closed(self) -> bool:  # type: ignore[override]
        return self._served.is_closed

    @property
    def served(self) -> Mapping[str, Served]:
        return {self.names[0]: self._served}

    def served_as(self, name: str) -> Served:  # noqa: ARG002
        return self._served

    def header(self, name: str) -> Model:  # noqa: ARG002
        return self._served.model

    def identity(self, name: str, endpoint: str) -> str | None:  # noqa: ARG002
        other = self._served.embedding_model if endpoint in _OF_VECTORS else None
        return identity_of([self._served.model, *([] if other is None else [other])])

    def status(self, name: str) -> ModelStatus:
        return ModelStatus(name=name, model=self._served.model)


class ServedFile(StoredModel):
    """A model file with its adapters, which is loaded when a request needs it."""

    state: State = "unloaded"

    def __init__(
        self,
        spec: ModelSpec,
        n_cache: int,
        n_waiting: int,
        load: LoadFiles,
        contents: FileContents,
    ) -> None:
        super().__init__(spec.names, n_waiting)
        self.spec = spec
        self.open = load
        self.n_weights = spec.n_bytes
        self.n_cache = n_cache  # bytes of all KV caches and buffers
        self._contents = contents
        self.loaded: ModelFiles | None = None
        self.load_s = 1.0  # duration of the last loading
        self.n_loads = self.n_unloads = self.n_failures = 0
        self.n_patient = 0  # requests of batches that wait until other models are idle
        # Requests that wait until the model is loaded.
        self.waiting: list[asyncio.Future[None]] = []
        self.failure = ""  # reason why the last loading failed
        self._header: tuple[object, ModelHeader] | None = None

    @property
    def name(self) -> str:
        """Name of the model."""
        return self.spec.name

    @property
    def n_bytes(self) -> int:
        """Memory in bytes that the loaded model takes."""
        return self.n_weights + self.n_cache

    @property
    def served(self) -> Mapping[str, Served]:
        return {} if self.loaded is None else self.loaded.served

    def served_as(self, name: str) -> Served:
        served = self.served.get(name)
        if served is None:
            problems = {} if self.loaded is None else self.loaded.problems
            raise self.not_loaded(name, problems.get(name, "it was unloaded"))
        return served

    def header(self, name: str) -> ModelHeader:
        state, entry = self.spec.state, self._header
        if entry is None or entry[0] != state:
            try:
                entry = self._header = (state, read_header(self.spec.path))
            except ModelLoadError as error:
                raise self.not_loaded(name, str(error)) from None
        return entry[1]

    def identity(self, name: str, endpoint: str) -> str | None:  # noqa: ARG002
        adapters = {adapter.name: adapter.path for adapter in self.spec.adapters}
        is_loaded = name in self.served
        return self._contents.identity(
            self.spec.path, adapters.get(name), is_loaded=is_loaded
        )

    def status(self, name: str) -> ModelStatus:
        served = self.served.get(name)
        is_base = name == self.name
        return ModelStatus(
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
        """Return the error of a file that cannot be loaded, without its folders."""
        for path in (self.spec.path, *(adapter.path for adapter in self.spec.adapters)):
            reason = reason.replace(f"{path.parent}{os.sep}", "")
        text = f"the model {name!r} cannot be loaded: {reason}"
        return ApiError(500, text, param="model", code="model_not_loaded")
