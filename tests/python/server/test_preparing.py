"""The preparation of a request ends soon after its real has left."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import pytest
from llamaherd.engine.core.request import AbandonedError, Preparing, check_wanted
from served import served
from waiting import HANGS_S, wait_until

if TYPE_CHECKING:
    from served import Client

N = 12  # items of each request
_TEXTS = [f"text {i}" for i in range(N)]
_CHATS = [[{"role": "user", "content": text}] for text in _TEXTS]
_SCHEMAS = [
    {"type": "object", "properties": {f"p{i}": {"type": "integer", "minimum": i}}}
    for i in range(N)
]
_TOOLS = [
    {"type": "function", "function": {"name": f"f{i}", "parameters": schema}}
    for i, schema in enumerate(_SCHEMAS)
]
REQUESTS: dict[str, tuple[str, dict[str, Any]]] = {
    "texts": ("/v1/completions", {"prompt": _TEXTS, "max_tokens": 1}),
    "echo": (
        "/v1/completions",
        {"prompt": _TEXTS, "max_tokens": 1, "echo": True, "logprobs": 1},
    ),
    "messages": (
        "/v1/chat/completions",
        {"max_tokens": 1, "messages": [each[0] for each in _CHATS]},
    ),
    "scores": ("/v1/score", {"prompts": _TEXTS, "continuations": [["a", "b"]] * N}),
    "chats": (
        "/v1/score",
        {"prompts": _CHATS, "continuations": ["a"] * N, "chat": True},
    ),
    "labels": ("/v1/classify", {"prompts": ["x"], "labels": _TEXTS}),
    "codes": (
        "/v1/annotate",
        {"texts": _TEXTS, "codebook": {"question": "What?", "labels": ["a", "b"]}},
    ),
    "documents": ("/v1/rerank", {"query": "q", "documents": _TEXTS}),
    "choices": ("/generate", {"prompt": "x", "choices": _TEXTS}),
}
CONTEXT = {"n_threads": 1, "n_seq_max": 4}


class _Held:
    """Stops a preparation at its k-th question, until its request was ended."""

    def __init__(self) -> None:
        self.n_asked = 0
        self.k = 0  # 0: never
        self.is_there = threading.Event()
        self.may_go_on = threading.Event()

    def check(self, preparing: Preparing) -> None:
        self.n_asked += 1
        if self.n_asked == self.k:
            self.is_there.set()
            if not self.may_go_on.is_set():
                wait_until(lambda: not preparing.is_wanted)
        if not preparing.is_wanted:
            raise AbandonedError


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> _Held:
    made = _Held()

    def check(preparing: Preparing) -> None:
        made.check(preparing)

    monkeypatch.setattr(Preparing, "check", check)
    return made


def _n_inside(real: Client) -> int:
    assert real.server is not None
    return real.server.shared.queue.n_inside


@pytest.mark.parametrize("name", REQUESTS)
def test_each_part_of_a_request_asks_whether_somebody_waits(
    real: Client, held: _Held, name: str
) -> None:
    path, body = REQUESTS[name]
    status, answer = real.post(path, body)
    assert status == 200, answer
    assert held.n_asked > N


@pytest.mark.parametrize("name", REQUESTS)
def test_nothing_more_is_prepared_for_a_client_that_is_gone(
    real: Client, held: _Held, name: str
) -> None:
    held.k = N // 2
    link = real.connect(*REQUESTS[name])
    assert held.is_there.wait(HANGS_S)
    link.close()
    wait_until(lambda: _n_inside(real) == 0)
    assert held.n_asked == held.k  # it ended where it asked
    held.k = 0
    assert real.post("/generate", {"prompt": "x", "max_tokens": 1})[0] == 200


def test_a_request_that_waits_for_a_thread_ends_at_once(
    real: Client, held: _Held
) -> None:
    held.k = N // 2
    assert real.server is not None
    threads = real.server.shared.threads.pool("compile")
    may_go_on = threading.Event()
    busy = [threads.submit(may_go_on.wait) for _ in range(2)]
    link = real.connect(*REQUESTS["choices"])
    wait_until(lambda: _n_inside(real) == 1)
    link.close()
    wait_until(lambda: _n_inside(real) == 0)
    may_go_on.set()
    assert all(each.result() for each in busy)
    assert held.n_asked == 0


def test_a_preparation_ends_after_the_timeout(chat_model: lh.Model, held: _Held) -> None:
    held.k = N // 2
    with (
        lh.Context(chat_model, n_threads=1, n_seq_max=4) as ctx,
        served(ctx, timeout_s=0.05) as real,
    ):
        status, answer = real.post(*REQUESTS["labels"])
        assert status == 504
        assert "took more than" in answer["error"]["message"]


def test_a_preparation_ends_with_the_server(chat_model: lh.Model, held: _Held) -> None:
    held.k = N // 2
    with (
        lh.Context(chat_model, n_threads=1, n_seq_max=4) as ctx,
        served(ctx, grace_s=0.0) as real,
    ):
        link = real.connect(*REQUESTS["labels"])
        assert held.is_there.wait(HANGS_S)
        assert real.server is not None
        real.server.should_exit = True
        assert link.recv(12) == b"HTTP/1.1 503"
        link.close()


def test_only_the_work_of_the_request_ends() -> None:
    check_wanted()
    preparing = Preparing()
    with preparing.entered():
        check_wanted()
        preparing.end()
        with pytest.raises(AbandonedError):
            check_wanted()
    check_wanted()
