"""Functions that find a model's file, and download the file if necessary."""

from __future__ import annotations

import os
import re
from pathlib import Path

from llamaherd.core import checks
from llamaherd.core.errors import (
    ArgumentError,
    ArgumentTypeError,
    ModelLoadError,
)
from llamaherd.core.files import sha256_of
from llamaherd.core.words import words
from llamaherd.hub import folders
from llamaherd.hub.downloads import FetchOptions, check_content
from llamaherd.hub.ollama import ollama_path
from llamaherd.hub.progress import ProgressOption, ProgressReporter
from llamaherd.hub.remote_files import hub_file, web_file
from llamaherd.hub.sources import (
    LocalFile,
    OllamaName,
    WebFile,
    parse,
)
from llamaherd.hub.tokens import checked_token
from llamaherd.hub.transfer import Watch

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
        return web_file(what.url, options)
    else:
        return hub_file(what, options)
    if options.sha256 is not None:
        check_content(path, options.sha256)
    return path


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


def _checked_sha256(value: object) -> str | None:
    if value is None:
        return None
    text = checks.text("sha256", value).lower()
    if not _SHA256.fullmatch(text):
        raise ArgumentError(
            f"must be 64 hexadecimal digits, not {checks.shown(value)}", argument="sha256"
        )
    return text
