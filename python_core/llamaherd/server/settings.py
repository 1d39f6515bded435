"""Settings of a server, and the host names that it answers to."""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Mapping  # noqa: TC003 - for typing.get_type_hints
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from llamaherd.calls.asks.options import THINKING, VARIABLES
from llamaherd.engine.core.declaration import Options, declares, option
from llamaherd.engine.core.errors import ArgumentError
from llamaherd.engine.core.sampling import MAX_TOKENS_OF_CHAT
from llamaherd.engine.core.values import Checked, Flag, Real, TextKind, Unchecked, Whole

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from llamaherd.engine.core.thinking import ThinkingOption
    from llamaherd.engine.model.model import Model


_SECONDS = Real(0.0, 1e9)


@declares
class ServerSettings(Options):
    """Settings of a server application."""

    model_name: str = option(TextKind(), doc="Name of the model in answers.")
    aliases: tuple[str, ...] = option(
        Unchecked({"type": "array"}),
        default=(),
        doc="Additional names of the model in requests.",
    )
    any_model: bool = option(
        Flag(),
        default=False,
        flag="",
        section="access",
        doc="Accept any model name in requests; answers contain the real name.",
    )
    queue: int = option(
        Whole(0),
        default=256,
        flag="",
        section="limits",
        doc="Maximum number of waiting requests; further requests get status 429.",
    )
    timeout_s: float | None = option(
        _SECONDS,
        default=None,
        flag="Default: no limit.",
        flag_name="--timeout",
        metavar="S",
        section="limits",
        doc="Seconds after which a request fails with status 504. None for no limit.",
    )
    max_body: int = option(
        Whole(1),
        default=4 << 20,
        flag="",
        metavar="BYTES",
        section="limits",
        doc="Maximum size of a request in bytes; larger ones get status 413.",
    )
    data: Path | None = option(
        Checked(lambda _, path: Path(path), {"type": "string"}),
        default=None,
        flag="Batches then survive the end of the server, and the next server with this "
        "folder continues them. Default: a temporary folder, removed at the end.",
        metavar="DIR",
        section="files",
        doc="Folder of files and batches, created if needed. None for a temporary "
        "folder, removed at the end.",
    )
    max_file: int = option(
        Whole(1),
        default=200 << 20,
        flag="",
        metavar="BYTES",
        section="files",
        doc="Maximum size of a file of a batch; larger ones get status 413.",
    )
    max_tokens: int = option(
        Whole(1),
        default=MAX_TOKENS_OF_CHAT,
        flag="",
        section="limits",
        doc="Maximum number of tokens of a chat answer, unless the request sets it.",
    )
    n_ctx: int | None = option(
        Whole(1),
        default=None,
        doc="Maximum number of tokens of a prompt with its answer. None for the context "
        "length of the training.",
    )
    api_key: str | None = option(
        TextKind(),
        default=None,
        doc="Key that clients must send. None requires no key, unless `user_keys` has "
        "keys.",
    )
    user_keys: Mapping[str, str] = option(
        Unchecked({"type": "object"}),
        default_factory=dict,
        doc="Key of each person, by name. Requests are counted by these names.",
    )
    hosts: Hosts | None = option(
        Unchecked({"type": "object"}),
        default=None,
        doc="Allowed values of the Host header. None turns the check off.",
    )
    thinking: ThinkingOption = option(
        THINKING,
        default=None,
        flag="Default: as in the model's chat template.",
        metavar="N|on|off",
        section="chats",
        doc="Tokens of the thought before an answer, unless the request sets them. See "
        "`generate_parallel`.",
    )
    template: str | None = option(
        TextKind(),
        default=None,
        flag="",
        metavar="FILE.jinja",
        section="chats",
        doc="Chat template in Jinja, in place of the model's.",
    )
    variables: Mapping[str, object] = option(
        VARIABLES,
        default_factory=dict,
        flag="May be given several times.",
        flag_name="--var",
        metavar="NAME=VALUE...",
        section="chats",
        doc="Variables of the chat template. A request may add or replace variables.",
    )
    merge_system: bool = option(
        Flag(),
        default=False,
        flag="",
        section="chats",
        doc="Put the system text into the first user message where the template refuses "
        "it.",
    )
    connections: int = option(
        Whole(1),
        default=1024,
        flag="",
        section="limits",
        doc="Maximum number of connections; requests on further ones get status 503.",
    )
    embedding_name: str | None = option(
        TextKind(),
        default=None,
        doc="Name of the model for embeddings. None if there is no such model.",
    )
    memory: int | None = option(
        Whole(1, 2**63 - 1),
        default=None,
        flag="Of several models, the least recently used are unloaded. Default: for "
        "several models, the memory available at the start.",
        metavar="SIZE",
        section="models",
        doc="Limit of the memory for weights, caches and buffers, such as 16GB. In "
        "bytes; None for the memory that is available at the start.",
    )
    model_wait_s: float = option(
        _SECONDS,
        default=60.0,
        flag="",
        flag_name="--model-wait",
        metavar="S",
        section="models",
        doc="Seconds that a request waits for memory for its model; then it fails with "
        "status 503.",
    )

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the model; the first is the name in answers."""
        return (self.model_name, *self.aliases)

    def n_ctx_of(self, model: Model) -> int:
        """Return the maximum number of tokens of a prompt with its answer."""
        return min(self.n_ctx or model.n_ctx_train, model.n_ctx_train)

    def __repr__(self) -> str:
        """Return a text that may be logged, since it contains no API key."""
        return f"<Settings of {self.model_name!r}>"


def name_among(requested: str, names: Collection[str]) -> str | None:
    """Return the name that a request means; None if it is none of them.

    The name of the file, with `.gguf`, and the name in Ollama, with `:latest`, are
    accepted, too.
    """
    stems = (requested, *map(requested.removesuffix, (".gguf", ":latest")))
    return next((stem for stem in stems if stem in names), None)


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
