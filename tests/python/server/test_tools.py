"""Calls of functions over HTTP: any template, forms beside them, unreadable calls."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import jsonschema
import llamaherd as lh
import pytest
import tiny_models
from llamaherd.server.openai import ChatCompletions
from llamaherd.server.tools import tools_of
from served import path_format, served

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from served import Client

CHAT = "/v1/chat/completions"
ASK: list[Any] = [{"role": "user", "content": "a"}]
PLAIN = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}<|assistant|>"
# It fails for a function without a description, as some templates do.
HERMES = (
    "{% for t in tools or [] %}{{ t.function.name + t.function.description }}{% endfor %}"
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}"
    "{% for c in m.tool_calls or [] %}<tool_call>{{ c.function | tojson }}</tool_call>"
    "{% endfor %}{% endfor %}<|assistant|>"
)
INT = {"type": "integer", "minimum": 0, "maximum": 9}


def function(name: str, **parameters: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


PAINT = function("paint", type="object", properties={"n": INT}, required=["n"])
NOTHING = function("now", type="object", properties={})
FORM = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}
FORMAT = {"type": "json_schema", "json_schema": {"name": "f", "schema": FORM}}


@pytest.fixture(scope="module", params=[PLAIN, HERMES], ids=["plain", "hermes"])
def ctx(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[lh.Context]:
    folder: Path = tmp_path_factory.mktemp("tools")
    path = tiny_models.write(folder / "m.gguf", "llama", chat_template=request.param)
    with lh.Model(path) as model, lh.Context(model, n_seq_max=4) as context:
        yield context


@pytest.fixture(scope="module")
def client(ctx: lh.Context) -> Iterator[Client]:
    with served(ctx) as connection:
        yield connection


def call(arguments: object) -> dict[str, Any]:
    named = {"name": "now", "arguments": arguments}
    return {"id": "call_1", "type": "function", "function": named}


def prompt_of(ctx: lh.Context, **fields: Any) -> str:
    form = path_format(ChatCompletions, ctx.model)
    parsed = form.understand({"messages": ASK, "max_tokens": 5, **fields})
    variables = parsed.options.get("variables")
    return lh.apply_chat_template(ctx.model, parsed.prompts[0], variables=variables)


def answer(ctx: lh.Context, text: str, reason: str = "stop") -> Any:
    tokens = lh.tokenize(ctx.model, text, add_special=False)
    result = lh.generate(ctx, "a", max_tokens=1)
    return replace(result, text=text, tokens=tokens, finish_reason=reason)


@pytest.mark.parametrize("arguments", ["", None, "{}"])
def test_an_earlier_call_without_arguments(
    ctx: lh.Context, client: Client, arguments: object
) -> None:
    turn = {"role": "assistant", "content": None, "tool_calls": [call(arguments)]}
    result = {"role": "tool", "tool_call_id": "call_1", "content": "noon"}
    fields = {"messages": [*ASK, turn, result], "tools": [NOTHING], "max_tokens": 2}
    assert client.post(CHAT, fields)[0] == 200
    prompt = prompt_of(ctx, **fields)
    assert '<tool_call>{"name": "now", "arguments": {}}</tool_call>' in prompt.replace(
        "\ufdd0", ""
    ).replace("\ufdd1", "")
    item = {"type": "function_call", "call_id": "c", "name": "now"}
    items = [{"role": "user", "content": "a"}, {**item, "arguments": arguments}]
    output = {"type": "function_call_output", "call_id": "c", "output": "noon"}
    response = client.post("/v1/responses", {"input": [*items, output]})
    assert response[0] == 200, response


def test_functions_are_described_whatever_the_template(ctx: lh.Context) -> None:
    tools = [PAINT, {"type": "function", "function": {"name": "now"}}]
    prompt = prompt_of(ctx, tools=tools)
    assert "paint" in prompt
    result = answer(ctx, 'So.<tool_call>{"name": "now"}</tool_call>')
    use = tools_of({"tools": tools}, ctx.model, None)
    assert use is not None
    content, (called,), reason = use.read(ctx.model, result)
    assert (content, called.name, called.arguments) == ("So.", "now", "{}")
    assert reason == "tool_calls"


def test_what_is_no_call_stays_text_with_its_problem(ctx: lh.Context) -> None:
    good = '<tool_call>{"name": "now", "arguments": {}}</tool_call>'
    bad = '<tool_call>{"name": "paint", "arguments": {"n": 1e999}}</tool_call>'
    use = tools_of({"tools": [PAINT, NOTHING]}, ctx.model, None)
    assert use is not None
    whole = answer(ctx, good + bad, "length")
    content, calls, reason = use.read(ctx.model, whole)
    assert (content, len(calls), reason) == (bad, 1, "length")
    (problem,) = use.invalid(ctx.model, whole)
    assert "1e999" in problem["problem"]
    assert problem["text"] == bad
    alone = answer(ctx, bad)
    assert use.read(ctx.model, alone) == (bad, [], "stop")
    form = path_format(ChatCompletions, ctx.model)
    parsed = form.understand({"messages": ASK, "tools": [PAINT], "max_tokens": 5})
    message = form.answer(parsed).whole([alone])["choices"][0]["message"]  # type: ignore[index]
    events = form.answer(parsed).end([alone])
    assert message["content"] == bad
    for key in ("content", "invalid_tool_calls"):
        assert json.dumps(message[key], separators=(",", ":")) in events


SEVERAL = [
    function("now", type="object"),
    function(
        "ids",
        **{
            "$id": "https://x.y/z",
            "type": "object",
            "properties": {"n": {"$ref": "#/$defs/n"}, "m": {"$ref": "z#/$defs/n"}},
            "required": ["n", "m"],
            "$defs": {"n": INT},
        },
    ),
    *(
        function(
            f"anchor_{i}",
            **{
                "type": "object",
                "properties": {"n": {"$ref": "#n"}},
                "required": ["n"],
                "$defs": {"n": {"$anchor": "n", "const": i}},
            },
        )
        for i in (1, 2)
    ),
    function(
        "tuple",
        **{
            "$schema": "http://json-schema.org/draft-07/schema#",
            "type": "object",
            "properties": {
                "n": {
                    "type": "array",
                    "items": [INT, {"const": "x"}],
                    "additionalItems": False,
                    "minItems": 2,
                }
            },
            "required": ["n"],
        },
    ),
]


@pytest.mark.parametrize("n", range(1, len(SEVERAL)))
@pytest.mark.parametrize("is_named", [False, True])
def test_one_of_several_functions_is_called(
    client: Client, n: int, is_named: bool
) -> None:
    tools = SEVERAL[n - 1 : n + 1]
    names = [tool["function"]["name"] for tool in tools]
    choice: Any = "required"
    if is_named:
        choice = {"type": "function", "function": {"name": names[1]}}
    body = {"messages": ASK, "tools": tools, "tool_choice": choice, "max_tokens": 99}
    for seed in range(3):
        status, response = client.post(CHAT, {**body, "seed": seed})
        assert status == 200, response
        (called,) = response["choices"][0]["message"]["tool_calls"]
        tool = tools[names.index(called["function"]["name"])]["function"]
        value = json.loads(called["function"]["arguments"])
        jsonschema.validate(value, tool["parameters"])
        assert value.keys() <= tool["parameters"].get("properties", {}).keys()


@pytest.mark.parametrize(
    "tool", [NOTHING, function("now"), function("now", type="object")]
)
def test_a_function_without_parameters_gets_none(
    client: Client, tool: dict[str, Any]
) -> None:
    body = {"messages": ASK, "tools": [tool], "tool_choice": "required", "max_tokens": 9}
    message = client.post(CHAT, body)[1]["choices"][0]["message"]
    assert message["tool_calls"][0]["function"]["arguments"] == "{}"


def test_an_answer_has_only_the_fields_of_its_form(client: Client) -> None:
    body = {"messages": ASK, "response_format": FORMAT, "max_tokens": 20}
    content = client.post(CHAT, body)[1]["choices"][0]["message"]["content"]
    assert json.loads(content).keys() == {"ok"}


@pytest.mark.parametrize("is_stream", [False, True])
def test_functions_and_a_form_of_the_answer(client: Client, is_stream: bool) -> None:
    body = {"messages": ASK, "tools": [PAINT, NOTHING], "response_format": FORMAT}
    kinds = set()
    for seed in range(4):
        fields = {**body, "max_tokens": 60, "seed": seed}
        message: dict[str, Any] = {}
        if is_stream:
            for event in client.events(CHAT, {**fields, "stream": True})[:-1]:
                delta = event["choices"][0]["delta"]
                message |= {k: v for k, v in delta.items() if v is not None}
        else:
            message = client.post(CHAT, fields)[1]["choices"][0]["message"]
        if message.get("tool_calls"):
            called = message["tool_calls"][0]["function"]
            assert called["name"] in ("paint", "now")
            json.loads(called["arguments"])
        else:
            assert json.loads(message["content"]).keys() == {"ok"}
        kinds.add(bool(message.get("tool_calls")))
    assert kinds
    forced = {**body, "tool_choice": "required", "max_tokens": 60}
    choice = client.post(CHAT, forced)[1]["choices"][0]
    assert choice["message"]["tool_calls"]


def test_calls_beside_a_form_are_those_of_declared_functions(ctx: lh.Context) -> None:
    form = path_format(ChatCompletions, ctx.model)
    fields = {"messages": ASK, "tools": [PAINT], "response_format": FORMAT}
    use = form.understand({**fields, "max_tokens": 5}).tools
    assert use is not None
    for name, is_call in (("paint", True), ("other", False)):
        text = json.dumps({"name": name, "arguments": {"n": 1}})
        content, calls, _ = use.read(ctx.model, answer(ctx, text))
        assert [called.arguments for called in calls] == ['{"n": 1}'] * is_call
        assert content == (None if is_call else text)


@pytest.mark.parametrize("place", ["content", "arguments", "description"])
def test_half_of_a_surrogate_pair_is_named(client: Client, place: str) -> None:
    bad = "a\ud83d"
    turn = {"role": "assistant", "content": "b", "tool_calls": [call("{}")]}
    fields: dict[str, Any] = {"messages": [*ASK, turn], "tools": [NOTHING]}
    if place == "content":
        turn["content"] = bad
    elif place == "arguments":
        turn["tool_calls"] = [call(json.dumps({"a": bad}, ensure_ascii=False))]
    else:
        tool = {**NOTHING["function"], "description": bad}
        fields["tools"] = [{"type": "function", "function": tool}]
    status, response = client.post(CHAT, {**fields, "max_tokens": 2})
    assert status == 400
    assert "is not valid Unicode" in response["error"]["message"]
    name = "tools" if place == "description" else "messages"
    assert response["error"]["message"].startswith(name), response


@pytest.mark.parametrize("path", ["/reranking", "/v1/reranking"])
def test_paths_of_llama_server(client: Client, path: str) -> None:
    body = {"query": "a", "documents": ["b", "c"]}
    assert client.post(path, body)[0] == client.post("/v1/rerank", body)[0] != 404
