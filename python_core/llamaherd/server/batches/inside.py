"""Requests that the server sends to itself, without a connection."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from llamaherd.server.record import RequestRecord

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message

    from llamaherd.core.words import LanguageTerms


async def ask(
    app: ASGIApp, path: str, body: bytes, terms: LanguageTerms
) -> tuple[int, str]:
    """Send a request to an application; return the status and the JSON of its answer.

    The status is 0 if there is no answer.

    Args:
        app: Application of one path.
        path: Path of the request.
        body: Body of the request.
        terms: Language of messages and notes.
    """
    waiting: list[Message] = [{"type": "http.request", "body": body}]
    status = 0
    parts: list[bytes] = []

    async def receive() -> Message:
        if waiting:
            return waiting.pop()
        await asyncio.Event().wait()  # the client never disconnects
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        nonlocal status
        if message["type"] == "http.response.start":
            status = message["status"]
        else:
            parts.append(message.get("body", b""))

    length = str(len(body)).encode()
    scope: dict[str, Any] = {
        "type": "http",
        "method": "POST",
        "path": path,
        "headers": [(b"content-length", length)],
        "llamaherd.record": RequestRecord(is_background=True, terms=terms),
    }
    await app(scope, receive, send)
    # The body is empty if the request was abandoned without a response.
    return status, b"".join(parts).decode("ascii") or "{}"
