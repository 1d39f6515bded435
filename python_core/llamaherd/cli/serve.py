"""`llamaherd serve`: a model behind HTTP."""

from __future__ import annotations

import logging
import math
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from llamaherd.cli.conventions import Command, Status, Whole, failed, section, warn

if TYPE_CHECKING:
    import socket

KEY_VARIABLE = "LLAMAHERD_API_KEY"
_HELP = """\
Load a GGUF model and answer over HTTP.

POST /generate, and what programs for OpenAI's API ask for, at
http://127.0.0.1:8080/v1. All clients' prompts run in the same batch.
"""
_EXAMPLES = """\
llamaherd serve model.gguf
curl http://127.0.0.1:8080/generate -d '{"prompt": "One, two, three,"}'
"""
_EPILOG = """\
Ctrl-C ends it: what runs may end first; a second Ctrl-C ends it at once.
"""

_where = section("Where it listens")
_size = section("How much runs at once")
_limits = section("Limits")
_COUNT = Whole(1)


def _seconds(
    ctx: click.Context, param: click.Parameter, value: float | None
) -> float | None:
    if value is None or (math.isfinite(value) and value > 0):
        return value
    raise click.BadParameter(f"{value:g} is no positive number.", ctx, param)


@click.command("serve", cls=Command, help=_HELP, examples=_EXAMPLES, epilog=_EPILOG)
@click.argument("model", metavar="MODEL.gguf")
@_where(
    "--host",
    default="127.0.0.1",
    help="Address; only this machine can reach the default.",
    show_default=True,
)
@_where(
    "--port",
    type=Whole(0, 65535),
    default=8080,
    metavar="N",
    show_default=True,
    help="0: any that is free.",
)
@_where(
    "--api-key",
    metavar="KEY",
    help="Clients must show it (Authorization: Bearer KEY); others on this machine can "
    f"see the arguments of programs, so better set {KEY_VARIABLE}.",
)
@_where(
    "--alias", metavar="NAME", help="The model's name for clients; default: its file's."
)
@_size(
    "--n-seq-max",
    type=_COUNT,
    metavar="N",
    help="Prompts that may run at once; default: what suits the machine.",
)
@_size(
    "--n-ctx",
    type=_COUNT,
    metavar="N",
    help="Tokens that the KV cache holds, prompts and answers; default: what the "
    "requests need, within half of the free memory.",
)
@_size(
    "--n-threads",
    type=_COUNT,
    metavar="N",
    help="Default: as many as the machine has cores.",
)
@_size(
    "--deterministic",
    is_flag=True,
    help="Answers that do not depend on what else runs, bit for bit; slower.",
)
@_limits(
    "--queue",
    type=Whole(0),
    default=256,
    metavar="N",
    show_default=True,
    help="Requests that may wait; more get status 429.",
)
@_limits(
    "--timeout",
    type=float,
    callback=_seconds,
    metavar="S",
    help="Seconds after which a request ends with status 504; default: never.",
)
@_limits(
    "--grace",
    type=float,
    callback=_seconds,
    default=30.0,
    metavar="S",
    help="Seconds that requests have to end in when the server ends; default 30.",
)
@_limits(
    "--max-body",
    type=_COUNT,
    default=4 << 20,
    metavar="BYTES",
    show_default=True,
    help="Size of a request; larger ones get status 413.",
)
@_limits(
    "--max-tokens",
    type=_COUNT,
    default=1024,
    metavar="N",
    show_default=True,
    help="Tokens of a chat's answer if the request names none.",
)
def serve(api_key: str | None, host: str, port: int, **options: Any) -> int:  # noqa: ANN401 - as declared above
    """Runs the server. Returns the status to exit with."""
    from llamaherd.server import serving  # noqa: PLC0415 - an extra may be missing

    key = api_key or os.environ.get(KEY_VARIABLE) or None
    if api_key == "":
        return failed("--api-key must not be empty", Status.WRONG_USE)
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(message)s", stream=sys.stderr
    )
    try:
        bound = serving.bind(host, port)
    except OSError as error:
        return failed(f"cannot listen on {host}:{port}: {error}")
    if key is None and not serving.is_local(bound):
        warn(
            f"everybody who can reach {serving.url(bound)} can use the model: set "
            f"{KEY_VARIABLE} to ask for a key"
        )
    with bound:
        return _serve_on(bound, host, options, key)


def _serve_on(
    bound: socket.socket, host: str, options: dict[str, Any], key: str | None
) -> int:
    from llamaherd.hub.fetch import model_path  # noqa: PLC0415 - the help needs no more
    from llamaherd.model.model import Model  # noqa: PLC0415
    from llamaherd.run.context import Context  # noqa: PLC0415
    from llamaherd.server import serving  # noqa: PLC0415
    from llamaherd.server.app import create_app  # noqa: PLC0415
    from llamaherd.server.settings import Settings  # noqa: PLC0415

    name = options["alias"] or Path(options["model"]).stem
    settings = Settings(
        model_name=name,
        queue=options["queue"],
        timeout_s=options["timeout"],
        max_body=options["max_body"],
        max_tokens=options["max_tokens"],
        n_ctx=options["n_ctx"],
        api_key=key,
        hosts=serving.host_names(bound, host),
    )
    watched = sys.stderr.isatty()
    path = model_path(options["model"], check_memory=True, name="MODEL", progress=watched)
    with (
        Model(path) as model,
        Context(
            model,
            n_ctx=options["n_ctx"] or "auto",
            n_seq_max=options["n_seq_max"] or "auto",
            n_threads=options["n_threads"],
            deterministic=options["deterministic"],
        ) as ctx,
    ):
        line = f"llamaherd serves {name} at {serving.url(bound)} (Ctrl-C ends it)"
        server = serving.Server(
            create_app(ctx, settings),
            grace_s=options["grace"],
            when_ready=lambda: print(line, flush=True),  # noqa: T201
        )
        server.run([bound])
        return server.status
