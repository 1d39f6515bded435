"""Formats of requests and answers.

A `PathFormat` is the format of one path. It declares the fields of requests once:
options of the library, and JSON Schemas of its other fields. Checks of field names, the
OpenAPI document and the documentation of fields are derived from the declaration.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from llamaherd.calls.run.hosted import HostedCall, Steps
from llamaherd.engine.core import checks
from llamaherd.engine.core.declaration import Options, options_of
from llamaherd.engine.core.outcome import Counts
from llamaherd.engine.core.stats import Load, Stats
from llamaherd.engine.core.words import words
from llamaherd.engine.loop.slot_times import NO_TIMES, SlotTimes
from llamaherd.server.errors import WITH_PARTS, ApiError, unknown_field
from llamaherd.server.protocol import dumps
from llamaherd.server.schemas import Schema, check_value, part
from llamaherd.server.unused_fields import OF_CLIENTS, UnusedField

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from llamaherd.calls.run.context import Context
    from llamaherd.calls.run.embedding import EmbedStats
    from llamaherd.calls.run.job import Runnable
    from llamaherd.engine.model.model import Model
    from llamaherd.server.answers import FormWriter
    from llamaherd.server.running import ParsedRequest
    from llamaherd.server.settings import ServerSettings
    from llamaherd.server.threads import Kind

_T = TypeVar("_T")


@dataclass(eq=False, slots=True, kw_only=True)
class Served:
    """A model in memory with its context."""

    model: Model
    settings: ServerSettings  # settings of the server, with the names of the model
    # Context of the model; None for a model that computes embeddings only.
    ctx: Context | None = None
    embedding_model: Model | None = None  # model for embeddings; None to use `model`

    @property
    def load(self) -> Load:
        """Running and waiting prompts."""
        return Load() if self.ctx is None else self.ctx.load

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


class PathFormat:
    """Base class of the formats of requests and answers."""

    path: ClassVar[str]  # path; for OpenAI's API without `/v1`
    summary: ClassVar[str]  # sentence for the OpenAPI document
    # Options of the library that a request may have, and their interface; None if it has
    # none.
    options: ClassVar[tuple[type[Options], str] | None] = None
    # Defaults of options that differ from the library's.
    defaults: ClassVar[Mapping[str, object]] = {}
    field_schemas: ClassVar[Mapping[str, Schema]] = {}  # JSON Schemas of the other fields
    needed: ClassVar[tuple[str, ...]] = ()  # fields that a request must have
    # Fields without an effect that a request may have.
    unused: ClassVar[Mapping[str, UnusedField]] = OF_CLIENTS
    fields: ClassVar[frozenset[str]]  # names of all fields with an effect
    answers: ClassVar[Schema]  # JSON Schema of an answer
    # Whether the path is offered with and without `/v1`, because some clients of OpenAI's
    # API omit `/v1`.
    has_v1: ClassVar[bool] = True
    in_batches: ClassVar[bool] = False  # whether requests of batches may use the path
    # Media type of streams.
    media_type: ClassVar[str] = "text/event-stream; charset=utf-8"
    # Whether the path needs a model that generates text.
    needs_text: ClassVar[bool] = True

    def __init__(self, served: Served) -> None:
        self.served = served
        self._model = served.model
        self._settings = served.settings
        self._ctx: Any = served.ctx  # a context, if `needs_text`

    def __init_subclass__(cls) -> None:
        """Derive the names of the fields from the declaration."""
        options = {} if cls.options is None else options_of(*cls.options)
        cls.fields = frozenset((*options, *cls.field_schemas))

    @classmethod
    def shown_path(cls) -> str:
        """Return the path in documents; for OpenAI's API with `/v1`."""
        return f"/v1{cls.path}" if cls.has_v1 else cls.path

    @classmethod
    def error_event(cls, error: ApiError) -> str:
        """Return an error within a stream of events, which is its last event."""
        return f"data: {dumps(error.body)}\n\n"

    @classmethod
    def effective_fields(cls, fields: Mapping[str, object]) -> dict[str, Any]:
        """Check the fields of a request; return those with an effect, null left out."""
        values = {}
        for name, value in fields.items():
            if value is None:
                continue
            if name in cls.fields:
                values[name] = value
            elif name in cls.unused:
                cls.unused[name].check(name, value)
            else:
                raise unknown_field(name, cls.fields)
        for name in cls.needed:
            if name not in values:
                raise ApiError(
                    400, f"{name} is missing", param=name, code="missing_field"
                )
        for name, value in values.items():
            if name in cls.field_schemas:
                param = "" if name in WITH_PARTS else name
                check_value(name, value, cls.field_schemas[name], param=param)
        return values

    @classmethod
    def request_schema(cls) -> Schema:
        """Return the JSON Schema of the body of a request."""
        schemas = {name: field.schema for name, field in cls.unused.items()}
        schemas |= cls.properties()
        needed = {name: schemas.pop(name) for name in cls.needed}
        return part(needed, **schemas)

    @classmethod
    def properties(cls) -> dict[str, Schema]:
        """Return the JSON Schemas of all fields with an effect, null left out."""
        schemas = {}
        options = {} if cls.options is None else options_of(*cls.options)
        for name, option in options.items():
            schema = {**option.kind.schema, "description": option.sentence}
            if option.name == "stream":  # "all" is of the library
                schema["enum"] = [True, False]
            default = cls.defaults.get(option.name, option.default)
            if isinstance(default, (bool, int, float, str)):
                schema["default"] = default
            schemas[name] = schema
        return {**schemas, **cls.field_schemas}


class AnswerFormat(PathFormat, ABC):
    """Format whose answers are generated texts."""

    writer: ClassVar[type[FormWriter]]

    @abstractmethod
    def understand(self, fields: dict[str, object]) -> ParsedRequest:
        """Parse the fields of a request."""

    def answer(self, parsed: ParsedRequest) -> FormWriter:
        """Return the writer of the answer."""
        return self.writer(self._model, self._settings.model_name, parsed)


@dataclass(slots=True)
class Prepared(Generic[_T]):
    """Checked request, which is work of an `AwaitedJob`."""

    work: Runnable[_T]  # job that computes the results
    # Function that converts the results to the body of the answer.
    render: Callable[[_T], object]
    kind: Kind = "codes"  # threads of a job that runs in one step
    # Statistics of the work, even if the request ends with the error of one text.
    stats: Stats | EmbedStats | None = None

    def cancel(self) -> None:
        self.work.cancel()

    def steps(self) -> Steps[_T]:
        work: Any = self.work
        is_stepped = isinstance(work, HostedCall) and work.is_stepped
        results: Any = (yield from work.steps()) if is_stepped else work.run()
        self.stats = results.stats
        return results  # type: ignore[no-any-return]


class WorkFormat(PathFormat, ABC):
    """Format whose answers are never streamed."""

    @abstractmethod
    def prepare(self, fields: dict[str, object]) -> Prepared[Any] | dict[str, object]:
        """Check a request; return its job, or its answer if that takes little time."""


def only_one(request: Mapping[str, object], *names: str) -> str:
    """Return the name of the one field, of several, that a request has."""
    present = [name for name in names if name in request]
    if len(present) != 1:
        text = f"the request needs {' or '.join(names)}, and only one of them"
        raise ApiError(400, text, param=names[0], code="missing_field")
    return present[0]


def check_answer_fits(name: str, n: int, n_ctx: int) -> None:
    """Check that an answer fits into the context, even after the shortest prompt."""
    if n >= n_ctx:
        raise ApiError(
            400,
            f"{name} is {n}, but a prompt and its answer may have {n_ctx} tokens",
            param=name,
            code="context_length_exceeded",
        )


def other_model(requested: str, names: Collection[str]) -> ApiError:
    """Return the error of a request for a model that this server does not have."""
    *firsts, last = (repr(name) for name in names)
    here = f"this server has the models {', '.join(firsts)} and {last}"
    hint = "/v1/models lists them"
    if not firsts:
        here, hint = f"this server has the model {last}", words().names
    similar = checks.meant(requested, names)
    return ApiError(
        404,
        f"{here}, not {checks.quoted(requested)} ({hint}){similar}",
        param="model",
        code="model_not_found",
    )
