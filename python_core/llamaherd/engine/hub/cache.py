"""Model files on this machine: the cache, and the models of Ollama."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import platformdirs

from llamaherd.engine.core import checks
from llamaherd.engine.core.errors import DownloadError, ModelLoadError
from llamaherd.engine.core.files import sha256_of
from llamaherd.engine.core.plain import DAMAGED
from llamaherd.engine.core.words import setting

if TYPE_CHECKING:
    from collections.abc import Iterator


OPTIMIZED = "optimized"  # folder for files that model_optimize creates
# Maximum length of a name in bytes. File systems allow 255 bytes, and an incomplete
# file has a longer name.
_LONGEST_NAME = 255 - len("..part.json.lock")
_LATER_PART = re.compile(r"-(?!00001)\d{5}-of-\d{5}\.gguf$")


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedModel:
    """A model file on this machine.

    Attributes:
        name: Name of the file, or of the first file of a model in several files.
        path: Path of the file.
        size_bytes: Size of the file in bytes.
        modified: Time of the last modification, in UTC.
        source: Source of the download, such as "hf:owner/repo"; "" if not recorded.
    """

    name: str
    path: Path
    size_bytes: int
    modified: datetime
    source: str


def model_cache_dir() -> Path:
    """Return the folder for downloaded models, which may not exist yet.

    The environment variable LLAMAHERD_CACHE_DIR sets another folder.
    """
    named = os.environ.get("LLAMAHERD_CACHE_DIR")
    if named:
        return Path(named).expanduser()
    return platformdirs.user_cache_path("llamaherd", appauthor=False) / "models"


def cache_folder(cache_dir: str | os.PathLike[str] | None) -> Path:
    """Return the given folder, or the default folder for None."""
    if cache_dir is None:
        return model_cache_dir()
    return checks.path("cache_dir", cache_dir).expanduser()


def hub_cache() -> Path:
    """Return the cache folder of huggingface_hub, which reads the variables only once."""
    named = os.environ.get("HF_HUB_CACHE") or os.environ.get("HUGGINGFACE_HUB_CACHE")
    if named:
        return Path(named).expanduser()
    home = os.environ.get("HF_HOME")
    plain = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "huggingface"
    return Path(home or plain).expanduser() / "hub"


def list_cached_models(
    cache_dir: str | os.PathLike[str] | None = None,
) -> list[CachedModel]:
    """Return the model files in the cache, newest first.

    Args:
        cache_dir: Folder to search recursively. None searches `model_cache_dir()` and
            the cache of huggingface_hub.

    Raises:
        TypeError: `cache_dir` is neither text nor a path.
    """
    folders = [cache_folder(cache_dir)] + ([hub_cache()] if cache_dir is None else [])
    models: dict[Path, CachedModel] = {}
    for folder in folders:
        for path in _gguf_files(folder):
            model = _cached_model(path)
            if model is not None:
                models.setdefault(path.resolve(), model)
    return sorted(models.values(), key=lambda model: model.modified, reverse=True)


def note_of(path: Path) -> dict[str, Any]:
    """Return the record that is stored next to a downloaded file; {} if there is none."""
    try:
        note = json.loads(note_path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return note if isinstance(note, dict) else {}


def note_path(path: Path) -> Path:
    """Return the path of the record of a downloaded file."""
    return path.with_name(f"{path.name}.json")


def safe_name(name: str) -> str:
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


def check_content(path: Path, expected: str) -> None:
    """Check the SHA-256 of a file."""
    digest = sha256_of(path)
    if digest != expected:
        raise DownloadError(
            f'"{path}" has the SHA-256 {digest}, not {expected}: it is '
            f"another file, or was changed; {setting('force', True)} downloads "
            "it again"
        )


def _gguf_files(folder: Path) -> Iterator[Path]:
    if not folder.is_dir():
        return
    for path in folder.rglob("*.gguf"):
        # Hidden files are incomplete, because a download or a search is still writing
        # them.
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if path.is_file() and not hidden and not _LATER_PART.search(path.name):
            yield path


def _cached_model(path: Path) -> CachedModel | None:
    try:
        status = path.stat()
    except OSError:  # the file was removed in the meantime
        return None
    return CachedModel(
        name=path.name,
        path=path,
        size_bytes=status.st_size,
        modified=datetime.fromtimestamp(status.st_mtime, tz=UTC),
        source=str(note_of(path).get("source", "")) or _source_in_hub_cache(path),
    )


def _source_in_hub_cache(path: Path) -> str:
    """Return "hf:owner/repo" for .../models--owner--repo/snapshots/COMMIT/name.gguf."""
    for folder in path.parents:
        if folder.name.startswith("models--"):
            return "hf:" + folder.name[len("models--") :].replace("--", "/", 1)
    return ""


_MODEL_LAYER = "application/vnd.ollama.image.model"
_REGISTRY = "registry.ollama.ai"
_DIGEST = re.compile(r"sha256[:-]([0-9a-f]{64})")


@dataclass(frozen=True, slots=True, kw_only=True)
class OllamaModel:
    """A model in the store of Ollama.

    Attributes:
        name: Name in Ollama's notation, such as "llama3.2:1b".
        path: Path of the GGUF file.
        size_bytes: Size of the file in bytes.
        sha256: SHA-256 of the content in hexadecimal, from the name of the file.
        modified: Time at which the model was pulled, in UTC.
    """

    name: str
    path: Path
    size_bytes: int
    sha256: str
    modified: datetime


def stores() -> list[Path]:
    """Return the possible folders of Ollama's store; only OLLAMA_MODELS if it is set."""
    named = os.environ.get("OLLAMA_MODELS")
    if named:
        return [Path(named).expanduser()]
    return [
        Path("~/.ollama/models").expanduser(),
        Path("/usr/share/ollama/.ollama/models"),
        Path("/var/lib/ollama/models"),
    ]


def list_ollama_models() -> list[OllamaModel]:
    """Return the GGUF models in the store of Ollama on this machine, sorted by name.

    Ollama does not have to run. The environment variable OLLAMA_MODELS sets another
    store.
    """
    models: dict[str, OllamaModel] = {}
    for store in stores():
        manifests = store / "manifests"
        try:
            paths = sorted(path for path in manifests.rglob("*") if path.is_file())
        except OSError:  # a service's store may be unreadable
            continue
        for path in paths:
            model = _read_manifest(store, path)
            if model is not None:
                models.setdefault(model.name, model)
    return sorted(models.values(), key=lambda model: model.name)


def ollama_path(name: str) -> Path:
    """Return the path of a model in the store of Ollama; the default tag is "latest"."""
    models = list_ollama_models()
    lower = name.strip().lower()
    full_name = lower if ":" in lower.rsplit("/", 1)[-1] else f"{lower}:latest"
    for model in models:
        if model.name.lower() == full_name:
            return model.path
    tags = [model for model in models if model.name.lower().split(":")[0] == lower]
    if len(tags) == 1:  # the model has only one tag
        return tags[0].path
    if not models:
        folders = " or ".join(str(store) for store in stores())
        raise ModelLoadError(
            f"ollama:{name}: no models of Ollama were found in {folders}; run "
            f"`ollama pull {name or 'llama3.2'}`, or set OLLAMA_MODELS to its folder"
        )
    known = ", ".join(model.name for model in models)
    raise ModelLoadError(
        f"ollama:{name}: Ollama has no such model; it has {known}. To get it: "
        f"`ollama pull {name}`"
    )


def _read_manifest(store: Path, manifest: Path) -> OllamaModel | None:
    """Return the model of a manifest; None if it is not a complete GGUF model."""
    try:
        layers = json.loads(manifest.read_text(encoding="utf-8"))["layers"]
        digest = next(x["digest"] for x in layers if x["mediaType"] == _MODEL_LAYER)
        match = _DIGEST.fullmatch(digest)
        if match is None:
            return None
        path = store / "blobs" / f"sha256-{match[1]}"
        with path.open("rb") as file:
            if file.read(4) != b"GGUF":
                return None
        return OllamaModel(
            name=_name(manifest.relative_to(store / "manifests").parts),
            path=path,
            size_bytes=path.stat().st_size,
            sha256=match[1],
            modified=datetime.fromtimestamp(manifest.stat().st_mtime, tz=UTC),
        )
    except (OSError, StopIteration, *DAMAGED):
        return None


def _name(parts: tuple[str, ...]) -> str:
    """Return "llama3.2:1b" for registry.ollama.ai/library/llama3.2/1b."""
    *path, tag = parts
    if path and path[0] == _REGISTRY:
        path = path[1:]
    if path and path[0] == "library":
        path = path[1:]
    return f"{'/'.join(path)}:{tag}"
