"""A constraint that takes long to compile delays only the client that sent it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest
from fake_context import FakeContext, answer
from served import served
from waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    import llamaherd as lh

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
        wait_until(lambda: any(each.is_cancelled for each in held.handles))
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
        wait_until(lambda: any(each.is_cancelled for each in held.handles))
        held.may_run.set()
