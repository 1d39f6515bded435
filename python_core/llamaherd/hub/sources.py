"""What a user may call a model: a path, an address, a repository, a name."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

from llamaherd.core import checks
from llamaherd.hub.quantizations import quantization_of

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")  # two letters: C: is a disk
_REPO_PART = r"[A-Za-z0-9][\w.-]*"
_REPO = re.compile(
    rf"(?P<repo>{_REPO_PART}/{_REPO_PART}?)"
    r"(?:@(?P<revision>[\w.-]+))?"
    r"(?:/(?P<file>[^:]+)|:(?P<quantization>[\w.-]+))?"
)


@dataclass(frozen=True, slots=True)
class LocalFile:
    """A path, which may also be the name of a file in the cache."""

    path: Path


@dataclass(frozen=True, slots=True)
class WebFile:
    """An address that begins with http:// or https://."""

    url: str


@dataclass(frozen=True, slots=True)
class OllamaName:
    """A model of Ollama's."""

    name: str


@dataclass(frozen=True, slots=True)
class HubModel:
    """A repository of the hub, with a file or a quantization or neither."""

    repo: str
    revision: str
    wanted: str | None

    def __str__(self) -> str:
        at = "" if self.revision == "main" else f"@{self.revision}"
        if self.wanted is None:
            return f"hf:{self.repo}{at}"
        mark = "/" if self.wanted.lower().endswith(".gguf") else ":"
        return f"hf:{self.repo}{at}{mark}{self.wanted}"


Source = LocalFile | WebFile | OllamaName | HubModel

_FORMS = (
    'a path, "https://...", "hf:owner/repo", "hf:owner/repo/file.gguf", '
    '"hf:owner/repo:Q4_K_M", "ollama:name" or the name of a file in the cache'
)


def parse(source: object, name: str = "source") -> Source:
    """Tells what a source is.

    Raises:
        TypeError: It is neither text nor a path.
        ValueError: It is nothing that is known; the message names what is.
    """
    if isinstance(source, (os.PathLike, bytes)):
        return LocalFile(Path(os.fsdecode(source)).expanduser())
    if not isinstance(source, str):
        raise TypeError(f"{name} must be a str or a path, not {checks.shown(source)}")
    if not source or "\0" in source:
        raise ValueError(f"{name} must be {_FORMS}, not {checks.shown(source)}")
    match = _SCHEME.match(source)
    scheme = match[1].lower() if match else ""
    if scheme in {"http", "https"}:
        try:
            urlsplit(source)
        except ValueError as error:
            raise ValueError(
                f"{name}: {checks.shown(source)} is no address: {error}"
            ) from None
        return WebFile(source)
    if scheme in {"hf", "huggingface"}:
        return _hub_model(source, _rest(source), name)
    if scheme == "ollama" or source.lower() == "ollama":
        return OllamaName(_rest(source) if match else "")
    if "://" in source and scheme != "file":
        raise ValueError(f"{name}: {scheme}:// is not known; a model is {_FORMS}")
    return LocalFile(Path(_rest(source) if scheme == "file" else source).expanduser())


def _rest(source: str) -> str:
    """What follows the scheme."""
    rest = source.split(":", 1)[1]
    return rest.removeprefix("//")


def _hub_model(source: str, rest: str, name: str) -> HubModel:
    match = _REPO.fullmatch(rest)
    file = match["file"] if match else None
    if match is None or ".." in PurePosixPath(file or "").parts:
        raise ValueError(
            f'{name} must be "hf:owner/repo", "hf:owner/repo/file.gguf" or '
            f'"hf:owner/repo:Q4_K_M", not {checks.shown(source)}'
        )
    wanted = file or match["quantization"]
    if file and not file.lower().endswith(".gguf"):
        raise ValueError(
            f"{name} names {file!r}, which is no GGUF file; only those can be loaded"
        )
    return HubModel(match["repo"], match["revision"] or "main", wanted)


def is_meant(path: str, wanted: str | None) -> bool:
    """Test for a file in the cache that is the one that was asked for.

    Args:
        path: Its path in the repository.
        wanted: See `HubModel`. A name without folders is that of a file in none: what the
            repository has in which folder is known to the hub alone.
    """
    if wanted is None:
        return True
    if wanted.lower().endswith(".gguf"):
        return path == wanted
    return quantization_of(path) == wanted.upper()
