"""Times of a short request in the server's applications, beside FastAPI with pydantic.

    python benchmarks/http_framework.py

Both get the same requests through ASGI, without sockets, and answer with a constant. Each
checks the names of all fields, and types and ranges of the given ones: ours with the
declared options, FastAPI with a pydantic model that is created from the same schema. The
output is a table for docs/decisions/0058-server-on-starlette.md.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

_ROUNDS = 7
_N = 1000
_ANSWER = {"id": "a", "object": "chat.completion", "choices": [{"index": 0}]}
_KINDS = {
    "integer": int,
    "number": float,
    "string": str,
    "boolean": bool,
    "array": list,
    "object": dict,
}
_MESSAGES = [{"role": "user", "content": "Is this positive or negative? It is fine."}]
CASES: dict[str, dict[str, Any]] = {
    "chat, 2 fields": {"messages": _MESSAGES, "max_tokens": 5},
    "chat, 8 fields": {
        "messages": _MESSAGES,
        "max_tokens": 5,
        "temperature": 0.7,
        "top_p": 0.9,
        "seed": 3,
        "stop": ["\n"],
        "model": "m",
        "user": "u",
    },
}


def main() -> None:
    """Measure in turns, and print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--once", choices=tuple(_APPS))
    asked = parser.parse_args()
    if asked.once:
        print(json.dumps(_measured(asked.once)))
        return
    found: dict[str, list[dict[str, float]]] = {name: [] for name in _APPS}
    for _ in range(_ROUNDS):
        for name, rounds in found.items():
            command = [sys.executable, __file__, "--once", name]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            rounds.append(json.loads(done.stdout))
    print("| |" + "".join(f" {name} |" for name in found))
    print("| --- |" + " ---: |" * len(found))
    for case in found["starlette"][0]:
        middle = [statistics.median(r[case] for r in rounds) for rounds in found.values()]
        print(f"| {case} |" + "".join(f" {each:,.0f} |" for each in middle))


def _measured(name: str) -> dict[str, float]:
    """Return microseconds of CPU of each case, and milliseconds of the import."""
    start = time.process_time()
    app = _APPS[name]()
    found = {"import and set up, ms": 1e3 * (time.process_time() - start)}
    for case, body in CASES.items():
        data = json.dumps(body).encode()
        asyncio.run(_ask(app, data, 50))
        start = time.process_time()
        asyncio.run(_ask(app, data, _N))
        found[f"{case}, us"] = 1e6 * (time.process_time() - start) / _N
    return found


async def _ask(app: Any, data: bytes, n: int) -> None:  # noqa: ANN401 - ASGI
    head = [(b"content-type", b"application/json"), (b"host", b"localhost")]
    length = (b"content-length", str(len(data)).encode())
    for _ in range(n):
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "POST",
            "path": "/v1/chat/completions",
            "raw_path": b"/v1/chat/completions",
            "query_string": b"",
            "root_path": "",
            "scheme": "http",
            "headers": [*head, length],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 80),
        }
        statuses: list[int] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": data, "more_body": False}

        async def send(message: dict[str, Any], seen: list[int] = statuses) -> None:
            if message["type"] == "http.response.start":
                seen.append(message["status"])

        await app(scope, receive, send)
        if statuses != [200]:
            raise RuntimeError(f"status {statuses}")


def _starlette() -> object:
    from llamaherd.server.openai import ChatCompletions  # noqa: PLC0415
    from llamaherd.server.protocol import Bodies, read_object, send_json  # noqa: PLC0415
    from llamaherd.server.sampling import form_of, sampling_of  # noqa: PLC0415
    from starlette.applications import Starlette  # noqa: PLC0415
    from starlette.routing import Route  # noqa: PLC0415

    bodies = Bodies(4 << 20)

    class Application:
        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:  # noqa: ANN401
            fields, _ = await read_object(scope, receive, bodies)
            given = ChatCompletions.given(fields)
            sampling_of(given, 5, form_of(given))
            await send_json(send, 200, _ANSWER)

    route = Route("/v1/chat/completions", Application(), methods=["POST"])
    return Starlette(routes=[route])


def _fastapi() -> object:
    from fastapi import FastAPI  # noqa: PLC0415
    from llamaherd.server.openai import ChatCompletions  # noqa: PLC0415
    from pydantic import ConfigDict, Field, create_model  # noqa: PLC0415

    fields: dict[str, Any] = {}
    schema = ChatCompletions.request_schema()["properties"]
    for name, each in schema.items():
        one = each.get("anyOf", [each])[0]
        kind = one.get("type")
        python = _KINDS.get(kind, object) if isinstance(kind, str) else object
        limits = {"ge": one.get("minimum"), "le": one.get("maximum")}
        given = {k: v for k, v in limits.items() if v is not None}
        fields[name] = (python | None, Field(None, **given))
    model: Any = create_model("Chat", __config__=ConfigDict(extra="forbid"), **fields)

    async def chat(body: Any) -> dict[str, Any]:  # noqa: ANN401
        del body
        return _ANSWER

    chat.__annotations__.update(body=model)
    app = FastAPI()
    app.post("/v1/chat/completions")(chat)
    return app


_APPS: dict[str, Callable[[], object]] = {"starlette": _starlette, "fastapi": _fastapi}

if __name__ == "__main__":
    main()
