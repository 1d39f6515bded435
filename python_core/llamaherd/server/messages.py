"""Bytes in, JSON; JSON, bytes out."""

from __future__ import annotations

import asyncio
import json
import math
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn

from llamaherd.server.errors import ApiError, too_slow

if TYPE_CHECKING:
    from starlette.types import Message, Receive, Scope, Send

    from llamaherd.server.connections import ConnectionLimits
    from llamaherd.server.limits import Bodies

_MOST_DIGITS = 19
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


class Incoming:
    """The body of a request as it comes in.

    Args:
        scope: Of the request.
        receive: Of the request.
        limits: How slow a client may be.

    Attributes:
        is_whole: Whether nothing of it is still to come.
    """

    def __init__(self, scope: Scope, receive: Receive, limits: ConnectionLimits) -> None:
        self._receive = receive
        self._limits = limits
        self._clock = asyncio.get_running_loop().time
        self._end_s = self._clock() + limits.body_s
        names = {name for name, _ in scope["headers"]}
        self.is_whole = not names & {b"content-length", b"transfer-encoding"}

    async def receive(self) -> Message:
        """The next message of the client's."""
        message = await self._receive()
        self._note(message)
        return message

    async def part(self) -> bytes:
        """The next part of the body; b"" may be one.

        Raises:
            ApiError: It did not come in time.
            ClientGoneError: The client went away.
        """
        left = self._end_s - self._clock()
        try:
            message = await asyncio.wait_for(
                self._receive(), min(self._limits.pause_s, left)
            )
        except asyncio.TimeoutError:
            raise too_slow("the body did not come in time") from None
        self._note(message)
        if message["type"] == "http.disconnect":
            raise ClientGoneError
        body: bytes = message.get("body", b"")
        return body

    async def drain(self) -> None:
        """Reads and drops the rest, within limits.

        A client that is still writing would otherwise not read our answer.
        """
        self._end_s = self._clock() + self._limits.drain_s
        n_left = self._limits.drain_bytes
        with suppress(ApiError, ClientGoneError):
            while not self.is_whole and n_left > 0:
                n_left -= len(await self.part())

    def _note(self, message: Message) -> None:
        self.is_whole = self.is_whole or not message.get("more_body", False)


async def read_object(
    scope: Scope, incoming: Incoming, bodies: Bodies
) -> tuple[dict[str, object], int]:
    """The JSON object that a request has for a body, and the body's bytes.

    Raises:
        ApiError: It is too large, too slow, or no JSON object.
        ClientGoneError: The client went away.
    """
    _check_told(scope, bodies.most)
    body = bytearray()
    try:
        while not incoming.is_whole:
            part = await incoming.part()
            body += part
            bodies.take(len(part))
            if len(body) > bodies.most:
                raise _too_large(bodies.most)
        return parse_object(body), len(body)
    finally:
        bodies.give_back(len(body))


def _check_told(scope: Scope, most: int) -> None:
    """Refuses what cannot be read by what its headers tell, before it is read."""
    for name, value in scope["headers"]:
        if name == b"content-length":
            # The parser of HTTP refuses what is no number; another server's may not.
            if not value.isdigit() or len(value) > _MOST_DIGITS:
                raise ApiError(400, "Content-Length is no length", code="invalid_http")
            if int(value) > most:
                raise _too_large(most)
        elif name == b"content-encoding" and value.lower() != b"identity":
            raise ApiError(
                415, "the body must not be compressed", code="unsupported_encoding"
            )


def _too_large(most: int) -> ApiError:
    return ApiError(413, f"the body has more than {most} bytes", code="request_too_large")


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
