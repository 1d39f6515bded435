"""Files of models on the hub and the web: in a cache, or downloaded."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from llamaherd.core.errors import ArgumentError, DownloadError
from llamaherd.hub import folders, huggingface, quantizations
from llamaherd.hub.downloads import (
    check_content,
    check_may_download,
    downloaded,
    safe_name,
)
from llamaherd.hub.quantizations import Offer, RemoteFile, available_bytes
from llamaherd.hub.sources import is_meant
from llamaherd.hub.tokens import endpoint, is_offline, token_to_use
from llamaherd.hub.transfer import FileRequest, address_hash, shown_url

if TYPE_CHECKING:
    from pathlib import Path

    from llamaherd.hub.downloads import FetchOptions
    from llamaherd.hub.sources import HubModel


def web_file(url: str, options: FetchOptions) -> Path:
    """Return the path of the file of a web address, after downloading it if necessary.

    Raises:
        ModelLoadError: The file is not in the cache, and must not be downloaded.
        DownloadError: The download failed, or the file has an unexpected content.
    """
    name = PurePosixPath(unquote(urlsplit(url).path)).name
    if not name or name.startswith("."):
        raise DownloadError(f"{shown_url(url)} names no file")
    if not name.lower().endswith(".gguf"):
        name += ".gguf"
    # Each complete address has its own folder, because the part after "?" can select
    # another file.
    address = address_hash(url)
    target = options.cache / f"web-{address[:16]}" / safe_name(name)
    is_its_own = folders.note_of(target).get("address") == address
    if target.is_file() and is_its_own and not options.force:
        if options.sha256 is not None:
            check_content(target, options.sha256)
        options.say(f"Using {target}.")
        return target
    check_may_download(shown_url(url), options)
    is_hub = urlsplit(url).netloc == urlsplit(endpoint()).netloc
    if is_hub and is_offline():
        raise DownloadError(
            f"{shown_url(url)} is not in the cache, and HF_HUB_OFFLINE forbids "
            "the download"
        )
    file_request = FileRequest(
        url=url,
        target=target,
        token=token_to_use(options.token) if is_hub else None,
        sha256=options.sha256,
        replace=options.force or not is_its_own,
    )
    offer = Offer(
        files=(RemoteFile(name=name, size_bytes=None, sha256=None),), quantization=None
    )
    note = {"address": address}
    return downloaded(file_request, shown_url(url), offer, note, options)


def hub_file(what: HubModel, options: FetchOptions) -> Path:
    """Return the path of a file of the hub, after downloading it if necessary.

    Raises:
        ModelLoadError: No file fits into memory; or the file is not in the cache, and
            must not be downloaded.
        DownloadError: The download failed, or the file has an unexpected content.
    """
    at = "" if what.revision == "main" else f"@{what.revision}"
    folder = options.cache / (what.repo.replace("/", "--") + at)
    if not options.force:
        own = sorted(folder.rglob("*.gguf")) if folder.is_dir() else []
        snapshot, shared = huggingface.in_hub_cache(what.repo, what.revision)
        for root, files in ((folder, own), (snapshot, shared)):
            cached = _best_of(root, files, what)
            if cached is not None:
                if options.sha256 is not None:
                    check_content(cached, options.sha256)
                options.say(f"Using {cached}.")
                return cached
    check_may_download(str(what), options)
    there = huggingface.repository(what.repo, what.revision, options.token)
    offers = quantizations.offers(there.files)
    available = available_bytes(options.check_memory)
    offer = quantizations.choose(str(what), offers, what.file_or_quantization, available)
    if what.file_or_quantization is None:
        others = ", ".join(str(o) for o in offers if o is not offer)
        options.say(
            f"{what}: taking {offer}." + (f" There is also {others}." if others else "")
        )
    return _hub_files(what, there.commit, offer, folder, options)


def _hub_files(
    what: HubModel, commit: str, offer: Offer, folder: Path, options: FetchOptions
) -> Path:
    """Download all parts, the first part last, because it marks a complete model."""
    if options.sha256 is not None and len(offer.files) > 1:
        raise ArgumentError(
            f"cannot be given: {what} has {len(offer.files)} files", argument="sha256"
        )
    for file in reversed(offer.files):
        target = folder.joinpath(*(safe_name(part) for part in file.name.split("/")))
        is_there = target.is_file() and not options.force
        source = str(replace(what, file_or_quantization=file.name))
        if is_there and _is_of(target, file, commit, source):
            path = target
            continue
        expected = options.sha256 or file.sha256
        if file.sha256 not in {None, expected}:
            raise DownloadError(
                f"{what}: the hub says that {file.name} has the SHA-256 {file.sha256}, "
                f"not {expected}"
            )
        file_request = FileRequest(
            url=huggingface.file_url(what.repo, commit, file.name),
            target=target,
            token=token_to_use(options.token),
            sha256=expected,
            size_bytes=file.size_bytes,
            replace=options.force or is_there,
        )
        path = downloaded(file_request, source, offer, {"commit": commit}, options)
    return path


def _is_of(target: Path, file: RemoteFile, commit: str, source: str) -> bool:
    """Return whether a local file equals the hub's file of this commit.

    Two names on the hub can have one name on this machine, see `safe_name`.
    """
    note = folders.note_of(target)
    if file.sha256 is not None and "sha256" in note:
        return bool(note["sha256"] == file.sha256)
    return bool(note.get("commit") == commit and note.get("source") == source)


def _best_of(root: Path, files: list[Path], what: HubModel) -> Path | None:
    """Return the cached file that matches the request; None if none is complete.

    Args:
        root: Folder of the repository.
        files: GGUF files in it.
        what: Requested model.
    """
    there = {
        path.relative_to(root).as_posix(): path
        for path in files
        if is_meant(path.relative_to(root).as_posix(), what.file_or_quantization)
    }
    offers = quantizations.offers(
        RemoteFile(name=name, size_bytes=path.stat().st_size, sha256=None)
        for name, path in there.items()
    )
    whole = [
        offer
        for offer in offers
        if _is_whole(offer) and _is_of_one_commit([there[f.name] for f in offer.files])
    ]
    if not whole:
        return None
    return there[quantizations.choose(str(what), whole, None, None).name]


def _is_whole(offer: Offer) -> bool:
    match = re.search(r"-\d{5}-of-(\d{5})\.gguf$", offer.name)
    return match is None or len(offer.files) == int(match[1])


def _is_of_one_commit(parts: list[Path]) -> bool:
    """Return whether all parts were downloaded from one commit of the repository."""
    return len({folders.note_of(part).get("commit") for part in parts}) == 1
