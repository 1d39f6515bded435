"""Models of `llamaherd serve`: names, files, adapters, memory."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from llamaherd.cli.model_flags import path_of_model

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llamaherd.server.models.spec import ModelSpec


class GivenModel(NamedTuple):
    """A model as given on the command line: its name for clients, and its source."""

    name: str
    source: str


class GivenLora(NamedTuple):
    """A LoRA adapter as given on the command line; `parent` names its model."""

    name: str
    path: str
    parent: str


def _split(text: str) -> tuple[str | None, str]:
    """Split NAME=FILE into name and file; the name of a plain FILE is None."""
    name, sign, source = text.partition("=")
    is_name = sign and not re.search(r"[?\\]|://", name) and not Path(text).exists()
    return (name.strip(), source) if is_name else (None, text)


def given_models(arguments: Sequence[str], more: Sequence[str]) -> list[GivenModel]:
    """Return the models given on the command line, the argument MODEL first."""
    if len(arguments) > 1:
        options = " ".join(f"--model {path}" for path in arguments[1:])
        raise click.UsageError(
            f"Only one model may be given without an option; add more with {options}."
        )
    models = [GivenModel(Path(path).stem, path) for path in arguments]
    for text in more:
        name, source = _split(text)
        if name == "" or not source:
            raise click.UsageError(f"--model {text} is neither FILE nor NAME=FILE.")
        models.append(GivenModel(name or Path(source).stem, source))
    if not models:
        raise click.UsageError("Missing argument 'MODEL.gguf', or --model.")
    _check_names([model.name for model in models])
    return models


def given_loras(texts: Sequence[str], models: Sequence[GivenModel]) -> list[GivenLora]:
    """Return the adapters given on the command line."""
    names = [model.name for model in models]
    loras = []
    for text in texts:
        name, source = _split(text)
        if not name or not source:
            raise click.UsageError(f"--lora {text} is not NAME=FILE.")
        path, sign, parent = source.rpartition("@")
        if not sign or Path(source).exists():
            path, parent = source, names[0]
        if parent not in names:
            known = ", ".join(names)
            raise click.UsageError(
                f"--lora {text}: no model {parent}; the models are {known}."
            )
        loras.append(GivenLora(name, path, parent))
    _check_names([*names, *(lora.name for lora in loras)])
    return loras


def _check_names(names: Sequence[str]) -> None:
    plain = [name.removesuffix(".gguf") for name in names]  # requests may add it
    for name, short in zip(names, plain, strict=True):
        if plain.count(short) > 1:
            raise click.UsageError(
                f"two models have the name {name!r}: name one with --model NAME=FILE."
            )


def specs_of(
    models: Sequence[GivenModel],
    loras: Sequence[GivenLora],
    loading: Mapping[str, Any],
) -> list[ModelSpec]:
    """Return models and adapters with their paths; download models if necessary."""
    from llamaherd.engine.model.file import checked_path  # noqa: PLC0415 - fast help
    from llamaherd.server.models.spec import AdapterSpec, ModelSpec  # noqa: PLC0415

    specs = []
    for model in models:
        path = path_of_model(model.source, loading, "--model")
        adapters = tuple(
            AdapterSpec(lora.name, checked_path("--lora", lora.path))
            for lora in loras
            if lora.parent == model.name
        )
        specs.append(ModelSpec(model.name, path, adapters))
    return specs


def check_goes_with_several(options: dict[str, object]) -> None:
    """Check that no option requires a server with one model."""
    hints = {
        "aliases": ("--alias", "name models with --model NAME=FILE"),
        "embedding_model": ("--embedding-model", "give it as another --model"),
        "template": ("--template", "serve its model alone"),
    }
    for option, (flag, hint) in hints.items():
        if options[option]:
            text = f"{flag} is for one model; with several, {hint}."
            raise click.UsageError(text)
