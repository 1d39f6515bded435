"""Sources of model files, and the hardware profile, for R."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import llamaherd as lh
from llamaherd._r.boundary import boundary, form_of
from llamaherd._r.forms import Part, parts, r_object, table_of_objects, value, vector
from llamaherd.engine.core.files import sha256_of
from llamaherd.engine.hub.cache import OPTIMIZED, cache_folder
from llamaherd.engine.hub.fetch import FetchWork
from llamaherd.engine.hub.progress import FetchOptions
from llamaherd.engine.hub.repository import checked_token
from llamaherd.engine.native import abi, shim
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
def cache_dir() -> str:
    """Return the folder for downloaded models."""
    return str(lh.model_cache_dir())


_FILE = {"name": "text", "path": "text", "size_bytes": "number"}
_SIZES = {
    "billions": "number",
    "quantization": "text",
    "size_bytes": "number",
    "fits": "flag",
    "decode_per_s": "number",
    "prefill_per_s": "number",
}


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
def hardware_profile() -> lh.HardwareProfile:
    """Return the hardware profile."""
    return lh.hardware_profile()


@form_of.register
def _(found: lh.HardwareProfile) -> Part:
    gpu: Any = found.gpus[0] if found.gpus else None
    made = {name: value(getattr(found, name)) for name in ("os", "release", "cpu")}
    numbers = {
        "ram_total": found.memory_bytes,
        "ram_available": found.available_bytes,
        "bandwidth_bytes_per_s": found.bandwidth_bytes_per_s,
        "flops": found.flops,
    }
    made |= {name: vector("number", [number]) for name, number in numbers.items()}
    made |= {
        "cpu_cores": vector("integer", [found.cpu_cores]),
        "cpu_features": vector("text", found.cpu_features),
        "gpu": parts(
            name=vector("text", [gpu and gpu.name]),
            vram_bytes=vector("number", [gpu and gpu.memory_bytes]),
            cores=vector("integer", [None]),
            source=value(gpu.source if gpu else "undetected"),
        ),
        "uses_gpu": value(found.uses_gpu),
        "detected_at": vector("time", [datetime.now(UTC)]),
        "sizes": table_of_objects(found.sizes, _SIZES),
    }
    return r_object("hardware", made, page=found)


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
