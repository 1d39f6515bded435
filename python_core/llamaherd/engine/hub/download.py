"""Download of a model's file over HTTP.

A download can be resumed. The file is verified before it gets its final name.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import IO, TYPE_CHECKING, Any

import httpx

from llamaherd.engine.core import files
from llamaherd.engine.core.errors import DownloadError
from llamaherd.engine.core.files import LockHeldError, take_lock
from llamaherd.engine.core.plain import DAMAGED
from llamaherd.engine.core.words import call
from llamaherd.engine.hub import cache, web
from llamaherd.engine.hub.progress import Cancelled
from llamaherd.engine.hub.quantizations import (
    Offer,
    RemoteFile,
    available_bytes,
    check_fits,
    gigabytes,
)
from llamaherd.engine.hub.sources import address_hash, shown_url

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from llamaherd.engine.hub.progress import FetchOptions

_MOST_TRIES = 5  # maximum number of consecutive tries without a new byte
_MOST_WAIT_S = 60.0
_RETRIED = {408, 425, 429, 500, 502, 503, 504}
_BLOCK = 1 << 20
# Bytes after which memory and disk are checked again, if the server states no size.
_UNSIZED = 64 << 20
_SHA256 = re.compile(r'"?([0-9a-f]{64})"?')
# A tag that guarantees the same bytes, and that a header can contain.
_STRONG_TAG = re.compile(r'"[!#-~]*"')


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRequest:
    """A file to download.

    Attributes:
        source: Source in the record beside the file.
        note: Further entries of the record.
        token: Access token, sent only to the host of `url`; excluded from `repr`.
        sha256: Expected SHA-256 in hexadecimal; None uses the hash that the server
            states, if any.
        size_bytes: Expected size in bytes; None uses the size that the server states.
        is_whole: Whether the file is a whole model, so that its size is compared with
            the memory.
    """

    url: str
    target: Path
    source: str
    note: dict[str, str] = field(default_factory=dict)
    token: str | None = None
    sha256: str | None = None
    size_bytes: int | None = None
    replace: bool = False
    is_whole: bool = True

    def __repr__(self) -> str:
        return f"FileRequest({shown_url(self.url)!r})"

    @property
    def part(self) -> Path:
        """Path of the incomplete file."""
        return self.target.with_name(f".{self.target.name}.part")


def download(request: FileRequest, options: FetchOptions) -> Path:
    """Download a file, and record its source beside it.

    An earlier download of the same file is resumed.
    """
    note_path = cache.note_path(request.target)
    if note_path.exists() and "source" not in cache.note_of(request.target):
        raise DownloadError(
            f"{note_path} is not the record of a download, which would replace it"
        )
    options.meter.say(f"Downloading {shown_url(request.url)} to {request.target}.")
    request.target.parent.mkdir(parents=True, exist_ok=True)
    with _alone(request.part, options):
        if request.target.is_file() and not request.replace:
            digest = files.sha256_of(request.target)  # another process was first
        else:
            digest = _received(request, options)
        record = {
            "source": request.source,
            "sha256": digest,
            "size_bytes": request.target.stat().st_size,
            "downloaded": datetime.now(UTC).isoformat(timespec="seconds"),
            **request.note,
        }
        files.write_whole(note_path, json.dumps(record, indent=1).encode())
    return request.target


# ---- tries ----------------------------------------------------------------------------


def _received(request: FileRequest, options: FetchOptions) -> str:
    """Receive a file in as many tries as it needs; return its SHA-256."""
    n_before, n_tries = -1, 0
    with web.client() as client:
        while True:
            try:
                return _try(client, request, options)
            except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
                wait_s = _wait_s(error, n_tries)
                failure = error
            n_now = request.part.stat().st_size if request.part.exists() else 0
            n_tries = 1 if n_now > n_before else n_tries + 1
            n_before = max(n_now, n_before)
            if wait_s is None or n_tries >= _MOST_TRIES:
                raise DownloadError(_failure(request, failure, n_now)) from None
            _sleep(wait_s, options)


def _try(client: httpx.Client, request: FileRequest, options: FetchOptions) -> str:
    """Request the missing part of the file and write it."""
    part = request.part
    state = _state_of(part, request)
    n_there = part.stat().st_size if state else 0
    if n_there and n_there == request.size_bytes:
        n_there -= 1  # a server refuses a range after the last byte
    headers = {"User-Agent": "llamaherd", "Accept-Encoding": "identity"}
    if request.token:
        headers["Authorization"] = f"Bearer {request.token}"
    if n_there:
        headers["Range"] = f"bytes={n_there}-"
        if state.get("validator"):
            headers["If-Range"] = state["validator"]
    with web.answer(client, request.url, headers) as response:
        if response.status_code == web.RANGE_NOT_SATISFIABLE and n_there:
            part.unlink()  # the part is too long, or belongs to another file
            raise httpx.ReadError("the file has changed")
        response.raise_for_status()
        size = web.size_of(response, n_there)
        if response.status_code != web.PARTIAL_CONTENT:
            n_there = 0  # the server sends the whole file
        if request.size_bytes not in {None, size} and size is not None:
            raise DownloadError(
                f"{shown_url(request.url)} has {size} bytes, not {request.size_bytes}"
            )
        size = request.size_bytes if size is None else size
        if size is not None:
            _check_room(request, options, size, n_there)
        _write_state(request, response)
        expected = request.sha256 or _stated_sha256(response, request)
        digest = _write(response, request, n_there, size, options)
    if expected not in {None, digest}:
        part.unlink(missing_ok=True)
        _state_path(part).unlink(missing_ok=True)
        raise DownloadError(
            f"{shown_url(request.url)}: the received file has the SHA-256 {digest}, "
            f"not {expected}. It was removed; try again, and if this recurs, do not "
            "trust the server"
        )
    files.replace(part, request.target)
    _state_path(part).unlink(missing_ok=True)
    return digest


def _write(
    response: httpx.Response,
    request: FileRequest,
    n_there: int,
    size: int | None,
    options: FetchOptions,
) -> str:
    """Append the received blocks and return the SHA-256 of the whole file."""
    hasher = hashlib.sha256()
    with request.part.open("r+b" if n_there else "wb") as file:
        for block in _blocks(file, n_there):
            hasher.update(block)
        file.truncate(n_there)
        file.seek(n_there)
        n_done, n_checked = n_there, n_there
        for block in _content(response):
            if options.meter.is_cancelled:
                raise Cancelled
            if n_done == 0 and not b"GGUF".startswith(block[:4]):
                raise DownloadError(
                    f"{shown_url(request.url)} is not a GGUF file: it begins with "
                    f"{block[:12]!r}. Is it the address of a page about the file?"
                )
            n_done += len(block)
            if size is not None and n_done > size:
                raise DownloadError(
                    f"{shown_url(request.url)} sent more than the expected {size} bytes"
                )
            if size is None and n_done - n_checked > _UNSIZED:
                _check_room(request, options, n_done + _UNSIZED, n_done)
                n_checked = n_done
            file.write(block)
            hasher.update(block)
            options.meter.step(n_done, size)
        file.flush()
        os.fsync(file.fileno())
    if size is not None and n_done < size:
        raise httpx.ReadError("the connection ended too early")
    return hasher.hexdigest()


def _content(response: httpx.Response) -> Iterator[bytes]:
    """Return the blocks of a response as they are sent, without decompressing them."""
    try:
        yield from response.iter_raw()
    except httpx.RemoteProtocolError as error:
        raise httpx.ReadError(f"the connection ended too early: {error}") from error


def _blocks(file: IO[bytes], n_bytes: int) -> Iterator[bytes]:
    while n_bytes and (block := file.read(min(_BLOCK, n_bytes))):
        n_bytes -= len(block)
        yield block


@contextmanager
def _alone(part: Path, options: FetchOptions) -> Iterator[None]:
    """Wait until no other process downloads the same file."""
    while True:
        try:
            lock = take_lock(part.with_name(f"{part.name}.lock"))
            break
        except LockHeldError:
            _sleep(0.2, options)
    try:
        yield
    finally:
        if lock is not None:
            lock.release()


def _stated_sha256(response: httpx.Response, request: FileRequest) -> str | None:
    """Return the SHA-256 stated by the hub for files that the hub itself sends."""
    if not web.is_of_host(response, request.url):
        return None
    match = _SHA256.fullmatch(response.headers.get("X-Linked-Etag") or "")
    return match[1] if match else None


def _check_room(
    request: FileRequest, options: FetchOptions, size: int, n_there: int
) -> None:
    """Check that a file of this size fits into memory and on the disk."""
    if request.is_whole:
        file = RemoteFile(name=request.target.name, size_bytes=size, sha256=None)
        model = Offer(files=(file,), quantization=None)
        check_fits(request.source, model, [], available_bytes(options.check_memory))
    free = shutil.disk_usage(request.part.parent).free
    if size - n_there > free:
        raise DownloadError(
            f"{request.part.parent} has {gigabytes(free)} free, but "
            f"{gigabytes(size - n_there)} remain to be downloaded: free some space, or "
            "set another folder (cache_dir, or the environment variable "
            "LLAMAHERD_CACHE_DIR)"
        )


# ---- state of an incomplete file ------------------------------------------------------


def _state_path(part: Path) -> Path:
    return part.with_name(f"{part.name}.json")


def _state_of(part: Path, request: FileRequest) -> dict[str, Any]:
    """Return the stored state of an incomplete file; {} if it cannot be resumed."""
    try:
        state = json.loads(_state_path(part).read_text(encoding="utf-8"))
        usable = (
            state["url"] == address_hash(request.url)
            and state["sha256"] == request.sha256
            and (state["sha256"] or state["validator"])
            and part.stat().st_size > 0
        )
    except (OSError, *DAMAGED):
        return {}
    return dict(state) if usable else {}


def _write_state(request: FileRequest, response: httpx.Response) -> None:
    tag = response.headers.get("ETag", "")
    validator = tag if _STRONG_TAG.fullmatch(tag) else None
    # With a hash, the tag is not needed: the hash verifies the result, and mirrors of
    # the hub use other tags.
    state = {
        "url": address_hash(request.url),
        "sha256": request.sha256,
        "validator": None if request.sha256 else validator,
    }
    _state_path(request.part).write_text(json.dumps(state), encoding="utf-8")


# ---- failures -------------------------------------------------------------------------


def _wait_s(error: Exception, n_tries: int) -> float | None:
    """Return the delay before the next try in seconds; None if there is no next try."""
    if isinstance(error, httpx.HTTPStatusError):
        if error.response.status_code not in _RETRIED:
            return None
        after = web.number(error.response.headers.get("Retry-After"))
        if after is not None:
            return min(float(after), _MOST_WAIT_S)
    elif not isinstance(error, httpx.TransportError):
        return None  # an error of the disk, or an address that cannot be read
    return _wait_after(n_tries)


def _wait_after(n_tries: int) -> float:
    return float(min(2**n_tries, 16))


def _reason(error: Exception) -> str:
    if isinstance(error, httpx.HTTPStatusError):
        response = error.response
        return f"the server answered {response.status_code} {response.reason_phrase}"
    if isinstance(error, httpx.ConnectError):
        return f"no connection: {error}"
    if isinstance(error, (httpx.ProtocolError, httpx.InvalidURL)):
        return f"the server's answer cannot be read: {error}"
    return str(error) or type(error).__name__


def _failure(request: FileRequest, error: Exception, n_now: int) -> str:
    hint, status = "", None
    if isinstance(error, httpx.HTTPStatusError):
        status = error.response.status_code
    if status in {401, 403}:
        hint = (
            f"; it needs an access token: see {call('set_hf_token')}, and accept the "
            "model's terms on its page if it has any"
        )
    elif status == 404:
        hint = "; is the address right?"
    elif n_now:
        hint = f"; {gigabytes(n_now)} are kept, and the same call continues from there"
    return f"{shown_url(request.url)} could not be downloaded: {_reason(error)}{hint}"


def _sleep(seconds: float, options: FetchOptions) -> None:
    """Sleep; raise Cancelled as soon as the download is cancelled."""
    end = time.monotonic() + seconds
    while not options.meter.is_cancelled:
        left = end - time.monotonic()
        if left <= 0:
            return
        time.sleep(min(left, 0.1))
    raise Cancelled
