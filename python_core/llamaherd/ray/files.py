"""Files of a model on the machines of a cluster, which are found locally or received."""

from __future__ import annotations

import glob
import hashlib
import os
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from llamaherd.core import files
from llamaherd.core.errors import ModelLoadError
from llamaherd.core.files import sha256_of
from llamaherd.hub.cache import model_cache_dir
from llamaherd.model.file import ModelFile, parts_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from llamaherd.model.model import Model

_RECEIVED = "received"  # folder of files received from other machines
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_OLD_S = 3600.0  # age in seconds after which a partial file counts as abandoned
PART_BYTES = 32 << 20  # bytes per message


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFile:
    """Description of a file on the caller's machine.

    Attributes:
        path: Path on the caller's machine.
        n_bytes: Size of the file.
        identity: Identity of the file. Only the unchanged file on the same machine has
            this identity.
        sha256: SHA-256 of the content; "" before it is computed.
        folder: Name of the folder in which the file is stored. All parts of a split
            model have the same folder.
    """

    path: str
    n_bytes: int
    identity: tuple[object, ...]
    sha256: str = ""
    folder: str = ""


def files_of(model: Model) -> tuple[list[SourceFile], int]:
    """Return the files of a model and of its adapters, and the number of model files.

    Raises:
        ModelLoadError: The files were removed.
    """
    paths = parts_of(model.path.absolute())
    loras = [lora.path for lora in model.loras]
    try:
        found = [_source_file(path) for path in (*paths, *loras)]
    except OSError as error:
        raise ModelLoadError(f"the model's file is gone: {error}") from None
    return found, len(paths)


def hashed(files: Sequence[SourceFile], n_model: int) -> list[SourceFile]:
    """Add hashes to the descriptions of files. This takes about one second per GB.

    Raises:
        ModelLoadError: A file was removed meanwhile.
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


def parts(file: SourceFile) -> Iterator[tuple[bytes, bool]]:
    """Yield (bytes, is_last) for each part of a file."""
    n_left = file.n_bytes
    with Path(file.path).open("rb") as source:
        while n_left > 0:
            data = source.read(PART_BYTES)
            n_left -= len(data)
            yield data, n_left <= 0 or not data
            if not data:
                return


class Files:
    """Paths of the model's files on the machine of this process."""

    def __init__(self) -> None:
        self._paths: dict[str, Path] = {}  # map from the caller's paths to local paths

    def path(self, expected: SourceFile) -> Path:
        """Return the path of a file on this machine."""
        return self._paths[expected.path]

    def missing(self, expected: Sequence[SourceFile]) -> list[int]:
        """Return the indices of files that are missing or have another content."""
        return [i for i, file in enumerate(expected) if not self._is_found(file)]

    def _is_found(self, file: SourceFile) -> bool:
        for path in (Path(file.path), _kept(file)):
            if path is not None and _is(path, file):
                self._paths[file.path] = path
                return True
        return False

    def receive(self, expected: SourceFile, data: bytes, *, is_last: bool) -> None:
        """Receive the next part of a file.

        Raises:
            OSError: The file cannot be stored.
            ModelLoadError: The received file has another hash.
        """
        kept = _kept(expected)
        if kept is None:
            raise ModelLoadError(f"{expected.path} has no hash")
        kept.parent.mkdir(parents=True, exist_ok=True)
        partial = kept.with_name(f"{kept.name}.{os.getpid()}.part")
        if not partial.exists():
            _remove_old_parts(kept)
        try:
            with partial.open("ab") as file:
                file.write(data)
            if not is_last:
                return
            _check(partial, expected)
            files.replace(partial, kept)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
        self._paths[expected.path] = kept


def _source_file(path: Path) -> SourceFile:
    return SourceFile(
        path=os.fspath(path), n_bytes=path.stat().st_size, identity=_identity(path)
    )


def _identity(path: Path) -> tuple[object, ...]:
    """Return the identity of a file in its current state.

    It is valid until the next boot.
    """
    try:
        boot = _BOOT.read_text(encoding="ascii").strip()
    except OSError:
        boot = ""
    return boot, ModelFile(path).state


def _is(path: Path, expected: SourceFile) -> bool:
    """Return True if a local file is the described file."""
    try:
        if path.stat().st_size != expected.n_bytes:
            return False
        identity = _identity(path)
        if identity[0] and identity == expected.identity:
            return True
        return bool(expected.sha256) and sha256_of(path) == expected.sha256
    except OSError:
        return False


def _check(received: Path, expected: SourceFile) -> None:
    if not _is(received, expected):
        raise ModelLoadError(
            f"{expected.path} has changed while it was sent: create the Herd again"
        )


def _kept(file: SourceFile) -> Path | None:
    """Return the path at which a received file is stored; None without a hash."""
    if not file.folder:
        return None
    return model_cache_dir() / _RECEIVED / file.folder / Path(file.path).name


def _remove_old_parts(kept: Path) -> None:
    """Remove partial files of processes that were killed.

    Process ids in the names are not checked, because the processes may have run on
    another machine.
    """
    for partial in kept.parent.glob(f"{glob.escape(kept.name)}.*.part"):
        with suppress(OSError):
            if time.time() - partial.stat().st_mtime > _OLD_S:
                partial.unlink()
