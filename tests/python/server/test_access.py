"""Allowed host names of a server, and a key for each person with the tokens used."""

from __future__ import annotations

import logging
import socket
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from llamaherd.cli.serve import serve
from llamaherd.server import serving
from llamaherd.server.settings import Hosts, allowed_host, hosts_of
from served import served

if TYPE_CHECKING:
    from pathlib import Path

    from fake_context import FakeContext

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


KEYS = {"ada": "one-key", "ben": "other-key"}


ASK = {"prompt": "a", "max_tokens": 2}


def test_tokens_are_counted_by_person(
    fake: FakeContext, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with served(fake, user_keys=KEYS, api_key="main-key") as client:

        def status(key: str) -> int:
            header = {"authorization": f"Bearer {key}"}
            return client.ask("POST", "/generate", ASK, header)[0]

        assert [status(key) for key in ("one-key", "one-key", "other-key")] == [200] * 3
        assert [status("main-key"), status("no-key"), status("ada")] == [200, 401, 401]
        assert client.ask("POST", "/generate", ASK)[0] == 401
        header = {"authorization": "Bearer main-key"}
        text = client.ask("GET", "/metrics", None, header)[1]
    lines = set(text.splitlines())
    for user, n in (("ada", 2), ("ben", 1)):
        name = "llamaherd_user_tokens_total"
        assert f'{name}{{part="prompt",user="{user}"}} {7.0 * n}' in lines
        assert f'{name}{{part="generated",user="{user}"}} {2.0 * n}' in lines
    assert 'user=""' not in text
    assert not any(key in caplog.text for key in (*KEYS.values(), "main-key"))


@pytest.mark.parametrize(
    "lines", ["", "ada", "ada secret more", "ada secret\nada other", "ada ä\u20ac"]
)
def test_a_file_of_keys_that_cannot_be_used(tmp_path: Path, lines: str) -> None:
    """The message has the line, and shows no key."""
    file = tmp_path / "keys.txt"
    file.write_text(lines, encoding="utf-8")
    result = CliRunner().invoke(serve, ["model.gguf", "--user-keys", str(file)])
    assert result.exit_code == 2
    assert "secret" not in result.output
    assert "keys.txt" in result.output
