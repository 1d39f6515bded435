"""Functions that find a model's file, and download the file if necessary."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from llamaherd.core import checks
from llamaherd.core.errors import (
    ArgumentError,
    ArgumentTypeError,
    DownloadError,
    ModelLoadError,
)
from llamaherd.core.files import sha256_of
from llamaherd.core.words import setting, words
from llamaherd.hub import folders, huggingface, quantizations
from llamaherd.hub.ollama import ollama_path
from llamaherd.hub.progress import ProgressOption, ProgressReporter
from llamaherd.hub.quantizations import Offer, RemoteFile, available_bytes
from llamaherd.hub.sources import (
    HubModel,
    LocalFile,
    OllamaName,
    WebFile,
    is_meant,
    parse,
)
from llamaherd.hub.tokens import checked_token, endpoint, is_offline, token_to_use
from llamaherd.hub.transfer import FileRequest, Watch, address_hash, download, shown_url

if TYPE_CHECKING:
    from collections.abc import Callable


_SHA256 = re.compile(r"[0-9a-f]{64}")
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


def download_model(
    source: str | os.PathLike[str],
    *,
    cache_dir: str | os.PathLike[str] | None = None,
    token: str | None = None,
    force: bool = False,
    check_memory: bool = True,
    sha256: str | None = None,
    progress: ProgressOption = True,
) -> Path:
    """Return the path of a model's file, after downloading it if necessary.

    A download that was interrupted, by Ctrl-C or a lost connection, is resumed by the
    next call. A file has its final name only when it is complete. The SHA-256 of a file
    from the hub is compared with the hash that the hub states. A cached file is used
    without a network request; `force` downloads the current version.

    Args:
        source: A path; "https://..."; "hf:owner/repo" of the Hugging Face hub,
            optionally with "/file.gguf" or a quantization such as ":Q4_K_M", and with
            "@revision" after the repository; "ollama:name" from the store of Ollama; or
            the name of a cached file, or a part of a name that occurs in the name of only
            one cached file. The default quantization is Q4_K_M, or Q8_0 for a model of up
            to 1.5 GB; if the file is not available or does not fit into memory, the next
            quantization that fits is used.
        cache_dir: Folder for downloads; None: `model_cache_dir()`.
        token: Access token of the hub, sent only to the hub. None uses the token of
            `set_hf_token`, the variable HF_TOKEN, or the token that `hf auth login`
            stored.
        force: Download the file even if it is in the cache.
        check_memory: Refuse a model that does not fit into memory, before the download.
            A tenth of the model's size, at least 128 MB, is added for a context.
        sha256: Expected SHA-256 of the file in hexadecimal, if known.
        progress: True shows a progress bar and the chosen file on stderr. A function is
            called with the number of bytes received and the total, None if unknown.

    Returns:
        Path of the file, or of the first file of a model in several files.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: `source` has no known form, or `token` or `sha256` is malformed.
        ModelLoadError: The file does not exist, or does not fit into memory; the
            message names a file that fits.
        DownloadError: The download failed, or the file has an unexpected content.
    """
    with ProgressReporter(progress) as reporter:
        options = FetchOptions(
            cache=folders.cache_folder(cache_dir),
            token=checked_token(token),
            force=checks.flag("force", force),
            check_memory=checks.flag("check_memory", check_memory),
            sha256=_checked_sha256(sha256),
            watch=Watch(step=reporter.step),
            say=reporter.say,
        )
        return fetch(source, options)


def local_path(
    source: str | os.PathLike[str], *, cache_dir: str | os.PathLike[str] | None = None
) -> Path:
    """Return the path of a model on this machine, without any download.

    Args:
        source: Source, as in `download_model`.
        cache_dir: Folder of downloads; None: `model_cache_dir()`.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: `source` has no known form.
        ModelLoadError: The model is not on this machine.
    """
    options = FetchOptions(cache=folders.cache_folder(cache_dir), download=False)
    return fetch(source, options)


def model_path(
    path: object, *, check_memory: bool, name: str = "path", progress: bool = True
) -> Path:
    """Return the path of the file to load; an existing path is returned unchanged.

    Args:
        path: Source, as in `download_model`.
        check_memory: See `download_model`.
        name: Name of the argument in messages.
        progress: Whether to report downloads and the use of cached files on stderr.

    Raises:
        TypeError: `path` is neither text nor a path.
        ModelLoadError: The file does not exist, or could not be downloaded.
    """
    if not isinstance(path, (str, os.PathLike)):
        raise ArgumentTypeError(
            f"must be {words().path}, not {checks.shown(path)}", argument=name
        )
    file = Path(path)
    if file.is_file():
        return file
    with ProgressReporter(progress) as reporter:
        options = FetchOptions(
            cache=folders.model_cache_dir(),
            check_memory=check_memory,
            watch=Watch(step=reporter.step),
            say=reporter.say,
        )
        return fetch(path, options, name)


def fetch(source: object, options: FetchOptions, name: str = "source") -> Path:
    """Return the path of a model, see `download_model`, from checked arguments."""
    what = parse(source, name)
    if isinstance(what, LocalFile):
        path = _local(what.path, options, name)
    elif isinstance(what, OllamaName):
        path = ollama_path(what.name)
    elif isinstance(what, WebFile):
        return _web(what.url, options)
    else:
        return _hub(what, options)
    if options.sha256 is not None:
        _check_content(path, options.sha256)
    return path


# ---- local files ----------------------------------------------------------------------


def _local(path: Path, options: FetchOptions, name: str) -> Path:
    if path.is_file():
        return path
    if len(path.parts) == 1:
        found = _named(path.name, options.cache)
        if found is not None:
            options.say(f"Using {found}.")
            return found
    kind = "a folder" if path.is_dir() else "no file"
    cached = sorted({model.name for model in folders.list_cached_models(options.cache)})
    hint = f"; in the cache are {', '.join(cached[:5])}" if cached else ""
    raise ModelLoadError(
        f'{name} names {kind}: "{path}". The working directory is "{Path.cwd()}"{hint}. '
        'To download a model: "hf:owner/repo" or "https://..."'
    )


def _named(name: str, cache: Path) -> Path | None:
    """Return the cached file with this name, or the only file whose name contains `name`.

    Raises:
        ModelLoadError: Several files match.
    """
    own = cache == folders.model_cache_dir()
    models = [
        model
        for model in folders.list_cached_models(None if own else cache)
        if folders.OPTIMIZED not in model.path.parts
    ]
    asked = name.lower()
    exact = [m for m in models if m.name.lower() in {asked, f"{asked}.gguf"}]
    found = exact or [m for m in models if asked in m.name.lower()]
    if len({model.name for model in found}) > 1:
        names = ", ".join(model.name for model in found)
        raise ModelLoadError(
            f"{name!r} is in the names of several files in the cache: {names}. "
            "Give the whole name"
        )
    if len({model.size_bytes for model in found}) > 1 or (
        len(found) > 1 and len({sha256_of(model.path) for model in found}) > 1
    ):
        paths = ", ".join(f'"{model.path}" ({model.source or "?"})' for model in found)
        raise ModelLoadError(
            f"{name!r} is the name of several files in the cache, which differ: {paths}. "
            "Give the path, or the source of the download"
        )
    return found[0].path if found else None


# ---- files of the web -----------------------------------------------------------------


def _web(url: str, options: FetchOptions) -> Path:
    name = PurePosixPath(unquote(urlsplit(url).path)).name
    if not name or name.startswith("."):
        raise DownloadError(f"{shown_url(url)} names no file")
    if not name.lower().endswith(".gguf"):
        name += ".gguf"
    # Each complete address has its own folder, because the part after "?" can select
    # another file.
    address = address_hash(url)
    target = options.cache / f"web-{address[:16]}" / _safe(name)
    is_its_own = folders.note_of(target).get("address") == address
    if target.is_file() and is_its_own and not options.force:
        if options.sha256 is not None:
            _check_content(target, options.sha256)
        options.say(f"Using {target}.")
        return target
    _check_may_download(shown_url(url), options)
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
    return _downloaded(file_request, shown_url(url), offer, note, options)


# ---- files of the hub -----------------------------------------------------------------


def _hub(what: HubModel, options: FetchOptions) -> Path:
    at = "" if what.revision == "main" else f"@{what.revision}"
    folder = options.cache / (what.repo.replace("/", "--") + at)
    if not options.force:
        own = sorted(folder.rglob("*.gguf")) if folder.is_dir() else []
        snapshot, shared = huggingface.in_hub_cache(what.repo, what.revision)
        for root, files in ((folder, own), (snapshot, shared)):
            cached = _best_of(root, files, what)
            if cached is not None:
                if options.sha256 is not None:
                    _check_content(cached, options.sha256)
                options.say(f"Using {cached}.")
                return cached
    _check_may_download(str(what), options)
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
        target = folder.joinpath(*(_safe(part) for part in file.name.split("/")))
        is_there = target.is_file() and not options.force
        if is_there and _is_of(target, file, commit):
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
        source = str(replace(what, file_or_quantization=file.name))
        path = _downloaded(file_request, source, offer, {"commit": commit}, options)
    return path


def _is_of(target: Path, file: RemoteFile, commit: str) -> bool:
    """Return whether a local file equals the hub's file of this commit."""
    note = folders.note_of(target)
    if file.sha256 is not None and "sha256" in note:
        return bool(note["sha256"] == file.sha256)
    return bool(note.get("commit") == commit)


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


# ---- shared ---------------------------------------------------------------------------


def _check_may_download(source: str, options: FetchOptions) -> None:
    if not options.download:
        raise ModelLoadError(
            f"{source} is not on this machine; {words().fetch}{source}{words().fetched}"
        )


def _downloaded(
    file_request: FileRequest,
    source: str,
    offer: Offer,
    note: dict[str, str],
    options: FetchOptions,
) -> Path:
    def check_size(size: int | None) -> None:
        if len(offer.files) == 1:  # for several parts, the total size was already checked
            sized = replace(offer, files=(replace(offer.files[0], size_bytes=size),))
            available = available_bytes(options.check_memory)
            quantizations.check_fits(source, sized, [], available)

    options.say(f"Downloading {shown_url(file_request.url)} to {file_request.target}.")
    watch = replace(options.watch, check_size=check_size)
    digest = download(file_request, watch)
    folders.note_path(file_request.target).write_text(
        json.dumps(
            {
                "source": source,
                "sha256": digest,
                "size_bytes": file_request.target.stat().st_size,
                "downloaded": datetime.now(timezone.utc).isoformat(timespec="seconds"),
                **note,
            },
            indent=1,
        ),
        encoding="utf-8",
    )
    return file_request.target


def _safe(name: str) -> str:
    """Return a file name without characters that could lead to another folder."""
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


def _checked_sha256(value: object) -> str | None:
    if value is None:
        return None
    text = checks.text("sha256", value).lower()
    if not _SHA256.fullmatch(text):
        raise ArgumentError(
            f"must be 64 hexadecimal digits, not {checks.shown(value)}", argument="sha256"
        )
    return text


def _check_content(path: Path, expected: str) -> None:
    digest = sha256_of(path)
    if digest != expected:
        raise DownloadError(
            f'"{path}" has the SHA-256 {digest}, not {expected}: it is '
            f"another file, or was changed; {setting('force', True)} downloads "
            "it again"
        )
