"""`llamaherd serve`: serve a model over HTTP."""

from __future__ import annotations

import logging
import math
import os
import sys
from pathlib import Path
from typing import Any

import click

from llamaherd.cli.conventions import (
    Command,
    ExitStatus,
    WholeNumber,
    failed,
    section,
    warn,
)
from llamaherd.cli.model_flags import gpu_options, thinking_of, variables_of
from llamaherd.cli.serve_models import (
    check_goes_with_several,
    given_loras,
    given_models,
    one_model,
    size,
)
from llamaherd.cli.serve_run import serve_on
from llamaherd.engine.core.sampling import MAX_TOKENS_OF_CHAT
from llamaherd.engine.core.words import spoken_in, terms_of, words
from llamaherd.remote.processes import KEY_VARIABLE, LANGUAGE_VARIABLE

_HELP = """\
Load a GGUF model and answer over HTTP.

Clients use POST /generate, or OpenAI's API at http://127.0.0.1:8080/v1. Prompts of all
clients run in the same batch.
Several models, or a model with adapters, are loaded when a request names them.
"""
_EXAMPLES = """\
llamaherd serve model.gguf
llamaherd serve --model small.gguf --model large=big.gguf --memory 16GB
curl http://127.0.0.1:8080/generate -d '{"prompt": "One, two, three,"}'
"""
_EPILOG = """\
Ctrl-C ends the server after running requests; a second Ctrl-C ends it at once.
"""

_where = section("Address and access")
_models = section("Several models")
_size = section("Prompts at once, and limits")
_limits = section("Limits")
_batches = section("Files and batches")
_chats = section("How chats are rendered")
_COUNT = WholeNumber(1)


def _seconds(
    ctx: click.Context, param: click.Parameter, value: float | None
) -> float | None:
    if value is None or (math.isfinite(value) and value > 0):
        return value
    raise click.BadParameter(f"{value:g} is not a positive number.", ctx, param)


def _host_names(
    ctx: click.Context, param: click.Parameter, value: tuple[str, ...]
) -> list[str]:
    if not value:
        return []
    from llamaherd.server.settings import allowed_host  # noqa: PLC0415 - optional dependency

    try:
        return [allowed_host(name) for name in value]
    except ValueError as error:
        raise click.BadParameter(f"{error}.", ctx, param) from None


def _model_names(
    ctx: click.Context, param: click.Parameter, value: tuple[str, ...]
) -> list[str]:
    if not all(name.strip() for name in value):
        raise click.BadParameter("a name must not be empty.", ctx, param)
    return [name.strip() for name in value]


def _user_keys(
    ctx: click.Context, param: click.Parameter, value: str | None
) -> dict[str, str]:
    """Return the key of each person in a file, by name."""
    if value is None:
        return {}
    try:
        lines = Path(value).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise click.BadParameter(f"{value} cannot be read: {error}", ctx, param) from None
    found: dict[str, str] = {}
    for i, line in enumerate(lines, 1):
        words_ = line.split()
        if not words_ or line.startswith("#"):
            continue
        where = f"{value}, line {i}"
        if len(words_) != 2:  # the line may have a key: do not show it
            raise click.BadParameter(f"{where} is not NAME KEY.", ctx, param)
        name, key = words_
        if name in found or key in found.values():
            raise click.BadParameter(
                f"{where}: the name or key occurs twice.", ctx, param
            )
        found[name] = _checked_key(where, key)
    if not found:
        raise click.BadParameter(f"{value} has no line NAME KEY.", ctx, param)
    return found


def _key(given: str | None) -> str | None:
    """Return the API key that clients must send, from the option or the environment."""
    name, key = "--api-key", given
    if given is None:
        name, key = KEY_VARIABLE, os.environ.get(KEY_VARIABLE) or None
    return None if key is None else _checked_key(name, key)


def _checked_key(name: str, key: str) -> str:
    key = key.strip()  # a key from a file ends with a line break
    if not key:
        raise click.UsageError(f"{name} must not be empty.")
    if not key.isprintable() or " " in key:
        raise click.UsageError(f"{name} must have no spaces and no control characters.")
    try:
        key.encode("latin-1")
    except UnicodeEncodeError:
        raise click.UsageError(
            f"{name} must have only Latin-1 characters, because HTTP allows no others."
        ) from None
    return key


@click.command("serve", cls=Command, help=_HELP, examples=_EXAMPLES, epilog=_EPILOG)
@click.argument("model", metavar="MODEL.gguf", nargs=-1, callback=one_model)
@_where(
    "--host",
    default="127.0.0.1",
    help="Address; only this machine can reach the default.",
    show_default=True,
)
@_where(
    "--port",
    type=WholeNumber(0, 65535),
    default=8080,
    metavar="N",
    show_default=True,
    help="0 uses any free port.",
)
@_where(
    "--ready-file",
    metavar="FILE",
    help="File to write when clients can connect: JSON with url and pid.",
)
@_where(
    "--while-stdin-open",
    is_flag=True,
    help="End, as after Ctrl-C, when standard input closes, for example when the program "
    "that started the server ends.",
)
@_where(
    "--allowed-host",
    "allowed_hosts",
    metavar="NAME",
    multiple=True,
    callback=_host_names,
    help="Additional host name that clients may use for the server; may be given several "
    "times.",
)
@_where(
    "--api-key",
    metavar="KEY",
    help="Key that clients must send (Authorization: Bearer KEY). Other users of this "
    f"machine can see the arguments of programs, so set {KEY_VARIABLE} instead.",
)
@_where(
    "--user-keys",
    metavar="FILE",
    callback=_user_keys,
    help="File with a line NAME KEY for each person: requests need one of these keys, "
    "and /metrics counts the tokens of each person.",
)
@_where(
    "--no-api-key",
    is_flag=True,
    help="Required for a --host that other machines can reach, if there is no key: "
    "everybody who can connect may then use the model.",
)
@_where(
    "--alias",
    "aliases",
    metavar="NAME",
    multiple=True,
    callback=_model_names,
    help="Name of the model for clients. Default: the name of its file. May be given "
    "several times; answers contain the first name.",
)
@_where(
    "--any-model",
    is_flag=True,
    help="Accept any model name in requests; answers contain the real name.",
)
@_where(
    "--embedding-model",
    metavar="FILE",
    help="Model for /v1/embeddings, such as an encoder. Default: MODEL.gguf "
    "computes the vectors.",
)
@_models(
    "--model",
    "models",
    metavar="[NAME=]FILE",
    multiple=True,
    help="A model, with its name for clients. Default: the name of the file. May be "
    "given several times, with or without MODEL.gguf.",
)
@_models(
    "--lora",
    "loras",
    metavar="NAME=FILE[@MODEL]",
    multiple=True,
    help="A LoRA adapter, which clients request by its name like a model. Uses the "
    "weights of MODEL (default: the first model). May be given several times.",
)
@_models(
    "--memory",
    metavar="SIZE",
    callback=size,
    help="Limit of the memory for weights, caches and buffers, such as 16GB. "
    "Of several models, the least recently used are unloaded. Default: for several "
    "models, the memory available at the start.",
)
@_models(
    "--model-wait",
    type=float,
    callback=_seconds,
    default=60.0,
    metavar="S",
    help="Seconds that a request waits for memory for its model; then it fails with "
    "status 503. Default 60.",
)
@_size(
    "--n-seq-max",
    type=_COUNT,
    metavar="N",
    help="Maximum number of concurrent prompts. Default: chosen for the machine.",
)
@_size(
    "--n-ctx",
    type=_COUNT,
    metavar="N",
    help="Tokens of prompts and answers in the KV cache. Default: as needed by the "
    "requests, within half of the free memory.",
)
@_size(
    "--n-threads",
    type=_COUNT,
    metavar="N",
    help="Number of threads. Default: the physical cores.",
)
@_size(
    "--deterministic",
    is_flag=True,
    help="Make answers bit-identical, independent of other requests; slower.",
)
@_size(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="An argument of Model or Context, such as context.type_k=q8_0 or "
    "model.use_mlock=true. May be given several times.",
)
@_limits(
    "--queue",
    type=WholeNumber(0),
    default=256,
    metavar="N",
    show_default=True,
    help="Maximum number of waiting requests; further requests get status 429.",
)
@_limits(
    "--timeout",
    type=float,
    callback=_seconds,
    metavar="S",
    help="Seconds after which a request fails with status 504. Default: no limit.",
)
@_limits(
    "--grace",
    type=float,
    callback=_seconds,
    default=30.0,
    metavar="S",
    help="Seconds that running requests get at shutdown. Default 30.",
)
@_limits(
    "--max-body",
    type=_COUNT,
    default=4 << 20,
    metavar="BYTES",
    show_default=True,
    help="Maximum size of a request in bytes; larger ones get status 413.",
)
@_limits(
    "--connections",
    type=_COUNT,
    default=1024,
    metavar="N",
    show_default=True,
    help="Maximum number of connections; requests on further ones get status 503.",
)
@_batches(
    "--data",
    metavar="DIR",
    help="Folder of files and batches, created if needed. Batches then survive the end "
    "of the server, and the next server with this folder continues them. Default: "
    "a temporary folder, removed at the end.",
)
@_batches(
    "--max-file",
    type=_COUNT,
    default=200 << 20,
    metavar="BYTES",
    show_default=True,
    help="Maximum size of a file of a batch; larger ones get status 413.",
)
@_limits(
    "--max-tokens",
    type=_COUNT,
    default=MAX_TOKENS_OF_CHAT,
    metavar="N",
    show_default=True,
    help="Maximum number of tokens of a chat answer, unless the request sets it.",
)
@_chats(
    "--thinking",
    metavar="N|on|off",
    callback=thinking_of,
    help="Tokens of the thought before an answer, unless the request sets them. Default: "
    "as in the model's chat template.",
)
@_chats(
    "--template",
    metavar="FILE",
    help="Chat template in Jinja, in place of the model's.",
)
@_chats(
    "--var",
    "variables",
    metavar="NAME=VALUE",
    multiple=True,
    callback=variables_of,
    help="A variable of the chat template; may be given several times.",
)
@_chats(
    "--merge-system",
    is_flag=True,
    help="Put the system text into the first user message where the template refuses it.",
)
@gpu_options()
def serve(
    api_key: str | None,
    host: str,
    port: int,
    *,
    no_api_key: bool,
    **options: Any,  # noqa: ANN401 - as declared above
) -> int:
    """Run the server and return the exit status."""
    from llamaherd.server import serving  # noqa: PLC0415 - an extra may be missing
    from llamaherd.server.settings import is_local  # noqa: PLC0415

    models = given_models(options["model"], options["models"])
    loras = given_loras(options["loras"], models)
    if len(models) > 1 or loras:
        check_goes_with_several(options)
    key = _key(api_key)
    has_key = key is not None or bool(options["user_keys"])
    if has_key and no_api_key:
        return failed("--no-api-key is given with an API key", ExitStatus.WRONG_USE)
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(message)s", stream=sys.stderr
    )
    try:
        bound = serving.bind(host, port)
    except OSError as error:
        return failed(f"cannot listen on {host}:{port}: {error}")
    with bound:
        if not has_key and not is_local(bound):
            open_to_all = f"anybody who can reach {serving.url(bound)} can use the model"
            if not no_api_key:
                return failed(
                    f"{open_to_all}: set {KEY_VARIABLE} to require a key, or pass "
                    "--no-api-key to allow this",
                    ExitStatus.WRONG_USE,
                )
            warn(open_to_all)
        given = {**options, "models": models, "loras": loras}
        with spoken_in(terms_of(os.environ.get(LANGUAGE_VARIABLE), words())):
            return serve_on(bound, host, given, key)
