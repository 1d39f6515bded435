"""What goes wrong between a client and us, in the shape of OpenAI's API."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from llamaherd.core import checks
from llamaherd.core.errors import (
    AnswerError,
    ChatTemplateError,
    ContextClosedError,
    GenerationError,
    ModelClosedError,
    PromptError,
    TokenizeError,
)

if TYPE_CHECKING:
    from collections.abc import Collection

_KEY = re.compile(r"\['(\w+)'\]")  # of a message, as Python has it
_NAME = re.compile(r"[a-z_]+")
_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    405: "invalid_request_error",
    408: "invalid_request_error",
    413: "invalid_request_error",
    415: "invalid_request_error",
    422: "invalid_request_error",
    429: "rate_limit_error",
}
_NO_RETRY = (("x-should-retry", "false"),)  # OpenAI's clients obey it


class ApiError(Exception):
    """An answer that is an error.

    Args:
        status: Of HTTP.
        message: For people.
        param: The field of the request that is at fault.
        code: For programs.
        headers: More of them for the answer.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        headers: tuple[tuple[str, str], ...] = (),
    ) -> None:
        super().__init__(message)
        self.status = status
        self.headers = headers
        self.param = param
        self.code = code

    @property
    def body(self) -> dict[str, object]:
        """What the client gets."""
        return {
            "error": {
                "message": str(self),
                "type": _TYPES.get(self.status, "server_error"),
                "param": self.param,
                "code": self.code,
            }
        }


def bad_field(name: str, message: str) -> ApiError:
    """A field is wrong."""
    return ApiError(400, message, param=name, code="invalid_value")


def unknown_field(name: str, names: Collection[str] = ()) -> ApiError:
    """A field is none of those that there are.

    Args:
        name: Of the field.
        names: Those that there are.
    """
    shown = name if len(name) <= 60 else f"{name[:57]}..."
    return ApiError(
        400,
        f"{shown!r} is not supported here{checks.meant(name, names)}",
        param=shown,
        code="unsupported_parameter",
    )


def of_exception(error: Exception, names: Collection[str]) -> ApiError | None:
    """The answer for what the library raised; None: that is our own fault.

    Args:
        error: What was raised.
        names: Fields of the request, which messages of wrong values start with.
    """
    if isinstance(error, ApiError):
        return error
    if isinstance(error, (ContextClosedError, ModelClosedError)):
        return stopping()
    text = _reason(error)
    if isinstance(error, AnswerError):  # the same request may not do better
        return ApiError(422, text, code="schema_not_followed", headers=_NO_RETRY)
    if isinstance(error, GenerationError) and not isinstance(error, PromptError):
        return ApiError(500, text, code="generation_failed")
    if not isinstance(error, (PromptError, TypeError, ValueError)):
        return None
    asks = "messages" if "messages" in names else "prompt"
    text = text.replace("prompts[0]", asks)  # the library always has a list of them
    text = _KEY.sub(r".\1", text)
    first = _NAME.match(text)
    param = first.group() if first and first.group() in names else None
    code = "invalid_value"
    if isinstance(error, PromptError) and param is None:
        param = asks
        code = "context_length_exceeded" if "shorten" in text else "invalid_prompt"
    elif isinstance(error, ChatTemplateError):
        param, code = asks, "chat_template"
    elif isinstance(error, TokenizeError):
        param, code = asks, "invalid_prompt"
    return ApiError(400, text, param=param, code=code)


def _reason(error: Exception) -> str:
    """The message of an error; of a prompt that failed the reason alone."""
    if isinstance(error, GenerationError) and len(error.results):
        return str(error.results[0].error)
    return str(error)


def stopping() -> ApiError:
    """The server ends."""
    return ApiError(
        503,
        "the server is stopping",
        code="stopping",
        headers=(("retry-after", "1"), ("connection", "close")),
    )


def too_slow(message: str) -> ApiError:
    """The request did not come in time."""
    return ApiError(
        408, message, code="request_timeout", headers=(("connection", "close"),)
    )


def timed_out(seconds: float) -> ApiError:
    """A request took too long. Trying it again would take as long."""
    return ApiError(
        504,
        f"the request took more than {seconds:g} s",
        code="timeout",
        headers=_NO_RETRY,
    )


def event(error: ApiError) -> str:
    """An error within a row of events, as OpenAI's clients look for it."""
    return f"data: {json.dumps(error.body)}\n\n"
