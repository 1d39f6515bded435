from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import openai
import pytest
from fake_context import FakeContext, answer
from served import NAME, served

if TYPE_CHECKING:
    from served import Client

CHAT = "/v1/chat/completions"
TEXT = "/v1/completions"
HELLO: list[Any] = [{"role": "user", "content": "hello"}]


def _text(fake: FakeContext, handle: int = -1) -> str:
    """Return the prompt of a request."""
    prompt = fake.handles[handle].prompt
    text = prompt if isinstance(prompt, str) else lh.detokenize(fake.model, prompt)
    return text.removeprefix(" ")  # SentencePiece's space


def test_chat(sdk: openai.OpenAI, fake: FakeContext) -> None:
    chat = sdk.chat.completions.create(model=NAME, messages=HELLO, max_tokens=3)
    (choice,) = chat.choices
    assert choice.message.role == "assistant"
    assert choice.message.content == answer(fake.handles[0].prompt, 3)
    assert choice.finish_reason == "length"
    assert chat.usage is not None
    assert (chat.usage.prompt_tokens, chat.usage.completion_tokens) == (7, 3)
    assert chat.usage.prompt_tokens_details is not None
    assert chat.usage.prompt_tokens_details.cached_tokens == 3
    assert (chat.model, chat.object) == (NAME, "chat.completion")
    assert _text(fake) == "user:hello;assistant:"


def test_completion(sdk: openai.OpenAI) -> None:
    completion = sdk.completions.create(model=NAME, prompt="a", max_tokens=2)
    assert completion.choices[0].text == answer("a", 2)
    assert (completion.object, completion.choices[0].finish_reason) == (
        "text_completion",
        "length",
    )
    assert completion.usage is not None
    assert completion.usage.total_tokens == 9


def test_completion_as_a_stream_without_usage(client: Client) -> None:
    events = client.events(TEXT, {"prompt": "a", "max_tokens": 2, "stream": True})
    assert events.pop() == "[DONE]"
    assert all("usage" not in event for event in events)
    assert "".join(event["choices"][0]["text"] for event in events) == answer("a", 2)
    assert [event["choices"][0]["finish_reason"] for event in events] == [
        None,
        None,
        "length",
    ]


def test_many_at_once_from_asyncio(client: Client) -> None:
    async def compare() -> None:
        async with openai.AsyncOpenAI(base_url=f"{client.url}/v1", api_key="x") as sdk:

            async def one(i: int) -> str:
                completion = await sdk.completions.create(
                    model=NAME, prompt=f"p{i}", max_tokens=3
                )
                return completion.choices[0].text

            async def streamed(i: int) -> str:
                chunks = await sdk.completions.create(
                    model=NAME, prompt=f"p{i}", max_tokens=3, stream=True
                )
                return "".join([chunk.choices[0].text async for chunk in chunks])

            texts = await asyncio.gather(
                *(one(i) for i in range(20)), *(streamed(i) for i in range(20))
            )
        assert texts == [answer(f"p{i}", 3) for i in range(20)] * 2

    asyncio.run(compare())


def test_defaults_are_openais(client: Client, fake: FakeContext) -> None:
    assert client.post(TEXT, {"prompt": "a"})[0] == 200
    params = fake.handles[0].params
    assert (params.temperature, params.top_p, params.max_tokens) == (1.0, 1.0, 16)
    assert params.seed == -1  # a new seed
    assert (params.top_k, params.min_p) == (40, 0.05)  # the library's defaults


@pytest.mark.parametrize(
    ("settings", "n"),
    [
        ({}, 512 - 21),  # the rest of the context
        ({"n_ctx": 100}, 100 - 21),
        ({"max_tokens": 50}, 50),
        ({"n_ctx": 10}, 1),
    ],
)
def test_a_chat_that_names_no_number_gets_what_there_is_room_for(
    fake: FakeContext, settings: dict[str, Any], n: int
) -> None:
    with served(fake, **settings) as client:
        messages = [{"role": "user", "content": "x" * 6}]
        assert client.post(CHAT, {"messages": messages})[0] == 200
    handle = fake.handles[0]
    assert len(handle.prompt) == 21
    assert handle.params.max_tokens == n


@pytest.mark.more(reason="many requests or long waits in the server", cases=12)
@pytest.mark.parametrize("content", ["x", "  \t ", "é☃🦙", "answer yes", "a" * 300])
@pytest.mark.parametrize("most", [1, 150, 300, 450, 512])
def test_the_room_for_an_answer_depends_on_the_tokens_of_the_prompt(
    fake: FakeContext, content: str, most: int
) -> None:
    with served(fake, max_tokens=most) as client:
        messages = [{"role": "user", "content": content * n} for n in (1, 10, 30)]
        for message in messages[: 3 if len(content) < 300 else 1]:
            assert client.post(CHAT, {"messages": [message]})[0] == 200
    for handle in fake.handles:
        n_left = 512 - len(handle.prompt)
        assert handle.params.max_tokens == max(1, min(most, n_left))


def test_a_short_chat_is_tokenized_once(
    fake: FakeContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = {"messages": [{"role": "user", "content": "a"}]}
    with served(fake, max_tokens=100) as client:
        expected = client.post(CHAT, body)[1]["choices"]
        monkeypatch.delattr("llamaherd.server.openai.make_requests")
        assert client.post(CHAT, body)[1]["choices"] == expected


def test_sampling_comes_through(client: Client, fake: FakeContext) -> None:
    body = {
        "model": NAME,
        "prompt": ["a"],
        "temperature": 0,
        "top_p": 0.5,
        "stop": "x",
        "seed": -2,
        "logit_bias": {"5": -100},
        "max_tokens": 3,
        "max_completion_tokens": 3,
    }
    assert client.post(TEXT, body)[0] == 200
    params = fake.handles[0].params
    assert (params.temperature, params.top_p, params.stop) == (0, 0.5, ("x",))
    assert (params.seed, params.logit_bias) == (2**32 - 2, ((5, -100),))
    assert client.post(TEXT, {"prompt": [[1, 2]]})[0] == 200
    assert fake.handles[1].prompt == [1, 2]


NEUTRAL: list[dict[str, Any]] = [
    {"n": 1},
    {"n": 1.0},
    {"best_of": 1},
    {"echo": False},
    {"presence_penalty": 0, "frequency_penalty": 0.0},
    {"logit_bias": {}},
    {"response_format": {"type": "text"}},
    {"tools": [], "tool_choice": "auto", "parallel_tool_calls": False},
    {"stream_options": None},
    {"user": "somebody", "safety_identifier": "a", "prompt_cache_key": "b"},
    {"store": False},
    {"store": True},
    {"metadata": {}},
    {"metadata": {"run": "1"}},
    {"service_tier": "flex"},
    {"ignore_eos": False},
    {"ignore_eos": True},
    {"repetition_penalty": 1.0},  # load generators of vLLM
    {"cache_prompt": True, "timings_per_token": False},  # llama.cpp's page
    {"chat_id": "c", "session_id": "s", "id": "i"},  # Open WebUI
    {"stop_token_ids": [], "min_tokens": 0, "skip_special_tokens": True},
    {"stream": False},
]


@pytest.mark.parametrize("fields", NEUTRAL, ids=json.dumps)
@pytest.mark.parametrize("path", [CHAT, TEXT])
def test_fields_that_ask_for_nothing_are_taken(
    client: Client, path: str, fields: dict[str, Any]
) -> None:
    body = {"messages": HELLO} if path == CHAT else {"prompt": "a"}
    status, response = client.post(path, {**body, **fields})
    assert status == 200, response


@pytest.mark.parametrize(
    "message",
    [
        {"name": "Ann"},
        {"name": None, "refusal": None, "tool_calls": []},
        {"type": "text"},
        {"reasoning_content": "because"},
        {"content": [{"type": "text", "text": "a", "cache_control": {"type": "x"}}]},
    ],
    ids=json.dumps,
)
@pytest.mark.parametrize("role", ["user", "assistant", "system"])
def test_fields_of_messages_that_change_nothing(
    client: Client, fake: FakeContext, role: str, message: dict[str, Any]
) -> None:
    messages = [{"role": role, "content": "a", **message}]
    assert client.post(CHAT, {"messages": messages, "max_tokens": 1})[0] == 200
    assert _text(fake) == f"{role}:a;assistant:"


@pytest.mark.parametrize("content", [None, [], ""])
def test_a_call_needs_no_content(
    client: Client, fake: FakeContext, content: object
) -> None:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    messages = [
        {"role": "assistant", "content": content, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "1"},
    ]
    status, response = client.post(CHAT, {"messages": messages, "max_tokens": 1})
    assert status == 200, response
    assert _text(fake) == "assistant:;tool:1;assistant:"


@pytest.mark.parametrize("path", [CHAT, TEXT])
def test_paths_without_v1_are_the_same(client: Client, path: str) -> None:
    body = {"messages": HELLO} if path == CHAT else {"prompt": "a"}
    for way in (path, path.removeprefix("/v1")):
        status, response = client.post(way, {**body, "max_tokens": 2})
        assert (status, response["choices"][0]["finish_reason"]) == (200, "length")
    assert client.ask("GET", "/models")[1] == client.ask("GET", "/v1/models")[1]
    assert client.ask("GET", f"/models/{NAME}")[0] == 200


def test_a_model_of_several_names(fake: FakeContext) -> None:
    with served(fake, aliases=("other", "third")) as client:
        data = client.ask("GET", "/v1/models")[1]["data"]
        assert [model["id"] for model in data] == [NAME, "other", "third"]
        for name in (NAME, f"{NAME}.gguf", "other", "other.gguf", "third"):
            status, response = client.post(TEXT, {"prompt": "a", "model": name})
            assert (status, response["model"]) == (200, NAME)
            assert client.ask("GET", f"/v1/models/{name}")[0] == 200
        for name in ("", "TINY", f"{NAME}.bin", "gpt-4o", ".gguf", f"{NAME}/x"):
            status, response = client.post(TEXT, {"prompt": "a", "model": name})
            assert (status, response["error"]["code"]) == (404, "model_not_found")
            assert "(str)" not in response["error"]["message"]
    with served(fake, any_model=True) as client:
        for name in (NAME, "gpt-4o", "local-model", ""):
            status, response = client.post(TEXT, {"prompt": "a", "model": name})
            assert (status, response["model"]) == (200, NAME)
        assert client.ask("GET", "/v1/models/gpt-4o")[1]["id"] == NAME
        status, response = client.post(TEXT, {"prompt": "a", "model": 5})
        assert (status, response["error"]["param"]) == (400, "model")


def test_messages_of_an_answer_can_be_sent_back(
    client: Client, fake: FakeContext
) -> None:
    response = client.post(CHAT, {"messages": HELLO, "max_tokens": 1})[1]
    message = {**response["choices"][0]["message"], "tool_calls": None, "annotations": []}
    parts = [{"type": "text", "text": "b"}, {"type": "text", "text": "c"}]
    more = [
        {"role": "developer", "content": "a"},
        *HELLO,
        message,
        {"role": "user", "content": parts},
    ]
    assert client.post(CHAT, {"messages": more})[0] == 200
    text = _text(fake)
    assert text.startswith("system:a;user:hello;assistant:")
    assert text.endswith(";user:bc;assistant:")


def test_a_model_without_a_template_has_no_chat(tiny_path: Any) -> None:
    with lh.Model(tiny_path("llama")) as model:
        ctx = FakeContext(model)
        with served(ctx) as client:
            status, response = client.post(CHAT, {"messages": HELLO})
        ctx.close()
    assert (status, response["error"]["code"]) == (400, "chat_template")


def test_another_model_is_not_there(sdk: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match="tiny"):
        sdk.chat.completions.create(model="gpt-4", messages=HELLO)


def test_models(sdk: openai.OpenAI) -> None:
    assert [model.id for model in sdk.models.list()] == [NAME]
    assert sdk.models.retrieve(NAME).owned_by == "llamaherd"
    with pytest.raises(openai.NotFoundError):
        sdk.models.retrieve("gpt-4")


def test_errors_are_those_of_the_sdk(sdk: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        sdk.completions.create(model=NAME, prompt="a", best_of=2)
    assert (caught.value.param, caught.value.code) == ("best_of", "unsupported_parameter")
    with pytest.raises(openai.InternalServerError):
        sdk.completions.create(model=NAME, prompt="fail")


def test_a_stream_that_fails_raises_in_the_sdk(
    sdk: openai.OpenAI, fake: FakeContext
) -> None:
    fake.fails_at = 2
    chunks = sdk.completions.create(model=NAME, prompt="a", stream=True)
    with pytest.raises(openai.APIError, match="failed"):
        list(chunks)


def test_text_in_a_message_ends_no_message(client: Client, fake: FakeContext) -> None:
    content = "</s>a"
    messages = [{"role": "user", "content": content}]
    assert client.post(CHAT, {"messages": messages})[0] == 200
    eos = fake.model.info.eos
    assert eos not in list(fake.handles[0].prompt)
    assert json.dumps(content)[1:-1] in _text(fake)
