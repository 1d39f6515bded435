"""Model sources: a path, an address, a repository or a name."""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from urllib.parse import urldefrag, urlsplit

from llamaherd.engine.core import checks
from llamaherd.engine.core.errors import ArgumentError, ArgumentTypeError
from llamaherd.engine.hub.quantizations import quantization_of

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")  # two letters: "C:" is a drive
_REPO_PART = r"[A-Za-z0-9][\w.-]*"
_REPO = re.compile(
    rf"(?P<repo>{_REPO_PART}/{_REPO_PART}?)"
    r"(?:@(?P<revision>[\w.-]+))?"
    r"(?:/(?P<file>[^:]+)|:(?P<quantization>[\w.-]+))?"
)


@dataclass(frozen=True, slots=True)
class LocalFile:
    """A path, or the name of a file in the cache."""

    path: Path


@dataclass(frozen=True, slots=True)
class WebFile:
    """An address that begins with http:// or https://."""

    url: str


@dataclass(frozen=True, slots=True)
class OllamaName:
    """A model in the store of Ollama."""

    name: str


@dataclass(frozen=True, slots=True)
class HubModel:
    """A repository of the hub, with or without a file or a quantization."""

    repo: str
    revision: str
    file_or_quantization: str | None

    def __str__(self) -> str:
        at = "" if self.revision == "main" else f"@{self.revision}"
        if self.file_or_quantization is None:
            return f"hf:{self.repo}{at}"
        mark = "/" if self.file_or_quantization.lower().endswith(".gguf") else ":"
        return f"hf:{self.repo}{at}{mark}{self.file_or_quantization}"


Source = LocalFile | WebFile | OllamaName | HubModel

_FORMS = (
    'a path, "https://...", "hf:owner/repo", "hf:owner/repo/file.gguf", '
    '"hf:owner/repo:Q4_K_M", "ollama:name" or the name of a file in the cache'
)


def parse(source: object, name: str = "source") -> Source:
    """Parse a model source."""
    if isinstance(source, (os.PathLike, bytes)):
        return LocalFile(Path(os.fsdecode(source)).expanduser())
    if not isinstance(source, str):
        raise ArgumentTypeError(
            f"must be a path, not {checks.brief(source)}", argument=name
        )
    if not source or "\0" in source:
        raise ArgumentError(
            f"must be {_FORMS}, not {checks.brief(source)}", argument=name
        )
    match = _SCHEME.match(source)
    scheme = match[1].lower() if match else ""
    if scheme in {"http", "https"}:
        try:
            parts = urlsplit(source)
            _ = parts.port, (parts.hostname or "").encode("idna")
        except ValueError as error:
            raise ArgumentError(
                f"{checks.brief(source)} is not an address: {error}",
                argument=name,
                code="no_address",
                form="{name}: {problem}",
            ) from None
        return WebFile(source)
    if scheme in {"hf", "huggingface"}:
        return _hub_model(source, _rest(source), name)
    if scheme == "ollama" or source.lower() == "ollama":
        return OllamaName(_rest(source) if match else "")
    if "://" in source and scheme != "file":
        raise ArgumentError(
            f"{scheme}:// is not known; a model is {_FORMS}",
            argument=name,
            code="no_address",
            form="{name}: {problem}",
        )
    return LocalFile(Path(_rest(source) if scheme == "file" else source).expanduser())


def _rest(source: str) -> str:
    """Return the part after the scheme."""
    rest = source.split(":", 1)[1]
    return rest.removeprefix("//")


def _hub_model(source: str, rest: str, name: str) -> HubModel:
    match = _REPO.fullmatch(rest)
    file = match["file"] if match else None
    # The hub has no names with "--", which separates the names in folders of the cache.
    is_name = match is not None and "--" not in match["repo"]
    if match is None or not is_name or ".." in PurePosixPath(file or "").parts:
        raise ArgumentError(
            f'must be "hf:owner/repo", "hf:owner/repo/file.gguf" or '
            f'"hf:owner/repo:Q4_K_M", not {checks.brief(source)}',
            argument=name,
        )
    file_or_quantization = file or match["quantization"]
    if file and not file.lower().endswith(".gguf"):
        raise ArgumentError(
            f"names {file!r}, which is not a GGUF file; only GGUF files can be loaded",
            argument=name,
        )
    return HubModel(match["repo"], match["revision"] or "main", file_or_quantization)


def is_meant(path: str, file_or_quantization: str | None) -> bool:
    """Return whether a cached file is the requested file."""
    if file_or_quantization is None:
        return True
    if file_or_quantization.lower().endswith(".gguf"):
        return path == file_or_quantization
    return quantization_of(path) == file_or_quantization.upper()


def address_hash(url: str) -> str:
    """Return a hash of an address without its fragment, in hexadecimal."""
    return hashlib.sha256(urldefrag(url)[0].encode(errors="surrogatepass")).hexdigest()


def shown_url(url: str) -> str:
    """Return an address without credentials and query, for messages."""
    parts = urlsplit(url)
    host = parts.netloc.rsplit("@", 1)[-1]
    return f"{parts.scheme}://{host}{parts.path}"
