"""Names by which clients may call the server.

A page in a browser can make its own name point to any address ("DNS rebinding") and then
ask the server as if both were of one site. Its requests carry that name in the Host
header, so a server answers to names that are its own, and to addresses where others may
connect: an address cannot be made to point elsewhere.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_LOCAL_NAMES = frozenset(("localhost", "127.0.0.1", "::1"))
_HEADER = re.compile(r"(?:\[([0-9a-f:.]{2,45})\]|([a-z0-9_.-]{1,253}))(?::[0-9]{0,5})?")
_NAME = re.compile(r"[a-z0-9_]([a-z0-9_.-]{0,251}[a-z0-9_])?")


@dataclass(frozen=True, slots=True)
class Hosts:
    """Names and addresses that the Host header may have.

    Attributes:
        names: In lower case, without a port.
        any_address: Whether every IP address is one of them.
    """

    names: frozenset[str]
    any_address: bool = False

    def admits(self, header: bytes) -> bool:
        """Test for a Host header that names this server."""
        found = _HEADER.fullmatch(header.decode("latin-1").lower())
        if found is None:
            return False
        name = found[1] or found[2].removesuffix(".")
        return name in self.names or (self.any_address and _is_address(name))


def bound_address(bound: socket.socket) -> str:
    """The address of a socket, without the zone that IPv6 may have."""
    return str(bound.getsockname()[0]).partition("%")[0]


def is_local(bound: socket.socket) -> bool:
    """Test for an address that only this machine can connect to."""
    return ipaddress.ip_address(bound_address(bound)).is_loopback


def hosts_of(bound: socket.socket, host: str, allowed: Iterable[str] = ()) -> Hosts:
    """Names of a server.

    Args:
        bound: Its socket.
        host: The name or address that it was bound by.
        allowed: More names, of `allowed_host`.
    """
    names = {*_LOCAL_NAMES, bound_address(bound), host.lower(), *allowed}
    if is_local(bound):
        return Hosts(frozenset(names))
    machine = socket.gethostname().lower()
    short = machine.partition(".")[0]
    return Hosts(frozenset({*names, machine, short, f"{short}.local"}), any_address=True)


def allowed_host(name: str) -> str:
    """A name as the Host header has it.

    Raises:
        ValueError: It is none: empty, with a port, a path or letters beyond ASCII.
    """
    plain = name.strip().lower().removesuffix(".")
    bare = plain.removeprefix("[").removesuffix("]")
    if _is_address(bare):
        return bare
    if _NAME.fullmatch(plain) is None:
        raise ValueError(f"{name!r} is no host name (without http:// and port)")
    return plain


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
