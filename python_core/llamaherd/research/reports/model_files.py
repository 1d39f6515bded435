"""Search for the model file of a report, by name and content."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llamaherd.core import checks
from llamaherd.core.errors import ArgumentError, ArgumentTypeError
from llamaherd.hub.cache import list_cached_models, model_cache_dir
from llamaherd.model.file import ModelFile

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


def find_model(
    recorded: Mapping[str, Any],
    given: str | os.PathLike[str] | None,
    folder: Path,
) -> tuple[Path, list[tuple[Path, float]]]:
    """Return the model file, and its adapter files with their scales.

    Args:
        recorded: Record of the model in the report.
        given: Path of the model; None to search for it.
        folder: Folder of the report, which is searched first.

    Raises:
        TypeError: `given` is not a path.
        ValueError: The file's content differs from the file of the report.
        FileNotFoundError: The file does not exist.
    """
    if given is not None and not isinstance(given, (str, os.PathLike)):
        raise ArgumentTypeError(
            f"must be a path, a Model or a Context, not {checks.shown(given)}",
            argument="model",
        )
    folders = [folder, Path.cwd()]
    if given is None:
        file = _found("model", recorded, folders)
    else:
        file = Path(os.fsdecode(given)).expanduser()
        if not file.is_file():
            raise FileNotFoundError(f"there is no model file {file}")
        folders.insert(0, file.parent)
        _check("model", file, recorded)
    loras = [
        (_found("LoRA adapter", each, folders), float(each["scale"]))
        for each in recorded.get("loras", [])
    ]
    return file, loras


def find_later(what: str, recorded: Mapping[str, Any], folders: Sequence[Path]) -> Path:
    """Find the model file of a later coding step by name and content.

    Args:
        what: Name of the model in errors.
        recorded: Record of the model in the report.
        folders: Folders to search, before the model cache.

    Raises:
        ValueError: Files of this name exist, but with other content.
        FileNotFoundError: No file of this name exists.
    """
    return _found(what, recorded, list(folders))


def _found(what: str, recorded: Mapping[str, Any], folders: list[Path]) -> Path:
    """Find a file with the recorded name and content.

    Raises:
        ValueError: Files of this name exist, but with other content.
        FileNotFoundError: No file of this name exists.
    """
    name = recorded.get("file")
    if not isinstance(name, str) or Path(name).name != name:
        raise ArgumentError(
            f"must be given: the report does not name the {what}'s file",
            argument="model",
            code="missing",
        )
    others: list[Path] = []
    for path in _candidates(name, folders):
        if _sha256(path) == recorded.get("sha256"):
            return path
        others.append(path)
    if others:
        raise ArgumentError(
            f"the {what} was changed: {others[0]} has another SHA-256 than the report's "
            f"{name}",
            argument="model",
            code="changed",
            form="{name}: {problem}",
        )
    looked = ", ".join(str(folder) for folder in [*folders, model_cache_dir()])
    is_given = what in {"model", "LoRA adapter"}
    remedy = (
        f"pass the {what}'s path as model"
        if is_given
        else "put the file into one of them"
    )
    raise FileNotFoundError(f"there is no {name} in {looked}: {remedy}")


def _candidates(name: str, folders: list[Path]) -> Iterator[Path]:
    for folder in folders:
        if (folder / name).is_file():
            yield folder / name
    yield from (model.path for model in list_cached_models() if model.name == name)


def _check(what: str, file: Path, recorded: Mapping[str, Any]) -> None:
    found = _sha256(file)
    if recorded.get("sha256") is not None and found != recorded["sha256"]:
        raise ArgumentError(
            f"the {what} was changed: {file.name} has the SHA-256 {found[:12]}..., the "
            f"report's {recorded.get('file')} has {recorded['sha256'][:12]}...",
            argument="model",
            code="changed",
            form="{name}: {problem}",
        )


def _sha256(path: Path) -> str:
    found = ModelFile(path).sha256()
    return "" if found is None else found.hex()
