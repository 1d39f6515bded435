"""Errors of requests in the format of OpenAI's API, in the terms of JSON."""

from __future__ import annotations

import json
import logging
import math
import traceback
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from llamaherd.engine.core import checks
from llamaherd.engine.core.argument import Argument
from llamaherd.engine.core.errors import (
    AbiMismatchError,
    BadArgumentError,
    ChatTemplateError,
    ContextClosedError,
    ContextError,
    Failure,
    GenerationError,
    ModelClosedError,
    ModelLoadError,
    SamplerError,
    TokenizeError,
)
from llamaherd.engine.core.words import OF_LANGUAGES, LanguageTerms

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

log = logging.getLogger(__name__)

_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    405: "invalid_request_error",
    409: "invalid_request_error",
    413: "invalid_request_error",
    415: "invalid_request_error",
    422: "invalid_request_error",
    429: "rate_limit_error",
}
WITH_PARTS = ("messages", "stream_options")  # objects whose fields OpenAI's errors name
# Fields with prompts, and with a system text, in this and in other APIs.
_PROMPTS = ("messages", "prompts", "input", "texts", "prompt")
_SYSTEMS = frozenset(("system", "system_prompt", "instructions"))
# Codes of errors, by the code of the failure that a prompt itself causes.
_OF_PROMPTS = {
    **dict.fromkeys(("missing", "empty", "not_tokenized"), "invalid_prompt"),
    "too_long": "context_length_exceeded",
    "chat_template": "chat_template",
}
_LONGEST_RETRY_S = 60  # common clients do not wait longer
_NO_RETRY = (("x-should-retry", "false"),)  # OpenAI's clients read this header


class ApiError(Exception):
    """Error response; `param` is the field of the request that causes it."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        headers: tuple[tuple[str, str], ...] = (),
        details: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.headers = headers
        self.param = param
        self.code = code
        self.details = details  # what Anthropic's clients read to go on

    @property
    def body(self) -> dict[str, object]:
        """Body of the response."""
        error: dict[str, object] = {
            "message": str(self),
            "type": _TYPES.get(self.status, "server_error"),
            "param": self.param,
            "code": self.code,
        }
        if self.details is not None:
            error["details"] = self.details
        return {"type": "error", "error": error}


def bad_field(name: str, message: str) -> ApiError:
    """Return the error of an invalid field."""
    return ApiError(400, message, param=name, code="invalid_value")


def unknown_field(name: str, names: Collection[str] = ()) -> ApiError:
    """Return the error of an unknown field."""
    short_name = name if len(name) <= 60 else f"{name[:57]}..."
    alias = next((other for other in _PROMPTS if name in _PROMPTS and other in names), "")
    hint = f"; did you mean {alias!r}?" if alias else checks.meant(name, names)
    if name in _SYSTEMS and "messages" in names and _SYSTEMS.isdisjoint(names):
        hint = '; send it in messages, as a message with the role "system"'
    return ApiError(
        400,
        f"{short_name!r} is not supported here{hint}",
        param=short_name,
        code="unsupported_parameter",
    )


@contextmanager
def renaming_fields(names: Mapping[str, str]) -> Iterator[None]:
    """Name fields of the request, not arguments, in errors that the block raises."""
    try:
        yield
    except BadArgumentError as error:
        name = names.get(error.argument)
        raise error if name is None else error.moved(argument=name) from None
    except (GenerationError, SamplerError) as error:
        reason = _reason(error) if isinstance(error, GenerationError) else error
        name = names.get(reason.argument)
        if name is None:
            raise
        # Messages about a constraint begin with the name of its argument.
        text = str(reason) if name == reason.argument else f"{name}: {reason}"
        raise bad_field(name, text) from None


def of_exception(error: Exception, names: Collection[str]) -> ApiError | None:
    """Convert an exception of the library to a response; None for an internal error."""
    if isinstance(error, ApiError):
        return error
    if isinstance(error, (ContextError, ModelClosedError)):
        return _of_context(error)
    if isinstance(error, BadArgumentError):
        return _of_argument(error, names)
    if isinstance(error, (AbiMismatchError, GenerationError, ModelLoadError)):
        return _of_failure(error, names)
    if not isinstance(error, (TypeError, ValueError)):
        return None
    param, code = None, "invalid_value"
    if isinstance(error, SamplerError) and error.argument in names:
        param = error.argument
    elif isinstance(error, ChatTemplateError):
        param, code = _asks(names), "chat_template"
    elif isinstance(error, TokenizeError):
        param, code = _asks(names), "invalid_prompt"
    return ApiError(400, str(error), param=param, code=code)


def _of_context(error: ContextError | ModelClosedError) -> ApiError:
    """Return the error of a context that was closed, or that cannot be created."""
    if isinstance(error, (ContextClosedError, ModelClosedError)):
        return stopping()
    return ApiError(500, f"no context: {error}", code="context_not_created")


def _asks(names: Collection[str]) -> str:
    """Return the field that contains the prompt."""
    return next((name for name in _PROMPTS if name in names), "prompt")


def _of_argument(error: BadArgumentError, names: Collection[str]) -> ApiError:
    """Return the error of an invalid argument, with the name of the request field."""

    def field(argument: Argument) -> Argument:
        if argument.name == "prompts" and "prompts" not in names:
            # The library accepts a list of prompts, but a request has one prompt.
            return Argument(_asks(names), argument.place[1:])
        if argument.name == "variables" and "variables" not in names:
            return Argument("chat_template_kwargs", argument.place)
        return argument

    where = field(Argument(error.argument, error.place))
    param = None
    if where.name.partition(".")[0] in names:
        param = where.dotted() if where.name in WITH_PARTS else where.name
    text = error.rendered(lambda argument: field(argument).dotted())
    return ApiError(400, text, param=param, code="invalid_value")


def _of_failure(
    error: AbiMismatchError | GenerationError | ModelLoadError, names: Collection[str]
) -> ApiError:
    """Return the error of a prompt that failed, or of what cannot be computed here."""
    if isinstance(error, AbiMismatchError):  # an llguidance that refuses constraints
        return ApiError(501, str(error), code="not_supported", headers=_NO_RETRY)
    if isinstance(error, ModelLoadError):
        text = f"{error}; start the server with --embedding-model FILE"
        return ApiError(400, text, param="model", code="no_embeddings")
    reason = _reason(error)
    if reason.code == "schema_not_followed":  # a retry would probably fail again
        return ApiError(422, reason, code=reason.code, headers=_NO_RETRY)
    if reason.code == "constraint":
        param = reason.argument if reason.argument in names else None
        return ApiError(400, reason, param=param, code="invalid_value")
    return of_text(reason, reason.code, _asks(names))


def _reason(error: GenerationError) -> Failure:
    reason = error.results[0].error if len(error.results) else str(error)
    return reason if isinstance(reason, Failure) else Failure(str(reason))


def of_text(message: str, code: str | None, param: str) -> ApiError:
    """Return the error of a prompt or text that failed with a code of `Failure`."""
    if code in _OF_PROMPTS:
        return ApiError(400, message, param=param, code=_OF_PROMPTS[code])
    return ApiError(500, message, code="generation_failed")


def retry_after(wait_s: float) -> tuple[tuple[str, str], ...]:
    """Return the header of a request that may succeed after some seconds."""
    return (("retry-after", str(min(_LONGEST_RETRY_S, max(1, math.ceil(wait_s))))),)


def internal(error: Exception) -> ApiError:
    """Log an error without its message, which may contain a prompt; return a response."""
    frames = "".join(traceback.format_tb(error.__traceback__))
    log.error("%s\n%s", type(error).__name__, frames)
    return ApiError(500, "an internal error of the server; see its log")


def stopping() -> ApiError:
    """Return the error of a request that arrives during shutdown."""
    return ApiError(
        503,
        "the server is stopping",
        code="stopping",
        headers=(("retry-after", "1"), ("connection", "close")),
    )


def not_stored(reason: str) -> ApiError:
    """Return the error of a request whose data the server cannot read or write."""
    return ApiError(
        507,
        f"the server cannot use its data on disk ({reason}): free space there, and "
        "send the request again",
        code="storage_failed",
        headers=_NO_RETRY,
    )


def timed_out(seconds: float) -> ApiError:
    """Return the error of a request that took too long; a retry would take as long."""
    return ApiError(
        504,
        f"the request took more than {seconds:g} s",
        code="timeout",
        headers=_NO_RETRY,
    )


_MOST_SHOWN = 60  # characters of a value in a message


class _Json(LanguageTerms):
    """Terms of JSON, such as true and null instead of True and None."""

    __slots__ = ()

    def model(self, model: object) -> str:  # noqa: ARG002 - clients see no path
        return "the model"

    def constant(self, value: bool | None) -> str:
        return json.dumps(value)

    def literal(self, value: object) -> str:
        return json.dumps(value, ensure_ascii=False)

    def setting(self, name: str, value: object) -> str:
        return f'"{name}": {self.literal(value)}'

    def value(self, value: object, text: str) -> str:
        try:
            text = self.literal(value)
        except (TypeError, ValueError):  # the value is not from the request
            return text
        return text if len(text) <= _MOST_SHOWN else f"{text[: _MOST_SHOWN - 3]}..."


JSON = _Json(
    language="JSON",
    scale='{"from": 0, "to": 10}',
    quote='{"type": "string", "quote": {"most": 20}}',
    chat='"chat": true',
    thinking="an object",
    markers='"thinking": {"start": ..., "end": ...}',
    template="use /v1/completions, or start the server with --template FILE",
    frame="table",
    let_code="let people code it first",
    functions=(
        ("annotate", "/v1/annotate"),
        ("classify", "/v1/classify"),
        ("generate", "/v1/completions"),
    ),
    elsewhere=OF_LANGUAGES,
)
# Terms for paths whose requests have no field `chat`.
JSON_WITHOUT_CHAT = replace(JSON, chat="/v1/chat/completions")
