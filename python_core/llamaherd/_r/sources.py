"""Sources of model files, and the hardware profile, for R."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import llamaherd as lh
from llamaherd._r.boundary import boundary, clean
from llamaherd._r.forms import Part, table_of_objects
from llamaherd.core.files import sha256_of
from llamaherd.hub.cache import OPTIMIZED, cache_folder
from llamaherd.hub.fetch import FetchWork
from llamaherd.hub.progress import FetchOptions
from llamaherd.hub.repository import checked_token
from llamaherd.native import abi, shim
from llamaherd.optimize import fastest_files

if TYPE_CHECKING:
    from collections.abc import Mapping


@boundary
def fetch_start(
    source: str, options: Mapping[str, Any]
) -> dict[str, lh.Job[Path | None]]:
    """Start to search for a model's file and, if necessary, to download it.

    Args:
        source: Source, as in `download_model`.
        options: `force` and `check_memory`; optionally `cache_dir` and `token`.
    """
    checked = FetchOptions(
        cache=cache_folder(options.get("cache_dir")),
        token=checked_token(options.get("token")),
        force=options["force"],
        check_memory=options["check_memory"],
    )
    return {"job": lh.Job(FetchWork(source, checked, "model_path"))}


@boundary
def fetch_result(job: lh.Job[Path | None]) -> str | None:
    """Wait for the file and return its path; None if cancelled."""
    path = job.results()
    return None if path is None else str(path)


@boundary
def cache_dir() -> str:
    """Return the folder for downloaded models."""
    return str(lh.model_cache_dir())


_FILE = {"name": "text", "path": "text", "size_bytes": "number"}


@boundary
def cached_models(folder: str | None) -> Part:
    """Return the models in the cache as a table."""
    kinds = {**_FILE, "modified": "time", "source": "text"}
    return table_of_objects(lh.list_cached_models(folder), kinds)


@boundary
def ollama_models() -> Part:
    """Return the models of Ollama as a table."""
    kinds = {**_FILE, "sha256": "text", "modified": "time"}
    return table_of_objects(lh.list_ollama_models(), kinds)


@boundary
def supports_gpu() -> bool:
    """Return True if this build of llama-cpp-python can use a GPU."""
    return shim.supports_gpu()


@boundary
def lib_path() -> str:
    """Return the path of libllama."""
    return str(abi.libllama_path(abi.libllama_folder()))


@boundary
def hardware_profile() -> dict[str, Any]:
    """Return the hardware profile, with `sizes` as columns and a summary as `text`."""
    profile = lh.hardware_profile()
    names = [field.name for field in dataclasses.fields(lh.HardwareProfile)]
    scalars = {
        name: float(value)
        if isinstance(value := getattr(profile, name), (int, float))
        and not isinstance(value, bool)
        else value
        for name in names
        if name not in {"sizes", "gpus", "cpu_features"}
    }
    rows = [dataclasses.asdict(row) for row in profile.sizes]
    return {
        **scalars,
        "cpu_features": list(profile.cpu_features),
        # R's integers have 32 bits, and reticulate cuts off the others.
        "gpus": [
            {name: _plain(value) for name, value in dataclasses.asdict(gpu).items()}
            for gpu in profile.gpus
        ],
        "sizes": {name: [_plain(row[name]) for row in rows] for name in rows[0]},
        "text": clean(str(profile)),
    }


@boundary
def optimized_look(path: str, folder: str | None) -> dict[str, str | None]:
    """Return the fastest file of an earlier search, or a folder for a new search."""
    cache = cache_folder(folder)
    known = fastest_files.look(Path(path), cache)
    work = None if known is not None else str(fastest_files.work_folder(cache))
    return {"path": None if known is None else str(known), "work": work}


@boundary
def optimized_keep(
    path: str, work: str, best: str, verdict: str, folder: str | None
) -> str:
    """Store the result of a search; see `optimize.fastest_files.keep`."""
    cache = cache_folder(folder)
    return str(fastest_files.keep(Path(path), Path(work), Path(best), verdict, cache))


@boundary
def optimized_drop(work: str) -> None:
    """Remove the folder of an unfinished search."""
    folder = Path(work)
    if folder.parent.name == OPTIMIZED and folder.name.startswith(".new-"):
        shutil.rmtree(folder, ignore_errors=True)


@boundary
def file_sha256(path: str) -> str:
    """Return the SHA-256 of a file's content, in hexadecimal."""
    return sha256_of(Path(path))


def _plain(value: Any) -> Any:  # noqa: ANN401 - values of several columns
    """Return integers as floats, because sizes can exceed 32 bits."""
    return (
        float(value) if isinstance(value, int) and not isinstance(value, bool) else value
    )
