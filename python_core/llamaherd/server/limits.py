"""Limits of a server: concurrent requests and bytes, allowed hosts."""

from __future__ import annotations

import hmac
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from llamaherd.server.errors import ApiError, retry_after

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from starlette.types import Scope

    from llamaherd.core.stats import Load
    from llamaherd.server.settings import ServerSettings

_MOST_BODIES = 16  # number of bodies of maximum size in memory at once
_LOOKED_AT = (b"host", b"origin", b"authorization")
_TIMED = 8  # one request out of this number is timed


class Loaded(Protocol):
    """Protocol of a context, or of all contexts of a server."""

    @property
    def load(self) -> Load:
        """Running and waiting prompts, and the number of slots."""


class RequestQueue:
    """Counts the requests whose body has arrived and whose answer has not ended.

    Requests beyond the number of slots are treated as waiting. The context's own number
    of waiting prompts is not used: it also counts prompts that arrived at the same moment
    and are about to get a free slot.

    Args:
        slots: Context whose `load` contains the number of slots.
        n_waiting: Maximum number of waiting requests.
        clock: Returns the time in seconds.

    Attributes:
        n_inside: Number of running and waiting requests.
    """

    def __init__(
        self, slots: Loaded, n_waiting: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock = clock
        self._slots = slots
        self._n_waiting = n_waiting
        self.n_inside = 0
        self._n_seen = 0
        self._mean_s = 1.0  # mean duration of a request in a slot

    @contextmanager
    def slot(self) -> Iterator[None]:
        """Count a request while the block runs.

        Raises:
            ApiError: The queue is full.
        """
        if self.n_inside >= self._n_waiting:
            n_slots = self._n_slots
            if self.n_inside >= self._n_waiting + n_slots:
                raise self._full(n_slots)
        self.n_inside += 1
        self._n_seen += 1
        # Counting the slots takes longer the more requests there are, so only every
        # `_TIMED`-th request is timed.
        is_timed = self._n_seen % _TIMED == 1
        # The slots have to be filled this many times until this request is answered.
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
        return max(1, self._slots.load.n_slots)

    def _full(self, n_slots: int) -> ApiError:
        """Return the error of a full queue, with the expected time until it is empty."""
        return ApiError(
            429,
            f"{self._n_waiting} requests are already waiting",
            code="queue_full",
            headers=retry_after(self._mean_s * self.n_inside / n_slots),
        )


class Bodies:
    """Limit on the total size of bodies that are read at the same time.

    Attributes:
        most: Maximum size of a body in bytes.
        n_bytes: Current size of all bodies in bytes.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.n_bytes = 0

    def take(self, n_bytes: int) -> None:
        """Count received bytes.

        Raises:
            ApiError: Too many bodies are read at once. The new bytes are counted, too.
        """
        self.n_bytes += n_bytes
        if self.n_bytes > _MOST_BODIES * self.most:
            raise ApiError(
                429,
                "too many large requests at once",
                code="too_many_bytes",
                headers=(("retry-after", "1"),),
            )

    def give_back(self, n_bytes: int) -> None:
        """Subtract bytes that are no longer in memory."""
        self.n_bytes -= n_bytes


def _is_own(origin: bytes, host: bytes, scope: Scope) -> bool:
    """Return whether a page of this server sends a request.

    A page with HTTPS comes from a proxy, which has another port: the server has no TLS.
    """
    scheme, _, named = origin.partition(b"://")
    if not host or named != host:
        return False
    _, port = scope.get("server") or ("", None)
    has_proxy = host.rpartition(b":")[2] != str(port).encode()
    return scheme == b"http" or (scheme == b"https" and has_proxy)


class Guard:
    """Access checks of requests."""

    def __init__(self, settings: ServerSettings) -> None:
        self._hosts = settings.hosts
        key = settings.api_key
        # Clients encode non-ASCII letters differently.
        self._keys = () if key is None else (key.encode(), key.encode("latin-1"))

    def check(self, scope: Scope, *, is_open: bool) -> None:
        """Check the headers of a request.

        A foreign web page in a browser can send requests to a server on the same machine
        in two ways. It can use a host name that resolves to this machine; the Host header
        shows this name. Or it sends a cross-origin request; the Origin header names the
        page's own origin.

        Args:
            scope: Scope of the request.
            is_open: Whether the path can be used without an API key.

        Raises:
            ApiError: The request is refused.
        """
        given = dict.fromkeys(_LOOKED_AT, b"")
        seen: set[bytes] = set()
        for name, value in scope["headers"]:
            if name not in given:
                continue
            if name in seen:  # programs differ in which of two equal headers they use
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
        if origin and not _is_own(origin, host, scope):
            raise ApiError(403, "pages of other origins are refused", code="origin")
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
