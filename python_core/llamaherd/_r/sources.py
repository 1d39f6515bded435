"""Where model files come from, and what this machine can run."""

from __future__ import annotations

import dataclasses
import shutil
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from time import monotonic
from typing import TYPE_CHECKING, Any

import llamaherd as lh
from llamaherd._r.boundary import boundary, clean
from llamaherd.core.files import sha256_of
from llamaherd.hub import fetch, folders
from llamaherd.hub.tokens import checked_token
from llamaherd.hub.transfer import Cancelled, Watch
from llamaherd.native import abi, shim
from llamaherd.optimize import cached
from llamaherd.run.threads import start_thread, wait_for

if TYPE_CHECKING:
    from collections.abc import Mapping

    from llamaherd.run.threads import Worker


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchProgress:
    """How far a download is.

    Attributes:
        n_done: Bytes that are there.
        n_total: Bytes in all; 0: not known.
        messages: What was said since the last time.
        elapsed_s: Seconds since it started.
    """

    n_done: float
    n_total: float
    messages: list[str]
    elapsed_s: float


class FetchJob:
    """A download in a thread of its own, so that R can be interrupted meanwhile."""

    def __init__(self, source: str, options: Mapping[str, Any]) -> None:
        self._start = monotonic()
        self._is_done = Event()
        self._is_cancelled = False
        self._bytes: tuple[int, int | None] = (0, None)
        self._messages: list[str] = []
        self._path: Path | None = None
        self._error: BaseException | None = None
        self._source = source
        self._options = fetch.Options(
            cache=folders.cache_folder(options.get("cache_dir")),
            token=checked_token(options.get("token")),
            force=options["force"],
            check_memory=options["check_memory"],
            watch=Watch(step=self._step, is_cancelled=lambda: self._is_cancelled),
            say=self._messages.append,
        )
        self._worker: Worker | None = None
        self._worker = start_thread(self, self._run)

    def _step(self, n_done: int, n_total: int | None) -> None:
        self._bytes = (n_done, n_total)

    def _run(self) -> None:
        try:
            self._path = fetch.fetch(self._source, self._options, "model_path")
        except Cancelled:
            pass
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for
            self._error = error
        finally:
            self._is_done.set()

    @property
    def progress(self) -> FetchProgress:
        """How far it is; each message is told once."""
        n_done, n_total = self._bytes
        messages = [self._messages.pop(0) for _ in range(len(self._messages))]
        return FetchProgress(
            n_done=float(n_done),
            n_total=float(n_total or 0),
            messages=[clean(text) for text in messages],
            elapsed_s=monotonic() - self._start,
        )

    def wait(self, timeout_s: float | None = None) -> bool:
        """Waits until it is over; tells whether it is."""
        return wait_for(self._is_done, timeout_s, self._worker)

    def cancel(self) -> None:
        """Ends it after the block that is coming in; what there is is kept."""
        self._is_cancelled = True

    def result(self) -> Path | None:
        """Waits for the end. None: it was cancelled."""
        self.wait()
        if self._error is not None:
            raise self._error
        return self._path


@boundary
def fetch_start(source: str, options: Mapping[str, Any]) -> dict[str, FetchJob]:
    """Starts to find or download a model's file.

    Args:
        source: What `download_model` takes.
        options: `force` and `check_memory`; if any, `cache_dir` and `token`.
    """
    return {"job": FetchJob(source, options)}


@boundary
def fetch_wait(job: FetchJob, timeout_s: float) -> dict[str, Any]:
    """Waits for the end of a download, at most `timeout_s`. Tells how far it is."""
    done = job.wait(timeout_s)
    return {"done": done, **dataclasses.asdict(job.progress)}


@boundary
def fetch_cancel(job: FetchJob) -> None:
    """Tells a download to end; returns at once."""
    job.cancel()


@boundary
def fetch_result(job: FetchJob) -> str | None:
    """Path of the file; None: cancelled."""
    path = job.result()
    return None if path is None else str(path)


@boundary
def cache_dir() -> str:
    """The folder that models are downloaded to."""
    return str(lh.model_cache_dir())


@boundary
def cached_models(folder: str | None) -> dict[str, list[Any]]:
    """Models in the cache, as columns."""
    models = lh.list_cached_models(folder)
    return {
        "name": [clean(model.name) for model in models],
        "path": [clean(str(model.path)) for model in models],
        "size_bytes": [float(model.size_bytes) for model in models],
        "modified": [model.modified.timestamp() for model in models],
        "source": [clean(model.source) for model in models],
    }


@boundary
def ollama_models() -> dict[str, list[Any]]:
    """Models of Ollama's, as columns."""
    models = lh.list_ollama_models()
    return {
        "name": [clean(model.name) for model in models],
        "path": [clean(str(model.path)) for model in models],
        "size_bytes": [float(model.size_bytes) for model in models],
        "sha256": [model.sha256 for model in models],
        "modified": [model.modified.timestamp() for model in models],
    }


@boundary
def supports_gpu() -> bool:
    """Whether this build of llama-cpp-python can use a GPU."""
    return shim.supports_gpu()


@boundary
def lib_path() -> str:
    """Path of libllama."""
    return str(abi.libllama_path(abi.libllama_folder()))


@boundary
def hardware_profile() -> dict[str, Any]:
    """What this machine has, with `sizes` as columns and `text` for people."""
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
        "gpus": [dataclasses.asdict(gpu) for gpu in profile.gpus],
        "sizes": {name: [_plain(row[name]) for row in rows] for name in rows[0]},
        "text": clean(str(profile)),
    }


@boundary
def optimized_look(path: str, folder: str | None) -> dict[str, str | None]:
    """The fastest file of a model as it was found before, or else a folder to look in."""
    cache = folders.cache_folder(folder)
    known = cached.look(Path(path), cache)
    work = None if known is not None else str(cached.work_folder(cache))
    return {"path": None if known is None else str(known), "work": work}


@boundary
def optimized_keep(
    path: str, work: str, best: str, verdict: str, folder: str | None
) -> str:
    """Keeps what was found; see `optimize.cached.keep`."""
    cache = folders.cache_folder(folder)
    return str(cached.keep(Path(path), Path(work), Path(best), verdict, cache))


@boundary
def optimized_drop(work: str) -> None:
    """Removes the folder of a search that did not end."""
    folder = Path(work)
    if folder.parent.name == folders.OPTIMIZED and folder.name.startswith(".new-"):
        shutil.rmtree(folder, ignore_errors=True)


@boundary
def file_sha256(path: str) -> str:
    """SHA-256 of a file's content, in hexadecimal."""
    return sha256_of(Path(path))


def _plain(value: Any) -> Any:  # noqa: ANN401 - of several columns
    """Sizes are beyond 32 bits."""
    return (
        float(value) if isinstance(value, int) and not isinstance(value, bool) else value
    )
