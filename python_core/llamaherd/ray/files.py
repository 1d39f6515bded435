"""A model's files on the machines of a cluster: found there, or received and kept."""

from __future__ import annotations

import glob
import hashlib
import os
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from llamaherd.core.errors import ModelLoadError
from llamaherd.core.files import sha256_of
from llamaherd.hub.folders import model_cache_dir
from llamaherd.model.file import ModelFile, parts_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from llamaherd.model.model import Model

_RECEIVED = "received"  # folder of the files that came from other machines
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_OLD_S = 3600.0  # nobody receives a part of a file for so long
PART_BYTES = 32 << 20  # that are sent at a time


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A file as the caller has it.

    Attributes:
        path: There.
        n_bytes: Its size.
        identity: Tells on the same machine that it is this very file, unchanged.
        sha256: Of its content; "": not computed yet.
        folder: Where to keep it: the files of a split model need one in common.
    """

    path: str
    n_bytes: int
    identity: tuple[object, ...]
    sha256: str = ""
    folder: str = ""


def wanted_of(model: Model) -> tuple[list[Wanted], int]:
    """The files of a model, then those of its adapters, and how many are the first.

    Raises:
        ModelLoadError: It has none: it is of a Llama, or they were removed.
    """
    if model.path is None:
        raise ModelLoadError(
            "a model of a llama_cpp.Llama cannot be loaded elsewhere: give its path"
        )
    paths = parts_of(model.path.absolute())
    loras = [lora.path for lora in model.loras]
    if any(lora is None for lora in loras):
        raise ModelLoadError("nobody knows the file of the model's LoRA adapter")
    try:
        found = [_wanted(path) for path in (*paths, *filter(None, loras))]
    except OSError as error:
        raise ModelLoadError(f"the model's file is gone: {error}") from None
    return found, len(paths)


def hashed(files: Sequence[Wanted], n_model: int) -> list[Wanted]:
    """The same with their hashes. Takes about a second for each GB.

    Raises:
        ModelLoadError: One was removed meanwhile.
    """
    try:
        hashes = [sha256_of(Path(file.path)) for file in files]
    except OSError as error:
        raise ModelLoadError(f"the model's file is gone: {error}") from None
    together = hashlib.sha256("".join(hashes[:n_model]).encode()).hexdigest()
    folders = [together if i < n_model else hashes[i] for i in range(len(files))]
    return [
        replace(file, sha256=sha256, folder=folder)
        for file, sha256, folder in zip(files, hashes, folders, strict=True)
    ]


def parts(file: Wanted) -> Iterator[tuple[bytes, bool]]:
    """A file's content, part by part, and whether it is the last one."""
    n_left = file.n_bytes
    with Path(file.path).open("rb") as source:
        while n_left > 0:
            data = source.read(PART_BYTES)
            n_left -= len(data)
            yield data, n_left <= 0 or not data
            if not data:
                return


class Files:
    """The files that a process has found on its machine."""

    def __init__(self) -> None:
        self._paths: dict[str, Path] = {}  # where what the caller calls so is

    def path(self, wanted: Wanted) -> Path:
        """Where it is here."""
        return self._paths[wanted.path]

    def missing(self, wanted: Sequence[Wanted]) -> list[int]:
        """Which of them are not here, with the same content."""
        return [i for i, file in enumerate(wanted) if not self._is_found(file)]

    def _is_found(self, file: Wanted) -> bool:
        for path in (Path(file.path), _kept(file)):
            if path is not None and _is(path, file):
                self._paths[file.path] = path
                return True
        return False

    def receive(self, wanted: Wanted, data: bytes, *, is_last: bool) -> None:
        """Takes the next part of a file.

        Raises:
            OSError: It cannot be stored.
            ModelLoadError: What came is not what should.
        """
        kept = _kept(wanted)
        if kept is None:
            raise ModelLoadError(f"{wanted.path} has no hash")
        kept.parent.mkdir(parents=True, exist_ok=True)
        partial = kept.with_name(f"{kept.name}.{os.getpid()}.part")
        if not partial.exists():
            _remove_old_parts(kept)
        try:
            with partial.open("ab") as file:
                file.write(data)
            if not is_last:
                return
            _check(partial, wanted)
            partial.replace(kept)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
        self._paths[wanted.path] = kept


def _wanted(path: Path) -> Wanted:
    return Wanted(
        path=os.fspath(path), n_bytes=path.stat().st_size, identity=_identity(path)
    )


def _identity(path: Path) -> tuple[object, ...]:
    """Of a file, as it is now, on this machine since it was started."""
    try:
        boot = _BOOT.read_text(encoding="ascii").strip()
    except OSError:
        boot = ""
    return boot, ModelFile(path).state


def _is(path: Path, wanted: Wanted) -> bool:
    """Whether a file here is the one that is wanted."""
    try:
        if path.stat().st_size != wanted.n_bytes:
            return False
        identity = _identity(path)
        if identity[0] and identity == wanted.identity:
            return True
        return bool(wanted.sha256) and sha256_of(path) == wanted.sha256
    except OSError:
        return False


def _check(received: Path, wanted: Wanted) -> None:
    if not _is(received, wanted):
        raise ModelLoadError(
            f"{wanted.path} has changed while it was sent: make another Herd"
        )


def _kept(file: Wanted) -> Path | None:
    """Where a file that came from another machine is kept."""
    if not file.folder:
        return None
    return model_cache_dir() / _RECEIVED / file.folder / Path(file.path).name


def _remove_old_parts(kept: Path) -> None:
    """Removes what processes left that were killed while they received it.

    Their numbers say nothing: they may have been on another machine.
    """
    for partial in kept.parent.glob(f"{glob.escape(kept.name)}.*.part"):
        with suppress(OSError):
            if time.time() - partial.stat().st_mtime > _OLD_S:
                partial.unlink()
