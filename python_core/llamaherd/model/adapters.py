"""What is added to a model's weights: LoRA adapters and control vectors."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from llamaherd.core import checks
from llamaherd.core.errors import ModelLoadError
from llamaherd.model.file import ModelFile
from llamaherd.model.rope import as_float32

if TYPE_CHECKING:
    from collections.abc import Sequence

StrPath: TypeAlias = "str | os.PathLike[str]"
LoraOption: TypeAlias = "StrPath | tuple[StrPath, float]"

_MAX_SCALE = 1e30


@dataclass(frozen=True, slots=True)
class Lora:
    """A LoRA adapter of a model.

    Attributes:
        path: Its GGUF file; None if nobody knows it.
        scale: What it is multiplied by.
        file: Tells what is in the file; None if it is not there.
        address: Of the `llama_adapter_lora` that a Llama owns; 0: to be loaded.
    """

    path: Path | None
    scale: float
    file: ModelFile | None = field(compare=False)
    address: int = 0


@dataclass(frozen=True, slots=True)
class ControlVector:
    """What `llama_set_adapter_cvec` was called with.

    Attributes:
        data: float32[n], as bytes.
        first_layer: The first layer that it is added to.
        last_layer: The last one.
    """

    data: bytes
    first_layer: int
    last_layer: int

    @property
    def name(self) -> list[object]:
        """Tells it from others, in a journal's key."""
        return [sha256(self.data).hexdigest(), self.first_layer, self.last_layer]


def checked_loras(
    lora: LoraOption | Sequence[LoraOption] | None,
) -> tuple[Lora, ...]:
    """The adapters that an argument `lora` names: one, several or none.

    Raises:
        TypeError: It has another form.
        ValueError: A scale is not finite.
        ModelLoadError: There is no such file.
    """
    if lora is None:
        return ()
    if isinstance(lora, list):
        return tuple(_checked(f"lora[{i}]", item) for i, item in enumerate(lora))
    return (_checked("lora", lora),)


def _checked(name: str, item: object) -> Lora:
    path, scale = item, 1.0
    if isinstance(item, tuple):
        if len(item) != 2:
            raise TypeError(
                f"{name} must be a path or a pair of path and scale, not "
                f"{checks.shown(item)}"
            )
        path = item[0]
        scale = checks.real(f"the scale of {name}", item[1], -_MAX_SCALE, _MAX_SCALE)
    file = checked_path(name, path)
    return Lora(file, as_float32(scale), ModelFile(file))


def checked_path(name: str, path: object) -> Path:
    """The path of a file that is there.

    Raises:
        TypeError: It is no path.
        ModelLoadError: There is no such file.
    """
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"{name} must be a str or a path, not {path!r}")
    file = Path(path)
    if not file.exists():
        raise ModelLoadError(f"{name}: there is no file {str(file)!r}")
    if not file.is_file():
        raise ModelLoadError(f"{name}: {str(file)!r} is not a file")
    return file
