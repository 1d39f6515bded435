"""Requests without streams: embeddings, scores, labels, tokens."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from llamaherd.core import checks
from llamaherd.core.words import spoken_in
from llamaherd.server.answering import CONSTRAINING, Endpoint
from llamaherd.server.awaited import AwaitedWork
from llamaherd.server.errors import ApiError, bad_field, unknown_field
from llamaherd.server.messages import ClientGoneError, send_json
from llamaherd.server.neutral import is_of_client
from llamaherd.server.running import Running
from llamaherd.server.wording import JSON

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from starlette.types import Receive, Send

    from llamaherd.run.job import Runnable
    from llamaherd.server.record import RequestRecord
    from llamaherd.server.settings import ServerSettings
    from llamaherd.server.shared_state import SharedState

_T = TypeVar("_T")
MOST_ITEMS = 2048  # maximum number of prompts or texts of a request


@dataclass(frozen=True, slots=True)
class Prepared(Generic[_T]):
    """Checked request.

    Attributes:
        work: Job that computes the results.
        render: Function that converts the results to the body of the answer.
    """

    work: Runnable[_T]
    render: Callable[[_T], object]


class WorkShape(Protocol):
    """Protocol of an API without streams."""

    @property
    def fields(self) -> frozenset[str]:
        """Names of all fields of a request."""

    def prepare(self, fields: dict[str, object]) -> Prepared[Any] | dict[str, object]:
        """Check a request; return its job, or the answer itself if it takes little time.

        Raises:
            ApiError: A field is unknown or invalid.
            TypeError: A field has the wrong type.
            ValueError: A field is out of range.
        """


class Working(Endpoint):
    """ASGI application of one API without streams.

    Args:
        shared: State shared by all requests.
        shape: Format of requests and answers.
    """

    def __init__(self, shared: SharedState, shape: WorkShape) -> None:
        super().__init__(shared, shape.fields)
        self._shape = shape

    async def answer(
        self,
        fields: dict[str, object],
        n_bytes: int,  # noqa: ARG002 - texts are always read on other threads
        record: RequestRecord,
        receive: Receive,
        send: Send,
    ) -> None:
        """Answer one request."""
        is_compiled = not CONSTRAINING.isdisjoint(fields)
        pool = self._shared.compiling if is_compiled else self._shared.pool
        made = await asyncio.wrap_future(pool.submit(self._prepare, fields))
        if isinstance(made, dict):
            await send_json(send, 200, made)
            return
        job = AwaitedWork(made.work)
        timeout_s = None if record.is_background else self._shared.timeout_s
        running = self._shared.enter(Running(job, receive, timeout_s))
        try:
            results = await running.outcome()
            record.stats = results.stats
            body = await asyncio.wrap_future(
                self._shared.pool.submit(made.render, results)
            )
            await send_json(send, 200, body)
        except ApiError:
            if not running.is_gone:
                raise
            raise ClientGoneError from None
        finally:
            self._shared.leave(running)

    def _prepare(self, fields: dict[str, object]) -> Prepared[Any] | dict[str, object]:
        with spoken_in(JSON):
            return self._shape.prepare(fields)


def given_fields(
    fields: Mapping[str, object], names: frozenset[str], needed: Collection[str] = ()
) -> dict[str, object]:
    """Return the fields that have an effect; a field with null counts as missing.

    Args:
        fields: Fields of the request.
        names: Known fields.
        needed: Fields that a request must have.

    Raises:
        ApiError: A field is unknown, or a needed field is missing.
    """
    given = {}
    for name, value in fields.items():
        if name in names:
            if value is not None:
                given[name] = value
        elif not is_of_client(name, value):
            raise unknown_field(name, names)
    for name in needed:
        if name not in given:
            raise ApiError(400, f"{name} is missing", param=name, code="missing_field")
    return given


def check_model(given: Mapping[str, object], settings: ServerSettings) -> None:
    """Check that the request is for the model of this server.

    Raises:
        ApiError: The request names another model.
    """
    asked = given.get("model", settings.model_name)
    if not isinstance(asked, str):
        raise bad_field("model", f"model must be a string, not {checks.shown(asked)}")
    if settings.name_of(asked) is None:
        raise other_model(asked, settings.names)


def other_model(asked: str, names: Collection[str]) -> ApiError:
    """Return the error of a request for a model that this server does not have."""
    *firsts, last = (repr(name) for name in names)
    here = f"this server has the models {', '.join(firsts)} and {last}"
    hint = "/v1/models lists them"
    if not firsts:
        here, hint = f"this server has the model {last}", "see --alias and --any-model"
    return ApiError(
        404,
        f"{here}, not {checks.quoted(asked)} ({hint}){checks.meant(asked, names)}",
        param="model",
        code="model_not_found",
    )


def check_items(name: str, items: object) -> list[Any]:
    """Return a list of prompts or texts.

    Raises:
        ApiError: The value is not a list, or the list is too long.
    """
    if not isinstance(items, list) or not items:
        raise bad_field(name, f"{name} must be a list with at least one element")
    if len(items) > MOST_ITEMS:
        text = f"{name} has {len(items)} elements; a request may have {MOST_ITEMS}"
        raise bad_field(name, text)
    return items
