"""Download of a model's file over HTTP.

A download can be resumed. The file is verified before it gets its final name.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import shutil
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import IO, TYPE_CHECKING, Any

import httpx

from llamaherd.engine.core import files
from llamaherd.engine.core.checks import digits
from llamaherd.engine.core.errors import DownloadError
from llamaherd.engine.core.files import LockHeldError, take_lock
from llamaherd.engine.core.plain import DAMAGED
from llamaherd.engine.core.words import call, name_of
from llamaherd.engine.hub import cache
from llamaherd.engine.hub.progress import Cancelled, FetchOptions
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


_MOST_TRIES = 5  # maximum number of consecutive tries without a new byte
_MOST_WAIT_S = 60.0
_MOST_REDIRECTS = 10
_TIMEOUT_S = 30.0
_RETRIED = {408, 425, 429, 500, 502, 503, 504}
_PARTIAL_CONTENT = 206
_RANGE_NOT_SATISFIABLE = 416
_BLOCK = 1 << 20
# Bytes after which memory and disk are checked again, if the server states no size.
_UNSIZED = 64 << 20
_RANGE = re.compile(r"bytes ([0-9]{1,18})-[0-9]+/([0-9]{1,18}|\*)")
# A tag that guarantees the same bytes, and that a header can contain.
_STRONG_TAG = re.compile(r'"[!#-~]*"')
_LOGGERS = ("httpx", "httpcore.connection", "httpcore.http11", "httpcore.proxy")
_downloading: set[int] = set()  # threads


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRequest:
    """A file to download.

    Attributes:
        source, note: Source, and further entries, of the record beside the file.
        token: Access token, sent only to the host of `url`.
        size_bytes: Expected size; None uses the size that the server states.
        is_whole: Whether the size is compared with the memory, as for a whole model.
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
        return f"FileRequest({self.address!r})"

    @property
    def address(self) -> str:
        """Address for messages, without credentials and query."""
        return shown_url(self.url)

    @property
    def part(self) -> Path:
        """Path of the incomplete file."""
        return self.target.with_name(f".{self.target.name}.part")

    @property
    def state_path(self) -> Path:
        """Path of the state of the incomplete file."""
        return self.part.with_name(f"{self.part.name}.json")

    def state(self) -> dict[str, Any]:
        """Return the stored state of the incomplete file; {} if it cannot be resumed."""
        try:
            state = json.loads(self.state_path.read_text(encoding="utf-8"))
            usable = (
                state["url"] == address_hash(self.url)
                and state["sha256"] == self.sha256
                and (state["sha256"] or state["validator"])
                and self.part.stat().st_size > 0
            )
        except (OSError, *DAMAGED):
            return {}
        return dict(state) if usable else {}

    def write_state(self, tag: str) -> None:
        """Store the state of the incomplete file, with the tag that the server sent."""
        # With a hash, the tag is not needed: the hash verifies the result, and mirrors
        # of the hub use other tags.
        is_needed = not self.sha256 and _STRONG_TAG.fullmatch(tag)
        state = {
            "url": address_hash(self.url),
            "sha256": self.sha256,
            "validator": tag if is_needed else None,
        }
        self.state_path.write_text(json.dumps(state), encoding="utf-8")

    def discard(self) -> None:
        """Remove the incomplete file and its state."""
        self.part.unlink(missing_ok=True)
        self.state_path.unlink(missing_ok=True)


def download(request: FileRequest, options: FetchOptions) -> Path:
    """Download a file, or resume the download, and record its source beside it."""
    note_path = cache.note_path(request.target)
    if note_path.exists() and "source" not in cache.note_of(request.target):
        raise DownloadError(
            f"{note_path} is not the record of a download, which would replace it"
        )
    options.meter.say(f"Downloading {request.address} to {request.target}.")
    request.target.parent.mkdir(parents=True, exist_ok=True)
    with _alone(request.part, options):
        if request.target.is_file() and not request.replace:
            digest = files.sha256_of(request.target)  # another process was first
        else:
            with _client(request) as client:
                digest = _Transfer(client, request, options).run()
        record = {
            "source": request.source,
            "sha256": digest,
            "size_bytes": request.target.stat().st_size,
            "downloaded": datetime.now(UTC).isoformat(timespec="seconds"),
            **request.note,
        }
        files.write_whole(note_path, json.dumps(record, indent=1).encode())
    return request.target


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


@contextmanager
def _client(request: FileRequest) -> Iterator[httpx.Client]:
    """Create a client that trusts the system's certificates and those of certifi.

    After a redirect to another host, httpx does not send the token.
    """
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_is_of_others)
    certificates = httpx.create_ssl_context()
    certificates.load_default_certs()

    def refuse_http(sent: httpx.Request) -> None:
        if sent.url.scheme == "http" and not request.url.lower().startswith("http:"):
            raise DownloadError(
                f"{request.address} redirects from https to http, where anybody could "
                "change the file: the redirect is not followed"
            )

    try:
        opened = httpx.Client(
            verify=certificates,
            timeout=_TIMEOUT_S,
            follow_redirects=True,
            max_redirects=_MOST_REDIRECTS,
            event_hooks={"request": [refuse_http]},
        )
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


class _Transfer:
    """Transfer of a file, in as many tries as it needs."""

    def __init__(
        self, client: httpx.Client, request: FileRequest, options: FetchOptions
    ) -> None:
        self._client, self._request, self._options = client, request, options

    def run(self) -> str:
        """Receive the file and give it its name; return its SHA-256."""
        part = self._request.part
        n_before, n_tries = -1, 0
        while True:
            try:
                return self._try()
            except (httpx.HTTPError, httpx.InvalidURL, UnicodeError, OSError) as error:
                wait_s = _wait_s(error, n_tries)
                failure = error
            n_now = part.stat().st_size if part.exists() else 0
            n_tries = 1 if n_now > n_before else n_tries + 1
            n_before = max(n_now, n_before)
            if wait_s is None or n_tries >= _MOST_TRIES:
                reason = _reason(failure, n_now)
                raise DownloadError(
                    f"{self._request.address} could not be downloaded: {reason}"
                ) from None
            _sleep(wait_s, self._options)

    def _try(self) -> str:
        """Request the missing part of the file and write it."""
        request, part = self._request, self._request.part
        state = request.state()
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
        with self._client.stream("GET", request.url, headers=headers) as response:
            if response.status_code == _RANGE_NOT_SATISFIABLE and n_there:
                part.unlink()  # the part is too long, or belongs to another file
                raise httpx.ReadError("the file has changed")
            response.raise_for_status()
            size = self._size(response, n_there)
            if response.status_code != _PARTIAL_CONTENT:
                n_there = 0  # the server sends the whole file
            if size is not None:
                self._check_room(size, n_there)
            request.write_state(response.headers.get("ETag", ""))
            digest = self._write(response, n_there, size)
        if request.sha256 not in {None, digest}:
            request.discard()
            raise DownloadError(
                f"{request.address}: the received file has the SHA-256 {digest}, not "
                f"{request.sha256}. It was removed; try again, and if this recurs, do "
                "not trust the server"
            )
        files.replace(part, request.target)
        request.discard()
        return digest

    def _size(self, response: httpx.Response, n_there: int) -> int | None:
        """Return the size of the whole file in bytes; None if nobody states it."""
        expected = self._request.size_bytes
        stated = response.headers.get("Content-Length", "")
        if response.status_code == _PARTIAL_CONTENT:
            match = _RANGE.fullmatch(response.headers.get("Content-Range", ""))
            if match is None or int(match[1]) != n_there:
                raise DownloadError(
                    f"{self._request.address} sent another part of the file than "
                    "requested"
                )
            stated = match[2]
        size = digits(stated)
        if size is not None and expected not in {None, size}:
            raise DownloadError(
                f"{self._request.address} has {size} bytes, not {expected}"
            )
        return expected if size is None else size

    def _check_room(self, size: int, n_there: int) -> None:
        """Check that a file of this size fits into memory and on the disk."""
        request = self._request
        if request.is_whole:
            file = RemoteFile(name=request.target.name, size_bytes=size, sha256=None)
            model = Offer(files=(file,), quantization=None)
            available = available_bytes(self._options.check_memory)
            check_fits(request.source, model, [], available)
        folder = request.part.parent
        free = shutil.disk_usage(folder).free
        if size - n_there > free:
            raise DownloadError(
                f"{folder} has {gigabytes(free)} free, but {gigabytes(size - n_there)} "
                "remain to be downloaded: free some space, or set another folder "
                f"({name_of('cache_dir')}, or the environment variable "
                "LLAMAHERD_CACHE_DIR)"
            )

    def _write(self, response: httpx.Response, n_there: int, size: int | None) -> str:
        """Append the received blocks and return the SHA-256 of the whole file."""
        hasher = hashlib.sha256()
        meter = self._options.meter
        with self._request.part.open("r+b" if n_there else "wb") as file:
            for block in _blocks(file, n_there):
                hasher.update(block)
            file.truncate(n_there)
            file.seek(n_there)
            n_done, n_checked = n_there, n_there
            # As the server sends them: a compressed file is not unpacked.
            for block in response.iter_raw():
                if meter.is_cancelled:
                    raise Cancelled
                if n_done == 0 and not b"GGUF".startswith(block[:4]):
                    raise DownloadError(
                        f"{self._request.address} is not a GGUF file: it begins with "
                        f"{block[:12]!r}. Is it the address of a page about the file?"
                    )
                n_done += len(block)
                if size is not None and n_done > size:
                    raise DownloadError(
                        f"{self._request.address} sent more than the expected {size} "
                        "bytes"
                    )
                if size is None and n_done - n_checked > _UNSIZED:
                    self._check_room(n_done + _UNSIZED, n_done)
                    n_checked = n_done
                file.write(block)
                hasher.update(block)
                meter.step(n_done, size)
            file.flush()
            os.fsync(file.fileno())
        if size is not None and n_done < size:
            raise httpx.ReadError("the connection ended too early")
        return hasher.hexdigest()


def _blocks(file: IO[bytes], n_bytes: int) -> Iterator[bytes]:
    while n_bytes and (block := file.read(min(_BLOCK, n_bytes))):
        n_bytes -= len(block)
        yield block


def _wait_s(error: Exception, n_tries: int) -> float | None:
    """Return the delay before the next try in seconds; None if there is no next try."""
    if isinstance(error, httpx.HTTPStatusError):
        if error.response.status_code not in _RETRIED:
            return None
        after = digits(error.response.headers.get("Retry-After", ""))
        if after is not None:
            return min(float(after), _MOST_WAIT_S)
    elif isinstance(error, httpx.UnsupportedProtocol) or not isinstance(
        error, httpx.TransportError
    ):
        return None  # an error of the disk, or an address that cannot be read
    return _wait_after(n_tries)


def _wait_after(n_tries: int) -> float:
    return float(min(2**n_tries, 16))


def _reason(error: Exception, n_now: int) -> str:
    """Return the reason of a failure in words, and a remedy."""
    kept = f"; {gigabytes(n_now)} are kept, and the same call continues from there"
    hint = kept if n_now else ""
    if isinstance(error, httpx.HTTPStatusError):
        response = error.response
        if response.status_code in {401, 403}:
            hint = (
                f"; it needs an access token: see {call('set_hf_token')}, and accept the "
                "model's terms on its page if it has any"
            )
        elif response.status_code == 404:
            hint = "; is the address right?"
        reason = f"the server answered {response.status_code} {response.reason_phrase}"
    elif isinstance(error, httpx.ConnectError):
        reason = f"no connection: {error}"
    elif isinstance(error, httpx.RemoteProtocolError) and n_now:
        reason = f"the connection ended too early: {error}"
    elif isinstance(error, (httpx.ProtocolError, httpx.InvalidURL, UnicodeError)):
        reason = f"the server's answer cannot be read: {error}"
    else:
        reason = str(error) or type(error).__name__
    return f"{reason}{hint}"


def _sleep(seconds: float, options: FetchOptions) -> None:
    """Sleep; raise Cancelled as soon as the download is cancelled."""
    end = time.monotonic() + seconds
    while not options.meter.is_cancelled:
        left = end - time.monotonic()
        if left <= 0:
            return
        time.sleep(min(left, 0.1))
    raise Cancelled
