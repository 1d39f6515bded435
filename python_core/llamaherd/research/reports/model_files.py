"""Finding the file that a report was made with, by name and content."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llamaherd.core import checks
from llamaherd.hub.folders import list_cached_models, model_cache_dir
from llamaherd.model.file import ModelFile

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def find_model(
    told: Mapping[str, Any],
    given: str | os.PathLike[str] | None,
    folder: Path,
) -> tuple[Path, list[tuple[Path, float]]]:
    """The model's file, and those of its adapters with their scales.

    Args:
        told: What the report says of the model.
        given: Its path; None: it is looked for.
        folder: Of the report, where it is looked for first.

    Raises:
        TypeError: `given` is no path.
        ValueError: The file's content is another one than the report's.
        FileNotFoundError: There is no such file.
    """
    if given is not None and not isinstance(given, (str, os.PathLike)):
        raise TypeError(
            f"model must be a path, a Model or a Context, not {checks.shown(given)}"
        )
    folders = [folder, Path.cwd()]
    if given is None:
        file = _found("model", told, folders)
    else:
        file = Path(os.fsdecode(given)).expanduser()
        if not file.is_file():
            raise FileNotFoundError(f"there is no model file {file}")
        folders.insert(0, file.parent)
        _check("model", file, told)
    loras = [
        (_found("LoRA adapter", each, folders), float(each["scale"]))
        for each in told.get("loras", [])
    ]
    return file, loras


def _found(what: str, told: Mapping[str, Any], folders: list[Path]) -> Path:
    """A file of that name and content.

    Raises:
        ValueError: There are files of that name, of another content.
        FileNotFoundError: There is none.
    """
    name = told.get("file")
    if not isinstance(name, str) or Path(name).name != name:
        raise ValueError(
            f"the report does not name the {what}'s file: give it with model"
        )
    others: list[Path] = []
    for path in _candidates(name, folders):
        if _sha256(path) == told.get("sha256"):
            return path
        others.append(path)
    if others:
        raise ValueError(
            f"the {what} was changed: {others[0]} has another SHA-256 than the report's "
            f"{name}"
        )
    looked = ", ".join(str(folder) for folder in [*folders, model_cache_dir()])
    raise FileNotFoundError(
        f"there is no {name} in {looked}: give the {what}'s path with model"
    )


def _candidates(name: str, folders: list[Path]) -> Iterator[Path]:
    for folder in folders:
        if (folder / name).is_file():
            yield folder / name
    yield from (model.path for model in list_cached_models() if model.name == name)


def _check(what: str, file: Path, told: Mapping[str, Any]) -> None:
    found = _sha256(file)
    if told.get("sha256") is not None and found != told["sha256"]:
        raise ValueError(
            f"the {what} was changed: {file.name} has the SHA-256 {found[:12]}..., the "
            f"report's {told.get('file')} has {told['sha256'][:12]}..."
        )


def _sha256(path: Path) -> str:
    found = ModelFile(path).sha256()
    return "" if found is None else found.hex()
