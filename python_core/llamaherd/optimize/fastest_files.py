"""Cache of search results: the fastest file of each model on this machine."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from llamaherd.engine.core.errors import QuantizeError
from llamaherd.engine.core.plain import DAMAGED
from llamaherd.engine.hub.cache import OPTIMIZED, cache_folder
from llamaherd.engine.hub.fetch import download_model
from llamaherd.engine.hub.profile import cpu_features, cpu_name
from llamaherd.optimize.optimize import model_optimize

if TYPE_CHECKING:
    import os

    from llamaherd.optimize.optimize import ProgressOption

_RESULT = "result.json"


def optimized_model(
    source: str | os.PathLike[str],
    *,
    cache_dir: str | os.PathLike[str] | None = None,
    progress: ProgressOption = True,
) -> Path:
    """Return the file of a model that is fastest on this processor.

    The first call runs `model_optimize` with its defaults and stores the result in the
    cache; this takes minutes for a model of a few GB. A change of the model file, of
    the processor or of llama.cpp starts a new search.

        model = lh.Model(lh.optimized_model("hf:owner/repo"))

    Args:
        source: Model, as in `download_model`.
        cache_dir: Folder for downloads and for the file; None for `model_cache_dir()`.
        progress: True to show a progress bar, or a function that is called with each
            OptimizeProgress.

    Returns:
        Path of the file to load: the original file if no faster file has predictions
        close enough to the predictions of the original.

    Raises:
        ModelLoadError: As for `download_model` and `model_optimize`.
        QuantizeError: There is no disk space, or no permission to write.
    """
    path = download_model(source, cache_dir=cache_dir, progress=progress is True)
    folder = cache_folder(cache_dir)
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
    """Return the file found by an earlier search; None if there is none."""
    result_folder = _result_folder(path, cache)
    try:
        result = json.loads((result_folder / _RESULT).read_text(encoding="utf-8"))
        best = path if result["file"] is None else result_folder / result["file"]
    except (OSError, *DAMAGED):
        return None
    return best if best.is_file() else None


def work_folder(cache: Path) -> Path:
    """Create a new hidden folder for files under test."""
    try:
        folder = cache / OPTIMIZED
        folder.mkdir(parents=True, exist_ok=True)
        return Path(tempfile.mkdtemp(prefix=".new-", dir=folder))
    except OSError as error:
        raise QuantizeError(
            f'"{cache}" cannot be written to: {error}; name another folder with '
            "cache_dir, or the environment variable LLAMAHERD_CACHE_DIR"
        ) from error


def keep(path: Path, work: Path, best: Path, verdict: str, cache: Path) -> Path:
    """Move the result of a search to the cache."""
    is_original = best.resolve() == path.resolve()
    result = {
        "file": None if is_original else best.name,
        "source": str(path.resolve()),
        "verdict": verdict,
    }
    (work / _RESULT).write_text(json.dumps(result, indent=1), encoding="utf-8")
    result_folder = _result_folder(path, cache)
    try:
        work.rename(result_folder)
    except OSError:  # another process has created this folder
        known = look(path, cache)
        if known is not None:
            return known
        shutil.rmtree(result_folder, ignore_errors=True)
        work.rename(result_folder)
    return path if is_original else result_folder / best.name


def _result_folder(path: Path, cache: Path) -> Path:
    """Return the cache folder for the current state of a file, on this machine."""
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
    return cache / OPTIMIZED / digest[:16]
