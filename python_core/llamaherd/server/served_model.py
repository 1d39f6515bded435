"""A loaded model with its context and the applications that answer with it."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from llamaherd.asks.options import GenerateOptions
from llamaherd.asks.requests import make_requests
from llamaherd.core.errors import ChatTemplateError
from llamaherd.core.outcome import Counts
from llamaherd.core.stats import Load
from llamaherd.loop.slot_times import NO_TIMES
from llamaherd.server.chats import with_defaults
from llamaherd.server.embeddings import EmbeddingsApi
from llamaherd.server.endpoints import endpoints_of
from llamaherd.server.file_contents import identity_of
from llamaherd.server.model_view import ShownModel

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.types import Receive

    from llamaherd.loop.slot_times import SlotTimes
    from llamaherd.model.model import Model
    from llamaherd.run.context import Context
    from llamaherd.server.model_view import InMemory
    from llamaherd.server.settings import ServerSettings
    from llamaherd.server.shared_state import SharedState

# Paths that a model for embeddings may answer.
_OF_VECTORS = ("/v1/embeddings", "/v1/rerank", "/v1/score")
_NO_LOAD = Load(n_running=0, n_waiting=0, n_slots=0, n_prefixes=0, n_ctx=0)


class LoadedModel:
    """A model in memory with its context.

    Args:
        model: Model.
        ctx: Context of the model; None for a model that computes embeddings only.
    """

    def __init__(self, model: Model, ctx: Context | None) -> None:
        self.model = model
        self.ctx = ctx

    @property
    def load(self) -> Load:
        """Running and waiting prompts."""
        return _NO_LOAD if self.ctx is None else self.ctx.load

    @property
    def counts(self) -> Counts:
        """Counts of the engine."""
        return Counts() if self.ctx is None else self.ctx.loop.watched_counts()

    @property
    def slots(self) -> SlotTimes:
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
    """A model in memory that answers requests.

    Args:
        shared: State shared by all requests.
        loaded: Model with its context.
        settings: Settings of the server, with the names of this model.
        embedding_model: Model for embeddings; None to use this model.

    Attributes:
        endpoints: Application of each path, without `/v1`.

    Raises:
        ValueError: The model does not support the setting `thinking`.
        ChatTemplateError: The template of the settings cannot be used.
    """

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
        self._vectors = shared.threads.vectors()
        vectors = EmbeddingsApi(loaded.model, settings, self._vectors, embedding_model)
        self.endpoints = endpoints_of(shared, loaded.model, loaded.ctx, settings, vectors)

    def close(self) -> None:
        """End all requests and the threads of the model, and free the memory."""
        self._vectors.close()
        super().close()


def _warm_up(model: Model, settings: ServerSettings) -> None:
    """Compile the chat template, so that no request waits for it; check the settings.

    Raises:
        ValueError: The model does not support the setting `thinking`.
        ChatTemplateError: The template of the settings cannot be used.
    """
    options = GenerateOptions(chat=True, **with_defaults({}, settings))
    try:
        make_requests(model, ["Hello"], options)
    except ChatTemplateError:
        if settings.template is not None:
            raise


class OneModel:
    """`ModelView` of a server with one model, which is always loaded.

    Args:
        loaded: Model with its context.
        settings: Settings of the server.
        embedding_model: Model for embeddings; None if there is no such model.
    """

    has_several = False

    def __init__(
        self,
        loaded: LoadedModel,
        settings: ServerSettings,
        embedding_model: Model | None = None,
    ) -> None:
        self._loaded = loaded
        self._settings = settings
        self._embedding_model = embedding_model

    @property
    def load(self) -> Load:
        """Running and waiting prompts."""
        return self._loaded.load

    @property
    def counts(self) -> Counts:
        """Counts of the engine."""
        return self._loaded.counts

    @property
    def is_closed(self) -> bool:
        """Whether no prompts can run."""
        return self._loaded.is_closed

    def name_of(self, asked: str | None) -> str | None:
        """Return the name of the model for a request; None if `asked` is unknown."""
        if asked is not None and asked == self._settings.embedding_name:
            return asked
        name = self._settings.model_name if asked is None else asked
        return self._settings.name_of(name)

    def identity(self, asked: str | None, endpoint: str) -> str | None:
        """Return the identity of the model that answers; see `ModelView`."""
        if self.name_of(asked) is None:
            return None
        has_other = self._embedding_model is not None and endpoint in _OF_VECTORS
        others = [self._embedding_model] if has_other else []
        return identity_of([each for each in (self._loaded.model, *others) if each])

    @asynccontextmanager
    async def lease(
        self,
        name: str,
        receive: Receive,  # noqa: ARG002 - nobody waits
        *,
        is_patient: bool = False,  # noqa: ARG002
    ) -> AsyncIterator[InMemory]:
        """Return the model with this name, which is always in memory."""
        other = self._embedding_model
        if other is not None and name == self._settings.embedding_name:
            yield LoadedModel(other, None)
        else:
            yield self._loaded

    def slots(self) -> dict[str, SlotTimes]:
        """Return the times of the slots, by the name of the model."""
        return {self._settings.model_name: self._loaded.slots}

    def shown(self) -> list[ShownModel]:
        """Return an entry for each name of the model and for the model for embeddings."""
        own = self._settings.embedding_name
        names = [
            ShownModel(name=name, model=self._loaded.model)
            for name in self._settings.names
        ]
        if own is not None:
            names.append(ShownModel(name=own, model=self._embedding_model))
        return names
