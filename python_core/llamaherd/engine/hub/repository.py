"""Repositories of the Hugging Face hub: their files, addresses and access tokens.

huggingface_hub lists a repository and finds the stored token. Module `download` gets the
files, because huggingface_hub discards an incomplete file when the program ends.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import huggingface_hub

from llamaherd.engine.core.errors import ArgumentError, ArgumentTypeError, DownloadError
from llamaherd.engine.core.words import call
from llamaherd.engine.hub import cache, quantizations
from llamaherd.engine.hub.quantizations import Offer, RemoteFile, available_bytes
from llamaherd.engine.hub.sources import HubModel, is_meant

if TYPE_CHECKING:
    from pathlib import Path

    from llamaherd.engine.hub.progress import FetchOptions

_HUB = "https://huggingface.co"
_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Repository:
    """Content of a repository at one commit."""

    commit: str
    files: tuple[RemoteFile, ...]


# ---- settings of the user -------------------------------------------------------------


def endpoint() -> str:
    """Return the address of the hub: HF_ENDPOINT, or the public address."""
    return (os.environ.get("HF_ENDPOINT") or _HUB).rstrip("/")


def is_offline() -> bool:
    """Return whether HF_HUB_OFFLINE forbids requests to the hub."""
    value = os.environ.get("HF_HUB_OFFLINE", "").upper()
    return value in {"1", "ON", "YES", "TRUE"}


def set_hf_token(token: str | None) -> None:
    """Set the access token of the Hugging Face hub for this process.

    The token is stored only in the environment variable HF_TOKEN, which child processes
    inherit, and in no file. The token is sent only to the hub.

    Args:
        token: Token from https://huggingface.co/settings/tokens; None removes it.

    Raises:
        TypeError: `token` is not a str.
        ValueError: `token` is empty or has characters that tokens cannot have.
    """
    if token is None:
        os.environ.pop("HF_TOKEN", None)
    else:
        os.environ["HF_TOKEN"] = checked_token(token) or ""


def checked_token(token: object) -> str | None:
    """Check that a header can contain a token. No message contains the token."""
    if token is None:
        return None
    if not isinstance(token, str):
        raise ArgumentTypeError(
            f"must be a text, not {type(token).__name__}", argument="token"
        )
    token = token.strip()
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise ArgumentError(
            "must be an access token of the hub, as "
            "https://huggingface.co/settings/tokens gives it (it is not shown here)",
            argument="token",
        )
    return token


def token_to_use(token: str | None) -> str | None:
    """Return the given token, HF_TOKEN, or the token that `hf auth login` stored."""
    chosen = token or os.environ.get("HF_TOKEN", "").strip()
    if not chosen and os.environ.get("HF_HUB_DISABLE_IMPLICIT_TOKEN") != "1":
        chosen = huggingface_hub.get_token() or ""
    return checked_token(chosen or None)


# ---- files ----------------------------------------------------------------------------


def hub_file(what: HubModel, options: FetchOptions) -> Path:
    """Return the path of a file of the hub, after downloading it if necessary."""
    at = "" if what.revision == "main" else f"@{what.revision}"
    folder = options.cache / (what.repo.replace("/", "--") + at)
    if not options.force:
        local_files = sorted(folder.rglob("*.gguf")) if folder.is_dir() else []
        snapshot, shared = _in_hub_cache(what.repo, what.revision)
        for root, files in ((folder, local_files), (snapshot, shared)):
            cached = _best_of(root, files, what)
            if cached is not None:
                if options.sha256 is not None:
                    cache.check_content(cached, options.sha256)
                options.meter.say(f"Using {cached}.")
                return cached
    options.check_may_download(str(what))
    repository = _repository(what.repo, what.revision, options.token)
    offers = quantizations.offers(repository.files)
    available = available_bytes(options.check_memory)
    offer = quantizations.choose(str(what), offers, what.file_or_quantization, available)
    if what.file_or_quantization is None:
        others = ", ".join(str(o) for o in offers if o is not offer)
        options.meter.say(
            f"{what}: taking {offer}." + (f" There is also {others}." if others else "")
        )
    return _hub_files(what, repository.commit, offer, folder, options)


def _hub_files(
    what: HubModel, commit: str, offer: Offer, folder: Path, options: FetchOptions
) -> Path:
    """Download all parts, the first part last, because it marks a complete model."""
    if options.sha256 is not None and len(offer.files) > 1:
        raise ArgumentError(
            f"cannot be given: {what} has {len(offer.files)} files", argument="sha256"
        )
    from llamaherd.engine.hub.download import FileRequest, download

    for file in reversed(offer.files):
        target = folder.joinpath(
            *(cache.safe_name(part) for part in file.name.split("/"))
        )
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
        request = FileRequest(
            url=_file_url(what.repo, commit, file.name),
            target=target,
            source=source,
            note={"commit": commit},
            token=token_to_use(options.token),
            sha256=expected,
            size_bytes=file.size_bytes,
            replace=options.force or is_there,
            is_whole=len(offer.files) == 1,
        )
        path = download(request, options)
    return path


def _is_of(target: Path, file: RemoteFile, commit: str, source: str) -> bool:
    """Return whether a local file is the hub's of this commit; names may be shared."""
    note = cache.note_of(target)
    if file.sha256 is not None and "sha256" in note:
        return bool(note["sha256"] == file.sha256)
    return bool(note.get("commit") == commit and note.get("source") == source)


def _best_of(root: Path, files: list[Path], what: HubModel) -> Path | None:
    """Return the cached file that matches the request; None if none is complete."""
    paths = {
        path.relative_to(root).as_posix(): path
        for path in files
        if is_meant(path.relative_to(root).as_posix(), what.file_or_quantization)
    }
    offers = quantizations.offers(
        RemoteFile(name=name, size_bytes=path.stat().st_size, sha256=None)
        for name, path in paths.items()
    )
    whole = [
        offer
        for offer in offers
        if _is_whole(offer) and _is_of_one_commit([paths[f.name] for f in offer.files])
    ]
    if not whole:
        return None
    return paths[quantizations.choose(str(what), whole, None, None).name]


def _is_whole(offer: Offer) -> bool:
    match = re.search(r"-\d{5}-of-(\d{5})\.gguf$", offer.name)
    return match is None or len(offer.files) == int(match[1])


def _is_of_one_commit(parts: list[Path]) -> bool:
    """Return whether all parts were downloaded from one commit of the repository."""
    return len({cache.note_of(part).get("commit") for part in parts}) == 1


# ---- requests -------------------------------------------------------------------------


def _repository(repo: str, revision: str, token: str | None) -> _Repository:
    """Request the content of a repository from the hub."""
    if is_offline():
        raise DownloadError(
            f"hf:{repo} is not in the cache, and HF_HUB_OFFLINE forbids the download: "
            "unset it, or copy the file to this machine and give its path"
        )
    used_token = token_to_use(token)
    api = huggingface_hub.HfApi(endpoint=endpoint(), token=used_token or False)
    try:
        info = api.model_info(
            repo, revision=revision, files_metadata=True, timeout=_TIMEOUT_S
        )
    except Exception as error:  # noqa: BLE001 - errors of any HTTP library
        raise DownloadError(_failure(repo, revision, error, used_token)) from None
    files = (
        RemoteFile(
            name=str(sibling.rfilename),
            size_bytes=None if sibling.size is None else int(sibling.size),
            sha256=None if sibling.lfs is None else str(sibling.lfs.sha256),
        )
        for sibling in info.siblings or ()
    )
    return _Repository(commit=info.sha or revision, files=tuple(files))


def _file_url(repo: str, revision: str, name: str) -> str:
    """Return the address of a file of a repository."""
    return huggingface_hub.hf_hub_url(repo, name, revision=revision, endpoint=endpoint())


def _in_hub_cache(repo: str, revision: str) -> tuple[Path, list[Path]]:
    """Find the GGUF files of a repository in the cache of huggingface_hub."""
    folder = cache.hub_cache() / f"models--{repo.replace('/', '--')}"
    commit = revision
    reference = folder / "refs" / revision
    if reference.is_file():
        commit = reference.read_text(encoding="utf-8").strip()
    snapshot = folder / "snapshots" / commit
    if not re.fullmatch(r"[\w.-]+", commit) or not snapshot.is_dir():
        return snapshot, []
    files = sorted(path for path in snapshot.rglob("*.gguf") if path.is_file())
    return snapshot, files


def _failure(repo: str, revision: str, error: Exception, token: str | None) -> str:
    from huggingface_hub import errors

    status = getattr(getattr(error, "response", None), "status_code", None)
    if isinstance(error, errors.GatedRepoError) or status in {401, 403}:
        has = "the token gives no access" if token else "there is no token"
        return (
            f"cannot access hf:{repo}: {has}. If the repository is restricted, accept "
            f"the model's terms on {endpoint()}/{repo} and pass an access token with "
            f"{call('set_hf_token')}; otherwise check the spelling of its name"
        )
    if isinstance(error, errors.RevisionNotFoundError):
        return f"hf:{repo} has no branch, tag or commit {revision!r}"
    if isinstance(error, errors.RepositoryNotFoundError) or status == 404:
        return f"hf:{repo}: {endpoint()} has no such repository; check the spelling"
    if status == 429:
        return (
            f"hf:{repo}: too many requests from this machine to the hub (429); wait "
            f"some minutes, or pass an access token with {call('set_hf_token')}"
        )
    if status is not None:
        return f"hf:{repo}: the hub answered {status}; try again later"
    return (
        f"hf:{repo}: {endpoint()} cannot be reached ({type(error).__name__}); is there a "
        "connection? A file that is on this machine can be loaded by its path"
    )
