"""The command `llamaherd serve` as a process, with a tiny model."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from served import Client, started
from waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    import llamaherd as lh


HOSTS = [
    ("localhost", 200),
    ("127.0.0.1", 200),
    ("10.1.2.3:8080", 200),
    ("lab.example:8080", 200),
    ("other.example", 200),
    ("evil.example", 403),
    ("lab.example.evil.example", 403),
]


@pytest.fixture(scope="module")
def client(chat_model: lh.Model) -> Iterator[Client]:
    """Return the client of a server that other machines can reach."""
    options = [
        *("--host", "0.0.0.0", "--no-api-key"),
        *("--alias", "one", "--alias", "two"),
        *("--allowed-host", "lab.example", "--allowed-host", "Other.Example."),
    ]
    with started(chat_model, *options) as made:
        yield made


@pytest.mark.parametrize(("host", "status"), HOSTS)
def test_hosts_of_a_server_that_others_can_reach(
    client: Client, host: str, status: int
) -> None:
    assert client.ask("GET", "/v1/models", None, {"Host": host})[0] == status


def test_names_of_the_model(client: Client) -> None:
    data = client.ask("GET", "/v1/models")[1]["data"]
    assert [model["id"] for model in data] == ["one", "two"]
    ask = {"prompt": "a", "max_tokens": 1}
    for name, status in [("one", 200), ("two.gguf", 200), ("tiny", 404)]:
        assert client.post("/v1/completions", {**ask, "model": name})[0] == status


def test_a_schema_that_max_tokens_cuts(client: Client) -> None:
    ask = {"prompt": "x", "schema": {}, "max_tokens": 2, "ignore_eos": True}
    status, got = client.post("/generate", ask)
    assert (status, got["finish_reason"]) == (200, "length")


@pytest.mark.long(reason="many requests or long waits in the server")
def test_a_cache_that_the_memory_cannot_hold_ends_the_command(
    chat_model: lh.Model,
) -> None:
    program = (
        "import sys; from llamaherd.engine.memory import hardware\n"
        "from llamaherd.cli import main\n"
        "hardware.total_memory = lambda: 10**6; sys.exit(main())"
    )
    path = str(chat_model.path)
    for models in ([path], ["--model", f"a={path}", "--model", f"b={path}"]):
        command = [sys.executable, "-c", program, "serve", *models]
        command += ["--port", "0", "--n-threads", "1", "--n-ctx", "1000000000"]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        assert ended.returncode == 1
        assert ended.stderr.endswith(": lower --n-ctx to at most 3906\n")
        assert "Traceback" not in ended.stderr


@pytest.mark.long(reason="many requests or long waits in the server")
def test_few_open_files_are_enough(chat_model: lh.Model) -> None:
    few = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))"
    with started(chat_model, before=few) as client:
        links = [client.connect("/generate", {"prompt": "a"}) for _ in range(100)]
        for link in links:
            link.close()
        # Until the server has noticed that clients have left, it refuses further ones.
        wait_until(lambda: client.ask("GET", "/health")[0] == 200)
