"""Behaviours of llama-server that its own tests check, and that this server shares.

Five test files of llama-server ran once against this server (docs/server-measured.md).
The tests here check the differences that were found and removed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import llamaherd as lh
import pytest
from llamaherd.engine.model.tokens import token_bytes

if TYPE_CHECKING:
    from served import Client

TEMPLATE = "{% for m in messages %}{{ m.content }}{% endfor %}"
HELLO = [{"role": "user", "content": "one"}]
CHAT = {"messages": HELLO, "max_tokens": 3}
TEXT = {"prompt": "one", "max_tokens": 3}


@pytest.mark.parametrize(
    ("path", "body"), [("/chat/completions", CHAT), ("/completions", TEXT)]
)
def test_answers_and_chunks_have_a_fingerprint(
    real: Client, path: str, body: dict[str, Any]
) -> None:
    status, response = real.post(path, body)
    assert status == 200
    assert response["system_fingerprint"] == f"llamaherd-{lh.__version__}"
    *chunks, _ = real.events(path, {**body, "stream": True})
    assert {chunk["system_fingerprint"] for chunk in chunks} == {
        response["system_fingerprint"]
    }


def test_the_number_of_tokens_of_a_chat(real: Client) -> None:
    answered = real.post("/chat/completions", CHAT)[1]["usage"]["prompt_tokens"]
    for start in ("/v1", ""):
        status, response = real.post(f"{start}/chat/completions/input_tokens", CHAT)
        assert (status, response["input_tokens"]) == (200, answered), response


LONG = {"max_tokens": 10**6, "min_tokens": 10**5}


@pytest.mark.parametrize(
    ("path", "body", "more"),
    [
        ("/v1/chat/completions/input_tokens", {"messages": HELLO}, LONG),
        (
            "/v1/chat/completions/input_tokens",
            {"messages": HELLO},
            {"max_completion_tokens": 10**6},
        ),
        (
            "/v1/responses/input_tokens",
            {"input": HELLO},
            {"max_output_tokens": 10**6, "min_tokens": 10**5},
        ),
        ("/tokenize", {"messages": HELLO}, LONG),
        ("/apply-template", {"messages": HELLO}, LONG),
    ],
)
def test_a_prompt_is_read_whatever_the_length_of_its_answer(
    real: Client, path: str, body: dict[str, Any], more: dict[str, int]
) -> None:
    expected = real.post(path, body)
    assert expected[0] == 200
    assert real.post(path, {**body, **more}) == expected
    for name in more:
        status, response = real.post(path, {**body, name: "3"})
        assert (status, response["error"]["param"]) == (400, name)


def test_a_prompt_beyond_the_context_is_counted(real: Client) -> None:
    messages = [{"role": "user", "content": "one " * 5000}]
    for path, name in (("chat/completions", "messages"), ("responses", "input")):
        status, response = real.post(f"/v1/{path}/input_tokens", {name: messages})
        assert status == 200, response
        assert response["input_tokens"] > 5000


def test_a_slot_may_be_named(real: Client) -> None:
    """Any slot gives the same answer."""
    expected = real.post("/chat/completions", {**CHAT, "seed": 1})[1]["choices"]
    status, response = real.post("/chat/completions", {**CHAT, "seed": 1, "id_slot": 0})
    assert (status, response["choices"]) == (200, expected)


def test_tokens_with_their_pieces(real: Client, ctx: lh.Context) -> None:
    """A token that is a part of a character has a list of bytes."""
    text = "a text with \u5abd and \U0001f917"
    plain = real.post("/tokenize", {"content": text})[1]["tokens"]
    rows = real.post("/tokenize", {"content": text, "with_pieces": True})[1]["tokens"]
    assert [row["id"] for row in rows] == plain
    pieces = [row["piece"] for row in rows]
    assert any(isinstance(piece, list) for piece in pieces)
    encoded = [p.encode() if isinstance(p, str) else bytes(p) for p in pieces]
    assert encoded == token_bytes(ctx.model, plain)
    # The answer in vLLM's form contains numbers.
    body = {"prompt": text, "return_token_strs": True}
    assert all(isinstance(t, int) for t in real.post("/tokenize", body)[1]["tokens"])
