"""`lh.ray.serve_app` answers over HTTP by replicas of Ray Serve."""

from __future__ import annotations

import json
import socket
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import llamaherd as lh
import pytest
from llamaherd.ray import Config
from llamaherd.ray.config import versions
from llamaherd.ray.serving import _built
from llamaherd.remote.server import KEY_VARIABLE
from starlette.testclient import TestClient
from waiting import HANGS_S

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.filterwarnings("ignore")  # Ray's, of itself

ASKED = {"model": "tiny", "prompt": "a", "max_tokens": 3}


@pytest.fixture
def build(tiny_path: Callable[[str], Path]) -> Callable[..., Any]:
    config = Config(tiny_path("llama"), num_cpus=1)
    return partial(_built, config, versions(), "tiny", None, 100)


def test_a_replica_answers_with_the_key_of_its_environment(
    build: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEY_VARIABLE, "secret")
    with TestClient(build(has_key=True)) as client:
        assert client.post("/v1/completions", json=ASKED).status_code == 401
        key = {"authorization": "Bearer secret"}
        answer = client.post("/v1/completions", json=ASKED, headers=key)
        assert answer.json()["usage"]["completion_tokens"] == 3
        for path in ("/v1/files", "/batches", "/v1/batches/x"):
            refused = client.get(path, headers=key)
            assert refused.status_code == 501
            assert "share no files" in refused.json()["error"]["message"]


def test_a_replica_without_the_key_does_not_start(
    build: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(KEY_VARIABLE, raising=False)
    with pytest.raises(lh.ClusterError, match=r"set it before `ray start`"):
        build(has_key=True)


def test_wrong_arguments_are_named(tiny_path: Callable[[str], Path]) -> None:
    config = Config(tiny_path("llama"))
    with pytest.raises(TypeError, match=r"config must be a lh\.ray\.Config"):
        lh.ray.serve_app("model.gguf")
    with pytest.raises(ValueError, match="timeout_s"):
        lh.ray.serve_app(config, timeout_s=-1)
    with pytest.raises(ValueError, match="max_tokens"):
        lh.ray.serve_app(config, max_tokens=0)


@pytest.mark.long(reason="starts Ray Serve, which takes a minute")
@pytest.mark.usefixtures("cluster")
def test_replicas_answer_over_http(tiny_path: Callable[[str], Path]) -> None:
    from ray import serve  # noqa: PLC0415 - takes a second

    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    config = Config(tiny_path("llama"), concurrency=2, num_cpus=1)
    serve.start(http_options={"port": port})
    try:
        serve.run(lh.ray.serve_app(config, model_name="tiny"))
        body = json.dumps({**ASKED, "stream": True}).encode()
        address = f"http://127.0.0.1:{port}/v1"
        head = {"content-type": "application/json"}
        with urlopen(
            Request(f"{address}/completions", body, head), timeout=HANGS_S
        ) as answer:
            assert answer.read().endswith(b"data: [DONE]\n\n")
        with pytest.raises(HTTPError, match="501"):
            urlopen(f"{address}/batches", timeout=HANGS_S)
    finally:
        serve.shutdown()
