"""Structured answers, calls of functions, samples and log-probabilities over HTTP."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import jsonschema
import llamaherd as lh
import openai
import pydantic
import pytest
import tiny_models
from llamaherd.server.openai import ChatCompletions
from llamaherd.server.tool_calls import CallStream
from llamaherd.server.tools import ToolUse, tools_of
from served import NAME, path_format, served

if TYPE_CHECKING:
    from pathlib import Path

    from served import Client

CHAT = "/v1/chat/completions"
TEXT = "/v1/completions"
ASK: list[Any] = [{"role": "user", "content": "a"}]
CHATML = (
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}"
    "{% for c in m.tool_calls or [] %}<tool_call>{{ c.function | tojson }}</tool_call>"
    "{% endfor %}{% endfor %}<|assistant|>"
)
HERMES = "{% for t in tools or [] %}{{ t | tojson }}{% endfor %}" + CHATML
COLOUR = {
    "type": "object",
    "properties": {"colour": {"enum": ["red", "blue"]}, "n": {"$ref": "#/$defs/n"}},
    "required": ["colour", "n"],
    "additionalProperties": False,
    "$defs": {"n": {"enum": [1, 2]}},
}
PAINT = {
    "type": "function",
    "function": {"name": "paint", "description": "Paint it.", "parameters": COLOUR},
}
WIPE = {
    "type": "function",
    "function": {
        "name": "wipe",
        "parameters": {
            "type": "object",
            "properties": {"all": {"type": "boolean"}},
            "required": ["all"],
            "additionalProperties": False,
        },
    },
}
TEMPLATE = CHATML
CONTEXT = {"n_seq_max": 8}


def _ask(path: str) -> dict[str, Any]:
    return {"messages": ASK} if path == CHAT else {"prompt": "a"}


def _text(choice: Any) -> str:
    return str(choice["message"]["content"] if "message" in choice else choice["text"])


SCHEMA = {"type": "json_schema", "json_schema": {"name": "c", "schema": COLOUR}}
FORMS: list[dict[str, Any]] = [
    {"response_format": SCHEMA},
    {"response_format": {"type": "json_object", "schema": COLOUR}},
    {"response_format": {"type": "json_schema", "schema": COLOUR}},
    {"structured_outputs": {"json": COLOUR}},
    {"structured_outputs": {"json": json.dumps(COLOUR)}},
    {"guided_json": COLOUR},
    {"json_schema": COLOUR},
]


@pytest.mark.parametrize("path", [CHAT, TEXT])
@pytest.mark.parametrize("form", FORMS, ids=json.dumps)
def test_every_way_to_give_a_schema(
    real: Client, path: str, form: dict[str, Any]
) -> None:
    status, response = real.post(path, {**_ask(path), **form, "max_tokens": 200})
    assert status == 200, response
    value = json.loads(_text(response["choices"][0]))
    assert value["colour"] in ("red", "blue")
    assert value["n"] in (1, 2)


@pytest.mark.parametrize("path", [CHAT, TEXT])
@pytest.mark.parametrize(
    "form",
    [
        {"structured_outputs": {"choice": ["yes", "no"]}},
        {"structured_outputs": {"regex": "yes|no"}},
        {"structured_outputs": {"grammar": 'root ::= "yes" | "no"'}},
        {"guided_choice": ["yes", "no"]},
        {"guided_regex": "yes|no"},
        {"guided_grammar": 'root ::= "yes" | "no"'},
        {"grammar": 'root ::= "yes" | "no"'},
    ],
    ids=json.dumps,
)
def test_every_way_to_hold_a_text(real: Client, path: str, form: dict[str, Any]) -> None:
    status, response = real.post(path, {**_ask(path), **form, "max_tokens": 50})
    assert (status, response["choices"][0]["finish_reason"]) == (200, "stop")
    assert _text(response["choices"][0]) in ("yes", "no")


def test_an_answer_that_is_cut_keeps_its_text(real: Client) -> None:
    body = {"messages": ASK, "response_format": SCHEMA, "max_tokens": 2}
    status, response = real.post(CHAT, body)
    assert (status, response["choices"][0]["finish_reason"]) == (200, "length")
    assert response["choices"][0]["message"]["content"].startswith("{")
    status, response = real.post(CHAT, {**body, "n": 3})
    assert [choice["finish_reason"] for choice in response["choices"]] == ["length"] * 3


def test_cut_answers_do_not_end_those_that_wait_for_a_slot(ctx: lh.Context) -> None:
    body = {"messages": ASK, "response_format": SCHEMA, "max_tokens": 2, "n": 3}
    with lh.Context(ctx.model, n_seq_max=1) as narrow, served(narrow) as real:
        status, response = real.post(CHAT, body)
    assert status == 200
    assert [choice["finish_reason"] for choice in response["choices"]] == ["length"] * 3


class Paint(pydantic.BaseModel):
    colour: Literal["red", "blue"]
    n: Literal[1, 2]


def test_parse_of_the_sdk(real_sdk: openai.OpenAI) -> None:
    chat = real_sdk.chat.completions.parse(
        model=NAME, messages=ASK, response_format=Paint, max_tokens=200
    )
    assert isinstance(chat.choices[0].message.parsed, Paint)
    with pytest.raises(openai.LengthFinishReasonError):
        real_sdk.chat.completions.parse(
            model=NAME, messages=ASK, response_format=Paint, max_tokens=2
        )


@pytest.mark.parametrize(
    ("field", "setting", "value"),
    [
        ("presence_penalty", "penalty_present", 0.5),
        ("frequency_penalty", "penalty_freq", -0.5),
        ("repetition_penalty", "penalty_repeat", 1.5),
        ("repeat_penalty", "penalty_repeat", 1.5),
        ("top_k", "top_k", 3),
        ("min_p", "min_p", 0.5),
        ("typical_p", "typical_p", 0.5),
        ("mirostat", "mirostat", 2),
    ],
)
def test_settings_of_other_servers_are_those_of_the_library(
    real: Client, ctx: lh.Context, field: str, setting: str, value: float
) -> None:
    body = {"prompt": "a b", "seed": 7, "max_tokens": 20, field: value}
    text = real.post(TEXT, body)[1]["choices"][0]["text"]
    settings = {"temperature": 1.0, "seed": 7, "max_tokens": 20}
    extra: dict[str, Any] = {setting: value}
    assert text == lh.generate(ctx, "a b", **settings, **extra).text


def test_samples_are_those_of_the_library(real: Client, ctx: lh.Context) -> None:
    body = {"prompt": ["a", "b"], "n": 3, "seed": 5, "max_tokens": 6, "temperature": 1}
    status, response = real.post(TEXT, body)
    assert status == 200
    assert [sample["index"] for sample in response["choices"]] == list(range(6))
    expected = lh.generate_parallel(
        ctx, ["a", "b"], n=3, seed=5, max_tokens=6, temperature=1.0
    )
    flat = [sample.text for samples in expected.samples for sample in samples]
    assert [sample["text"] for sample in response["choices"]] == flat
    n_prompt = sum(sample.n_prompt_tokens for sample in expected)
    assert response["usage"]["prompt_tokens"] == n_prompt
    n_new = sum(len(sample.tokens) for samples in expected.samples for sample in samples)
    assert response["usage"]["completion_tokens"] == n_new


def test_a_list_of_lists_of_tokens(real: Client, ctx: lh.Context) -> None:
    prompts = [lh.tokenize(ctx.model, text) for text in ("a", "b c", "a")]
    body = {"prompt": prompts, "temperature": 0, "max_tokens": 4}
    response = real.post(TEXT, body)[1]
    expected = lh.generate_parallel(ctx, prompts, max_tokens=4, top_p=1.0)
    assert [choice["text"] for choice in response["choices"]] == expected.texts


def test_logprobs_of_a_chat_are_those_of_the_library(
    real_sdk: openai.OpenAI, ctx: lh.Context
) -> None:
    choice = real_sdk.chat.completions.create(
        model=NAME,
        messages=ASK,
        temperature=0,
        max_tokens=5,
        logprobs=True,
        top_logprobs=3,
    ).choices[0]
    expected = lh.generate(ctx, "a", chat=True, max_tokens=5, logprobs=3, thinking=False)
    assert choice.message.content == expected.text
    assert choice.logprobs is not None
    rows = choice.logprobs.content or []
    assert expected.logprobs is not None
    assert expected.top_logprobs is not None
    assert [row.logprob for row in rows] == pytest.approx(expected.logprobs, abs=1e-5)
    assert [[t.logprob for t in row.top_logprobs] for row in rows] == [
        pytest.approx(list(top.values()), abs=1e-5) for top in expected.top_logprobs
    ]
    written = b"".join(bytes(row.bytes or []) for row in rows)
    assert written.decode(errors="replace") == expected.text


def test_logprobs_of_a_completion(real: Client) -> None:
    body = {"prompt": "a", "temperature": 0, "max_tokens": 4, "logprobs": 2}
    choice = real.post(TEXT, body)[1]["choices"][0]
    columns = choice["logprobs"]
    assert len(columns["tokens"]) == len(columns["token_logprobs"]) == 4
    # A random model writes parts of characters, which are shown as bytes.
    whole = all(not token.startswith("bytes:") for token in columns["tokens"])
    assert not whole or "".join(columns["tokens"]) == choice["text"]
    assert columns["text_offset"] == sorted(columns["text_offset"])
    assert columns["text_offset"][0] == 0
    for token, value, top in zip(
        columns["tokens"], columns["token_logprobs"], columns["top_logprobs"], strict=True
    ):
        assert top[token] == value == max(top.values())
        assert len(top) == 2


def test_tokens_that_a_constraint_forces_have_log_probabilities(real: Client) -> None:
    body = {"prompt": "a", "guided_regex": "abc", "logprobs": 0, "max_tokens": 9}
    logprobs = real.post(TEXT, body)[1]["choices"][0]["logprobs"]["token_logprobs"]
    assert logprobs
    # The model's own log-probabilities: a random model is not certain of forced tokens.
    assert all(value < 0 and math.isfinite(value) for value in logprobs)


NAMED = {"type": "function", "function": {"name": "paint"}}


@pytest.mark.parametrize(
    ("tools", "choice", "reason"),
    [
        ([PAINT], "required", "tool_calls"),
        ([PAINT, WIPE], NAMED, "stop"),
        ([PAINT, WIPE], "required", "tool_calls"),
    ],
)
def test_a_forced_call_follows_the_schema(
    real: Client, tools: list[Any], choice: object, reason: str
) -> None:
    body = {"messages": ASK, "tools": tools, "tool_choice": choice, "max_tokens": 100}
    answer = real.post(CHAT, body)[1]["choices"][0]
    assert (answer["finish_reason"], answer["message"]["content"]) == (reason, None)
    calls = answer["message"]["tool_calls"]
    (call,) = calls
    assert call["type"] == "function"
    value = json.loads(call["function"]["arguments"])
    if call["function"]["name"] == "paint":
        assert value["colour"] in ("red", "blue")
        assert value["n"] in (1, 2)
    else:
        assert (call["function"]["name"], type(value["all"])) == ("wipe", bool)


def test_a_template_without_functions_gets_their_description(
    ctx: lh.Context, tmp_path: Path
) -> None:
    def prompt_of(model: lh.Model) -> str:
        form = path_format(ChatCompletions, model)
        fields = {"messages": ASK, "tools": [PAINT], "tool_choice": "required"}
        parsed = form.understand(fields)
        variables = parsed.options["variables"]
        return lh.apply_chat_template(model, parsed.prompts[0], variables=variables)

    assert "Function paint: Paint it." in prompt_of(ctx.model)
    assert "<|system|>" in prompt_of(ctx.model)
    path = tiny_models.write(tmp_path / "tiny.gguf", "llama", chat_template=HERMES)
    with lh.Model(path) as model:
        assert '"description": "Paint it."' in prompt_of(model)
        assert "<|system|>" not in prompt_of(model)


def test_calls_are_read_from_a_free_answer(tmp_path: Path) -> None:
    path = tiny_models.write(tmp_path / "tiny.gguf", "llama", chat_template=HERMES)
    text = '<tool_call>{"name": "wipe", "arguments": {"all": true}}</tool_call>'
    body = {"messages": ASK, "tools": [PAINT, WIPE], "max_tokens": 200}
    with lh.Model(path) as model, lh.Context(model) as ctx, served(ctx) as real:
        # A random model writes no call, so the call is put into its answer.
        status, response = real.post(CHAT, {**body, "max_tokens": 5, "temperature": 0})
        assert (status, response["choices"][0]["finish_reason"]) == (200, "length")
        assert "tool_calls" not in response["choices"][0]["message"]
        use = tools_of(body, model, None)
        assert use is not None
        tokens = lh.tokenize(model, text, add_special=False)
        result = lh.generate(ctx, "a", max_tokens=1)
        answer = replace(result, text=text, tokens=tokens, finish_reason="stop")
        content, (call,), reason = use.read(model, answer)
        assert (content, call.name, reason) == (None, "wipe", "tool_calls")
        assert json.loads(call.arguments) == {"all": True}


def test_results_of_functions_come_back(real: Client) -> None:
    call = {
        "id": "call_1",
        "type": "function",
        "function": {"name": "wipe", "arguments": '{"all": true}'},
    }
    messages = [
        *ASK,
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": "done"},
    ]
    status, response = real.post(CHAT, {"messages": messages, "max_tokens": 2})
    assert status == 200, response


def _deltas(real: Client, body: dict[str, Any]) -> tuple[list[Any], str]:
    """Return the `tool_calls` elements of a stream, and its finish reason."""
    events = real.events(CHAT, {**body, "stream": True})
    choices = [event["choices"][0] for event in events[:-1]]
    assert all("content" not in choice["delta"] for choice in choices[1:])
    calls = [c for choice in choices for c in choice["delta"].get("tool_calls", [])]
    return calls, choices[-1]["finish_reason"]


def test_a_forced_call_that_is_cut_is_streamed(real: Client) -> None:
    body = {"messages": ASK, "tools": [PAINT], "tool_choice": "required"}
    deltas, reason = _deltas(real, {**body, "max_tokens": 2})
    assert reason == "length"
    assert deltas[0]["function"]["name"] == "paint"


def test_calls_end_where_their_arguments_end() -> None:
    use = ToolUse([PAINT, WIPE], ("paint", "wipe"))
    text = '{"name": "wipe", "arguments": {"a": "}\\"{", "b": [{}, {"c": 1}]}}'
    for size in (1, 2, 3, 7, len(text)):
        stream = CallStream(use.forced)
        pieces = [text[i : i + size] for i in range(0, len(text), size)]
        deltas = [delta for piece in pieces for delta in stream.add(piece)]
        assert deltas[0]["function"]["name"] == "wipe"
        arguments = "".join(part["function"]["arguments"] for part in deltas)
        assert arguments == '{"a": "}\\"{", "b": [{}, {"c": 1}]}'


@pytest.mark.parametrize(
    "arguments",
    [
        '{"a":1.10,"b":1e400,"c":12345678901234567890.5}',
        '{"a": "\\u00e9", "a": 1}',
        '{"a',
    ],
)
@pytest.mark.parametrize("names", [("paint",), ("paint", "wipe")])
def test_arguments_are_the_text_of_the_model(
    ctx: lh.Context, names: tuple[str, ...], arguments: str
) -> None:
    text = arguments
    if len(names) > 1:
        text = f'{{"name": "paint", "arguments": {arguments}'
        text += "}" * arguments.endswith("}")
    result = replace(lh.generate_parallel(ctx, ["a"], max_tokens=1)[0], text=text)
    content, (call,), _ = ToolUse([PAINT, WIPE], names).read(ctx.model, result)
    assert (content, call.name, call.arguments) == (None, "paint", arguments)


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"properties": {"a": {"type": "null"}}, "maxProperties": 1},
        {"anyOf": [{"type": "null"}, {"type": "object"}]},
        {"type": ["null", "object"]},
        {"$ref": "#/$defs/own", "$defs": {"own": {"type": ["object", "null"]}}},
    ],
)
def test_arguments_are_an_object(real: Client, parameters: object) -> None:
    tools = [{"type": "function", "function": {"name": "a", "parameters": parameters}}]
    body = {"messages": ASK, "tools": tools, "tool_choice": "required", "max_tokens": 20}
    message = real.post(CHAT, body)[1]["choices"][0]["message"]
    assert message["tool_calls"][0]["function"]["arguments"].startswith("{")


@pytest.mark.parametrize(
    ("parameters", "value"),
    [
        ({"properties": {"a": {"const": {"$ref": "#/b"}}}}, {"a": {"$ref": "#/b"}}),
        ({"properties": {"a": {"enum": [{"$ref": "#"}]}}}, {"a": {"$ref": "#"}}),
        (
            {
                "properties": {"a": {"$ref": "#one"}},
                "$defs": {"x": {"$anchor": "one", "enum": [1]}},
            },
            {"a": 1},
        ),
        (
            {
                "properties": {"enum": {"$ref": "#/$defs/x"}},
                "$defs": {"x": {"enum": [2]}},
            },
            {"enum": 2},
        ),
    ],
)
def test_only_references_move_with_the_schema_of_a_function(
    ctx: lh.Context, parameters: dict[str, Any], value: dict[str, Any]
) -> None:
    schema = {"type": "object", "additionalProperties": False, **parameters}
    schema["required"] = list(parameters["properties"])
    tools: list[Any] = [
        WIPE,
        {"type": "function", "function": {"name": "a", "parameters": schema}},
    ]
    use = tools_of({"tools": tools, "tool_choice": "required"}, ctx.model, None)
    assert use is not None
    validator = jsonschema.Draft202012Validator(use.form.value)
    assert validator.is_valid({"name": "a", "arguments": value})
    assert not validator.is_valid({"name": "a", "arguments": dict.fromkeys(value, 7)})


@pytest.mark.parametrize("path", [CHAT, TEXT])
def test_each_piece_may_have_the_usage_so_far(real: Client, path: str) -> None:
    options = {"include_usage": True, "continuous_usage_stats": True}
    body = {**_ask(path), "max_tokens": 6, "ignore_eos": True, "stream": True}
    events = real.events(path, {**body, "stream_options": options})[:-1]
    usages = [event["usage"] for event in events]
    last = usages[-1]
    assert last["completion_tokens"] == 6
    assert all(u["prompt_tokens"] == last["prompt_tokens"] for u in usages)
    numbers = [usage["completion_tokens"] for usage in usages]
    assert numbers == sorted(numbers)
    assert numbers[-2] == 6
    only = {"continuous_usage_stats": True}
    events = real.events(path, {**body, "stream_options": only})[:-1]
    assert all("usage" not in event for event in events)


@pytest.mark.parametrize("path", [CHAT, TEXT, "/generate"])
def test_the_end_of_an_answer_in_fields_of_vllm(
    real: Client, ctx: lh.Context, path: str
) -> None:
    body = {**_ask(TEXT if path == "/generate" else path), "max_tokens": 9, "seed": 1}
    eos = ctx.model.info.eos
    bias = {str(eos): 100}
    status, response = real.post(path, {**body, "min_tokens": 4, "logit_bias": bias})
    assert (status, response["usage"]["completion_tokens"]) == (200, 4)
    stop = {"ignore_eos": True, "stop_token_ids": [eos], "logit_bias": bias}
    status, response = real.post(path, {**body, **stop})
    assert (status, response["usage"]["completion_tokens"]) == (200, 0)
