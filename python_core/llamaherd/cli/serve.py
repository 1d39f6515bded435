"""`llamaherd serve`: serve a model over HTTP."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path
from typing import Any

import click

from llamaherd.cli.conventions import ExitStatus, print_failure, warn
from llamaherd.cli.model_flags import GPU, N_THREADS
from llamaherd.cli.page import command, declared_flags
from llamaherd.cli.serve_run import (
    check_goes_with_several,
    given_loras,
    given_models,
    serve_on,
)
from llamaherd.engine.core.files import not_utf8
from llamaherd.engine.core.words import spoken_in, terms_of, words
from llamaherd.remote.processes import LANGUAGE_VARIABLE
from llamaherd.remote.server import KEY_VARIABLE
from llamaherd.server.settings import ServerSettings, is_local


def _user_keys(value: str | None) -> dict[str, str]:
    """Return the key of each person in a file, by name."""
    if value is None:
        return {}
    try:
        lines = Path(value).read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise _wrong_keys(f"{value} is {not_utf8(error)}") from None
    except OSError as error:
        raise _wrong_keys(f"{value} cannot be read: {error}") from None
    keys: dict[str, str] = {}
    for i, line in enumerate(lines, 1):
        words_ = line.split()
        if not words_ or line.startswith("#"):
            continue
        where = f"{value}, line {i}"
        if len(words_) != 2:  # the line may have a key: do not show it
            raise _wrong_keys(f"{where} is not NAME KEY.")
        name, key = words_
        if name in keys or key in keys.values():
            raise _wrong_keys(f"{where}: the name or key occurs twice.")
        keys[name] = _checked_key(where, key)
    if not keys:
        raise _wrong_keys(f"{value} has no line NAME KEY.")
    return keys


def _wrong_keys(problem: str) -> click.BadParameter:
    return click.BadParameter(problem, param_hint="'--user-keys'")


def _key(option: str | None) -> str | None:
    """Return the API key that clients must send, from the option or the environment."""
    name, key = "--api-key", option
    if option is None:
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


def _flags(section: str) -> str:
    return declared_flags(ServerSettings, section=section, has_defaults=True)


@command(
    "serve [MODEL.gguf]...",
    f"""
Load a GGUF model and answer over HTTP.

Clients use POST /generate, or OpenAI's API at http://127.0.0.1:8080/v1. Prompts of all
clients run in the same batch.
Several models, or a model with adapters, are loaded when a request names them.

Address and access:
  --host NAME  Address; only this machine can reach the default. [default: 127.0.0.1]
  --port PORT  0 uses any free port. [default: 8080]
  --ready-file FILE  File to write when clients can connect: JSON with url and pid.
  --while-stdin-open  End, as after Ctrl-C, when standard input closes, for example when
      the program that started the server ends.
  --allowed-host HOST... -> allowed_hosts  Additional host name that clients may use for
      the server; may be given several times.
  --api-key KEY  Key that clients must send (Authorization: Bearer KEY). Other users of
      this machine can see the arguments of programs, so set {KEY_VARIABLE} instead.
  --user-keys FILE  File with a line NAME KEY for each person: requests need one of these
      keys, and /metrics counts the tokens of each person.
  --no-api-key  Required for a --host that other machines can reach, if there is no key:
      everybody who can connect may then use the model.
  --alias ALIAS... -> aliases  Name of the model for clients. Default: the name of its
      file. May be given several times; answers contain the first name.
{_flags("access")}
  --embedding-model FILE  Model for /v1/embeddings, such as an encoder. Default:
      MODEL.gguf computes the vectors.

Several models:
  --model [NAME=]FILE... -> models  A model, with its name for clients. Default: the name
      of the file. May be given several times, with or without MODEL.gguf.
  --lora NAME=FILE[@MODEL]... -> loras  A LoRA adapter, which clients request by its name
      like a model. Uses the weights of MODEL (default: the first model). May be given
      several times.
{_flags("models")}

Prompts at once, and limits:
  --n-seq-max N -> context__n_seq_max  Maximum number of concurrent prompts. Default:
      chosen for the machine.
  --n-ctx N -> context__n_ctx  Tokens of prompts and answers in the KV cache. Default:
      as needed by the requests, within half of the free memory.
  --n-threads N -> context__n_threads  {N_THREADS}
  --deterministic -> context__deterministic  Make answers bit-identical, independent of
      other requests; slower.
  --set KEY=VALUE... -> settings  An argument of Model or Context, such as
      context.type_k=q8_0 or model.use_mlock=true. May be given several times.

Limits:
{_flags("limits")}
  --grace S  Seconds that running requests get at shutdown. [default: 30]

Files and batches:
{_flags("files")}

How chats are rendered:
{_flags("chats")}
{GPU}
Examples:
  llamaherd serve model.gguf
  llamaherd serve --model small.gguf --model large=big.gguf --memory 16GB
  curl http://127.0.0.1:8080/generate -d '{{"prompt": "One, two, three,"}}'

Ctrl-C ends the server after running requests; a second Ctrl-C ends it at once.
""",
)
def serve(host: str, port: int, **options: Any) -> int:  # of click
    """Run the server and return the exit status."""
    from llamaherd.server import serving  # an extra may be missing

    models = given_models(options.pop("model"), options["models"])
    loras = given_loras(options["loras"], models)
    if len(models) > 1 or loras:
        check_goes_with_several(options)
    no_api_key = options.pop("no_api_key")
    options["user_keys"] = _user_keys(options["user_keys"])
    key = options["api_key"] = _key(options["api_key"])
    has_key = key is not None or bool(options["user_keys"])
    if has_key and no_api_key:
        return print_failure(
            "--no-api-key is given with an API key", ExitStatus.WRONG_USE
        )
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(message)s", stream=sys.stderr
    )
    try:
        server_socket = serving.bind(host, port)
    except OSError as error:
        return print_failure(f"cannot listen on {host}:{port}: {error}")
    with server_socket:
        if not has_key and not is_local(server_socket):
            open_to_all = (
                f"anybody who can reach {serving.url(server_socket)} can use the model"
            )
            if not no_api_key:
                return print_failure(
                    f"{open_to_all}: set {KEY_VARIABLE} to require a key, or pass "
                    "--no-api-key to allow this",
                    ExitStatus.WRONG_USE,
                )
            warn(open_to_all)
        arguments = {**options, "models": models, "loras": loras}
        with spoken_in(terms_of(os.environ.get(LANGUAGE_VARIABLE), words())):
            return serve_on(server_socket, host, arguments)
