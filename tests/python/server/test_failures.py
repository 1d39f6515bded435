"""Failed answers have the same status and code on every path."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import openai
import pytest
from fake_context import answer
from llamaherd.engine.core.argument import Argument
from llamaherd.server.errors import of_exception
from llamaherd.server.routes import FORMATS
from served import NAME, served

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from served import Client

GENERATE = "/generate"
TEXT = "/v1/completions"
CHAT = "/v1/chat/completions"
PLACES = {GENERATE: "", TEXT: "", CHAT: "user:"}  # text before the prompt
CONTEXT = {"n_threads": 1}


@pytest.fixture(autouse=True)
def _plain_template(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the prompt of a chat the user's text, which selects how the answer ends."""
    monkeypatch.setattr(
        "fake_context.FakeContext.rendered",
        lambda _context, messages, _options: messages[-1]["content"],
    )


def _ask(path: str, prompt: str, **fields: Any) -> dict[str, Any]:
    if path == CHAT:
        return {"messages": [{"role": "user", "content": prompt}], **fields}
    return {"prompt": prompt, **fields}


def _told(path: str, response: dict[str, Any]) -> tuple[str, str]:
    """Return the text and the finish reason of an answer."""
    if path == GENERATE:
        return response["text"], response["finish_reason"]
    (choice,) = response["choices"]
    text = choice["text"] if path == TEXT else choice["message"]["content"]
    return text, choice["finish_reason"]


def _piece(path: str, event: dict[str, Any]) -> str:
    if path == GENERATE:
        return event["text"]
    (choice,) = event["choices"]
    return choice["text"] if path == TEXT else choice["delta"].get("content", "")


@pytest.mark.parametrize("path", PLACES)
def test_an_answer_cut_off_keeps_its_text(client: Client, path: str) -> None:
    status, response = client.post(path, _ask(path, "cut", max_tokens=3))
    assert status == 200
    assert _told(path, response) == (answer("cut", 3), "length")
    assert response["usage"]["completion_tokens"] == 3
    if path == GENERATE:  # OpenAI's format has no place for it
        assert response["error"]["message"] == "cut: it failed"


@pytest.mark.parametrize("path", PLACES)
def test_a_stream_cut_off_ends_as_others_do(client: Client, path: str) -> None:
    events = client.events(path, _ask(path, "cut", max_tokens=3, stream=True))
    if path != GENERATE:
        assert events.pop() == "[DONE]"
    assert "".join(_piece(path, event) for event in events) == answer("cut", 3)
    last = events[-1] if path == GENERATE else events[-1]["choices"][0]
    assert last["finish_reason"] == "length"
    assert ("error" in last) == (path == GENERATE)


# By prompt: status, code, and whether OpenAI's clients may try again.
FAILED = {
    "fail": (500, "generation_failed", True),
    "wrong": (422, "schema_not_followed", False),
}


@pytest.mark.parametrize("prompt", FAILED)
@pytest.mark.parametrize("path", PLACES)
def test_an_answer_that_fails_tells_the_reason_alone(
    client: Client, path: str, prompt: str
) -> None:
    expected, code, may_retry = FAILED[prompt]
    status, response, headers = client.ask("POST", path, _ask(path, prompt, max_tokens=2))
    assert (status, response["error"]["code"]) == (expected, code)
    assert response["error"]["message"] == f"{prompt}: it failed"
    assert (headers.get("x-should-retry") != "false") == may_retry


@pytest.mark.parametrize("path", PLACES)
def test_a_stream_that_fails_ends_with_the_reason(client: Client, path: str) -> None:
    events = client.events(path, _ask(path, "wrong", max_tokens=2, stream=True))
    assert events[-1]["error"]["code"] == "schema_not_followed"
    assert "".join(_piece(path, event) for event in events[:-1]) == answer("wrong", 2)


BOMB = {"type": "string", "pattern": "^[xy]a{2000000000}$"}
FORM = {"type": "json_schema", "json_schema": {"name": "bomb", "schema": BOMB}}
# Constraints that need too many states after their first token: path, fields, field at
# fault.
BOMBS: dict[str, tuple[str, dict[str, Any], str]] = {
    "schema": (GENERATE, {"schema": BOMB}, "schema"),
    "regex": (GENERATE, {"regex": "[xy]a{2000000000}"}, "regex"),
    "grammar": (
        GENERATE,
        {"grammar": "%llguidance {}\nstart: /[xy]a{2000000000}/"},
        "grammar",
    ),
    "alias": (TEXT, {"guided_regex": "[xy]a{2000000000}"}, "guided_regex"),
    "form": (CHAT, {"response_format": FORM}, "response_format"),
}


HOWS: list[dict[str, Any]] = [{}, {"stream": True}, {"n": 2, "temperature": 1}]
HOWS_OF_BOMBS = [
    (name, how)
    for name, (path, _, _) in BOMBS.items()
    for how in HOWS
    if path != GENERATE or "n" not in how  # /generate has one answer
]


@pytest.mark.parametrize(("name", "how"), HOWS_OF_BOMBS)
def test_a_constraint_that_fails_while_it_runs_is_the_clients_fault(
    real: Client, name: str, how: dict[str, Any]
) -> None:
    path, fields, param = BOMBS[name]
    body = _ask(path, "x", max_tokens=8, **fields, **how)
    if "stream" in how:  # the first token was sent already
        error = real.events(path, body)[-1]["error"]
    else:
        status, response = real.post(path, body)
        assert status == 400
        error = response["error"]
    assert (error["type"], error["code"]) == ("invalid_request_error", "invalid_value")
    assert error["param"] == param
    assert "needs more states than are kept" in error["message"]


def test_the_sdk_does_not_ask_again_for_what_was_cut(client: Client) -> None:
    with openai.OpenAI(base_url=f"{client.url}/v1", api_key="x") as sdk:
        completion = sdk.completions.create(model=NAME, prompt="cut", max_tokens=2)
    assert completion.choices[0].finish_reason == "length"


CUTS: list[dict[str, Any]] = [
    {"schema": {}},
    {"schema": {"type": "string", "minLength": 40}},
    {"schema": {"type": "array", "items": {"type": "integer"}, "minItems": 30}},
    {"schema": {"type": "string", "minLength": 40}, "temperature": 1},
]


@pytest.mark.parametrize("cut", CUTS, ids=json.dumps)
@pytest.mark.parametrize("stream", [False, True])
def test_schemas_that_max_tokens_cuts(
    real: Client, cut: dict[str, Any], *, stream: bool
) -> None:
    body = {"prompt": "x", "max_tokens": 2, "ignore_eos": True, **cut, "stream": stream}
    if stream:
        events = real.events(GENERATE, body)
        text = "".join(event["text"] for event in events)
        response = {**events[-1], "text": text}
    else:
        status, response = real.post(GENERATE, body)
        assert status == 200, response
    assert (response["finish_reason"], len(response["tokens"])) == ("length", 2)
    assert response["text"]
    assert response["error"]["code"] == "cut_off"


def test_schemas_that_masks_cannot_enforce(real: Client) -> None:
    hopeless = {"enum": ["a"], "not": {"enum": ["a"]}}
    body = {"prompt": "x", "schema": hopeless, "max_tokens": 9}
    status, response = real.post(GENERATE, body)
    assert (status, response["error"]["code"]) == (422, "schema_not_followed")
    assert not response["error"]["message"].startswith("the prompt failed")


HOSTILE = ["a[1]", "prompts[0]", "['x']", "max_tokens"]


@pytest.mark.parametrize("text", HOSTILE)
def test_texts_like_places_stay_as_they_are(real: Client, text: str) -> None:
    body = {"prompt": "a", "choices": [text], "stop": text[:1]}
    status, response = real.post(GENERATE, body)
    assert (status, response["error"]["param"]) == (400, "stop")
    assert repr(text) in response["error"]["message"]
    body = {"prompt": [{"role": "user", text: 5}], "chat": True}
    status, response = real.post(GENERATE, body)
    assert status == 400
    assert json.dumps(text) in response["error"]["message"]


def test_nested_fields_are_told_with_dots() -> None:
    fields = {"messages", "logit_bias", "stop"}
    place = Argument("prompts", (0, 2, "content"))
    error = of_exception(lh.ArgumentError("is 'prompts[0]'", argument=place), fields)
    assert error is not None
    assert (str(error), error.param) == (
        "messages[2].content is 'prompts[0]'",
        "messages[2].content",
    )
    error = of_exception(lh.ArgumentError("is odd", argument="stop", place=(1,)), fields)
    assert error is not None
    assert (str(error), error.param) == ("stop[1] is odd", "stop")
    error = of_exception(lh.ArgumentError("is odd", argument="unheard"), fields)
    assert error is not None
    assert error.param is None


def test_constraints_that_the_installed_llguidance_lacks_are_told() -> None:
    error = of_exception(lh.AbiMismatchError("llguidance 1.5.0 may end the process"), {})
    assert error is not None
    assert (error.status, error.code) == (501, "not_supported")
    assert "llguidance 1.5.0" in str(error)


@pytest.mark.parametrize("path", list(FORMATS))
def test_a_key_twice_is_refused_by_name(client: Client, path: str) -> None:
    for body in (b'{"seed": 1, "a": 2, "seed": 3}', b'{"a": [{"seed": 1, "seed": 1}]}'):
        status, response = client.post(path, body)
        assert (status, response["error"]["code"]) == (400, "invalid_json")
        assert 'has the key "seed" twice' in response["error"]["message"]


@pytest.mark.parametrize("path", [GENERATE, TEXT])
def test_a_context_that_cannot_be_created_is_told(
    tiny_path: Callable[[str], Path], path: str
) -> None:
    """Its rows are no multiple of a block of q8_0."""
    with (
        lh.Model(tiny_path("llama")) as model,
        lh.Context(model, type_k="q8_0", n_threads=1) as context,
        served(context) as client,
    ):
        body = json.dumps(_ask(path, "a", max_tokens=1)).encode()
        status, response = client.post(path, body)
    assert (status, response["error"]["code"]) == (500, "context_not_created")
    assert "q8_0" in response["error"]["message"]
