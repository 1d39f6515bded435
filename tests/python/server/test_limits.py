"""Limits on requests; costly or slow ones delay only their own client."""

from __future__ import annotations

import json
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import httpx
import openai
import pytest
from fake_context import FakeContext, answer
from llamaherd.server.errors import ApiError
from llamaherd.server.limits import MOST_CHARACTERS, MOST_FORM, MOST_PAIRS, MOST_STRINGS
from llamaherd.server.state import RequestQueue
from served import NAME, served
from waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    import llamaherd as lh
    from served import Client

LONG = {"prompt": "a", "max_tokens": 400}


BAD_BODIES = [
    (b"", "not JSON"),
    (b"[]", "must be a JSON object"),
    (b'"a"', "must be a JSON object"),
    (b"{", "not JSON"),
    (b'{"prompt": "a"} x', "not JSON"),
    (b'{"prompt": "\xff"}', "not UTF-8"),
    ('{"prompt": "ä"}'.encode("utf-16"), "not UTF-8"),
    (b'{"temperature": NaN}', "NaN"),
    (b'{"temperature": -Infinity}', "Infinity"),
    (b'{"temperature": 1e999}', "too large"),
    (
        b'{"max_tokens": -' + b"9" * 4301 + b"}",
        "the body cannot be read: a number has more than 4300 digits",
    ),
    (b'{"prompt": ' + b"[" * 200_000 + b"]" * 200_000 + b"}", "too deeply"),
    (b'{"a":' * 200_000 + b"1" + b"}" * 200_000, "too deeply"),
]


@pytest.mark.parametrize(("body", "message"), BAD_BODIES)
def test_what_is_no_json_is_refused(client: Client, body: bytes, message: str) -> None:
    status, response = client.post("/generate", body)
    assert status == 400
    assert (response["error"]["code"], response["error"]["param"]) == (
        "invalid_json",
        None,
    )
    assert message in response["error"]["message"]


def test_nesting_that_json_can_read_is_still_no_prompt(client: Client) -> None:
    body = b'{"prompt": ' + b"[" * 500 + b"]" * 500 + b"}"
    status, response = client.post("/generate", body)
    assert (status, response["error"]["param"]) == (400, "prompt")


@pytest.mark.parametrize("n_bytes", [2_000, 20_000, 200_000])
def test_a_body_over_the_limit_gets_413(fake: FakeContext, n_bytes: int) -> None:
    with served(fake, max_body=1000) as client:
        exact = {"prompt": "a" * 900, "max_tokens": 1}
        padding = b" " * (1000 - len(json.dumps(exact)))
        assert client.post("/generate", json.dumps(exact).encode() + padding)[0] == 200
        large = {"prompt": "a" * n_bytes}
        status, response, _ = client.ask("POST", "/generate", large)
        assert (status, response["error"]["code"]) == (413, "request_too_large")
        sdk = openai.OpenAI(base_url=f"{client.url}/v1", api_key="x", max_retries=0)
        with sdk, pytest.raises(openai.APIStatusError, match="1000 bytes") as caught:
            sdk.completions.create(model=NAME, prompt="a" * n_bytes)
        assert caught.value.status_code == 413
    assert len(fake.handles) == 1


def test_a_body_in_parts_without_a_length_is_counted(fake: FakeContext) -> None:
    with served(fake, max_body=1000) as client:
        small = [b'{"prompt": "a", ', b'"max_tokens": 1}']
        assert (
            httpx.post(f"{client.url}/generate", content=iter(small)).status_code == 200
        )
        large = (b"x" * 100 for _ in range(100))
        assert httpx.post(f"{client.url}/generate", content=large).status_code == 413


def test_a_body_that_never_ends_is_refused(fake: FakeContext) -> None:
    with served(fake, max_body=100_000) as client:
        head = (
            b"POST /generate HTTP/1.1\r\nHost: localhost\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n"
        )
        with socket.create_connection(("127.0.0.1", client.port), timeout=600) as link:
            link.sendall(head)
            for _ in range(1000):
                link.sendall(b"10000\r\n" + b"x" * 0x10000 + b"\r\n")
            assert link.recv(1 << 16).startswith(b"HTTP/1.1 413")
        assert client.post("/generate", {"prompt": "a", "max_tokens": 1})[0] == 200


def test_the_bodies_of_all_requests_are_limited(fake: FakeContext) -> None:
    """Short bodies pass; long ones wait for memory until others are answered."""
    long = {"prompt": "a" * 40_000, "max_tokens": 1}
    size = len(json.dumps(long))
    fake.may_run.clear()
    with served(fake, max_body=size) as client:
        links = [client.connect("/generate", long) for _ in range(64)]
        wait_until(lambda: len(fake.handles) == 64)
        status, response, headers = client.ask("POST", "/generate", long)
        assert (status, response["error"]["code"]) == (429, "queue_full")
        assert headers["retry-after"] == "1"
        assert "the bodies of all requests" in response["error"]["message"]
        status, response, _ = client.ask("POST", "/v1/batches", long)
        assert (status, response["error"]["code"]) == (429, "queue_full")
        links.append(client.connect("/generate", {"prompt": "a", "max_tokens": 1}))
        wait_until(lambda: len(fake.handles) == 65)
        links.pop(0).close()
        fake.may_run.set()
        wait_until(lambda: client.server.shared.queue.n_inside == 0)
        assert client.post("/generate", long)[0] == 200
        for link in links:
            link.close()


def test_a_key_opens_every_door_but_health(fake: FakeContext) -> None:
    with served(fake, api_key="sécret") as client:
        right = {"Authorization": "Bearer sécret".encode().decode("latin-1")}
        paths = ["/v1/models", f"/v1/models/{NAME}", "/metrics", "/nowhere", "/health/"]
        asks: list[tuple[str, str, Any]] = [("GET", path, None) for path in paths]
        for path in ("/generate", "/v1/completions", "/v1/chat/completions"):
            asks += [("POST", path, {"prompt": "a"}), ("GET", path, None)]
        for method, path, body in asks:
            for wrong in ({}, {"Authorization": "Bearer secret"}, {"Authorization": "x"}):
                status, response, headers = client.ask(method, path, body, wrong)
                assert (status, response["error"]["code"]) == (401, "invalid_api_key"), (
                    path
                )
                assert headers["www-authenticate"] == "Bearer"
            assert client.ask(method, path, body, right)[0] != 401
        assert client.ask("GET", "/health")[:2] == (200, {"status": "ok"})
    assert len(fake.handles) == 2


@pytest.mark.parametrize(
    "host", ["localhost", "127.0.0.1:1", "[::1]", "LOCALHOST:80", "127.0.0.1"]
)
def test_names_of_this_machine_are_served(client: Client, host: str) -> None:
    assert client.ask("GET", "/v1/models", None, {"Host": host})[0] == 200


def test_pages_of_other_origins_are_not_served(client: Client, fake: FakeContext) -> None:
    body = {"prompt": "a", "max_tokens": 1}
    for origin in ("http://evil.example", "null", f"http://localhost:{client.port}"):
        status, response = client.post("/generate", body, Origin=origin)
        assert (status, response["error"]["code"]) == (403, "origin")
    assert not fake.handles
    assert client.post("/generate", body, Origin=client.url)[0] == 200
    answer = client.ask("OPTIONS", "/generate", None, {"Origin": "http://evil.example"})
    assert not any(name.startswith("access-control") for name in answer[2])


def test_more_than_the_queue_holds_get_429(fake: FakeContext) -> None:
    fake.may_run.clear()
    with served(fake, queue=3) as client:
        links = [client.connect("/generate", LONG) for _ in range(7)]  # 4 run, 3 wait
        wait_until(lambda: len(fake.handles) == 7)
        for path in ("/generate", "/v1/completions", "/v1/chat/completions"):
            status, response, headers = client.ask("POST", path, {"prompt": "a"})
            assert (status, response["error"]["type"]) == (429, "rate_limit_error")
            assert 1 <= int(headers["retry-after"]) <= 60
        sdk = openai.OpenAI(base_url=f"{client.url}/v1", api_key="x", max_retries=0)
        with sdk, pytest.raises(openai.RateLimitError):
            sdk.completions.create(model=NAME, prompt="a")
        links.pop().close()
        fake.may_run.set()
        for link in links:
            assert link.recv(100).startswith(b"HTTP/1.1 200")
            link.close()
        assert client.post("/generate", {"prompt": "a", "max_tokens": 1})[0] == 200
        wait_until(lambda: client.server.shared.queue.n_inside == 0)


def test_retry_after_is_the_time_of_the_whole_queue(fake: FakeContext) -> None:
    now = 0.0
    queue = RequestQueue(fake, 96, lambda: now)  # beside 4 slots
    for _ in range(100):  # of 2 s each, one at a time
        with queue.slot():
            now += 2.0
    with ExitStack() as stack:
        for _ in range(100):
            stack.enter_context(queue.slot())
        with pytest.raises(ApiError) as caught, queue.slot():
            pass
        assert dict(caught.value.headers)["retry-after"] == "50"  # 2 s * 100 / 4
        now += 50.0
    queue = RequestQueue(fake, 996, lambda: now)
    with ExitStack() as stack:
        for _ in range(1000):
            stack.enter_context(queue.slot())
        with pytest.raises(ApiError) as caught, queue.slot():
            pass
        assert dict(caught.value.headers)["retry-after"] == "60"  # maximum for clients


def test_300_connections_are_each_answered_or_told_to_wait(fake: FakeContext) -> None:
    fake.step_s = 0.001
    start = threading.Barrier(300)

    def response(i: int) -> tuple[int, Any]:
        start.wait()
        return client.post("/generate", {"prompt": f"p{i}", "max_tokens": 20})

    with served(fake, queue=100) as client, ThreadPoolExecutor(300) as pool:
        responses = list(pool.map(response, range(300)))
        assert {status for status, _ in responses} <= {200, 429}
        assert all(
            body["text"] == answer(f"p{i}", 20)
            for i, (status, body) in enumerate(responses)
            if status == 200
        )
        assert sum(status == 200 for status, _ in responses) >= 104
        assert client.post("/generate", {"prompt": "a", "max_tokens": 1})[0] == 200


def test_a_request_that_takes_too_long_ends(fake: FakeContext) -> None:
    fake.step_s = 0.02
    with served(fake, timeout_s=1.0) as client:
        status, response, headers = client.ask("POST", "/generate", LONG)
        assert (status, response["error"]["code"]) == (504, "timeout")
        assert headers["x-should-retry"] == "false"
        events = client.events("/generate", {**LONG, "stream": True})
        assert events[-1]["error"]["code"] == "timeout"
        assert len(events) > 1
        assert client.post("/generate", {"prompt": "b", "max_tokens": 2})[0] == 200
    assert [handle.is_cancelled for handle in fake.handles[:2]] == [True, True]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("started", [False, True])
def test_a_client_that_goes_away_frees_its_slot(
    client: Client, fake: FakeContext, *, stream: bool, started: bool
) -> None:
    fake.step_s = 0.005
    if not started:
        fake.may_run.clear()
    link = client.connect("/generate", {**LONG, "stream": stream})
    wait_until(lambda: bool(fake.handles))
    if started:
        wait_until(lambda: len(fake.handles[0].words) > 3)
    assert not fake.handles[0].is_cancelled
    link.close()
    wait_until(lambda: fake.handles[0].is_cancelled)
    fake.may_run.set()
    wait_until(lambda: client.server.shared.queue.n_inside == 0)
    assert len(fake.handles[0].words) < 400


def test_a_client_that_goes_away_with_half_a_body_does_nothing(
    client: Client, fake: FakeContext
) -> None:
    head = b"POST /generate HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\n\r\n"
    with socket.create_connection(("127.0.0.1", client.port)) as link:
        link.sendall(head + b'{"prompt":')
    assert client.post("/generate", {"prompt": "a", "max_tokens": 1})[0] == 200
    assert len(fake.handles) == 1


BOMBS: dict[str, dict[str, Any]] = {
    "regex": {"regex": "a{2000000000}"},
    "schema": {"schema": {"type": "string", "pattern": "^a{2000000000}$"}},
    "grammar": {"grammar": 'root ::= "a"{900000}'},
    "lark": {"grammar": "%llguidance {}\nstart: /a{2000000000}/"},
    "choices": {"choices": ["a", "b"]},
}


class _Held(FakeContext):
    """Context whose constraints are compiled for as long as a test requires."""

    def __init__(self, model: lh.Model) -> None:
        super().__init__(model)
        self.is_compiling = threading.Semaphore(0)
        self.may_go_on = threading.Event()

    def submit(self, prompt: object, **options: Any) -> Any:
        params = options["params"]
        if any(
            getattr(params, name) for name in ("regex", "schema", "grammar", "choices")
        ):
            self.is_compiling.release()
            self.may_go_on.wait()
        return super().submit(prompt, **options)


@pytest.fixture
def held(chat_model: lh.Model) -> Iterator[_Held]:
    ctx = _Held(chat_model)
    yield ctx
    ctx.may_go_on.set()
    ctx.close()


def _bomb(client: Any, name: str) -> Any:
    return client.connect("/generate", {"prompt": "x", "max_tokens": 3, **BOMBS[name]})


@pytest.mark.parametrize("name", BOMBS)
def test_others_are_answered_while_a_constraint_is_compiled(
    held: _Held, name: str
) -> None:
    with served(held) as client:
        links = [_bomb(client, name) for _ in range(4)]  # more than the number of threads
        assert held.is_compiling.acquire(timeout=600)
        status, body = client.post("/generate", {"prompt": "p", "max_tokens": 2})
        assert (status, body["text"]) == (200, answer("p", 2))
        chat = {
            "model": "tiny",
            "max_tokens": 2,
            "messages": [{"role": "user", "content": "hello"}],
        }
        assert client.post("/v1/chat/completions", chat)[0] == 200
        assert client.post("/generate", {"prompt": "p" * 40_000, "max_tokens": 1})[0]
        assert client.ask("GET", "/health")[0] == 200
        held.may_go_on.set()
        for link in links:
            assert link.recv(15) == b"HTTP/1.1 200 OK"
            link.close()


def test_a_server_ends_when_a_constraint_was_compiled(held: _Held) -> None:
    with served(held, grace_s=0.0) as client:
        held.may_run.clear()  # an answer under this constraint would never end
        link = _bomb(client, "regex")
        assert held.is_compiling.acquire(timeout=600)
        assert client.server is not None
        client.server.should_exit = True
        wait_until(lambda: client.server.shared._is_stopped)
        held.may_go_on.set()
        wait_until(lambda: any(handle.is_cancelled for handle in held.handles))
        held.may_run.set()
        assert link.recv(12) == b"HTTP/1.1 503"
        link.close()


def test_the_prompt_of_a_client_that_is_gone_ends_when_its_constraint_is_there(
    held: _Held,
) -> None:
    with served(held) as client:
        held.may_run.clear()
        link = _bomb(client, "regex")
        assert held.is_compiling.acquire(timeout=600)
        link.close()
        held.may_go_on.set()
        wait_until(lambda: any(handle.is_cancelled for handle in held.handles))
        held.may_run.set()


_LABELS = [f"label {i}" for i in range(MOST_PAIRS // 100 + 1)]
_TEXTS = ["x"] * 100
_LONG = "x" * (MOST_CHARACTERS // 100 + 1)
_FORM = "x" * MOST_FORM
_TOKENS = "a" * (MOST_STRINGS + 1)  # each letter is a token
_TOOL = {"type": "function", "function": {"name": "f", "description": _FORM}}
_CHAT = {"messages": [{"role": "user", "content": "x"}], "max_tokens": 1}
CONTEXT = {"n_threads": 1, "n_seq_max": 2}


def _book(question: str, labels: list[str]) -> dict[str, object]:
    return {"question": question, "labels": labels}


CLASSIFY, SCORE, ANNOTATE = "/v1/classify", "/v1/score", "/v1/annotate"
TEXT = "/v1/completions"
TEXTS = {"prompts": _TEXTS}
MANY: dict[str, object] = {"prompt": ["x" * 500] * 400, "max_tokens": 1}
SEVERAL = {"prompt": _TEXTS, "n": 20, "max_tokens": 100, "temperature": 1.0}


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        (CLASSIFY, {**TEXTS, "labels": _LABELS}, "labels"),
        (CLASSIFY, {**TEXTS, "labels": dict.fromkeys(_LABELS, "")}, "labels"),
        (CLASSIFY, {**TEXTS, "labels": [_LONG, "b"]}, "labels"),
        (SCORE, {**TEXTS, "continuations": _LABELS}, "continuations"),
        (SCORE, {**TEXTS, "continuations": [_LABELS] * 100}, "continuations"),
        (SCORE, {**TEXTS, "continuations": [[1, 2] for _ in _LABELS]}, "continuations"),
        (SCORE, {**TEXTS, "continuations": [_LONG] * 2}, "continuations"),
        (ANNOTATE, {"texts": _TEXTS, "codebook": _book("What?", _LABELS)}, "codebook"),
        (ANNOTATE, {"texts": ["x"], "codebook": _book("?" * 300_000, ["a"])}, "codebook"),
        (ANNOTATE, {"texts": ["x"], "codebook": "- a\n" * 100_000}, "codebook"),
        ("/v1/rerank", {"query": _LONG, "documents": _TEXTS}, "query"),
        ("/generate", {"prompt": "x", "regex": _FORM}, "regex"),
        ("/generate", {"prompt": "x", "grammar": _FORM}, "grammar"),
        ("/generate", {"prompt": "x", "schema": {"description": _FORM}}, "schema"),
        ("/generate", {"prompt": "x", "choices": [_FORM, "a"]}, "choices"),
        (TEXT, {"prompt": "x", "guided_regex": _FORM}, "guided_regex"),
        (
            TEXT,
            {"prompt": "x", "structured_outputs": {"regex": _FORM}},
            "structured_outputs",
        ),
        ("/v1/chat/completions", {**_CHAT, "tools": [_TOOL]}, "tools"),
        ("/tokenize", {"content": _TOKENS, "with_pieces": True}, "with_pieces"),
        (
            "/tokenize",
            {"prompt": _TOKENS, "return_token_strs": True},
            "return_token_strs",
        ),
        (TEXT, {**SEVERAL, "logprobs": 20}, "logprobs"),
        (TEXT, {**MANY, "prompt_logprobs": 20}, "prompt_logprobs"),
        (TEXT, {**MANY, "max_tokens": 0, "echo": True, "logprobs": 20}, "logprobs"),
    ],
)
def test_a_request_of_products_is_bounded(
    real: Client, path: str, body: dict[str, object], field: str
) -> None:
    status, answer = real.post(path, body)
    assert status == 400
    assert answer["error"]["param"] == field, answer
    assert "request may have" in answer["error"]["message"], answer
