"""Creation of command-line arguments for the models of a server in another process."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

from llamaherd.engine.core import checks
from llamaherd.engine.core.argument import Argument, Field
from llamaherd.engine.core.errors import ArgumentError, ArgumentTypeError

if TYPE_CHECKING:
    from collections.abc import Sequence

StrPath: TypeAlias = "str | os.PathLike[str]"
Models: TypeAlias = "StrPath | Sequence[StrPath] | Mapping[str, StrPath]"


def model_arguments(model: Models) -> tuple[list[str], str]:
    """Return the command-line arguments for models, and a text that names the models.

    Args:
        model: Path of a model, a list of paths, or paths by name.

    Raises:
        TypeError: `model` has another type.
        ValueError: There is no model, or a name cannot be used.
    """
    if isinstance(model, (str, os.PathLike)):
        shown = os.fspath(model)
        return [shown], shown
    if isinstance(model, Mapping):
        texts = [_named("model", name, path) for name, path in model.items()]
    elif isinstance(model, (list, tuple)):
        texts = [_path(Argument("model", (i,)), path) for i, path in enumerate(model)]
    else:
        text = f"must be a path, a list of paths, or paths by name, not {type(model)}"
        raise ArgumentTypeError(text, argument="model")
    if not texts:
        raise ArgumentError("must have at least one model", argument="model")
    return [part for text in texts for part in ("--model", text)], ", ".join(texts)


def lora_arguments(lora: object) -> list[str]:
    """Return the command-line arguments for adapters.

    Args:
        lora: Paths by name; None without adapters.

    Raises:
        TypeError: `lora` is neither None nor a map of names to paths.
        ValueError: A name cannot be used.
    """
    if lora is None:
        return []
    if not isinstance(lora, Mapping):
        text = f"must be paths by name, not {type(lora).__name__}"
        raise ArgumentTypeError(text, argument="lora")
    texts = [_named("lora", name, path) for name, path in lora.items()]
    return [part for text in texts for part in ("--lora", text)]


def _named(argument: str, name: object, path: object) -> str:
    where = Argument(argument, (Field(str(name)),))
    text = checks.text(argument, name)
    if not text.strip() or any(each in text for each in ("=", "?", "\\", "://")):
        raise ArgumentError(f"has the name {checks.shown(name)}", argument=argument)
    return f"{text}={_path(where, path)}"


def _path(where: Argument, path: object) -> str:
    if not isinstance(path, (str, os.PathLike)):
        text = f"must be a path, not {checks.shown(path)}"
        raise ArgumentTypeError(text, argument=where)
    return os.fsdecode(path)
