"""Download of a file over HTTP.

A download can be resumed. The file is verified before it gets its final name.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import re
import shutil
import time
import urllib.error
import urllib.request
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import urldefrag, urlsplit

from llamaherd.core import files
from llamaherd.core.errors import DownloadError
from llamaherd.core.files import sha256_of
from llamaherd.core.json_text import DAMAGED
from llamaherd.core.locks import LockHeldError, take_lock
from llamaherd.core.words import call
from llamaherd.hub.quantizations import gigabytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from llamaherd.core.locks import LockFile

_BLOCK = 1 << 20
_TIMEOUT_S = 30.0
_MOST_TRIES = 5  # maximum number of consecutive tries without a new byte
_MOST_WAIT_S = 60.0
_RETRIED = {408, 425, 429, 500, 502, 503, 504}
_DIGITS = re.compile(r"[0-9]{1,18}")
_SHA256 = re.compile(r'"?([0-9a-f]{64})"?')


class Cancelled(Exception):  # noqa: N818 - a request, not an error
    """Raised if the download was cancelled.

    The received part is kept for the next call.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRequest:
    """A file to download.

    Attributes:
        url: Address of the file.
        target: Path of the file to create.
        token: Access token, sent only to the host of `url`; excluded from `repr`.
        sha256: Expected SHA-256 in hexadecimal; None uses the hash that the server
            states, if any.
        size_bytes: Expected size in bytes; None uses the size that the server states.
        replace: Whether to replace an existing file.
    """

    url: str
    target: Path
    token: str | None = None
    sha256: str | None = None
    size_bytes: int | None = None
    replace: bool = False

    def __repr__(self) -> str:
        return f"FileRequest({shown_url(self.url)!r})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """Callbacks of a download.

    Attributes:
        step: Function called with the number of bytes received and the total, None if
            unknown.
        is_cancelled: Function called after each block; the download ends if it returns
            True.
        check_size: Function called with the size before the first byte is written; it
            may raise an error.
    """

    step: Callable[[int, int | None], object] = lambda _done, _total: None
    is_cancelled: Callable[[], bool] = lambda: False
    check_size: Callable[[int | None], object] = lambda _size: None


def download(file_request: FileRequest, watch: Watch) -> str:
    """Download a file; resume an earlier download of the same file.

    Returns:
        SHA-256 of the file, in hexadecimal.

    Raises:
        DownloadError: The server refuses, the connection fails repeatedly, the content
            differs from the expected content, or the disk is full.
        Cancelled: `watch.is_cancelled` returned True.
    """
    _check_scheme(file_request.url)
    file_request.target.parent.mkdir(parents=True, exist_ok=True)
    part = file_request.target.with_name(f".{file_request.target.name}.part")
    with _alone(part, watch):
        if file_request.target.is_file() and not file_request.replace:
            return sha256_of(file_request.target)  # another process was first
        n_before, n_tries = -1, 0
        while True:
            try:
                return _try(file_request, part, watch)
            except ValueError as error:  # malformed response
                raise DownloadError(
                    f"{shown_url(file_request.url)}: the server's answer cannot be read: "
                    f"{error}"
                ) from None
            except (OSError, http.client.HTTPException) as error:
                wait_s = _wait_s(error, n_tries)
                reason = _reason(error)
            n_now = part.stat().st_size if part.exists() else 0
            n_tries = 1 if n_now > n_before else n_tries + 1
            n_before = max(n_now, n_before)
            if wait_s is None or n_tries >= _MOST_TRIES:
                raise DownloadError(_failure(file_request, reason, n_now)) from None
            _sleep(wait_s, watch)


def address_hash(url: str) -> str:
    """Return a hash of an address without its fragment, in hexadecimal."""
    return hashlib.sha256(urldefrag(url)[0].encode(errors="surrogatepass")).hexdigest()


def shown_url(url: str) -> str:
    """Return an address without credentials and query, for messages."""
    parts = urlsplit(url)
    host = parts.netloc.rsplit("@", 1)[-1]
    return f"{parts.scheme}://{host}{parts.path}"


# ---- one try --------------------------------------------------------------------------


class _SafeRedirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects only to http and https; sends the token to no other host."""

    def redirect_request(  # noqa: PLR0917 - its signature
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        _check_scheme(newurl)
        if urlsplit(req.full_url).scheme == "https" and newurl.startswith("http:"):
            raise DownloadError(
                f"{shown_url(req.full_url)} redirects from https to http, where "
                "anybody could change the file: the redirect is not followed"
            )
        request = super().redirect_request(req, fp, code, msg, headers, newurl)
        token = req.get_header("Authorization")
        if request is not None and token and _origin(newurl) == _origin(req.full_url):
            request.add_unredirected_header("Authorization", token)
        return request


def _try(file_request: FileRequest, part: Path, watch: Watch) -> str:
    """Request the missing part of the file and write it."""
    state = _state_of(part, file_request)
    n_there = part.stat().st_size if state else 0
    if n_there and n_there == file_request.size_bytes:
        n_there -= 1  # a server refuses a range after the last byte
    request = urllib.request.Request(file_request.url)  # noqa: S310 - the scheme was checked
    request.add_header("User-Agent", "llamaherd")
    request.add_header("Accept-Encoding", "identity")
    if file_request.token:
        request.add_unredirected_header("Authorization", f"Bearer {file_request.token}")
    if n_there:
        request.add_header("Range", f"bytes={n_there}-")
        if state.get("validator"):
            request.add_header("If-Range", state["validator"])
    opener = urllib.request.build_opener(_SafeRedirects)
    try:
        response = opener.open(request, timeout=_TIMEOUT_S)
    except urllib.error.HTTPError as error:
        if error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE and n_there:
            part.unlink()  # the part is too long, or belongs to another file
            raise ConnectionError("the file has changed") from None
        raise
    with response:
        size = _size_of(response, n_there)
        if response.status != http.HTTPStatus.PARTIAL_CONTENT:
            n_there = 0  # the server sends the whole file
        if file_request.size_bytes not in {None, size} and size is not None:
            raise DownloadError(
                f"{shown_url(file_request.url)} has {size} bytes, not "
                f"{file_request.size_bytes}"
            )
        size = file_request.size_bytes if size is None else size
        watch.check_size(size)
        _check_disk(part, size, n_there)
        _write_state(part, file_request, response)
        expected = file_request.sha256 or _stated_sha256(response, file_request)
        digest = _write(response, part, n_there, size, watch)
    if expected not in {None, digest}:
        _remove(part)
        raise DownloadError(
            f"{shown_url(file_request.url)}: the received file has the SHA-256 {digest}, "
            f"not {expected}. It was removed; try again, and if this recurs, do not "
            "trust the server"
        )
    _replace(part, file_request.target)
    return digest


def _write(
    response: http.client.HTTPResponse,
    part: Path,
    n_there: int,
    size: int | None,
    watch: Watch,
) -> str:
    """Append the received blocks and return the SHA-256 of the whole file."""
    hasher = hashlib.sha256()
    with part.open("r+b" if n_there else "wb") as file:
        for block in _blocks(file, n_there):
            hasher.update(block)
        file.truncate(n_there)
        file.seek(n_there)
        n_done = n_there
        while block := response.read1(_BLOCK):  # `read1` returns before a block is full
            if watch.is_cancelled():
                raise Cancelled
            if n_done == 0 and not b"GGUF".startswith(block[:4]):
                raise DownloadError(
                    f"{shown_url(response.url)} is not a GGUF file: it begins with "
                    f"{block[:12]!r}. Is it the address of a page about the file?"
                )
            n_done += len(block)
            if size is not None and n_done > size:
                raise DownloadError(
                    f"{shown_url(response.url)} sent more than the expected {size} bytes"
                )
            file.write(block)
            hasher.update(block)
            watch.step(n_done, size)
        file.flush()
        os.fsync(file.fileno())
    if size is not None and n_done < size:
        raise ConnectionError(f"the connection ended after {n_done} of {size} bytes")
    return hasher.hexdigest()


def _blocks(file: IO[bytes], n_bytes: int) -> Iterator[bytes]:
    while n_bytes and (block := file.read(min(_BLOCK, n_bytes))):
        n_bytes -= len(block)
        yield block


# ---- state of an incomplete file ------------------------------------------------------


def _state_path(part: Path) -> Path:
    return part.with_name(f"{part.name}.json")


def _state_of(part: Path, file_request: FileRequest) -> dict[str, Any]:
    """Return the stored state of an incomplete file; {} if it cannot be resumed."""
    try:
        state = json.loads(_state_path(part).read_text(encoding="utf-8"))
        usable = (
            state["url"] == address_hash(file_request.url)
            and state["sha256"] == file_request.sha256
            and (state["sha256"] or state["validator"])
            and part.stat().st_size > 0
        )
    except (OSError, *DAMAGED):
        return {}
    return dict(state) if usable else {}


def _write_state(
    part: Path, file_request: FileRequest, response: http.client.HTTPResponse
) -> None:
    etag = response.headers.get("ETag")
    # A weak validator does not guarantee the same bytes.
    validator = None if etag is None or etag.startswith("W/") else etag
    # With a hash, the tag is not needed: the hash verifies the result, and mirrors of
    # the hub use other tags.
    state = {
        "url": address_hash(file_request.url),
        "sha256": file_request.sha256,
        "validator": None if file_request.sha256 else validator,
    }
    _state_path(part).write_text(json.dumps(state), encoding="utf-8")


def _replace(part: Path, target: Path) -> None:
    files.replace(part, target)
    _state_path(part).unlink(missing_ok=True)


def _remove(part: Path) -> None:
    part.unlink(missing_ok=True)
    _state_path(part).unlink(missing_ok=True)


@contextmanager
def _alone(part: Path, watch: Watch) -> Iterator[None]:
    """Wait until no other process downloads the same file."""
    lock = _lock(part.with_name(f"{part.name}.lock"), watch)
    try:
        yield
    finally:
        if lock is not None:
            lock.release()


def _lock(path: Path, watch: Watch) -> LockFile | None:
    """Wait for a lock and return it; return None if the file system has no locks."""
    while True:
        with suppress(LockHeldError):
            return take_lock(path)
        _sleep(0.2, watch)


# ---- response headers -----------------------------------------------------------------


def _size_of(response: http.client.HTTPResponse, n_there: int) -> int | None:
    """Return the size of the whole file in bytes; None if it is not in the headers."""
    if response.status == http.HTTPStatus.PARTIAL_CONTENT:
        match = re.fullmatch(
            r"bytes ([0-9]{1,18})-[0-9]+/([0-9]{1,18}|\*)",
            response.headers.get("Content-Range", ""),
        )
        if match is None or int(match[1]) != n_there:
            raise DownloadError(
                f"{shown_url(response.url)} sent another part of the file than requested"
            )
        return None if match[2] == "*" else int(match[2])
    length = response.headers.get("Content-Length")
    return _number(length)


def _number(header: str | None) -> int | None:
    """Return the number in a header; None if it is missing or malformed."""
    return int(header) if header and _DIGITS.fullmatch(header) else None


def _stated_sha256(
    response: http.client.HTTPResponse, file_request: FileRequest
) -> str | None:
    """Return the SHA-256 stated by the hub for files that the hub itself sends."""
    if _origin(response.url) != _origin(file_request.url):
        return None
    match = _SHA256.fullmatch(response.headers.get("X-Linked-Etag") or "")
    return match[1] if match else None


def _check_disk(part: Path, size: int | None, n_there: int) -> None:
    free = shutil.disk_usage(part.parent).free
    if size is not None and size - n_there > free:
        raise DownloadError(
            f"{part.parent} has {gigabytes(free)} free, but {gigabytes(size - n_there)} "
            "remain to be downloaded: free some space, or set another folder (cache_dir, "
            "or the environment variable LLAMAHERD_CACHE_DIR)"
        )


def _check_scheme(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise DownloadError(
            f"{shown_url(url)!r} is not an address that begins with https://"
        )


def _origin(url: str) -> tuple[str, str | None, int]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or 443


def _wait_s(error: Exception, n_tries: int) -> float | None:
    """Return the delay before the next try in seconds; None if there is no next try."""
    if isinstance(error, DownloadError):
        return None
    if isinstance(error, urllib.error.HTTPError):
        if error.code not in _RETRIED:
            return None
        after = _number(error.headers.get("Retry-After"))
        if after is not None:
            return min(float(after), _MOST_WAIT_S)
    elif isinstance(error, OSError) and error.errno is not None:
        network = isinstance(error, (ConnectionError, TimeoutError))
        if not network and not isinstance(error, urllib.error.URLError):
            return None  # a disk error
    return _wait_after(n_tries)


def _wait_after(n_tries: int) -> float:
    return float(min(2**n_tries, 16))


def _reason(error: Exception) -> str:
    if isinstance(error, urllib.error.HTTPError):
        return f"the server answered {error.code} {error.reason}"
    if isinstance(error, urllib.error.URLError):
        return f"no connection: {error.reason}"
    return str(error) or type(error).__name__


def _failure(file_request: FileRequest, reason: str, n_now: int) -> str:
    hint = ""
    if "answered 401" in reason or "answered 403" in reason:
        hint = (
            f"; it needs an access token: see {call('set_hf_token')}, and accept the "
            "model's terms on its page if it has any"
        )
    elif "answered 404" in reason:
        hint = "; is the address right?"
    elif n_now:
        hint = f"; {gigabytes(n_now)} are kept, and the same call continues from there"
    if reason.startswith(f"{shown_url(file_request.url)}"):
        return reason + hint
    return f"{shown_url(file_request.url)} could not be downloaded: {reason}{hint}"


def _sleep(seconds: float, watch: Watch) -> None:
    """Sleep; raise Cancelled as soon as the download is cancelled."""
    end = time.monotonic() + seconds
    while not watch.is_cancelled():
        left = end - time.monotonic()
        if left <= 0:
            return
        time.sleep(min(left, 0.1))
    raise Cancelled
