"""`llamaherd serve`: a model behind HTTP."""

from __future__ import annotations

import argparse
import logging
import math
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from llamaherd.core.errors import LlamaHerdError
from llamaherd.model.model import Model
from llamaherd.run.context import Context

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    Commands = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001

KEY_VARIABLE = "LLAMAHERD_API_KEY"
_DESCRIPTION = """\
Loads a GGUF model and answers over HTTP: POST /generate, and what programs for OpenAI's
API ask for, at http://127.0.0.1:8080/v1. All clients' prompts run in the same batch.
"""
_EPILOG = """\
example:
  llamaherd serve model.gguf
  curl http://127.0.0.1:8080/generate -d '{"prompt": "One, two,", "max_tokens": 8}'

Ctrl-C ends it: what runs may end first; a second Ctrl-C ends it at once.
"""


def add_to(commands: Commands) -> None:
    """Adds the command to those that there are."""
    parser = commands.add_parser(
        "serve",
        help="answer prompts over HTTP",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=serve)
    parser.add_argument("model", metavar="MODEL.gguf", help="the model's file")

    where = parser.add_argument_group("where it listens")
    where.add_argument(
        "--host",
        default="127.0.0.1",
        help="address; only this machine can reach the default, %(default)s",
    )
    where.add_argument(
        "--port",
        type=_integer(0, 65535),
        default=8080,
        help="default %(default)s; 0: any that is free",
    )
    where.add_argument(
        "--api-key",
        metavar="KEY",
        help="clients must show it (Authorization: Bearer KEY); others on this machine "
        f"can see the arguments of programs, so better set {KEY_VARIABLE}",
    )
    where.add_argument(
        "--alias",
        metavar="NAME",
        help="the model's name for clients; default: its file's",
    )

    size = parser.add_argument_group("how much runs at once")
    size.add_argument(
        "--n-seq-max",
        type=_integer(1),
        metavar="N",
        help="prompts that may run at once; default: what suits the machine",
    )
    size.add_argument(
        "--n-ctx",
        type=_integer(1),
        metavar="N",
        help="tokens that the KV cache holds, prompts and answers; default: what the "
        "requests need, within half of the free memory",
    )
    size.add_argument(
        "--n-threads",
        type=_integer(1),
        metavar="N",
        help="default: as many as the machine has cores",
    )
    size.add_argument(
        "--deterministic",
        action="store_true",
        help="answers that do not depend on what else runs, bit for bit; slower",
    )

    limits = parser.add_argument_group("limits")
    limits.add_argument(
        "--queue",
        type=_integer(0),
        default=256,
        metavar="N",
        help="requests that may wait; more get status 429; default %(default)s",
    )
    limits.add_argument(
        "--timeout",
        type=_seconds,
        metavar="S",
        help="seconds after which a request ends with status 504; default: never",
    )
    limits.add_argument(
        "--grace",
        type=_seconds,
        default=30.0,
        metavar="S",
        help="seconds that requests have to end in when the server ends; default 30",
    )
    limits.add_argument(
        "--max-body",
        type=_integer(1),
        default=4 << 20,
        metavar="BYTES",
        help="size of a request; larger ones get status 413; default %(default)s",
    )
    limits.add_argument(
        "--max-tokens",
        type=_integer(1),
        default=1024,
        metavar="N",
        help="tokens of a chat's answer if the request names none; default %(default)s",
    )


def serve(options: argparse.Namespace) -> int:
    """Runs the server. Returns the status to exit with."""
    try:
        from llamaherd.server import serving  # noqa: PLC0415 - an extra may be missing
    except ImportError as error:
        return _failed(str(error))
    key = options.api_key or os.environ.get(KEY_VARIABLE) or None
    if options.api_key == "":
        return _failed("--api-key must not be empty")
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(message)s", stream=sys.stderr
    )
    try:
        bound = serving.bind(options.host, options.port)
    except OSError as error:
        return _failed(f"cannot listen on {options.host}:{options.port}: {error}")
    if key is None and not serving.is_local(bound):
        _warn(
            f"everybody who can reach {serving.url(bound)} can use the model: set "
            f"{KEY_VARIABLE} to ask for a key"
        )
    try:
        with bound:
            return _serve_on(bound, options, key)
    except (LlamaHerdError, ValueError) as error:
        return _failed(str(error))
    except KeyboardInterrupt:
        return 130


def _serve_on(bound: socket.socket, options: argparse.Namespace, key: str | None) -> int:
    from llamaherd.server import serving  # noqa: PLC0415
    from llamaherd.server.app import create_app  # noqa: PLC0415
    from llamaherd.server.settings import Settings  # noqa: PLC0415

    name = options.alias or Path(options.model).stem
    settings = Settings(
        model_name=name,
        queue=options.queue,
        timeout_s=options.timeout,
        max_body=options.max_body,
        max_tokens=options.max_tokens,
        n_ctx=options.n_ctx,
        api_key=key,
        hosts=serving.host_names(bound, options.host),
    )
    with (
        Model(options.model) as model,
        Context(
            model,
            n_ctx=options.n_ctx or "auto",
            n_seq_max=options.n_seq_max or "auto",
            n_threads=options.n_threads,
            deterministic=options.deterministic,
        ) as ctx,
    ):
        line = f"llamaherd serves {name} at {serving.url(bound)} (Ctrl-C ends it)"
        server = serving.Server(
            create_app(ctx, settings),
            grace_s=options.grace,
            when_ready=lambda: print(line, flush=True),  # noqa: T201
        )
        server.run([bound])
        return server.status


def _failed(message: str) -> int:
    print(f"llamaherd: {message}", file=sys.stderr)  # noqa: T201
    return 1


def _warn(message: str) -> None:
    print(f"llamaherd: warning: {message}", file=sys.stderr)  # noqa: T201


def _integer(least: int, most: int | None = None) -> Callable[[str], int]:
    def integer(text: str) -> int:
        number = int(text)
        if number < least or (most is not None and number > most):
            raise ValueError
        return number

    return integer


def _seconds(text: str) -> float:
    number = float(text)
    if not (math.isfinite(number) and number > 0):
        raise ValueError
    return number
