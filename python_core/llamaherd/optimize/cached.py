"""The file that is fastest here, found once and kept in the cache."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from llamaherd.core.errors import QuantizeError
from llamaherd.hub import folders
from llamaherd.hub.fetch import download_model
from llamaherd.hub.profile import cpu_features, cpu_name
from llamaherd.optimize.optimize import model_optimize

if TYPE_CHECKING:
    import os

    from llamaherd.optimize.job import ProgressOption

_RESULT = "result.json"


def optimized_model(
    source: str | os.PathLike[str],
    *,
    cache_dir: str | os.PathLike[str] | None = None,
    progress: ProgressOption = True,
) -> Path:
    """The file of a model that this processor computes fastest, found once.

    The first call does what `model_optimize` does, with its defaults, which takes
    minutes for models of some GB, and keeps what it finds in the cache. It is found anew
    when the model's file, this processor or llama.cpp is another one.

        model = lh.Model(lh.optimized_model("hf:owner/repo"))

    Args:
        source: What `download_model` takes.
        cache_dir: Folder for downloads and for the file; None: `model_cache_dir()`.
        progress: True shows a progress bar; a function is called with each
            OptimizeProgress.

    Returns:
        The file to load: the model's own where none is faster whose answers are close
        enough.

    Raises:
        ModelLoadError: As `download_model` and `model_optimize`.
        QuantizeError: There is no room, or no right to write.
    """
    path = download_model(source, cache_dir=cache_dir, progress=progress is True)
    folder = folders.cache_folder(cache_dir)
    known = look(path, folder)
    if known is not None:
        return known
    work = work_folder(folder)
    try:
        report = model_optimize(path, work, progress=progress)
        return keep(path, work, report.path, report.verdict, folder)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def look(path: Path, cache: Path) -> Path | None:
    """What was found for a file before; None: nothing, or it is gone."""
    place = _place(path, cache)
    try:
        result = json.loads((place / _RESULT).read_text(encoding="utf-8"))
        best = path if result["file"] is None else place / result["file"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return best if best.is_file() else None


def work_folder(cache: Path) -> Path:
    """A new folder for files that are tried; hidden, so that nobody takes them.

    Raises:
        QuantizeError: It cannot be made.
    """
    try:
        folder = cache / folders.OPTIMIZED
        folder.mkdir(parents=True, exist_ok=True)
        return Path(tempfile.mkdtemp(prefix=".new-", dir=folder))
    except OSError as error:
        raise QuantizeError(
            f'"{cache}" cannot be written to: {error}; name another folder with '
            "cache_dir, or the environment variable LLAMAHERD_CACHE_DIR"
        ) from error


def keep(path: Path, work: Path, best: Path, verdict: str, cache: Path) -> Path:
    """Gives what was found its place.

    Args:
        path: The model's own file.
        work: A folder of `work_folder`'s, which is used up.
        best: The file to use: `path`, or one in `work`.
        verdict: Why.
        cache: The folder that `work` was made in.

    Returns:
        The file to use, where it is now.
    """
    is_own = best.resolve() == path.resolve()
    result = {
        "file": None if is_own else best.name,
        "source": str(path.resolve()),
        "verdict": verdict,
    }
    (work / _RESULT).write_text(json.dumps(result, indent=1), encoding="utf-8")
    place = _place(path, cache)
    try:
        work.rename(place)
    except OSError:  # another process was first, or what is there is not whole
        known = look(path, cache)
        if known is not None:
            return known
        shutil.rmtree(place, ignore_errors=True)
        work.rename(place)
    return path if is_own else place / best.name


def _place(path: Path, cache: Path) -> Path:
    """The folder for what is found for a file as it is now, on this machine."""
    status = path.stat()
    key = [
        str(path.resolve()),
        status.st_size,
        status.st_mtime_ns,
        version("llama-cpp-python"),
        version("llamaherd"),
        cpu_name(),
        cpu_features(),
    ]
    digest = hashlib.sha256(json.dumps(key).encode(errors="replace")).hexdigest()
    return cache / folders.OPTIMIZED / digest[:16]
