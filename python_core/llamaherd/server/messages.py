"""Bytes in, JSON; JSON, bytes out."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, NoReturn

from llamaherd.server.errors import ApiError

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from llamaherd.server.limits import Bodies

_JSON = (b"content-type", b"application/json")
_EVENTS = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),  # nginx would wait for more
)
# ASCII: some clients take U+2028 in an event for the end of a line.
_encoder = json.JSONEncoder(separators=(",", ":"), allow_nan=False, check_circular=False)
dumps = _encoder.encode


class ClientGoneError(Exception):
    """The client went away before it had asked."""


async def read_object(
    scope: Scope, receive: Receive, bodies: Bodies
) -> tuple[dict[str, object], int]:
    """The JSON object that a request has for a body, and the body's bytes.

    Raises:
        ApiError: It is too large, or no JSON object.
        ClientGoneError: The client went away.
    """
    body = bytearray()
    try:
        await _read(scope, receive, bodies, body)
        return parse_object(body), len(body)
    finally:
        bodies.give_back(len(body))


async def _read(scope: Scope, receive: Receive, bodies: Bodies, body: bytearray) -> None:
    """Fills `body`. What is too large is read to its end, within reason, and not kept.

    A client that is still writing would not read our answer.
    """
    n_read = 0
    is_too_large = _told_length(scope) > bodies.most
    more = True
    while more and n_read <= 16 * bodies.most:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGoneError
        part = message.get("body", b"")
        more = message.get("more_body", False)
        n_read += len(part)
        is_too_large = is_too_large or n_read > bodies.most
        if not is_too_large:
            body += part
            bodies.take(len(part))
    if is_too_large:
        raise ApiError(
            413,
            f"the body has more than {bodies.most} bytes",
            code="request_too_large",
            headers=(("connection", "close"),),
        )


def _told_length(scope: Scope) -> int:
    """The length that the headers tell; 0: none."""
    for name, value in scope["headers"]:
        if name == b"content-length":
            return int(value)  # the parser of HTTP refuses what is no number
    return 0


def parse_object(body: bytes | bytearray) -> dict[str, object]:
    """The fields of a JSON object.

    Raises:
        ApiError: It is none, is no UTF-8, or has what JSON has not.
    """
    try:
        value = json.loads(
            body.decode(), parse_constant=_refuse_constant, parse_float=_finite
        )
    except UnicodeDecodeError as error:
        raise _bad_json(f"the body is not UTF-8: {error.reason}") from None
    except RecursionError:
        raise _bad_json("the body is nested too deeply") from None
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise _bad_json(f"the body is not JSON: {error.msg}, {where}") from None
    except ValueError as error:  # of a number
        raise _bad_json(f"the body is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise _bad_json("the body must be a JSON object")
    return value


def _bad_json(message: str) -> ApiError:
    return ApiError(400, message, code="invalid_json")


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError("a number is too large")
    return number


async def send_json(
    send: Send,
    status: int,
    value: object,
    headers: tuple[tuple[str, str], ...] = (),
) -> None:
    """Answers with JSON."""
    await send_bytes(
        send,
        status,
        dumps(value).encode("ascii"),
        (_JSON, *((name.encode(), text.encode()) for name, text in headers)),
    )


async def send_bytes(
    send: Send, status: int, body: bytes, headers: tuple[tuple[bytes, bytes], ...]
) -> None:
    """Answers with a body that is there."""
    length = (b"content-length", str(len(body)).encode())
    await send(
        {"type": "http.response.start", "status": status, "headers": [*headers, length]}
    )
    await send({"type": "http.response.body", "body": body})


async def start_events(send: Send) -> None:
    """Starts an answer that is a row of server-sent events."""
    await send({"type": "http.response.start", "status": 200, "headers": list(_EVENTS)})


async def send_event(send: Send, event: str, *, is_last: bool = False) -> None:
    """Sends events that are written already."""
    await send(
        {
            "type": "http.response.body",
            "body": event.encode("ascii"),
            "more_body": not is_last,
        }
    )
