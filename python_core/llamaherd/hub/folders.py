"""The folders that model files lie in, and what is in them."""

from __future__ import annotations

import json
import os
import re
import sys
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llamaherd.core import checks

if TYPE_CHECKING:
    from collections.abc import Iterator

OPTIMIZED = "optimized"  # folder of the files that model_optimize made
_LATER_PART = re.compile(r"-(?!00001)\d{5}-of-\d{5}\.gguf$")


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedModel:
    """A model file on this machine.

    Attributes:
        name: Name of the file; of a model in several files that of the first.
        path: Where it is.
        size_bytes: Size of the file.
        modified: When it was written, in UTC.
        source: Where it came from, such as "hf:owner/repo"; "" if nobody wrote that down.
    """

    name: str
    path: Path
    size_bytes: int
    modified: datetime
    source: str


def model_cache_dir() -> Path:
    """The folder that downloaded models go to; it need not exist yet.

    The environment variable LLAMAHERD_CACHE_DIR names another one.
    """
    named = os.environ.get("LLAMAHERD_CACHE_DIR")
    if named:
        return Path(named).expanduser()
    return _user_cache() / "llamaherd" / "models"


def cache_folder(cache_dir: str | os.PathLike[str] | None) -> Path:
    """The folder that a caller named, or the usual one.

    Raises:
        TypeError: `cache_dir` is neither text nor a path.
    """
    if cache_dir is None:
        return model_cache_dir()
    if not isinstance(cache_dir, (str, os.PathLike)):
        raise TypeError(
            f"cache_dir must be a str or a path, not {checks.shown(cache_dir)}"
        )
    return Path(os.fsdecode(cache_dir)).expanduser()


def hub_cache() -> Path:
    """The folder that huggingface_hub and others of its kind download to."""
    named = os.environ.get("HF_HUB_CACHE") or os.environ.get("HUGGINGFACE_HUB_CACHE")
    if named:
        return Path(named).expanduser()
    home = os.environ.get("HF_HOME")
    base = Path(home).expanduser() if home else _plain_cache() / "huggingface"
    return base / "hub"


def list_cached_models(
    cache_dir: str | os.PathLike[str] | None = None,
) -> list[CachedModel]:
    """The model files in the cache, the newest first.

    Args:
        cache_dir: Folder to look in, with those within. None: `model_cache_dir()`, and
            the cache that huggingface_hub shares with other programs.

    Raises:
        TypeError: `cache_dir` is neither text nor a path.
    """
    folders = [cache_folder(cache_dir)] + ([hub_cache()] if cache_dir is None else [])
    found: dict[Path, CachedModel] = {}
    for folder in folders:
        for path in _gguf_files(folder):
            model = _described(path)
            if model is not None:
                found.setdefault(path.resolve(), model)
    return sorted(found.values(), key=lambda model: model.modified, reverse=True)


def note_of(path: Path) -> dict[str, Any]:
    """What was written down beside a downloaded file; {} if nothing was."""
    try:
        note = json.loads(note_path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return note if isinstance(note, dict) else {}


def note_path(path: Path) -> Path:
    """Where that is written down."""
    return path.with_name(f"{path.name}.json")


def _gguf_files(folder: Path) -> Iterator[Path]:
    if not folder.is_dir():
        return
    for path in folder.rglob("*.gguf"):
        # Not what is hidden: files that are being written.
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if path.is_file() and not hidden and not _LATER_PART.search(path.name):
            yield path


def _described(path: Path) -> CachedModel | None:
    try:
        status = path.stat()
    except OSError:  # gone meanwhile
        return None
    return CachedModel(
        name=path.name,
        path=path,
        size_bytes=status.st_size,
        modified=datetime.fromtimestamp(status.st_mtime, tz=timezone.utc),
        source=str(note_of(path).get("source", "")) or _source_in_hub_cache(path),
    )


def _source_in_hub_cache(path: Path) -> str:
    """The "hf:owner/repo" of .../models--owner--repo/snapshots/COMMIT/name.gguf."""
    for folder in path.parents:
        if folder.name.startswith("models--"):
            return "hf:" + folder.name[len("models--") :].replace("--", "/", 1)
    return ""


def _plain_cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()


def _user_cache() -> Path:
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or "~/AppData/Local").expanduser()
    return _plain_cache()
