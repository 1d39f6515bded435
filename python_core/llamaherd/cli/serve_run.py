"""Models and run of the server of `llamaherd serve`."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import threading
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from llamaherd.cli.model_flags import load_model, path_of_model, take_table
from llamaherd.engine.core import checks, files
from llamaherd.engine.core.errors import ArgumentError
from llamaherd.engine.core.plain import DAMAGED
from llamaherd.server.settings import ServerSettings, hosts_of

if TYPE_CHECKING:
    import socket
    from collections.abc import Collection, Mapping, Sequence

    from starlette.applications import Starlette

    from llamaherd.server.models.spec import ModelSpec


# Arguments that `--set` refuses, with a hint.
_ELSEWHERE = {"path": "give it as MODEL or --model", "lora": "give it as --lora"}
_IS_WINDOWS = sys.platform == "win32"


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
    from llamaherd.engine.model.file import checked_path  # fast help
    from llamaherd.server.models.spec import AdapterSpec, ModelSpec

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


class _Arguments(NamedTuple):
    """Arguments of each model of the server, and of its contexts."""

    model: dict[str, Any]
    context: dict[str, Any]


def _end_with_stdin() -> None:
    """End the server when standard input closes."""
    # Not sys.stdin: a thread that holds its lock ends Python with a fatal error.
    while os.read(0, 1 << 16):
        pass
    _terminate()


def _terminate() -> None:
    """Send SIGTERM to this process."""
    if _IS_WINDOWS:  # os.kill would end the process at once, without its handlers
        signal.raise_signal(signal.SIGTERM)
    else:
        os.kill(os.getpid(), signal.SIGTERM)


def _tell_ready(line: str, server_socket: socket.socket, path: str | None) -> None:
    """Report that clients can connect, on standard output and in a file."""
    from llamaherd.server import serving  # an extra may be missing

    print(line, flush=True)  # noqa: T201
    if path is not None:
        description = {"url": serving.url(server_socket), "pid": os.getpid()}
        files.write_whole(Path(path), json.dumps(description).encode())


def check_ready_file(path: str | None) -> None:
    """Check that `--ready-file` can be written, and is free or of an earlier server."""
    if path is None:
        return
    from llamaherd.tables.outputs import check_place  # fast help

    check_place(path, "--ready-file")
    with suppress(OSError, *DAMAGED):
        if json.loads(Path(path).read_bytes()).keys() == {"url", "pid"}:
            return
    files.check_free(Path(path), overwrite=False, argument="--ready-file")


def _stem(path: str | None) -> str | None:
    return None if path is None else Path(path).stem


def serve_on(server_socket: socket.socket, host: str, options: dict[str, Any]) -> int:
    """Run the server on a bound socket and return the exit status."""
    from llamaherd.server import serving  # an extra may be missing

    check_ready_file(options["ready_file"])
    models, loras = options["models"], options["loras"]
    arguments = _arguments(options)
    n_ctx = arguments.context.get("n_ctx")
    fixed = None if n_ctx == "auto" else n_ctx
    settings = _settings(server_socket, host, {**options, "n_ctx": fixed}, models[0])
    names = [settings.model_name]
    with ExitStack() as stack:
        if len(models) == 1 and not loras:
            app = _app_of_one(stack, models[0], arguments, settings, options)
        else:
            specs = specs_of(models, loras, arguments.model)
            names = [name for spec in specs for name in spec.names]
            from llamaherd.server.app import create_app_of_models

            app = create_app_of_models(
                specs, settings, arguments.context, arguments.model
            )
        if options["while_stdin_open"]:
            threading.Thread(target=_end_with_stdin, daemon=True).start()
        model_names = ", ".join(names)
        url = serving.url(server_socket)
        line = f"llamaherd serves {model_names} at {url} (Ctrl-C ends it)"
        server = serving.Server(
            app,
            grace_s=options["grace"],
            when_ready=lambda: _tell_ready(line, server_socket, options["ready_file"]),
        )
        server.run([server_socket])
        return server.status


def _arguments(options: dict[str, Any]) -> _Arguments:
    """Return the arguments that the options set, without which `options` remain."""
    from llamaherd.calls.run.context import checked_options
    from llamaherd.engine.model.model import checked_load_options  # fast help
    from llamaherd.tables.spec_file import parsed_setting

    arguments = _Arguments(take_table(options), take_table(options, "context"))
    by_flag = {*arguments.model, *arguments.context}
    for key, value in map(parsed_setting, options["settings"]):
        _add_setting(arguments, key, value, by_flag)
    checked_load_options(arguments.model)
    checked_options(arguments.context)
    return arguments


def _add_setting(
    arguments: _Arguments, key: str, value: object, by_flag: Collection[str]
) -> None:
    """Add the argument that a `--set` gives."""
    from llamaherd.tables.spec_keys import check_keys  # fast help

    table, _, name = key.partition(".")
    problem = f"--set cannot set {checks.quoted(key)}"
    if table not in arguments._fields or name in _ELSEWHERE:
        hint = _ELSEWHERE.get(name, "a key is model.NAME or context.NAME")
        raise ArgumentError(f"{problem}: {hint}", argument="--set", form="{problem}")
    check_keys(table, {name: value})
    values = getattr(arguments, table)
    if name in values:
        flag = f"--{name.replace('_', '-')}" if name in by_flag else "another --set"
        text = f"{problem}: {flag} already sets it"
        raise ArgumentError(text, argument="--set", form="{problem}")
    values[name] = value


def _app_of_one(
    stack: ExitStack,
    given_model: GivenModel,
    arguments: _Arguments,
    settings: ServerSettings,
    options: dict[str, Any],
) -> Starlette:
    """Load a model and return its application."""
    from llamaherd.server.app import create_app  # an extra may be missing
    from llamaherd.server.models.loading import context_of
    from llamaherd.server.models.spec import ModelSpec

    specs = [
        ModelSpec(given_model.name, path_of_model(given_model.source, arguments.model))
    ]
    other = options["embedding_model"]
    if other is not None:
        path = path_of_model(other, arguments.model, "--embedding-model")
        specs.append(ModelSpec(settings.embedding_name or path.stem, path))
    n_cache = _memory_of_cache(specs, settings.memory, arguments)
    model, *others = (
        stack.enter_context(load_model(str(spec.path), arguments.model)) for spec in specs
    )
    embedding_model = others[0] if others else None
    ctx = context_of(model, arguments.context)
    if ctx is None:
        return create_app(model, settings, embedding_model)
    stack.enter_context(ctx)
    if n_cache is not None:
        ctx.limit_memory(n_cache)
    return create_app(ctx, settings, embedding_model)


def _memory_of_cache(
    specs: Sequence[ModelSpec], n_bytes: int | None, arguments: _Arguments
) -> int | None:
    """Return the memory for the cache of the first model; None without `--memory`."""
    from llamaherd.calls.run.context import checked_options
    from llamaherd.engine.model.model import checked_load_options
    from llamaherd.server.models.spec import memory_of_cache

    if n_bytes is None:
        return None
    placement = checked_load_options(arguments.model).placement
    return memory_of_cache(specs, n_bytes, checked_options(arguments.context), placement)


def _settings(
    server_socket: socket.socket, host: str, options: dict[str, Any], first: GivenModel
) -> ServerSettings:
    """Return the settings, most of which are options of the same name."""
    from llamaherd.server import serving  # an extra may be missing

    name, *others = options["aliases"] or [first.name]
    declared = {
        option: value
        for option, value in options.items()
        if option in ServerSettings.declared and value is not None
    }
    return ServerSettings(
        **{
            **declared,
            "model_name": name,
            "aliases": tuple(others),
            "hosts": hosts_of(server_socket, host, options["allowed_hosts"]),
            "connections": serving.room_for(options["connections"]),
            "embedding_name": _stem(options["embedding_model"]),
        }
    )
