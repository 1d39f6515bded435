"""Writing of a model's weights in another type."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple, Self

from llamaherd.engine.core.errors import ModelLoadError, QuantizeError
from llamaherd.engine.native import models as native_quantize

_IS_WINDOWS = sys.platform == "win32"


class FileType(NamedTuple):
    """File type: a mix of tensor types."""

    ftype: int  # value of `enum llama_ftype` in llama.h
    bits: float  # bits per weight of most tensors


# Types that can be written without an importance matrix.
TYPES = {
    "F16": FileType(1, 16),
    "BF16": FileType(32, 16),
    "Q8_0": FileType(7, 8.5),
    "Q6_K": FileType(18, 6.5625),
    "Q5_1": FileType(9, 6),
    "Q5_0": FileType(8, 5.5),
    "Q5_K_M": FileType(17, 5.5),
    "Q5_K_S": FileType(16, 5.5),
    "Q4_1": FileType(3, 5),
    "Q4_0": FileType(2, 4.5),
    "Q4_K_M": FileType(15, 4.5),
    "Q4_K_S": FileType(14, 4.5),
    "IQ4_NL": FileType(25, 4.5),
}


def type_of(metadata: dict[str, str]) -> str | None:
    """Return the type named in a model's metadata; None if missing or unknown."""
    names = {str(kind.ftype): name for name, kind in TYPES.items()}
    return names.get(metadata.get("general.file_type", ""))


def target(source: Path, folder: Path, type_name: str) -> Path:
    """Return the path of the new file for a type."""
    return folder / f"{source.stem}.{type_name}.llamaherd.gguf"


class Requantized:
    """A requantized copy with a temporary name; `with` removes it unless it is kept."""

    def __init__(
        self, source: Path, folder: Path, type_name: str, n_params: int, n_threads: int
    ) -> None:
        self._source = source
        self._type = type_name
        self._target = target(source, folder, type_name)
        self._n_threads = n_threads
        needed = int(n_params * TYPES[type_name].bits / 8)
        free = shutil.disk_usage(folder).free
        if free < needed:
            raise QuantizeError(
                f"out: {str(folder)!r} has {free / 1e6:.0f} MB free, but the {type_name} "
                f"file takes {needed / 1e6:.0f} MB or more"
            )
        try:
            descriptor, name = tempfile.mkstemp(
                prefix=f".{self._target.name}.", suffix=".part", dir=folder
            )
        except OSError as error:
            raise QuantizeError(
                f"out: {str(folder)!r} cannot be written to: {error}"
            ) from error
        os.close(descriptor)
        self.path = Path(name)

    def quantize(self) -> None:
        """Write the file. This cannot be interrupted."""
        try:
            native_quantize.model_quantize(
                os.fsencode(self._source),
                os.fsencode(self.path),
                ftype=TYPES[self._type].ftype,
                n_threads=self._n_threads,
            )
        except ModelLoadError as error:
            raise QuantizeError(
                f"types: the {self._type} file could not be created: {error}"
            ) from error

    def keep(self) -> Path:
        """Rename the file to its final name, which must not exist; return its path."""
        if not _IS_WINDOWS:  # where a file that is not writable cannot be removed
            self.path.chmod(self._source.stat().st_mode & 0o666)
        try:
            # Unlike a rename, a link never replaces an existing file.
            os.link(self.path, self._target)
        except OSError:  # the file exists, or the file system has no hard links
            if self._target.exists():
                text = f"out: {str(self._target)!r} exists already"
                raise QuantizeError(text) from None
            self.path.rename(self._target)
        return self._target

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.path.unlink(missing_ok=True)
