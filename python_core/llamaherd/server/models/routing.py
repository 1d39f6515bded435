"""Applications that answer each request with the model that it names."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from llamaherd.core import checks
from llamaherd.core.words import spoken_in
from llamaherd.server.answering import Endpoint
from llamaherd.server.endpoints import FIELDS
from llamaherd.server.errors import bad_field
from llamaherd.server.messages import send_json
from llamaherd.server.ollama import LATEST, ShowApi, asked_of_show, described
from llamaherd.server.work_api import other_model

if TYPE_CHECKING:
    from starlette.types import Receive, Send

    from llamaherd.server.models.registry import ModelRegistry
    from llamaherd.server.record import RequestRecord
    from llamaherd.server.shared_state import SharedState


class ByModel(Endpoint):
    """ASGI application of one path on a server with several models.

    Args:
        shared: State shared by all requests.
        models: Models of the server.
        path: Path without `/v1`.
    """

    def __init__(self, shared: SharedState, models: ModelRegistry, path: str) -> None:
        super().__init__(shared, FIELDS[path])
        self._models = models
        self._path = path

    async def answer(
        self,
        fields: dict[str, object],
        n_bytes: int,
        record: RequestRecord,
        receive: Receive,
        send: Send,
    ) -> None:
        """Answer one request with the model that it names; see `Endpoint`."""
        name = self._named(fields)
        record.model = name
        lease = self._models.lease(name, receive, is_patient=record.is_background)
        with spoken_in(record.terms):  # errors of models that cannot be loaded
            async with lease as served:
                endpoint = served.endpoints[self._path]
                await endpoint.answer(fields, n_bytes, record, receive, send)

    def _named(self, fields: dict[str, object]) -> str:
        """Return the name of the model of a request.

        Raises:
            ApiError: `model` is not text, or no model has this name.
        """
        asked = fields.get("model")
        if asked is not None and not isinstance(asked, str):
            text = f"model must be a string, not {checks.shown(asked)}"
            raise bad_field("model", text)
        return known_name(self._models, asked)


class ShowModels(Endpoint):
    """ASGI application of `/api/show`, which loads no model.

    Programs for Ollama send a request to `/api/show` for every model that they list.

    Args:
        shared: State shared by all requests.
        models: Models of the server.
    """

    def __init__(self, shared: SharedState, models: ModelRegistry) -> None:
        super().__init__(shared, ShowApi.fields)
        self._models = models

    async def answer(
        self,
        fields: dict[str, object],
        n_bytes: int,  # noqa: ARG002 - names are short
        record: RequestRecord,
        receive: Receive,  # noqa: ARG002 - a header is read at once
        send: Send,
    ) -> None:
        """Answer one request; see `Endpoint`."""
        asked = asked_of_show(fields)
        name = known_name(self._models, asked.removesuffix(LATEST))
        record.model = name
        pending = self._shared.threads.pool("long").submit(self._models.header, name)
        header = await asyncio.wrap_future(pending)
        shown = next(each for each in self._models.shown() if each.name == name)
        n_params = None if shown.model is None else shown.model.info.n_params
        await send_json(send, 200, described(header, n_params, shown.parent))


def known_name(models: ModelRegistry, asked: str | None) -> str:
    """Return the name of the model that answers a request.

    Raises:
        ApiError: No model has this name.
    """
    name = models.name_of(asked)
    if name is None:
        raise other_model(str(asked), models.names)
    return name
