"""HTTP as uvicorn speaks it, but that the head of a request is bounded."""

from __future__ import annotations

from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_MOST_HEAD = 1 << 16  # bytes; one part of it may come on top


class BoundedProtocol(HttpToolsProtocol):
    """Ends a connection whose request's head never ends: the parser would keep it all.

    It writes no log of its own either, whatever the program's loggers are: there would be
    queries in it, and those may be anything.
    """

    def __init__(self, *args: Any, **settings: Any) -> None:  # noqa: ANN401 - uvicorn's
        super().__init__(*args, **settings)
        self.access_log = False
        self._is_in_head = True
        self._n_head = 0

    def data_received(self, data: bytes) -> None:
        """Bytes come in."""
        self._n_head += len(data)
        super().data_received(data)
        is_too_large = self._is_in_head and self._n_head > _MOST_HEAD
        if is_too_large and not self.transport.is_closing():
            self.send_400_response("The head of the request is too large.")

    def on_headers_complete(self) -> None:
        """The head is there."""
        self._is_in_head = False
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """What comes next is another head."""
        self._is_in_head = True
        self._n_head = 0
        super().on_message_complete()
