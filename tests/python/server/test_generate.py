from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from fake_context import answer
from llamaherd.calls.asks.options import GenerateOptions
from llamaherd.calls.asks.requests import make_requests
from llamaherd.engine.core.words import spoken_in
from llamaherd.server.errors import JSON, of_exception
from llamaherd.server.generate import GenerateApi

if TYPE_CHECKING:
    from typing import Any

    import llamaherd as lh
    from fake_context import FakeContext
    from served import Client

USAGE = {
    "prompt_tokens": 7,
    "completion_tokens": 3,
    "total_tokens": 10,
    "prompt_tokens_details": {"cached_tokens": 3},
}


def test_a_prompt_is_answered_with_text_tokens_reason_and_usage(client: Client) -> None:
    status, response = client.post("/generate", {"prompt": "a", "max_tokens": 3})
    assert status == 200
    assert response == {
        "text": answer("a", 3),
        "tokens": [0, 1, 2],
        "finish_reason": "length",
        "usage": USAGE,
    }


def test_settings_of_the_library_come_through_by_their_names(
    client: Client, fake: FakeContext
) -> None:
    body = {
        "prompt": "a",
        "max_tokens": 2,
        "temperature": 0.5,
        "top_k": 7,
        "stop": ["x"],
        "seed": 5,
        "choices": ["b", "c"],
        "logit_bias": {"3": -2.5},
        "priority": 4,
        "chat": True,
        "system": "s",
        "min_p": None,
    }
    assert client.post("/generate", body)[0] == 200
    (handle,) = fake.handles
    params = handle.params
    assert (params.temperature, params.top_k, params.seed) == (0.5, 7, 5)
    assert (params.stop, params.logit_bias) == (("x",), ((3, -2.5),))
    assert params.choices == ("b", "c")
    assert params.min_p == 0.05  # null is the default
    assert handle.options == {
        "priority": 4,
        "chat": True,
        "system": "s",
        "stream": False,
    }


def test_token_ids_are_a_prompt(client: Client, fake: FakeContext) -> None:
    status, response = client.post("/generate", {"prompt": [5, 6], "max_tokens": 1})
    assert (status, response["text"]) == (200, "5-6/0")
    assert fake.handles[0].prompt == [5, 6]


def test_a_stream_has_the_same_text_in_pieces(client: Client, fake: FakeContext) -> None:
    events = client.events(
        "/generate", {"prompt": "ä\u2028", "max_tokens": 3, "stream": True}
    )
    assert "".join(event["text"] for event in events) == answer("ä\u2028", 3)
    assert [set(event) for event in events[:-1]] == [{"text"}] * 3
    assert events[-1] == {
        "text": "",
        "tokens": [0, 1, 2],
        "finish_reason": "length",
        "usage": USAGE,
    }
    assert fake.handles[0].options["stream"] is True


WORDS = [
    ({"prompt": "a", "stream": 1}, "stream must be true or false, not 1"),
    ({"prompt": "a", "stop": [5]}, "stop[0] must be a text, not 5"),
    ({"prompt": "a", "stop": 5}, "stop must be a text or a list of texts, not 5"),
    ({"prompt": "a", "max_tokens": "x"}, 'max_tokens must be an integer, not "x"'),
    ({"prompt": "a", "temperature": [None]}, "temperature must be a number, not [null]"),
    (
        {"prompt": "a", "choices": {"b": True}},
        'a list of texts, not {"b": true}',
    ),
    ({"prompt": "a", "schema": [1]}, "must be a JSON Schema, as a mapping or JSON"),
    ({"prompt": True}, "prompt must be a string or a list, not true"),
    ({"prompt": [1, True]}, "prompt[1] must be an integer, not true"),
    ({"prompt": [1, "a"]}, 'prompt[1] must be an integer, not "a"'),
    (
        {"prompt": [{"role": "usr", "content": "a"}], "chat": True},
        "prompt[0].role must be one of system, developer, user, assistant, tool, not",
    ),
]


@pytest.mark.parametrize(("body", "message"), WORDS)
def test_messages_use_the_words_of_json(
    client: Client, body: dict[str, Any], message: str
) -> None:
    status, response = client.post("/generate", body)
    assert status == 400
    assert message in response["error"]["message"]
    for word in ("str)", "bool", "dict", "True", "False", "None"):
        assert word not in response["error"]["message"]


def test_errors_of_the_library_use_the_words_of_json(chat_model: lh.Model) -> None:
    def message(prompts: object, **options: Any) -> str:
        with pytest.raises((TypeError, ValueError)) as caught, spoken_in(JSON):
            make_requests(chat_model, prompts, GenerateOptions(**options))
        return str(of_exception(caught.value, GenerateApi.fields))

    text = message(["a"], parse_special=5)
    assert text == 'parse_special must be one of "auto", true, false, not 5'
    text = message(["a"], system="b")
    needs = 'system needs "chat": true; '
    assert text == needs + 'without it there is no chat template for "b"'
    text = message([[{"role": "user", "content": 1}]], chat=True)
    assert text == "prompt[0].content must be a text, not 1"


def test_a_prompt_that_fails_is_the_servers_fault(client: Client) -> None:
    for stream in (False, True):
        status, response = client.post("/generate", {"prompt": "fail", "stream": stream})
        assert (status, response["error"]["type"]) == (500, "server_error")
        assert response["error"]["code"] == "generation_failed"


def test_a_stream_that_fails_later_ends_with_an_event(
    client: Client, fake: FakeContext
) -> None:
    fake.step_s = 0.01
    fake.fails_at = 3
    events = client.events("/generate", {"prompt": "a", "max_tokens": 9, "stream": True})
    assert [event.get("text") for event in events[:3]] == ["a/0", " a/1", " a/2"]
    assert events[3]["error"]["code"] == "generation_failed"
    assert len(events) == 4


def test_what_nobody_expected_is_logged_without_the_prompt(
    client: Client, fake: FakeContext, caplog: pytest.LogCaptureFixture
) -> None:
    fake.raises = RuntimeError("the prompt was: secret")
    status, response = client.post("/generate", {"prompt": "secret"})
    assert (status, response["error"]["type"]) == (500, "server_error")
    assert "RuntimeError" in caplog.text
    assert "in submit" in caplog.text
    assert "secret" not in caplog.text
    assert "secret" not in str(response)


WHOLE = ("max_tokens", "top_k", "repeat_last_n", "logprobs", "min_keep")


@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize(
    "value", [1 << 31, 1 << 63, 10**30, -(1 << 31) - 1, 10**400], ids=range(5)
)
def test_whole_numbers_beyond_32_bits_are_told_with_their_range(
    client: Client, name: str, value: int
) -> None:
    status, response = client.post("/generate", {"prompt": "a", name: value})
    error = response["error"]
    assert (status, error["param"]) == (400, name)
    if error["code"] != "unsupported_parameter" and value > 0:
        assert "at least" not in error["message"]


@pytest.mark.parametrize("path", ["/generate", "/v1/completions"])
def test_temperatures_are_those_of_openai(client: Client, path: str) -> None:
    for value in (-0.1, -1, 2.1):
        status, response = client.post(path, {"prompt": "a", "temperature": value})
        assert status == 400
        error = response["error"]
        assert error["message"] == f"temperature must be between 0 and 2, not {value:g}"
        assert error["param"] == "temperature"
    for value in (0, 2):
        assert client.post(path, {"prompt": "a", "temperature": value})[0] == 200


@pytest.mark.parametrize(
    ("path", "name", "meant"),
    [
        ("/generate", "max_token", "max_tokens"),
        ("/v1/completions", "max_token", "max_tokens"),
        ("/v1/chat/completions", "mesages", "messages"),
        ("/generate", "temprature", "temperature"),
        ("/v1/chat/completions", "prompt", "messages"),
        ("/v1/completions", "messages", "prompt"),
        ("/v1/responses", "system", "instructions"),
        ("/v1/responses", "max_tokens", "max_output_tokens"),
        ("/v1/messages", "instructions", "system"),
    ],
)
def test_a_field_that_is_none_is_told_with_what_was_meant(
    client: Client, path: str, name: str, meant: str
) -> None:
    status, response = client.post(path, {name: 3})
    assert (status, response["error"]["code"]) == (400, "unsupported_parameter")
    message = f"{name!r} is not supported here; did you mean {meant!r}?"
    assert response["error"]["message"] == message
