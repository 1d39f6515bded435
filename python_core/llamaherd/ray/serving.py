"""The HTTP server as replicas of Ray Serve."""

from __future__ import annotations

import os
import socket
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from llamaherd.engine.core import checks
from llamaherd.engine.core.errors import ClusterError
from llamaherd.ray.config import Config, check_config, versions
from llamaherd.ray.connect import import_ray
from llamaherd.ray.worker import why_it_cannot_generate
from llamaherd.remote.server import KEY_VARIABLE

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send


_AT_ONCE = 256  # requests that a replica runs or lets wait; its context batches them
_SHARED = ("/files", "/batches")  # paths whose state replicas would have to share


def serve_app(
    config: Config,
    *,
    model_name: str | None = None,
    timeout_s: float | None = None,
    max_tokens: int = 1024,
) -> Any:  # types of Ray
    """Return an application of Ray Serve with the endpoints of `llamaherd serve`.

        serve.run(lh.ray.serve_app(lh.ray.Config("model.gguf", concurrency=(1, 8))))

    Ray Serve distributes requests, starts replicas that died again, and scales between
    the two numbers of `concurrency`. Files and batches are not available, because
    replicas share no disk. If this process has LLAMAHERD_API_KEY in its environment,
    clients must send this key, and every machine must have it in the environment of
    `ray start`.

    Args:
        config: Model and replicas.
        model_name: Name of the model in requests; None for the name of the file.
        timeout_s: Maximum duration of a request in seconds; None for no limit.
        max_tokens: Default maximum number of tokens of the answer of a chat.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: An argument is out of range.
        ClusterError: Ray is not installed, or no cluster can be reached.
    """
    check_config(config)
    checks.integer("max_tokens", max_tokens, 1)
    if timeout_s is not None:
        checks.real("timeout_s", timeout_s, 0.1, 1e9)
    ray = import_ray("ray", "ray-serve", "server")
    if not ray.is_initialized():
        ray.init(logging_level="WARNING")
    from ray import serve  # needs an optional package

    replica_config, here = config.on_cluster(ray), versions()
    has_key = KEY_VARIABLE in os.environ
    name = model_name or PurePath(str(replica_config.model)).stem
    least, most = replica_config.bounds(1)

    def build() -> ASGIApp:
        return _built(replica_config, here, name, timeout_s, max_tokens, has_key=has_key)

    scale = (
        {"num_replicas": most}
        if least == most
        else {"autoscaling_config": {"min_replicas": least, "max_replicas": most}}
    )
    options = {"num_cpus": replica_config.num_cpus, **replica_config.actor_options}
    deploy = serve.deployment(
        name=name, ray_actor_options=options, max_ongoing_requests=_AT_ONCE, **scale
    )
    return deploy(serve.ingress(build)()).bind()


def _built(
    config: Config,
    expected: dict[str, str],
    name: str,
    timeout_s: float | None,
    max_tokens: int,
    *,
    has_key: bool,
) -> ASGIApp:
    """Load the model in a replica, and return the application without shared files."""
    from llamaherd.server.app import create_app  # an extra may be missing
    from llamaherd.server.errors import ApiError
    from llamaherd.server.protocol import error_response
    from llamaherd.server.settings import ServerSettings

    key = os.environ.get(KEY_VARIABLE)
    if has_key and not key:
        raise ClusterError(
            f"{KEY_VARIABLE} is set where the application was started, but not on "
            f"{socket.gethostname()}: set it before `ray start`"
        )
    model = config.open_model(expected)
    host = model if why_it_cannot_generate(model) else config.open_context(model)
    settings = ServerSettings(
        model_name=name, timeout_s=timeout_s, max_tokens=max_tokens, api_key=key
    )
    app = create_app(host, settings)

    async def served(scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "").removeprefix("/v1")
        if scope["type"] == "http" and path.startswith(_SHARED):
            text = "replicas of Ray Serve share no files: use one `llamaherd serve`"
            await error_response(ApiError(501, text))(scope, receive, send)
        else:
            await app(scope, receive, send)

    return served
