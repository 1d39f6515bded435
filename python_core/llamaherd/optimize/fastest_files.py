"""Cache of search results: the fastest file of each model on this machine."""

from __future__ import annotations

import hashlib
import json
import tempfile
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from llamaherd.engine.core.errors import QuantizeError
from llamaherd.engine.core.files import replace, write_whole
from llamaherd.engine.core.plain import DAMAGED
from llamaherd.engine.core.words import name_of
from llamaherd.engine.hub.cache import OPTIMIZED, cache_folder
from llamaherd.engine.hub.fetch import download_model
from llamaherd.engine.hub.profile import cpu_features, cpu_name
from llamaherd.optimize.optimize import model_optimize

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

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
    folder = _result_folder(path, cache_folder(cache_dir))
    known = look(path, folder)
    if known is not None:
        return known
    with _work_folder(folder.parent) as work:
        report = model_optimize(path, work, progress=progress)
        is_original = report.path.resolve() == path.resolve()
        name = None if is_original else report.path.name
        folder.mkdir(exist_ok=True)
        if name is not None:
            replace(report.path, folder / name)
    result = {"file": name, "source": str(path.resolve()), "verdict": report.verdict}
    write_whole(folder / _RESULT, json.dumps(result, indent=1).encode())
    return path if name is None else folder / name


def look(path: Path, folder: Path) -> Path | None:
    """Return the file found by an earlier search; None if there is none."""
    try:
        name = json.loads((folder / _RESULT).read_text(encoding="utf-8"))["file"]
        best = path if name is None else folder / name
    except (OSError, *DAMAGED):
        return None
    return best if best.is_file() else None


@contextmanager
def _work_folder(parent: Path) -> Iterator[Path]:
    """Create a hidden folder for files under test, and remove it after the block."""
    try:
        parent.mkdir(parents=True, exist_ok=True)
        folder = tempfile.TemporaryDirectory(
            prefix=".new-", dir=parent, ignore_cleanup_errors=True
        )
    except OSError as error:
        raise QuantizeError(
            f'"{parent.parent}" cannot be written to: {error}; name another folder with '
            f"{name_of('cache_dir')}, or the environment variable LLAMAHERD_CACHE_DIR"
        ) from error
    with folder as work:
        yield Path(work)


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
