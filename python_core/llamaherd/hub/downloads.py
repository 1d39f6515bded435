"""Download of one file into the cache, with its note and its checks."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from llamaherd.core.errors import DownloadError, ModelLoadError
from llamaherd.core.files import sha256_of, write_whole
from llamaherd.core.words import setting, words
from llamaherd.hub import folders, quantizations
from llamaherd.hub.quantizations import available_bytes
from llamaherd.hub.transfer import FileRequest, Watch, download, shown_url

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from llamaherd.hub.quantizations import Offer

# Maximum length of a name in bytes. File systems allow 255 bytes, and an incomplete
# file has a longer name.
_LONGEST_NAME = 255 - len("..part.json.lock")


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchOptions:
    """Settings of a download.

    Attributes:
        cache: Folder for downloads.
        token: Access token of the caller; excluded from `repr`.
        force: Whether to download a file that is already in the cache.
        check_memory: Whether to refuse a model that does not fit into memory.
        download: Whether to download a file that is not on this machine.
        sha256: Expected SHA-256 in hexadecimal; None uses the hash that the hub states.
        watch: Callbacks for progress and cancellation.
        say: Function called with messages for the user.
    """

    cache: Path
    token: str | None = field(default=None, repr=False)
    force: bool = False
    check_memory: bool = True
    download: bool = True
    sha256: str | None = None
    watch: Watch = field(default_factory=Watch)
    say: Callable[[str], object] = lambda _text: None


def check_may_download(source: str, options: FetchOptions) -> None:
    """Check that a file that is not on this machine may be downloaded.

    Raises:
        ModelLoadError: It may not.
    """
    if not options.download:
        raise ModelLoadError(
            f"{source} is not on this machine; {words().fetch}{source}{words().fetched}"
        )


def downloaded(
    file_request: FileRequest,
    source: str,
    offer: Offer,
    note: dict[str, str],
    options: FetchOptions,
) -> Path:
    """Download a file, and store its source in a file next to it.

    Args:
        file_request: File to download.
        source: Source in messages and in the note.
        offer: The model to which the file belongs, for the check of memory.
        note: Further entries of the note.
        options: Settings of the download.

    Raises:
        ModelLoadError: The model does not fit into memory.
        DownloadError: The download failed, or the file has an unexpected content.
    """

    def check_size(size: int | None) -> None:
        if len(offer.files) == 1:  # for several parts, the total size was already checked
            sized = replace(offer, files=(replace(offer.files[0], size_bytes=size),))
            available = available_bytes(options.check_memory)
            quantizations.check_fits(source, sized, [], available)

    note_path = folders.note_path(file_request.target)
    if note_path.exists() and "source" not in folders.note_of(file_request.target):
        raise DownloadError(
            f"{note_path} is not the record of a download, which would replace it"
        )
    options.say(f"Downloading {shown_url(file_request.url)} to {file_request.target}.")
    watch = replace(options.watch, check_size=check_size)
    digest = download(file_request, watch)
    record = {
        "source": source,
        "sha256": digest,
        "size_bytes": file_request.target.stat().st_size,
        "downloaded": datetime.now(UTC).isoformat(timespec="seconds"),
        **note,
    }
    write_whole(note_path, json.dumps(record, indent=1).encode())
    return file_request.target


def safe_name(name: str) -> str:
    """Return a file name without characters that could lead to another folder.

    Raises:
        DownloadError: No file can have the name.
    """
    safe = re.sub(r'[\x00-\x1f<>:"/\\|?*]', "_", name)
    if safe in {"", ".", ".."}:
        raise DownloadError(f"{name!r} cannot be the name of a file")
    n_bytes = len(safe.encode(errors="replace"))
    if n_bytes > _LONGEST_NAME:
        raise DownloadError(
            f"the name {name[:60]!r}... has {n_bytes} bytes; the name of a file "
            f"may have at most {_LONGEST_NAME} here"
        )
    return safe


def check_content(path: Path, expected: str) -> None:
    """Check the SHA-256 of a file.

    Raises:
        DownloadError: The file has another SHA-256.
    """
    digest = sha256_of(path)
    if digest != expected:
        raise DownloadError(
            f'"{path}" has the SHA-256 {digest}, not {expected}: it is '
            f"another file, or was changed; {setting('force', True)} downloads "
            "it again"
        )
