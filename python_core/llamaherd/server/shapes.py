"""Formats of requests and answers.

A `PathFormat` is the format of one path. It declares the fields of requests once:
options of the library, and JSON Schemas of its other fields. Checks of field names, the
OpenAPI document and the documentation of fields are derived from the declaration.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

from llamaherd.calls.run.hosted import HostedCall
from llamaherd.engine.core import checks
from llamaherd.engine.core.declaration import Options, options_of
from llamaherd.engine.core.words import words
from llamaherd.server.errors import ApiError, unknown_field
from llamaherd.server.fields import FIELDS, OF_CLIENTS, checked_string
from llamaherd.server.protocol import dumps
from llamaherd.server.schemas import Schema, or_null
from llamaherd.server.threads import VectorThreads

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from llamaherd.calls.run.context import Context
    from llamaherd.calls.run.embedding import EmbedStats
    from llamaherd.calls.run.hosted import Steps
    from llamaherd.calls.run.job import Runnable
    from llamaherd.engine.core.outcome import TextPiece
    from llamaherd.engine.core.results import Result
    from llamaherd.engine.core.sampling import SamplingParams
    from llamaherd.engine.core.stats import Stats
    from llamaherd.engine.model.model import Model
    from llamaherd.server.fields import UnusedField
    from llamaherd.server.settings import ServerSettings
    from llamaherd.server.threads import VectorThread
    from llamaherd.server.tools import ToolUse

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A loaded model, as far as the formats need it."""

    model: Model  # model that answers
    settings: ServerSettings  # settings of the server, with the names of the model
    # Context of the model; None for a model that computes embeddings only.
    ctx: Context | None = None
    threads: VectorThreads = field(default_factory=VectorThreads)
    embedding_model: Model | None = None  # model for embeddings; None to use `model`


class PathFormat:
    """Base class of the formats of requests and answers.

    Attributes:
        path: Path; for OpenAI's API without `/v1`.
        summary: Sentence for the OpenAPI document.
        options: Options of the library that a request may have, and their interface; None
            if it has none.
        defaults: Defaults of options that differ from the library's.
        own: JSON Schemas of the other fields.
        needed: Fields that a request must have.
        unused: Fields without an effect that a request may have.
        fields: Names of all fields with an effect.
        answers: JSON Schema of an answer.
        has_v1: Whether the path is offered with and without `/v1`, because some clients
            of OpenAI's API omit `/v1`.
        in_batches: Whether requests of batches may use the path.
        media_type: Media type of streams.
        needs_text: Whether the path needs a model that generates text.
    """

    path: ClassVar[str]
    summary: ClassVar[str]
    options: ClassVar[tuple[type[Options], str] | None] = None
    defaults: ClassVar[Mapping[str, object]] = {}
    own: ClassVar[Mapping[str, Schema]] = {}
    needed: ClassVar[tuple[str, ...]] = ()
    unused: ClassVar[Mapping[str, UnusedField]] = OF_CLIENTS
    fields: ClassVar[frozenset[str]]
    answers: ClassVar[Schema]
    has_v1: ClassVar[bool] = True
    in_batches: ClassVar[bool] = False
    media_type: ClassVar[str] = "text/event-stream; charset=utf-8"
    needs_text: ClassVar[bool] = True

    def __init__(self, served: Served) -> None:
        self.served = served
        self._model = served.model
        self._settings = served.settings
        self._ctx: Any = served.ctx  # a context, if `needs_text`

    def __init_subclass__(cls) -> None:
        """Derive the names of the fields from the declaration."""
        options = {} if cls.options is None else options_of(*cls.options)
        cls.fields = frozenset((*options, *cls.own))

    @classmethod
    def shown_path(cls) -> str:
        """Return the path in documents; for OpenAI's API with `/v1`."""
        return f"/v1{cls.path}" if cls.has_v1 else cls.path

    @classmethod
    def error_event(cls, error: ApiError) -> str:
        """Return an error within a stream of events, which is its last event."""
        return f"data: {dumps(error.body)}\n\n"

    @classmethod
    def given(cls, fields: Mapping[str, object]) -> dict[str, object]:
        """Return the fields that have an effect; a field with null counts as missing."""
        return given_fields(fields, cls.fields, cls.needed, cls.unused)

    def checked(self, fields: Mapping[str, object]) -> dict[str, object]:
        """Return the fields of `given`, of a request for the model of this server."""
        given = self.given(fields)
        check_model(given, self._settings)
        return given

    @classmethod
    def request_schema(cls) -> Schema:
        """Return the JSON Schema of the body of a request."""
        found = cls.properties()
        found |= {n: each.schema for n, each in cls.unused.items() if n not in found}
        return {
            "type": "object",
            "properties": {
                name: each if name in cls.needed else or_null(each)
                for name, each in sorted(found.items())
            },
            **({"required": list(cls.needed)} if cls.needed else {}),
            "additionalProperties": False,
        }

    @classmethod
    def properties(cls) -> dict[str, Schema]:
        """Return the JSON Schemas of all fields with an effect, null left out."""
        found = {}
        options = {} if cls.options is None else options_of(*cls.options)
        for name, each in options.items():
            schema = {**each.kind.schema, "description": each.sentence}
            if each.name == "stream":  # "all" is of the library
                schema["enum"] = [True, False]
            default = cls.defaults.get(each.name, each.default)
            if isinstance(default, (bool, int, float, str)):
                schema["default"] = default
            found[name] = schema
        return {**found, **cls.own}


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedRequest:
    """Parsed request; `Context.submit` checks its values."""

    prompts: Sequence[Any]  # prompts for `Context.submit`; most requests have one prompt
    params: SamplingParams  # sampling settings
    # Other arguments of `Context.submit`.
    options: Mapping[str, Any] = field(default_factory=dict)
    n: int = 1  # number of answers to each prompt
    stream: bool = False  # whether to send pieces as they are generated
    with_usage: bool = True  # whether to end a stream with the usage
    # Whether each piece of a stream has the usage so far.
    with_running_usage: bool = False
    n_prompt_tokens: int = 0  # number of tokens of the prompt, for the usage so far
    # Functions that the answer may call; None if there are none.
    tools: ToolUse | None = None
    echo: bool = False  # whether the answer contains the prompt before the generated text
    # Number of alternatives whose log-probabilities the answer contains for each token
    # of the prompts; None for no log-probabilities.
    prompt_logprobs: int | None = None
    # Whether the text of an answer ends with the stop text that ended it.
    includes_stop: bool = False
    # Whether no tokens are generated; only if the answer contains the prompt.
    is_empty: bool = False
    # Field of the request by argument of the library, for errors.
    names: Mapping[str, str] = field(default_factory=dict)
    # Settings of the request that the answer repeats.
    repeated: Mapping[str, object] = field(default_factory=dict)

    @property
    def returns_prompts(self) -> bool:
        """Whether answers contain their prompts or the log-probabilities of prompts."""
        return self.echo or self.prompt_logprobs is not None

    @property
    def n_answers(self) -> int:
        """Number of answers."""
        return len(self.prompts) * self.n


class AnswerWriter(Protocol):
    """Writer of one answer, either as one piece or as events of a stream.

    Events are complete lines, ready to send.
    """

    def __init__(self, model: Model, model_name: str, parsed: ParsedRequest) -> None: ...

    def whole(self, results: Sequence[Result]) -> dict[str, object]:
        """Return all answers in one piece."""

    def start(self) -> str:
        """Return the events before the first piece."""

    def piece(self, piece: TextPiece) -> str:
        """Return the event of a piece of the thought or of the answer."""

    def end(self, results: Sequence[Result]) -> str:
        """Return the events after the last piece; for several answers, all events."""


class AnsweringShape(PathFormat, ABC):
    """Format whose answers are generated texts."""

    writer: ClassVar[type[AnswerWriter]]

    @abstractmethod
    def understand(self, fields: dict[str, object]) -> ParsedRequest:
        """Parse the fields of a request."""

    def answer(self, parsed: ParsedRequest) -> AnswerWriter:
        """Return the writer of the answer."""
        return self.writer(self._model, self._settings.model_name, parsed)


def counts(results: Sequence[Result]) -> tuple[int, int]:
    """Return the numbers of prompt tokens and of new tokens of answers.

    The tokens of a prompt are counted once for all of its samples. New tokens include
    tokens of thoughts.
    """
    n_prompt = sum(result.n_prompt_tokens for result in results if result.sample == 0)
    n_new = sum(each.n_thinking_tokens + each.n_generated_tokens for each in results)
    return n_prompt, n_new


def usage(results: Sequence[Result]) -> dict[str, object]:
    """Return the counts of tokens in the format of OpenAI's API.

    As in OpenAI's API, `completion_tokens` includes the tokens of the thought.
    """
    n_prompt, n_new = counts(results)
    n_reused = sum(result.n_reused_tokens for result in results if result.sample == 0)
    n_thinking = sum(each.n_thinking_tokens for each in results)
    thoughts = {"completion_tokens_details": {"reasoning_tokens": n_thinking}}
    return {
        "prompt_tokens": n_prompt,
        "completion_tokens": n_new,
        "total_tokens": n_prompt + n_new,
        "prompt_tokens_details": {"cached_tokens": n_reused},
        **(thoughts if n_thinking else {}),
    }


@dataclass(slots=True)
class Prepared(Generic[_T]):
    """Checked request, which is work of an `AwaitedWork`."""

    work: Runnable[_T]  # job that computes the results
    # Function that converts the results to the body of the answer.
    render: Callable[[_T], object]
    # Thread of a job that computes vectors; None for other jobs.
    thread: VectorThread | None = None
    # Statistics of the work, even if the request ends with the error of one text.
    stats: Stats | EmbedStats | None = None

    def cancel(self) -> None:
        """See `SteppedWork`."""
        self.work.cancel()

    def steps(self) -> Steps[_T]:
        """See `SteppedWork`."""
        work: Any = self.work
        is_stepped = isinstance(work, HostedCall)
        results: Any = (yield from work.steps()) if is_stepped else work.run()
        self.stats = results.stats
        return results  # type: ignore[no-any-return]


class WorkShape(PathFormat, ABC):
    """Format whose answers are never streamed."""

    @abstractmethod
    def prepare(self, fields: dict[str, object]) -> Prepared[Any] | dict[str, object]:
        """Check a request; return its job, or its answer if that takes little time."""


def given_fields(
    fields: Mapping[str, object],
    names: Collection[str],
    needed: Collection[str] = (),
    unused: Mapping[str, UnusedField] = OF_CLIENTS,
) -> dict[str, object]:
    """Return the fields that have an effect; a field with null counts as missing.

    A field of OpenAI's API or of similar servers may be null on each path with fields
    about clients.
    """
    given = {}
    for name, value in fields.items():
        if name in names:
            if value is not None:
                given[name] = value
        elif name in unused:
            unused[name].check(name, value)
        elif value is not None or not unused or name not in FIELDS:
            raise unknown_field(name, names)
    for name in needed:
        if name not in given:
            raise ApiError(400, f"{name} is missing", param=name, code="missing_field")
    return given


def check_model(given: Mapping[str, object], settings: ServerSettings) -> None:
    """Check that the request is for the model of this server."""
    asked = checked_string("model", given.get("model", settings.model_name))
    if settings.name_of(asked) is None:
        raise other_model(asked, settings.names)


def check_answer_fits(name: str, n: int, n_ctx: int) -> None:
    """Check that an answer fits into the context, even after the shortest prompt."""
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
