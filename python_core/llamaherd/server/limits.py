"""What a server takes from its clients at once, and who may come in at all."""

from __future__ import annotations

import hmac
import math
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from llamaherd.server.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from starlette.types import Scope

    from llamaherd.run.context import Context
    from llamaherd.server.settings import Settings

_MOST_BODIES = 16  # of the largest size, in memory at once
_LOOKED_AT = (b"host", b"origin", b"authorization")
_TIMED = 8  # of so many requests one
_LONGEST_RETRY_S = 60  # more is not waited for by the clients that there are


class Queue:
    """Counts requests from their body to the end of their answer.

    What waits is what is more than the context has slots. Asking the context how many
    wait would refuse requests that came together while slots are free.

    Args:
        ctx: Knows how many slots there are.
        n_waiting: Requests that may wait.
        clock: Tells seconds.

    Attributes:
        n_inside: Requests that run or wait.
    """

    def __init__(
        self, ctx: Context, n_waiting: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock = clock
        self._ctx = ctx
        self._n_waiting = n_waiting
        self.n_inside = 0
        self._n_seen = 0
        self._mean_s = 1.0  # that a request takes in a slot

    @contextmanager
    def place(self) -> Iterator[None]:
        """A place in the queue.

        Raises:
            ApiError: There is none.
        """
        if self.n_inside >= self._n_waiting:
            n_slots = self._n_slots
            if self.n_inside >= self._n_waiting + n_slots:
                raise self._full(n_slots)
        self.n_inside += 1
        self._n_seen += 1
        # Counting slots takes time that grows with the requests, so only some are timed.
        is_timed = self._n_seen % _TIMED == 1
        # The slots are taken so many times until this one is answered.
        n_rounds = max(1.0, self.n_inside / self._n_slots) if is_timed else 1.0
        start = self._clock()
        try:
            yield
        finally:
            self.n_inside -= 1
            if is_timed:
                took_s = (self._clock() - start) / n_rounds
                self._mean_s += 0.3 * (took_s - self._mean_s)

    @property
    def _n_slots(self) -> int:
        return max(1, self._ctx.load.n_slots)

    def _full(self, n_slots: int) -> ApiError:
        """Tells to come again when what is here now will have been answered."""
        until_empty = math.ceil(self._mean_s * self.n_inside / n_slots)
        retry = min(_LONGEST_RETRY_S, max(1, until_empty))
        return ApiError(
            429,
            f"{self._n_waiting} requests wait already",
            code="queue_full",
            headers=(("retry-after", str(retry)),),
        )


class Bodies:
    """Bounds the memory of the bodies that are read at the same time.

    Attributes:
        most: Bytes that one may have.
        n_bytes: Bytes that there are now.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.n_bytes = 0

    def take(self, n_bytes: int) -> None:
        """Counts bytes that are there now.

        Raises:
            ApiError: Too many bodies are read at once. They are counted all the same.
        """
        self.n_bytes += n_bytes
        if self.n_bytes > _MOST_BODIES * self.most:
            raise ApiError(
                429,
                "too many large requests at once",
                code="too_many_bytes",
                headers=(("retry-after", "1"), ("connection", "close")),
            )

    def give_back(self, n_bytes: int) -> None:
        """They are not needed any more."""
        self.n_bytes -= n_bytes


class Guard:
    """Knows whom to let in."""

    def __init__(self, settings: Settings) -> None:
        self._hosts = settings.hosts
        key = settings.api_key
        # Clients differ in how they write letters beyond ASCII.
        self._keys = () if key is None else (key.encode(), key.encode("latin-1"))

    def check(self, scope: Scope, *, is_open: bool) -> None:
        """Looks at the headers of a request.

        A page in a browser can reach a server on the same machine: by a name that it
        makes point there, or by posting across origins. The first is told by the Host
        header, the second by Origin.

        Args:
            scope: Of the request.
            is_open: Whether it is for what needs no key.

        Raises:
            ApiError: It may not come in.
        """
        given = dict.fromkeys(_LOOKED_AT, b"")
        seen: set[bytes] = set()
        for name, value in scope["headers"]:
            if name not in given:
                continue
            if name in seen:  # programs differ in which one they take
                text = f"there are several {name.decode().title()} headers"
                raise ApiError(400, text, code="invalid_http")
            seen.add(name)
            given[name] = value
        host, origin, key = (given[name] for name in _LOOKED_AT)
        if self._hosts is not None and not self._hosts.admits(host):
            raise ApiError(
                403,
                "the Host header names another server (see --allowed-host)",
                code="host",
            )
        if origin and origin.partition(b"://")[2] != host:
            raise ApiError(403, "pages of other origins are not served", code="origin")
        if self._keys and not is_open:
            self._check_key(key)

    def _check_key(self, header: bytes) -> None:
        scheme, _, shown = header.partition(b" ")
        shown = shown.strip()
        is_right = any(hmac.compare_digest(shown, key) for key in self._keys)
        if scheme.lower() != b"bearer" or not is_right:
            raise ApiError(
                401,
                "the API key is missing or wrong (Authorization: Bearer ...)",
                code="invalid_api_key",
                headers=(("www-authenticate", "Bearer"),),
            )
