"""Settings of a server, and the host names that it answers to."""

from __future__ import annotations

import ipaddress
import re
import socket
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from llamaherd.engine.core.errors import ArgumentError
from llamaherd.engine.core.sampling import MAX_TOKENS_OF_CHAT

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from llamaherd.engine.core.thinking import ThinkingOption
    from llamaherd.engine.model.model import Model


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """Settings of a server application."""

    model_name: str  # name of the model in answers
    aliases: tuple[str, ...] = ()  # additional names of the model in requests
    any_model: bool = False  # whether requests may use any name
    queue: int = 256  # maximum number of waiting requests; further requests are refused
    # Maximum duration of a request in seconds; None for no limit.
    timeout_s: float | None = None
    max_body: int = 4 << 20  # maximum size of a body in bytes
    # Folder of files and batches; None for a temporary folder, removed at the end.
    data: Path | None = None
    max_file: int = 200 << 20  # maximum size of a file in bytes
    # Default maximum number of tokens of the answer of a chat.
    max_tokens: int = MAX_TOKENS_OF_CHAT
    # Maximum number of tokens of a prompt with its answer; None for the context length of
    # the training.
    n_ctx: int | None = None
    # Key that clients must send; None requires no key, unless `user_keys` has keys.
    api_key: str | None = None
    # Key of each person, by name; requests are counted by these names.
    user_keys: Mapping[str, str] = field(default_factory=dict)
    # Allowed values of the Host header; None turns the check off.
    hosts: Hosts | None = None
    # Default value of the option `thinking` for chats, see `generate_parallel`.
    thinking: ThinkingOption = None
    template: str | None = None  # chat template that replaces the model's
    # Variables of the chat template; a request may add or replace variables.
    variables: Mapping[str, object] = field(default_factory=dict)
    # Whether to put the system text into the first message of the user where the template
    # refuses it.
    merge_system: bool = False
    # Maximum number of connections; requests on further ones are refused.
    connections: int = 1024
    # Name of the model for embeddings; None if there is no such model.
    embedding_name: str | None = None
    # Memory for the weights, KV caches and buffers of several models in bytes; None for
    # the memory that is available at the start.
    memory: int | None = None
    # Maximum time in seconds that a request waits for memory for its model.
    model_wait_s: float = 60.0

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the model; the first is the name in answers."""
        return (self.model_name, *self.aliases)

    def name_of(self, requested: str) -> str | None:
        """Return the name of the requested model; None if it is not this server's model.

        The name of the file, with `.gguf`, and the name in Ollama, with `:latest`, are
        accepted, too.
        """
        for name in self.names:
            if requested in {name, f"{name}.gguf", f"{name}:latest"}:
                return name
        return self.model_name if self.any_model else None

    def n_ctx_of(self, model: Model) -> int:
        """Return the maximum number of tokens of a prompt with its answer."""
        return min(self.n_ctx or model.n_ctx_train, model.n_ctx_train)

    def __repr__(self) -> str:
        """Return a text that may be logged, since it contains no API key."""
        return f"<Settings of {self.model_name!r}>"


_LOCAL_NAMES = frozenset(("localhost", "127.0.0.1", "::1"))
_HOST_HEADER = re.compile(
    r"(?:\[([0-9a-f:.]{2,45})\]|([a-z0-9_.-]{1,253}))(?::[0-9]{0,5})?"
)
_HOST_NAME = re.compile(r"[a-z0-9_]([a-z0-9_.-]{0,251}[a-z0-9_])?")


@dataclass(frozen=True, slots=True)
class Hosts:
    """Allowed values of the Host header."""

    names: frozenset[str]  # names in lower case, without a port
    any_address: bool = False  # whether every IP address is allowed

    def admits(self, header: str) -> bool:
        """Test whether a Host header names this server."""
        parts = _HOST_HEADER.fullmatch(header.lower())
        if parts is None:
            return False
        name = parts[1] or parts[2].removesuffix(".")
        return name in self.names or (self.any_address and _is_address(name))


def bound_address(server_socket: socket.socket) -> str:
    """Return the address of a socket, without an IPv6 zone."""
    return str(server_socket.getsockname()[0]).partition("%")[0]


def is_local(server_socket: socket.socket) -> bool:
    """Test whether only this machine can connect to an address."""
    return ipaddress.ip_address(bound_address(server_socket)).is_loopback


def hosts_of(
    server_socket: socket.socket, host: str, allowed: Iterable[str] = ()
) -> Hosts:
    """Return the allowed hosts of a server."""
    names = {*_LOCAL_NAMES, bound_address(server_socket), host.lower(), *allowed}
    if is_local(server_socket):
        return Hosts(frozenset(names))
    machine = socket.gethostname().lower()
    short = machine.partition(".")[0]
    return Hosts(frozenset({*names, machine, short, f"{short}.local"}), any_address=True)


def allowed_host(name: str) -> str:
    """Check a host name and convert it to lower case."""
    plain = name.strip().lower().removesuffix(".")
    bare = plain.removeprefix("[").removesuffix("]")
    if _is_address(bare):
        return bare
    if _HOST_NAME.fullmatch(plain) is None:
        raise ArgumentError(
            f"{name!r} is not a host name (without http:// and port)",
            argument="allowed_host",
            code="no_host",
            form="{problem}",
        )
    return plain


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
