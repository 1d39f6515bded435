"""Model and adapter files, and their identity: a hash computed once per file."""

from __future__ import annotations

import hashlib
import re
from contextlib import suppress
from dataclasses import dataclass, field
from struct import pack, unpack
from typing import TYPE_CHECKING, TypeAlias

from llamaherd.engine.core import checks
from llamaherd.engine.core.argument import Argument, Field, Name, argument_of
from llamaherd.engine.core.errors import ArgumentTypeError, ModelLoadError
from llamaherd.engine.core.files import digest_of

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Sequence
    from pathlib import Path


class ModelFile:
    """Files of a model, with their state before they are loaded."""

    def __init__(self, path: Path) -> None:
        self._paths = parts_of(path.absolute())
        self._state = self._state_now()
        self._sha256: bytes | None = None

    @property
    def name(self) -> str:
        """Name of the first file without folders; "?" replaces invalid UTF-8."""
        return self._paths[0].name.encode(errors="replace").decode()

    @property
    def size_bytes(self) -> int:
        """Size of the files when this object was created."""
        return sum(size for _, _, size, *_ in self._state)

    @property
    def state(self) -> str:
        """Text that identifies the files in their present state."""
        return repr(self._state)

    @property
    def is_unchanged(self) -> bool:
        """Whether the files are unchanged since the creation of this object."""
        try:
            now = self._state_now()
        except OSError:
            return False
        # The ctime is not used, because it also changes with a new name or permission.
        return [part[:-1] for part in now] == [part[:-1] for part in self._state]

    def remember(self, sha256: bytes) -> None:
        """Store a hash that was computed for files in this state."""
        self._sha256 = sha256

    def sha256(self, is_cancelled: Callable[[], bool] = lambda: False) -> bytes | None:
        """Return the SHA-256 of the file, or of hashes of several; 1 s per GB."""
        if self._sha256 is None:
            hashes = []
            for path in self._paths:
                part = digest_of(path, is_cancelled)
                if part is None:
                    return None
                hashes.append(part)
            is_single = len(hashes) == 1
            joined = b"".join(hashes)
            self._sha256 = joined if is_single else hashlib.sha256(joined).digest()
        return self._sha256

    def sha256_of_loaded(self) -> bytes | None:
        """Return `sha256`; None if the files changed before it could be computed."""
        if self._sha256 is not None:
            return self._sha256
        was_unchanged = self.is_unchanged
        with suppress(OSError):
            digest = self.sha256() if was_unchanged else None
            self._sha256 = digest if self.is_unchanged else None
        return self._sha256

    def _state_now(self) -> list[tuple[int, ...]]:
        return [_state(path.stat()) for path in self._paths]


def _state(status: os.stat_result) -> tuple[int, ...]:
    return (
        status.st_dev,
        status.st_ino,
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
    )


def parts_of(path: Path) -> list[Path]:
    """Return all files of a split model in llama.cpp's notation, or the file itself."""
    match = re.fullmatch(r"(.*)-00001-of-(\d{5})\.gguf", path.name)
    if match is None:
        return [path]
    n_parts = int(match[2])
    parts = [
        path.with_name(f"{match[1]}-{i:05}-of-{n_parts:05}.gguf")
        for i in range(1, n_parts + 1)
    ]
    return parts if all(part.is_file() for part in parts) else [path]


StrPath: TypeAlias = "str | os.PathLike[str]"
LoraOption: TypeAlias = "StrPath | tuple[StrPath, float]"

_MAX_SCALE = 1e30


@dataclass(frozen=True, slots=True)
class Lora:
    """A LoRA adapter of a model, and its factor."""

    path: Path
    scale: float
    file: ModelFile = field(compare=False)


def checked_loras(
    lora: LoraOption | Sequence[LoraOption] | None,
) -> tuple[Lora, ...]:
    """Return the adapters that an argument `lora` specifies: one, several or none."""
    if lora is None:
        return ()
    if isinstance(lora, list):
        return tuple(
            _check_lora(Argument("lora", (i,)), item) for i, item in enumerate(lora)
        )
    return (_check_lora("lora", lora),)


def _check_lora(name: Name, item: object) -> Lora:
    path, scale = item, 1.0
    if isinstance(item, tuple):
        if len(item) != 2:
            raise ArgumentTypeError(
                f"must be a path or a pair of path and scale, not {checks.brief(item)}",
                argument=name,
            )
        path = item[0]
        scale = checks.real(
            argument_of(name).at(Field("scale")), item[1], -_MAX_SCALE, _MAX_SCALE
        )
    file = checked_path(name, path)
    return Lora(file, as_float32(scale), ModelFile(file))


def checked_path(name: Name, path: object) -> Path:
    """Return the absolute path of an existing file."""
    file = checks.path(name, path)
    if not file.exists():
        raise ModelLoadError(f"{name}: there is no file {str(file)!r}")
    if not file.is_file():
        raise ModelLoadError(f"{name}: {str(file)!r} is not a file")
    return file.absolute()


def content_of(
    file: ModelFile | None, loras: Sequence[Lora]
) -> tuple[str, list[tuple[str, float]]] | None:
    """Return hashes and scales of a model with adapters; None if a file was changed."""
    used = [lora for lora in loras if lora.scale]
    names: list[str] = []
    for part in (file, *(lora.file for lora in used)):
        sha256 = None if part is None else part.sha256_of_loaded()
        if sha256 is None:
            return None
        names.append(sha256.hex())
    scales = [lora.scale for lora in used]
    return names[0], sorted(zip(names[1:], scales, strict=True))


def as_float32(value: float) -> float:
    """Round a number to float32."""
    number: float = unpack("f", pack("f", value))[0]
    return number
