"""Allowed host names of a server, for each kind of address."""

from __future__ import annotations

import socket

import pytest
from llamaherd.server import serving
from llamaherd.server.settings import Hosts, allowed_host, hosts_of

MACHINE = socket.gethostname().lower()


def _hosts(host: str, *allowed: str) -> Hosts:
    with serving.bind(host, 0) as bound:
        return hosts_of(bound, host, allowed)


LOCAL = ["localhost", "127.0.0.1", "[::1]", "LocalHost:80", "localhost.", "localhost:"]
EVIL = [
    *(
        "",
        "evil.example",
        "localhost.evil.example",
        "127.0.0.1.nip.io",
        "evil.example:80",
    ),
    *(
        "a@localhost",
        "localhost/",
        "localhost:x",
        "localhost:123456",
        " localhost",
        "[::1",
    ),
    *(
        "::1",
        "[localhost]",
        "localhost,evil.example",
        "localhost\xff",
        "http://localhost",
    ),
    *("0x7f000001", "2130706433", "127.1", "localhost..", "%6cocalhost", "*", "[::1]x"),
]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "0.0.0.0"])
@pytest.mark.parametrize("name", LOCAL)
def test_names_of_this_machine(host: str, name: str) -> None:
    assert _hosts(host).admits(name)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "0.0.0.0"])
@pytest.mark.parametrize("name", EVIL)
def test_names_of_others(host: str, name: str) -> None:
    assert not _hosts(host).admits(name)


@pytest.mark.parametrize("name", ["10.1.2.3", "10.1.2.3:8080", "[fe80::1]:80", MACHINE])
def test_where_others_connect_addresses_and_the_machines_name_will_do(name: str) -> None:
    assert _hosts("0.0.0.0").admits(name)
    assert not _hosts("127.0.0.1").admits(name)


def test_more_names_may_be_allowed() -> None:
    hosts = _hosts("0.0.0.0", allowed_host(" Lab.Example. "), allowed_host("other"))
    assert hosts.admits("lab.example:8080")
    assert hosts.admits("OTHER")
    assert not hosts.admits("x.lab.example")


@pytest.mark.parametrize(
    "name", ["", " ", "*", "http://a", "a:80", "a/b", "a b", "ä", "-a"]
)
def test_what_is_no_name_cannot_be_allowed(name: str) -> None:
    with pytest.raises(ValueError, match="is not a host name"):
        allowed_host(name)


def test_addresses_may_be_allowed() -> None:
    assert [allowed_host(name) for name in ("10.0.0.1", "[::1]", "fe80::1")] == [
        "10.0.0.1",
        "::1",
        "fe80::1",
    ]
