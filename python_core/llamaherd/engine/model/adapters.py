"""LoRA adapters of a model."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from llamaherd.engine.core import checks
from llamaherd.engine.core.argument import Argument, Field, argument_of
from llamaherd.engine.core.errors import ArgumentTypeError, ModelLoadError
from llamaherd.engine.model.file import ModelFile
from llamaherd.engine.model.rope import as_float32

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.engine.core.argument import Name

StrPath: TypeAlias = "str | os.PathLike[str]"
LoraOption: TypeAlias = "StrPath | tuple[StrPath, float]"

_MAX_SCALE = 1e30


@dataclass(frozen=True, slots=True)
class Lora:
    """A LoRA adapter of a model.

    Attributes:
        path: Path of its GGUF file.
        scale: Factor of the adapter.
        file: Identity of the file.
    """

    path: Path
    scale: float
    file: ModelFile = field(compare=False)


def checked_loras(
    lora: LoraOption | Sequence[LoraOption] | None,
) -> tuple[Lora, ...]:
    """Return the adapters that an argument `lora` specifies: one, several or none.

    Raises:
        TypeError: `lora` has another form.
        ValueError: A scale is not finite.
        ModelLoadError: A file does not exist.
    """
    if lora is None:
        return ()
    if isinstance(lora, list):
        return tuple(
            _checked(Argument("lora", (i,)), item) for i, item in enumerate(lora)
        )
    return (_checked("lora", lora),)


def _checked(name: Name, item: object) -> Lora:
    path, scale = item, 1.0
    if isinstance(item, tuple):
        if len(item) != 2:
            raise ArgumentTypeError(
                f"must be a path or a pair of path and scale, not {checks.shown(item)}",
                argument=name,
            )
        path = item[0]
        scale = checks.real(
            argument_of(name).at(Field("scale")), item[1], -_MAX_SCALE, _MAX_SCALE
        )
    file = checked_path(name, path)
    return Lora(file, as_float32(scale), ModelFile(file))


def checked_path(name: Name, path: object) -> Path:
    """Return the absolute path of an existing file.

    Raises:
        TypeError: `path` is not a path.
        ModelLoadError: The file does not exist.
    """
    if not isinstance(path, (str, os.PathLike)):
        raise ArgumentTypeError(
            f"must be a path, not {checks.shown(path)}", argument=name
        )
    file = Path(path)
    if not file.exists():
        raise ModelLoadError(f"{name}: there is no file {str(file)!r}")
    if not file.is_file():
        raise ModelLoadError(f"{name}: {str(file)!r} is not a file")
    return file.absolute()


def content_of(
    file: ModelFile | None, loras: Sequence[Lora]
) -> tuple[str, list[tuple[str, float]]] | None:
    """Return what identifies the content of a model with its adapters, on any machine.

    Returns:
        SHA-256 of the model's file, and SHA-256 and scale of each adapter in use, sorted;
        None if a file was changed or removed after it was loaded, so that its hash would
        be that of another model.
    """
    used = [lora for lora in loras if lora.scale]
    names: list[str] = []
    for each in (file, *(lora.file for lora in used)):
        sha256 = None if each is None else each.sha256_of_loaded()
        if sha256 is None:
            return None
        names.append(sha256.hex())
    scales = [lora.scale for lora in used]
    return names[0], sorted(zip(names[1:], scales, strict=True))
