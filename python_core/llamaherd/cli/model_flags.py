"""Options of commands that load a model: GPUs, and chat templates."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, TypeVar

import click

from llamaherd.cli.conventions import WholeNumber, section
from llamaherd.engine.core import checks
from llamaherd.engine.core.plain import DuplicateKeyError, read_json

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from llamaherd.engine.model.model import Model

    _Function = TypeVar("_Function", bound=Callable[..., Any])
    from collections.abc import Sequence

_MODEL = "A GGUF file, hf:owner/repo, ollama:name, or a name in the cache."
GPU_NAMES = ("n_gpu_layers", "split_mode", "main_gpu", "tensor_split")
_gpu = section("GPU")


def _layers(
    ctx: click.Context, param: click.Parameter, value: str | None
) -> int | str | None:
    """Return the number of layers; "auto" and None unchanged."""
    if value is None or value == "auto":
        return value
    try:
        return int(value)
    except ValueError:
        message = f"{value!r} is not a whole number or 'auto'."
        raise click.BadParameter(message, ctx, param) from None


def _shares(
    ctx: click.Context, param: click.Parameter, value: str | None
) -> list[float] | None:
    if value is None:
        return None
    try:
        return [float(share) for share in value.split(",")]
    except ValueError:
        message = f"{value!r} is not a list of numbers such as 3,1."
        raise click.BadParameter(message, ctx, param) from None


def model_option(
    option: Callable[..., Callable[[_Function], _Function]],
    *name: str,
    note: str = "",
    **settings: Any,  # noqa: ANN401 - types of click
) -> Callable[[_Function], _Function]:
    """Return a decorator that adds the option -m to a command."""
    text = f"{_MODEL} {note}".rstrip()
    return option("-m", "--model", *name, metavar="MODEL", help=text, **settings)


def gpu_options(prefix: str = "") -> Callable[[_Function], _Function]:
    """Return a decorator that adds the options of `Model` for GPUs to a command."""
    options = (
        _gpu(
            "--n-gpu-layers",
            f"{prefix}n_gpu_layers",
            callback=_layers,
            metavar="N",
            help="Number of layers in GPU memory; -1 for all, auto for all if there is a "
            "GPU. Default 0.",
        ),
        _gpu(
            "--split-mode",
            f"{prefix}split_mode",
            type=click.Choice(("layer", "row", "none")),
            help="How several GPUs share the model; none: only --main-gpu. Default "
            "layer.",
        ),
        _gpu(
            "--main-gpu",
            f"{prefix}main_gpu",
            type=WholeNumber(0),
            metavar="N",
            help="Number of the GPU for --split-mode none, as `llamaherd doctor` lists "
            "them, from 0.",
        ),
        _gpu(
            "--tensor-split",
            f"{prefix}tensor_split",
            callback=_shares,
            metavar="X,X,...",
            help="Share of the model for each GPU, in any unit. Default: by free memory.",
        ),
    )

    def with_options(command: _Function) -> _Function:
        for option in reversed(options):
            command = option(command)
        return command

    return with_options


def take_gpu_options(options: dict[str, Any]) -> dict[str, Any]:
    """Remove the options for GPUs from a command's arguments, and return them."""
    found = {name: options.pop(name) for name in GPU_NAMES}
    return {name: value for name, value in found.items() if value is not None}


def fits_file_to_memory(loading: Mapping[str, Any]) -> bool:
    """Whether the available memory decides which file of a repository is loaded."""
    from llamaherd.engine.model.model import checked_load_options  # noqa: PLC0415 - fast help

    return checked_load_options(loading).fits_file_to_memory


def path_of_model(source: str, loading: Mapping[str, Any], name: str = "MODEL") -> Path:
    """Return the path of a model, which is downloaded first if needed."""
    from llamaherd.engine.hub.fetch import model_path  # noqa: PLC0415 - keeps the help fast

    return model_path(
        source,
        check_memory=fits_file_to_memory(loading),
        name=name,
        progress=sys.stderr.isatty(),
    )


def load_model(source: str, loading: dict[str, Any], name: str = "MODEL") -> Model:
    """Load a model, see `path_of_model`."""
    from llamaherd.engine.model.model import Model  # noqa: PLC0415 - keeps the help fast

    return Model(path_of_model(source, loading, name), **loading)


_SWITCHES = {"on": True, "off": False, "true": True, "false": False}


def thinking_of(
    ctx: click.Context, param: click.Parameter, value: str | None
) -> bool | int | None:
    """Parse `--thinking`: a number of tokens, on or off."""
    if value is None:
        return None
    if value.lower() in _SWITCHES:
        return _SWITCHES[value.lower()]
    number = checks.digits(value)
    if number is not None:
        return number
    raise click.BadParameter(f"{value!r} is neither a number nor on or off.", ctx, param)


def variables_of(
    ctx: click.Context, param: click.Parameter, value: Sequence[str]
) -> dict[str, Any] | None:
    """Parse `--var NAME=VALUE`; the value is read as JSON, or as text if that fails."""
    found: dict[str, Any] = {}
    for text in value:
        name, equals, given = text.partition("=")
        if not equals or not name.strip().isidentifier():
            message = f"{text!r} is not NAME=VALUE, such as reasoning_effort=low."
            raise click.BadParameter(message, ctx, param)
        try:
            found[name.strip()] = read_json(given)
        except DuplicateKeyError as error:
            raise click.BadParameter(f"{name.strip()}: {error}.", ctx, param) from None
        except (ValueError, RecursionError):
            found[name.strip()] = given
    return found or None
