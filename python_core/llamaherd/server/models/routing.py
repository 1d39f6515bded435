"""Applications that answer each request with the model that it names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llamaherd.server.answering import Endpoint
from llamaherd.server.fields import checked_string
from llamaherd.server.ollama import ShowApi, asked_of_show, described
from llamaherd.server.protocol import send_json
from llamaherd.server.routes import SHAPES
from llamaherd.server.shapes import other_model
from llamaherd.server.threads import run_on

if TYPE_CHECKING:
    from llamaherd.server.answering import JsonRequest
    from llamaherd.server.models.store import ModelStore
    from llamaherd.server.state import SharedState


class ByModel(Endpoint):
    """ASGI application of one path on a server with several models."""

    def __init__(self, shared: SharedState, models: ModelStore, path: str) -> None:
        super().__init__(shared, SHAPES[path])
        self._models = models
        self._path = path

    async def answer(self, request: JsonRequest) -> None:
        """Answer one request with the model that it names; see `Endpoint`."""
        record = request.record
        record.model = name = self._named(request.fields)
        lease = self._models.lease(name, request.receive, is_patient=record.is_background)
        async with lease as served:
            await served.endpoints[self._path].answer(request)

    def _named(self, fields: dict[str, object]) -> str:
        """Return the name of the model of a request."""
        asked = fields.get("model")
        name = None if asked is None else checked_string("model", asked)
        return known_name(self._models, name)


class ShowModels(Endpoint):
    """ASGI application of `/api/show`, which loads no model.

    Programs for Ollama send a request to `/api/show` for every model that they list.
    """

    def __init__(self, shared: SharedState, models: ModelStore) -> None:
        super().__init__(shared, ShowApi)
        self._models = models

    async def answer(self, request: JsonRequest) -> None:
        """Answer one request; see `Endpoint`."""
        asked = asked_of_show(request.fields)
        request.record.model = name = known_name(self._models, asked)
        threads = self._shared.threads.pool("long")
        header = await run_on(threads, lambda: self._models.header(name))
        shown = next(each for each in self._models.shown() if each.name == name)
        n_params = None if shown.model is None else shown.model.info.n_params
        body = described(header, n_params, shown.parent)
        await send_json(request.send, 200, body)


def known_name(models: ModelStore, asked: str | None) -> str:
    """Return the name of the model that answers a request."""
    name = models.name_of(asked)
    if name is None:
        raise other_model(str(asked), models.names)
    return name
