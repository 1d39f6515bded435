"""Host names of the server.

A page in a browser can make its own name resolve to any address ("DNS rebinding") and
then send requests to the server as the same site, with this name in the Host header. So
the server accepts only its own names. If other machines may connect, it also accepts
every IP address, because an address cannot be rebound.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING

from llamaherd.core.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterable

_LOCAL_NAMES = frozenset(("localhost", "127.0.0.1", "::1"))
_HEADER = re.compile(r"(?:\[([0-9a-f:.]{2,45})\]|([a-z0-9_.-]{1,253}))(?::[0-9]{0,5})?")
_NAME = re.compile(r"[a-z0-9_]([a-z0-9_.-]{0,251}[a-z0-9_])?")


@dataclass(frozen=True, slots=True)
class Hosts:
    """Allowed values of the Host header.

    Attributes:
        names: Names in lower case, without a port.
        any_address: Whether every IP address is allowed.
    """

    names: frozenset[str]
    any_address: bool = False

    def admits(self, header: bytes) -> bool:
        """Test whether a Host header names this server."""
        found = _HEADER.fullmatch(header.decode("latin-1").lower())
        if found is None:
            return False
        name = found[1] or found[2].removesuffix(".")
        return name in self.names or (self.any_address and _is_address(name))


def bound_address(bound: socket.socket) -> str:
    """Return the address of a socket, without an IPv6 zone."""
    return str(bound.getsockname()[0]).partition("%")[0]


def is_local(bound: socket.socket) -> bool:
    """Test whether only this machine can connect to an address."""
    return ipaddress.ip_address(bound_address(bound)).is_loopback


def hosts_of(bound: socket.socket, host: str, allowed: Iterable[str] = ()) -> Hosts:
    """Return the allowed hosts of a server.

    Args:
        bound: Socket of the server.
        host: Name or address to which the socket was bound.
        allowed: Additional names, checked by `allowed_host`.
    """
    names = {*_LOCAL_NAMES, bound_address(bound), host.lower(), *allowed}
    if is_local(bound):
        return Hosts(frozenset(names))
    machine = socket.gethostname().lower()
    short = machine.partition(".")[0]
    return Hosts(frozenset({*names, machine, short, f"{short}.local"}), any_address=True)


def allowed_host(name: str) -> str:
    """Check a host name and convert it to lower case.

    Raises:
        ValueError: The name is empty, or has a port, a path or non-ASCII letters.
    """
    plain = name.strip().lower().removesuffix(".")
    bare = plain.removeprefix("[").removesuffix("]")
    if _is_address(bare):
        return bare
    if _NAME.fullmatch(plain) is None:
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
