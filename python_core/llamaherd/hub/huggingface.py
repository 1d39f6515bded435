"""Repositories of the Hugging Face hub: their files and addresses.

The files are downloaded by module `transfer`, because huggingface_hub discards an
incomplete file when the program ends.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from llamaherd.core import installing
from llamaherd.core.errors import DownloadError
from llamaherd.core.words import call
from llamaherd.hub.folders import hub_cache
from llamaherd.hub.quantizations import RemoteFile
from llamaherd.hub.tokens import endpoint, is_offline, token_to_use

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Repository:
    """Content of a repository at one commit.

    Attributes:
        commit: Hash of the commit.
        files: All files.
    """

    commit: str
    files: tuple[RemoteFile, ...]


def repository(repo: str, revision: str, token: str | None) -> Repository:
    """Request the content of a repository from the hub.

    Raises:
        DownloadError: huggingface_hub is not installed, the hub cannot be reached, has no
            such repository, or requires a token.
    """
    hub = _library()
    if is_offline():
        raise DownloadError(
            f"hf:{repo} is not in the cache, and HF_HUB_OFFLINE forbids the download: "
            "unset it, or copy the file to this machine and give its path"
        )
    own = token_to_use(token)
    api = hub.HfApi(endpoint=endpoint(), token=own or False)
    try:
        info = api.model_info(
            repo, revision=revision, files_metadata=True, timeout=_TIMEOUT_S
        )
    except Exception as error:  # noqa: BLE001 - errors of any HTTP library
        raise DownloadError(_failure(hub, repo, revision, error, own)) from None
    files = tuple(_remote_file(sibling) for sibling in info.siblings or ())
    return Repository(commit=info.sha or revision, files=files)


def file_url(repo: str, revision: str, name: str) -> str:
    """Return the address of a file of a repository."""
    return f"{endpoint()}/{repo}/resolve/{quote(revision, safe='')}/{quote(name)}"


def in_hub_cache(repo: str, revision: str) -> tuple[Path, list[Path]]:
    """Find the GGUF files of a repository in the cache of huggingface_hub.

    Returns:
        Folder of the repository and paths of the files.
    """
    folder = hub_cache() / f"models--{repo.replace('/', '--')}"
    commit = revision
    reference = folder / "refs" / revision
    if reference.is_file():
        commit = reference.read_text(encoding="utf-8").strip()
    snapshot = folder / "snapshots" / commit
    if not re.fullmatch(r"[\w.-]+", commit) or not snapshot.is_dir():
        return snapshot, []
    files = sorted(path for path in snapshot.rglob("*.gguf") if path.is_file())
    return snapshot, files


def _library() -> ModuleType:
    try:
        import huggingface_hub  # noqa: PLC0415 - optional
    except ImportError:
        raise DownloadError(
            "models of the Hugging Face hub need the package huggingface_hub: "
            f"{installing.command('hub')} (from R: llamaherd::install_llamaherd())"
        ) from None
    return huggingface_hub


def _remote_file(sibling: Any) -> RemoteFile:  # noqa: ANN401 - the package is optional
    lfs = sibling.lfs
    return RemoteFile(
        name=str(sibling.rfilename),
        size_bytes=None if sibling.size is None else int(sibling.size),
        sha256=None if lfs is None else str(lfs.sha256),
    )


def _failure(
    hub: ModuleType, repo: str, revision: str, error: Exception, token: str | None
) -> str:
    errors = hub.errors
    response = getattr(error, "response", None)
    status = getattr(response, "status_code", None)
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
