"""Coding pages that run in a thread, for tests."""

from __future__ import annotations

import json
from contextlib import contextmanager
from http.client import HTTPConnection
from threading import Thread
from typing import TYPE_CHECKING, Any

import llamaherd as lh
from llamaherd.coding_page.desk import Desk
from llamaherd.coding_page.serving import CodingPage
from llamaherd.coding_page.sheet import make_sheet
from waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TOPICS = lh.Codebook(
    "What is the topic?", {"Sports": "Matches.", "Money": "Prices.", "War": ""}
)
TEXTS = [f"Text number {i}." for i in range(6)]
_LIMIT_S = 120.0  # limit that only a hanging server reaches


class Served:
    """A running coding page, and requests to it."""

    def __init__(self, page: CodingPage, desk: Desk) -> None:
        self.page = page
        self.desk = desk
        self.url = page.url
        self.owner_key = page.owner_link.partition("#")[2]

    def key(self, coder: str) -> str:
        return self.page.links[coder].partition("#")[2]

    def ask(
        self, method: str, path: str, body: object = None, **headers: str
    ) -> tuple[int, Any]:
        """Send a request; return status and body. In names of headers, "_" means "-"."""
        http = HTTPConnection(self.url.removeprefix("http://"), timeout=_LIMIT_S)
        try:
            data = body if body is None or isinstance(body, bytes) else json.dumps(body)
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            if data is not None:
                named = {"content-type": "application/json", **named}
            http.request(method, path, data, named)
            answer = http.getresponse()
            content = answer.read()
            is_json = answer.getheader("content-type") == "application/json"
            return answer.status, json.loads(content) if is_json else content.decode()
        finally:
            http.close()

    def code(self, coder: str, i: object, value: object, **more: object) -> Any:
        status, response = self.ask(
            "POST", "/api/code", {"i": i, "value": value, **more}, X_Coder=coder
        )
        assert status == 200, response
        return response


@contextmanager
def coding_page(
    path: Path,
    data: Any = None,
    codebook: lh.Codebook = TOPICS,
    coders: Any = ("anna", "ben"),
    tie_coder: str | None = None,
    **where: Any,
) -> Iterator[Served]:
    data = {"text": TEXTS} if data is None else data
    sheet = make_sheet(data, codebook, coders, tie_coder)
    desk = Desk(sheet, path)
    page = CodingPage(desk, data, **where)
    thread = Thread(target=page.run)
    thread.start()
    try:
        wait_until(lambda: page.is_ready)
        yield Served(page, desk)
    finally:
        page.cancel()
        thread.join()
