"""HTTP requests for files: redirects that leak no token, logs without addresses."""

from __future__ import annotations

import logging
import re
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import httpx

from llamaherd.engine.core.errors import DownloadError
from llamaherd.engine.hub.sources import shown_url

if TYPE_CHECKING:
    from collections.abc import Iterator

_TIMEOUT_S = 30.0
PARTIAL_CONTENT = 206
RANGE_NOT_SATISFIABLE = 416
_MOST_REDIRECTS = 10
_LOGGERS = ("httpx", "httpcore.connection", "httpcore.http11", "httpcore.proxy")
_DIGITS = re.compile(r"[0-9]{1,18}")
_RANGE = re.compile(r"bytes ([0-9]{1,18})-[0-9]+/([0-9]{1,18}|\*)")
_downloading: set[int] = set()  # threads


@contextmanager
def client() -> Iterator[httpx.Client]:
    """Create a client that trusts the system's certificates and those of certifi."""
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_is_of_others)
    certificates = httpx.create_ssl_context()
    certificates.load_default_certs()
    try:
        opened = httpx.Client(verify=certificates, timeout=_TIMEOUT_S)
    except (ImportError, ValueError) as error:
        raise DownloadError(
            f"the proxy that the environment variables name cannot be used: {error}"
        ) from None
    thread = threading.get_ident()
    _downloading.add(thread)
    try:
        with opened:
            yield opened
    finally:
        _downloading.discard(thread)


def _is_of_others(_: logging.LogRecord) -> bool:
    """Keep the addresses of downloads, which may contain secrets, out of the logs."""
    return threading.get_ident() not in _downloading


@contextmanager
def answer(
    client: httpx.Client, url: str, headers: dict[str, str]
) -> Iterator[httpx.Response]:
    """Send a request, and follow redirects to http and https only.

    httpx removes the header with the token from a request to another host.
    """
    request = client.build_request("GET", url, headers=headers)
    was_safe = False
    for _ in range(_MOST_REDIRECTS):
        address = shown_url(str(request.url))
        if request.url.scheme not in {"http", "https"} or not request.url.host:
            raise DownloadError(
                f"{address!r} is not an address that begins with https://"
            )
        if was_safe and request.url.scheme == "http":
            raise DownloadError(
                f"{shown_url(url)} redirects from https to http, where anybody could "
                "change the file: the redirect is not followed"
            )
        was_safe = request.url.scheme == "https"
        response = client.send(request, stream=True)
        try:
            if response.next_request is None:
                yield response
                return
            request = response.next_request
        finally:
            response.close()
    raise DownloadError(f"{shown_url(url)} redirects more than {_MOST_REDIRECTS} times")


def number(header: str | None) -> int | None:
    """Return the number in a header; None if it is missing or malformed."""
    return int(header) if header and _DIGITS.fullmatch(header) else None


def size_of(response: httpx.Response, n_there: int) -> int | None:
    """Return the size of the whole file in bytes; None if it is not in the headers."""
    if response.status_code != PARTIAL_CONTENT:
        return number(response.headers.get("Content-Length"))
    match = _RANGE.fullmatch(response.headers.get("Content-Range", ""))
    if match is None or int(match[1]) != n_there:
        raise DownloadError(
            f"{shown_url(str(response.url))} sent another part of the file than requested"
        )
    return number(match[2])


def is_of_host(response: httpx.Response, url: str) -> bool:
    """Return whether the host of an address sent the response itself."""
    asked = httpx.URL(url)
    return all(
        getattr(response.url, part) == getattr(asked, part)
        for part in ("scheme", "host", "port")
    )
