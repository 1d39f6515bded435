"""Requests without streams: embeddings, scores, labels, tokens."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from llamaherd.core import checks
from llamaherd.core.words import spoken_in, words
from llamaherd.run.hosted import HostedCall
from llamaherd.server.answering import Computing
from llamaherd.server.awaited import AwaitedWork
from llamaherd.server.costs import check_form
from llamaherd.server.errors import ApiError, bad_field
from llamaherd.server.messages import encoded, send_json
from llamaherd.server.neutral import check_of_client

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from starlette.types import Send

    from llamaherd.run.hosted import Steps
    from llamaherd.run.job import Runnable
    from llamaherd.server.record import RequestRecord
    from llamaherd.server.running import Running
    from llamaherd.server.settings import ServerSettings
    from llamaherd.server.shared_state import SharedState
    from llamaherd.server.work_threads import Submitting, VectorThread

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Prepared(Generic[_T]):
    """Checked request.

    Attributes:
        work: Job that computes the results.
        render: Function that converts the results to the body of the answer.
        thread: Thread of a job that computes vectors; None for other jobs.
    """

    work: Runnable[_T]
    render: Callable[[_T], object]
    thread: VectorThread | None = None


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


class Working(Computing):
    """ASGI application of one API without streams.

    Args:
        shared: State shared by all requests.
        shape: Format of requests and answers.
    """

    def __init__(self, shared: SharedState, shape: WorkShape) -> None:
        super().__init__(shared, shape.fields)
        self._shape = shape

    async def compute(
        self,
        fields: dict[str, object],
        n_bytes: int,
        record: RequestRecord,
        running: Running,
        send: Send,
    ) -> None:
        """See `Computing`."""
        first, own = self._pools(fields, n_bytes, record)

        def start() -> _Started[Any] | bytes:
            check_form(fields, n_bytes)
            started = self._start(fields, own, record)
            if not isinstance(started, bytes):
                running.handle = started.job
            return started

        started = await running.prepared(first, start)
        if isinstance(started, bytes):
            await send_json(send, 200, started)
            return
        results = await running.outcome()
        body = await asyncio.wrap_future(own.submit(started.body, results))
        await send_json(send, 200, body)

    def _start(
        self, fields: dict[str, object], own: Submitting, record: RequestRecord
    ) -> _Started[Any] | bytes:
        """Check a request and start its work, or return the body of its answer.

        Args:
            fields: Fields of the request.
            own: Threads for steps of the work that do not wait.
            record: Record of the request.
        """
        with spoken_in(record.terms):
            made = self._shape.prepare(fields)
        if isinstance(made, dict):
            return encoded(made)
        threads = own
        if made.thread is not None:
            threads = made.thread.turns(is_background=record.is_background)
        elif not (isinstance(made.work, HostedCall) and made.work.is_stepped):
            is_background = record.is_background
            threads = self._shared.threads.pool("codes", is_background=is_background)
        return _Started(made, record, threads)


class _Started(Generic[_T]):
    """Work of a request, started at once.

    Args:
        made: Checked request.
        record: Record of the request, which gets the statistics of the work.
        threads: Threads of the work.

    Attributes:
        job: Job of the work.
    """

    def __init__(
        self, made: Prepared[_T], record: RequestRecord, threads: Submitting
    ) -> None:
        self._made = made
        self._record = record
        self.job: AwaitedWork[_T] = AwaitedWork(self, threads)

    def cancel(self) -> None:
        self._made.work.cancel()

    def steps(self) -> Steps[_T]:
        """Compute the results in steps."""
        with spoken_in(self._record.terms):
            work: Any = self._made.work
            results: Any = (
                (yield from work.steps()) if isinstance(work, HostedCall) else work.run()
            )
            # The tokens are counted even if the request ends with the error of one text.
            self._record.stats = results.stats
            return results  # type: ignore[no-any-return]

    def body(self, results: _T) -> bytes:
        """Return the body of the answer, as JSON."""
        with spoken_in(self._record.terms):
            return encoded(self._made.render(results))


def given_fields(
    fields: Mapping[str, object],
    names: frozenset[str],
    needed: Collection[str] = (),
    check: Callable[[str, object, Collection[str]], None] = check_of_client,
) -> dict[str, object]:
    """Return the fields that have an effect; a field with null counts as missing.

    Args:
        fields: Fields of the request.
        names: Known fields.
        needed: Fields that a request must have.
        check: Check of a field without an effect; its arguments are the field, its value
            and the known fields.

    Raises:
        ApiError: A field is unknown or not supported, a needed field is missing, or a
            field without an effect has a wrong type.
    """
    given = {}
    for name, value in fields.items():
        if name in names:
            if value is not None:
                given[name] = value
        else:
            check(name, value, names)
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


def check_answer_fits(name: str, n: int, n_ctx: int) -> None:
    """Check that an answer fits into the context, even after the shortest prompt.

    Args:
        name: Field with the maximum number of tokens of an answer.
        n: Its value.
        n_ctx: Maximum number of tokens of a prompt with its answer.

    Raises:
        ApiError: The answer does not fit.
    """
    if n >= n_ctx:
        raise ApiError(
            400,
            f"{name} is {n}, but a prompt and its answer may have {n_ctx} tokens",
            param=name,
            code="context_length_exceeded",
        )


def other_model(asked: str, names: Collection[str]) -> ApiError:
    """Return the error of a request for a model that this server does not have."""
    *firsts, last = (repr(name) for name in names)
    here = f"this server has the models {', '.join(firsts)} and {last}"
    hint = "/v1/models lists them"
    if not firsts:
        here, hint = f"this server has the model {last}", words().names
    return ApiError(
        404,
        f"{here}, not {checks.quoted(asked)} ({hint}){checks.meant(asked, names)}",
        param="model",
        code="model_not_found",
    )
