"""Access to a server: hosts, keys by person, pages, metrics and the log."""

from __future__ import annotations

import logging
import re
import socket
from dataclasses import fields
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from llamaherd.cli.serve import serve
from llamaherd.engine.core.stats import Load
from llamaherd.server import serving
from llamaherd.server.pages import OF_LOAD
from llamaherd.server.settings import Hosts, ServerSettings, allowed_host, hosts_of
from served import NAME, served
from waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from fake_context import FakeContext
    from served import Client


def test_health_tells_whether_prompts_can_run(client: Client, fake: FakeContext) -> None:
    assert client.ask("GET", "/health")[:2] == (200, {"status": "ok"})
    fake.closed = True
    try:
        assert client.ask("GET", "/health")[:2] == (503, {"status": "closed"})
        status, response = client.post("/generate", {"prompt": "a"})
        assert (status, response["error"]["code"]) == (503, "stopping")
    finally:
        fake.closed = False


def test_paths_and_methods_that_there_are_not(client: Client) -> None:
    status, response, _ = client.ask("GET", "/nowhere")
    assert (status, response["error"]["type"]) == (404, "not_found_error")
    assert "no path '/nowhere'. Paths are /generate, /v1/" in response["error"]["message"]
    status, response, headers = client.ask("GET", "/generate")
    assert (status, response["error"]["type"]) == (405, "invalid_request_error")
    assert headers["allow"] == "POST"
    assert response["error"]["message"] == "GET is not allowed here, only POST"
    assert client.ask("DELETE", "/health")[0] == 405
    assert client.ask("HEAD", "/health")[0] == 200


def test_metrics_count_what_was_answered(fake: FakeContext) -> None:
    with served(fake) as client:
        client.post("/generate", {"prompt": "a", "max_tokens": 3})
        client.events("/generate", {"prompt": "a", "max_tokens": 2, "stream": True})
        client.post("/generate", {"prompt": ""})
        client.ask("GET", "/a/path/of/a/client's")
        fake.may_run.clear()
        client.connect("/v1/completions", {"prompt": "a"}).close()
        wait_until(lambda: len(fake.handles) == 4 and fake.handles[3].is_cancelled)
        fake.may_run.set()
        wait_until(lambda: client.server.shared.queue.n_inside == 0)
        text = client.ask("GET", "/metrics")[1]
    figures = dict(re.findall(r"^(llamaherd_\S+) (\S+)$", text, re.MULTILINE))
    requests = "llamaherd_requests_total"
    assert figures[f'{requests}{{path="/generate",status="200"}}'] == "2.0"
    assert figures[f'{requests}{{path="/generate",status="400"}}'] == "1.0"
    assert figures[f'{requests}{{path="/v1/completions",status="499"}}'] == "1.0"
    assert figures[f'{requests}{{path="(other)",status="404"}}'] == "1.0"
    assert figures["llamaherd_generated_tokens_total"] == "5.0"
    assert figures["llamaherd_prompt_tokens_total"] == "14.0"
    assert figures["llamaherd_reused_tokens_total"] == "6.0"
    assert figures["llamaherd_n_slots"] == "4.0"
    assert figures["llamaherd_n_ctx"] == "512.0"
    assert figures["llamaherd_queue_seconds_sum"] == "0.5"
    assert figures["llamaherd_first_token_seconds_count"] == "2.0"
    assert figures['llamaherd_request_seconds_count{path="/generate"}'] == "3.0"


def test_figures_say_in_words_what_they_are(fake: FakeContext) -> None:
    assert set(OF_LOAD) == {field.name for field in fields(Load)}
    with served(fake) as client:
        text = client.ask("GET", "/metrics")[1]
    helps = dict(re.findall(r"^# HELP (llamaherd_\S+) (.+)$", text, re.MULTILINE))
    assert len(helps) >= 12
    for words in helps.values():
        assert re.fullmatch(r"[A-Z][a-z]+ [a-zA-Z0-9 ,;:'-]+\.", words), words


def test_two_servers_in_a_process_count_by_themselves(fake: FakeContext) -> None:
    with served(fake) as one, served(fake) as two:
        one.post("/generate", {"prompt": "a", "max_tokens": 3})
        assert "llamaherd_generated_tokens_total 0.0" in two.ask("GET", "/metrics")[1]


def test_the_log_has_a_line_for_each_request_and_no_prompt(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    client.post("/generate", {"prompt": "secret", "max_tokens": 3})
    client.post("/generate", {"prompt": "secret", "secret": 3})
    client.post("/generate", {"prompt": "fail secret"})
    client.post("/generate", b'{"prompt": "secret')
    client.post("/v1/completions?secret=1", {"prompt": "secret", "model": "secret"})
    client.post("/secret", {"prompt": "secret"}, Authorization="Bearer secret")
    client.events("/v1/completions", {"prompt": "secret", "stream": True})
    wait_until(lambda: len(caplog.records) == 7)
    assert "secret" not in caplog.text
    lines = [record.getMessage() for record in caplog.records]
    patterns = [
        r"POST /generate 200 \d+\.\d{3} s 7\+3 tokens",
        r"POST /generate 400 \d+\.\d{3} s",
        r"POST /generate 500 \d+\.\d{3} s",
        r"POST /generate 400 \d+\.\d{3} s",
        r"POST /v1/completions 404 \d+\.\d{3} s",
        r"POST \(other\) 404 \d+\.\d{3} s",
        r"POST /v1/completions 200 \d+\.\d{3} s 7\+16 tokens",
    ]
    for line, pattern in zip(lines, patterns, strict=True):
        assert re.fullmatch(pattern, line)


def test_nothing_tells_the_key(fake: FakeContext) -> None:
    assert "secret" not in repr(ServerSettings(model_name=NAME, api_key="secret"))
    with served(fake, api_key="secret") as client:
        assert "secret" not in str(client.ask("GET", "/metrics"))


MACHINE = socket.gethostname().lower()


def _hosts(host: str, *allowed: str) -> Hosts:
    with serving.bind(host, 0) as listener:
        return hosts_of(listener, host, allowed)


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
