"""Requests that name the model that answers them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llamaherd.core import checks
from llamaherd.server.answering import Endpoint
from llamaherd.server.endpoints import FIELDS
from llamaherd.server.errors import bad_field
from llamaherd.server.ollama import LATEST
from llamaherd.server.work_api import other_model

if TYPE_CHECKING:
    from starlette.types import Receive, Send

    from llamaherd.server.models.registry import ModelRegistry
    from llamaherd.server.record import RequestRecord
    from llamaherd.server.shared_state import SharedState


class ByModel(Endpoint):
    """ASGI application of a path of several models.

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
        async with lease as served:
            endpoint = served.endpoints[self._path]
            await endpoint.answer(fields, n_bytes, record, receive, send)

    def _named(self, fields: dict[str, object]) -> str:
        """Return the name of the model of a request.

        Raises:
            ApiError: There is no such model.
        """
        field = "name" if "model" not in fields and "name" in self._fields else "model"
        asked = fields.get(field)
        if asked is not None and not isinstance(asked, str):
            text = f"{field} must be a string, not {checks.shown(asked)}"
            raise bad_field(field, text)
        name = self._models.name_of(asked)
        if name is None and asked is not None and "name" in self._fields:
            name = self._models.name_of(asked.removesuffix(LATEST))
        if name is None:
            raise other_model(str(asked), self._models.names)
        return name
