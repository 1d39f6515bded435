"""Bytes and JSON of requests and answers, and the record of each request."""

from __future__ import annotations

import asyncio
import json
import math
import re
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from starlette.responses import Response

from llamaherd.engine.core.plain import unique_keys
from llamaherd.server.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
    from concurrent.futures import Executor

    from starlette.types import Receive, Scope, Send

    from llamaherd.calls.run.embedding import EmbedStats
    from llamaherd.engine.core.results import Result
    from llamaherd.engine.core.stats import Stats

_SHORT_BODY = 1 << 15  # a body that is parsed within about 3 ms
_AT_ONCE = 8  # items of a list that are encoded at once
_NUMBERS_AT_ONCE = 4096
_MOST_DIGITS_OF_NUMBER = 4300  # of an integer in JSON, as in Python
_MOST_EXACT = 2**53  # floats have each integer up to this one
_JSON = (b"content-type", b"application/json")
_STREAM = (
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),  # prevents buffering in nginx
)
# JSON in ASCII, because some clients treat U+2028 in an event as the end of a line.
_encoder = json.JSONEncoder(separators=(",", ":"), allow_nan=False, check_circular=False)
dumps = _encoder.encode


def encode_json(value: object) -> bytes:
    """Return a large value as JSON; call this function outside of the event loop.

    `dumps` lets no other thread run. This function encodes a value in parts, between
    which other threads run.
    """
    return "".join(_parts(value)).encode("ascii")


def _parts(value: object) -> Iterator[str]:
    if isinstance(value, dict) and value:
        start = "{"
        for key, part in value.items():
            yield f"{start}{dumps(key)}:"
            yield from _parts(part)
            start = ","
        yield "}"
    elif isinstance(value, list) and value:
        start, is_long = "[", len(value) > _AT_ONCE
        is_nested = isinstance(value[0], (dict, list))
        n = (_AT_ONCE if is_nested else _NUMBERS_AT_ONCE) if is_long else 1
        for i in range(0, len(value), n):
            yield start
            yield from [dumps(value[i : i + n])[1:-1]] if is_long else _parts(value[i])
            start = ","
        yield "]"
    else:
        yield dumps(value)


class ClientGoneError(Exception):
    """The client disconnected before the end of its request."""


async def body_parts(receive: Receive) -> AsyncIterator[bytes]:
    """Yield the parts of the body of a request, which may be empty."""
    is_whole = False
    while not is_whole:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGoneError
        is_whole = not message.get("more_body", False)
        yield message.get("body", b"")


async def read_object(
    scope: Scope,
    receive: Receive,
    most: int,
    threads: Executor | None = None,
    hold: Callable[[int], None] | None = None,
) -> tuple[dict[str, object], int]:
    """Read the JSON object in the body of a request; return it with its size.

    The body has at most `most` bytes. `hold` counts the bytes of a long body while it
    arrives, see `BodyMemory`.
    """
    _check_told(scope, most)
    body = bytearray()
    async for part in body_parts(receive):
        body += part
        if len(body) > most:
            raise _too_large(most)
        if hold is not None and len(body) > _SHORT_BODY:
            hold(len(body))
    if threads is None or len(body) <= _SHORT_BODY:
        return parse_object(body), len(body)
    pending = threads.submit(parse_object, body)
    return await asyncio.wrap_future(pending), len(body)


def _check_told(scope: Scope, most: int) -> None:
    """Check the headers of a request before its body is read."""
    for name, value in scope["headers"]:
        if name == b"content-length":
            if int(value) > most:  # the parser of HTTP accepts valid numbers only
                raise _too_large(most)
        elif name == b"content-encoding" and value.lower() != b"identity":
            raise ApiError(
                415, "the body must not be compressed", code="unsupported_encoding"
            )


def _too_large(most: int) -> ApiError:
    return ApiError(413, f"the body has more than {most} bytes", code="request_too_large")


def parse_object(body: bytes | bytearray) -> dict[str, object]:
    """Parse a JSON object."""
    try:
        value = _decoder.decode(body.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise _bad_json(f"the body is not UTF-8: {error.reason}") from None
    except RecursionError:
        raise _bad_json("the body is nested too deeply") from None
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise _bad_json(f"the body is not JSON: {error.msg}, {where}") from None
    except ValueError as error:  # an invalid number, or a key twice
        raise _bad_json(f"the body cannot be read: {error}") from None
    if not isinstance(value, dict):
        raise _bad_json("the body must be a JSON object")
    return value


def _bad_json(message: str) -> ApiError:
    return ApiError(400, message, code="invalid_json")


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number")


def _number(text: str) -> float:
    """Read a number with a fraction or an exponent.

    JSON has one type of numbers, and in JSON Schema 2.0 is an integer. 2.0 and 2e0 are
    therefore read as 2, so that each field that takes an integer accepts them.
    """
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"the number {text[:40]} is too large for a float of 64 bits")
    is_exact = number.is_integer() and abs(number) <= _MOST_EXACT
    return int(number) if is_exact else number


def _integer(text: str) -> int:
    if len(text.lstrip("-")) > _MOST_DIGITS_OF_NUMBER:
        raise ValueError(f"a number has more than {_MOST_DIGITS_OF_NUMBER} digits")
    return int(text)


_decoder = json.JSONDecoder(
    object_pairs_hook=unique_keys,
    parse_constant=_refuse_constant,
    parse_float=_number,
    parse_int=_integer,
)


async def send_json(
    send: Send,
    status: int,
    value: object,
    headers: tuple[tuple[str, str], ...] = (),
) -> None:
    """Send a response with JSON, already encoded if `value` is bytes."""
    body = value if isinstance(value, bytes) else dumps(value).encode("ascii")
    sent = [
        _JSON,
        *((name.encode(), text.encode()) for name, text in headers),
        (b"content-length", str(len(body)).encode()),
    ]
    await send({"type": "http.response.start", "status": status, "headers": sent})
    await send({"type": "http.response.body", "body": body})


async def start_events(send: Send, media_type: str) -> None:
    """Start a response of events, each of which is sent at once."""
    headers = [(b"content-type", media_type.encode()), *_STREAM]
    await send({"type": "http.response.start", "status": 200, "headers": headers})


async def send_event(send: Send, event: str, *, is_last: bool = False) -> None:
    """Send serialized events."""
    await send(
        {
            "type": "http.response.body",
            "body": event.encode("ascii"),
            "more_body": not is_last,
        }
    )


ID_HEADER = b"x-request-id"
# Ids that may be sent back in a header; an id that is longer or has other characters is
# replaced.
_SAFE_ID = re.compile(rb"[A-Za-z0-9._:/+=@-]{1,128}")


def request_id(scope: Scope) -> bytes:
    """Return the id of a request."""
    for name, value in scope["headers"]:
        if name == ID_HEADER and _SAFE_ID.fullmatch(value):
            return bytes(value)
    return secrets.token_hex(16).encode()


CLIENT_GONE = 499  # status in logs only, as in nginx


@dataclass(eq=False, slots=True)
class RequestRecord:
    """Record of a request, filled in while it is answered."""

    is_background: bool = False  # of a batch; it yields to requests of clients
    results: Sequence[Result] = ()  # answers; none if no prompt ran
    # Statistics of embeddings, scores, labels or codes.
    stats: Stats | EmbedStats | None = None
    status: int = 0  # HTTP status; 0 before the response
    is_gone: bool = False  # the client disconnected first
    model: str = ""  # name of the requested model on a server with several models
    user: str = ""  # name of the person whose key the request has

    @property
    def outcome(self) -> int:
        """HTTP status for the log and the metrics."""
        return CLIENT_GONE if self.is_gone else self.status


def json_response(
    value: object, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """Return a response with JSON."""
    return Response(dumps(value), status, headers, "application/json")


def error_response(error: ApiError) -> Response:
    """Return the response of an error."""
    return json_response(error.body, error.status, dict(error.headers))
