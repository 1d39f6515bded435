"""Functions that find a model's file, and download the file if necessary."""

from __future__ import annotations

import os
import re
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

from llamaherd.engine.core import checks
from llamaherd.engine.core.errors import (
    ArgumentError,
    ArgumentTypeError,
    DownloadError,
    ModelLoadError,
)
from llamaherd.engine.core.files import sha256_of
from llamaherd.engine.core.words import name_of
from llamaherd.engine.hub import cache, repository
from llamaherd.engine.hub.cache import ollama_path
from llamaherd.engine.hub.progress import (
    Cancelled,
    FetchMeter,
    FetchOptions,
    FetchProgress,
    ProgressOption,
)
from llamaherd.engine.hub.repository import checked_token, hub_file
from llamaherd.engine.hub.sources import (
    LocalFile,
    OllamaName,
    WebFile,
    address_hash,
    parse,
    shown_url,
)

_SHA256 = re.compile(r"[0-9a-f]{64}")


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
    with FetchMeter(progress) as meter:
        options = FetchOptions(
            cache=cache.cache_folder(cache_dir),
            token=checked_token(token),
            force=checks.flag("force", force),
            check_memory=checks.flag("check_memory", check_memory),
            sha256=_checked_sha256(sha256),
            meter=meter,
        )
        return fetch(source, options)


def model_path(
    path: object, *, check_memory: bool, name: str = "path", progress: bool = True
) -> Path:
    """Return the path of the file to load; an existing path is returned unchanged."""
    if not isinstance(path, (str, os.PathLike)):
        raise ArgumentTypeError(
            f"must be a path, not {checks.brief(path)}", argument=name
        )
    file = Path(path)
    if file.is_file():
        return file
    with FetchMeter(progress) as meter:
        options = FetchOptions(
            cache=cache.model_cache_dir(),
            check_memory=check_memory,
            meter=meter,
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
        return _web_file(what.url, options)
    else:
        return hub_file(what, options)
    if options.sha256 is not None:
        cache.check_content(path, options.sha256)
    return path


class FetchWork:
    """Work of a `Job`: searches for a model's file and downloads it."""

    problem = ""

    def __init__(
        self, source: object, options: FetchOptions, name: str = "source"
    ) -> None:
        self._source, self._options, self._name = source, options, name

    @property
    def progress(self) -> FetchProgress:
        """Number of received bytes, and messages for the user."""
        return self._options.meter.progress

    def cancel(self) -> None:
        """Cancel the download after the current block; the received bytes are kept."""
        self._options.meter.is_cancelled = True

    def run(self) -> Path | None:
        """Find or download the file; return its path, or None if it was cancelled."""
        try:
            return fetch(self._source, self._options, self._name)
        except Cancelled:
            return None


def _web_file(url: str, options: FetchOptions) -> Path:
    """Return the path of the file of a web address, after downloading it if necessary."""
    name = PurePosixPath(unquote(urlsplit(url).path)).name
    if not name or name.startswith("."):
        raise DownloadError(f"{shown_url(url)} names no file")
    if not name.lower().endswith(".gguf"):
        name += ".gguf"
    # Each complete address has its own folder, because the part after "?" can select
    # another file.
    address = address_hash(url)
    target = options.cache / f"web-{address[:16]}" / cache.safe_name(name)
    is_its_own = cache.note_of(target).get("address") == address
    if target.is_file() and is_its_own and not options.force:
        if options.sha256 is not None:
            cache.check_content(target, options.sha256)
        options.meter.say(f"Using {target}.")
        return target
    options.check_may_download(shown_url(url))
    is_hub = urlsplit(url).netloc == urlsplit(repository.endpoint()).netloc
    if is_hub and repository.is_offline():
        raise DownloadError(
            f"{shown_url(url)} is not in the cache, and HF_HUB_OFFLINE forbids "
            "the download"
        )
    from llamaherd.engine.hub.download import FileRequest, download

    request = FileRequest(
        url=url,
        target=target,
        source=shown_url(url),
        note={"address": address},
        token=repository.token_to_use(options.token) if is_hub else None,
        sha256=options.sha256,
        replace=options.force or not is_its_own,
    )
    return download(request, options)


def _local(path: Path, options: FetchOptions, name: str) -> Path:
    if path.is_file():
        return path
    if len(path.parts) == 1:
        matches = _cached_file(path.name, options.cache)
        if matches is not None:
            options.meter.say(f"Using {matches}.")
            return matches
    kind = "a folder" if path.is_dir() else "no file"
    cached = sorted({model.name for model in cache.list_cached_models(options.cache)})
    hint = f"; in the cache are {', '.join(cached[:5])}" if cached else ""
    raise ModelLoadError(
        f'{name_of(name)} names {kind}: "{path}". The working directory is '
        f'"{Path.cwd()}"{hint}. To download a model: "hf:owner/repo" or "https://..."'
    )


def _cached_file(name: str, folder: Path) -> Path | None:
    """Return the only cached file of this name, or whose name contains `name`."""
    is_own = folder == cache.model_cache_dir()
    models = [
        model
        for model in cache.list_cached_models(None if is_own else folder)
        if cache.OPTIMIZED not in model.path.parts
    ]
    lower = name.lower()
    exact = [m for m in models if m.name.lower() in {lower, f"{lower}.gguf"}]
    matches = exact or [m for m in models if lower in m.name.lower()]
    if len({model.name for model in matches}) > 1:
        names = ", ".join(model.name for model in matches)
        raise ModelLoadError(
            f"{name!r} is in the names of several files in the cache: {names}. "
            "Give the whole name"
        )
    if len({model.size_bytes for model in matches}) > 1 or (
        len(matches) > 1 and len({sha256_of(model.path) for model in matches}) > 1
    ):
        paths = ", ".join(f'"{model.path}" ({model.source or "?"})' for model in matches)
        raise ModelLoadError(
            f"{name!r} is the name of several files in the cache, which differ: {paths}. "
            "Give the path, or the source of the download"
        )
    return matches[0].path if matches else None


def _checked_sha256(value: object) -> str | None:
    if value is None:
        return None
    text = checks.text("sha256", value).lower()
    if not _SHA256.fullmatch(text):
        raise ArgumentError(
            f"must be 64 hexadecimal digits, not {checks.brief(value)}",
            argument="sha256",
        )
    return text
