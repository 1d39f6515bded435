"""Fields with wrong values are refused by name, on every path.

`test_openapi.py` sends all values that the schema of a field does not allow.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from served import BODIES

if TYPE_CHECKING:
    from served import Client

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
CONTEXT = {"n_threads": 1, "n_seq_max": 4}
HELLO = [{"role": "user", "content": "a"}]
PAINT = {"type": "function", "function": {"name": "paint", "parameters": {}}}
WIPE = {"type": "function", "function": {"name": "wipe"}}
CHOICE = {"type": "function", "function": {"name": "x"}}
STOP = "include_stop_str_in_output"
BOTH: dict[str, list[Any]] = {
    "grammar": ["root ::= ("],
    "guided_grammar": [""],
    "guided_regex": ["(", ""],
    "ignore_eos": [1],
    "logit_bias": [{"-5": 1}],
    "max_tokens": [0, 1 << 31, 1 << 70],
    "min_p": [2],
    "min_tokens": [10_000, -1, True],
    "repetition_penalty": [-1.1, 0],
    "response_format": [{"type": "json_schema"}],
    "samplers": [["top_k"]],
    "seed": [0.5],
    "stop_token_ids": [[1 << 40], [60_000], [True], 5],
    "stream": ["yes"],
    "stream_options": [{"include_usage": True}],
    "structured_outputs": [{"json": {}, "regex": "a"}],
    "tool_choice": ["required"],
    "top_k": ["5", 1.5],
}
# Wrong values by path and field. The error names the field; a valid request has the rest.
WRONG: dict[str, dict[str, list[Any]]] = {
    "/generate": {
        "choices": [[]],
        # No text follows some constraints: the request is wrong, not the server.
        "grammar": ["root ::= (", "root ::= root", "%llguidance {}\nstart: ("],
        "logit_bias": [{"x": 1}, [1], {str(i): 1 for i in range(5000)}],
        "max_tokens": [0, 1.5, 10**400, 1000],
        "min_tokens": [101, -1, True],
        "priority": [1 << 31, 10**400],
        "prompt": [None, [], "a" * 2000],
        "regex": ["(", "(?=a)", r"[^\s\S]"],
        "schema": [{"type": "nothing"}, {"$ref": "#"}, False],
        "stop": ["\ud800", [""]],
        "stop_token_ids": [[1 << 40], [60_000], [True], 5],
        "stream": [1],
        "temperature": ["hot", 10**400],
        "temprature": [1],
        "top_x": [1],
    },
    TEXT: {
        **BOTH,
        "prompt": [
            *(None, 5, {}, "\ud800", ["a", 1], ["a", []], ["a", "b " * 600]),
            *(["a", [1]], [[1], [99999]], [[1, 2], []], [1] * 600, [[1, 70_000]]),
        ],
        "thinking": [5],
    },
    CHAT: {
        **BOTH,
        "messages": [None],
        "tools": [
            *([{"type": "web_search"}], [PAINT, PAINT]),
            [{"type": "function", "function": {"name": "a b"}}],
        ],
        "top_logprobs": [2],
    },
    "/v1/responses": {
        "background": [True],
        "conversation": ["conv_1"],
        "input": [None],
        "max_output_tokens": [999_999],
        "max_tokens": [3],
        "max_tool_calls": [1],
        "messages": [[]],
        "n": [2],
        "previous_response_id": ["resp_1"],
        "prompt": [{"id": "p"}],
        "response_format": [{"type": "text"}],
        STOP: [True],
        "tools": [[{"type": "web_search"}]],
        "truncation": ["auto"],
    },
    "/v1/messages": {
        "container": ["c"],
        "max_tokens": [None, 1 << 20],
        "mcp_servers": [[{"url": "x"}]],
        "output_config": [{"format": {"type": "json_schema"}}],
        "stop": [["a"]],
        "tool_choice": [{"type": "any"}, {"type": "tool"}],
        "tools": [[{"type": "bash_20250124", "name": "bash"}]],
    },
    "/v1/embeddings": {
        "dimensions": [10_000],
        "input": [
            *(None, ["a", ""], ["a", None], [[]], ["a"] * 2049, [1, 70_000]),
            "a " * 600,
        ],
        "pooling": ["max"],
    },
    "/v1/score": {
        "continuations": [None, [], [[1]]],
        "prompts": [None, "a", [], [1]],
        "text_1": ["a"],
    },
    "/v1/classify": {"journal": ["x"], "labels": [None, [], "yes"], "space": [3]},
    "/v1/annotate": {
        "codebook": [None, 1, {}, "labels: [", {"question": "q", "labels": {"a": 1}}],
        "texts": [[1]],
    },
    "/v1/rerank": {
        "documents": [
            *(None, ["b", ""], [{}], ["b", "a " * 600]),
        ],
        "priority": [3],
        "query": [None],
        "rank_fields": [["c"]],
        "truncate_prompt_tokens": [-1],
        "use_activation": [False],
    },
    "/tokenize": {"parse_special": [1], "prompt": [None, 5]},
    "/detokenize": {"tokens": [None, [1 << 40], [70_000]]},
    "/apply-template": {"messages": [[]], "nonsense": [1]},
    "/api/show": {"model": [None, 5], "template": ["x"]},
}
STREAM = {"stream": True}
# Requests whose error names another field, or a part of one.
PARTS: list[tuple[str, dict[str, Any], str]] = [
    *(
        (path, fields, param)
        for path in (CHAT, TEXT)
        for fields, param in (
            ({**STREAM, "prompt_logprobs": 1}, "prompt_logprobs"),
            ({"min_tokens": 1, "guided_regex": "a"}, "guided_regex"),
            ({"max_tokens": 3, "max_completion_tokens": 4}, "max_tokens"),
            ({"repetition_penalty": 1.1, "repeat_penalty": 1.2}, "repeat_penalty"),
            ({"guided_regex": "a", "guided_choice": ["a"]}, "guided_choice"),
        )
    ),
    (TEXT, {"n": 2, "temperature": 0}, "n"),
    (TEXT, {"prompt": ["a"] * 30, "n": 100}, "n"),
    (TEXT, {STOP: True, "stop_token_ids": [3]}, STOP),
    (CHAT, {STOP: True, "tool_choice": "required", "tools": [WIPE]}, STOP),
    (CHAT, {"tools": [WIPE], "tool_choice": CHOICE}, "tool_choice"),
    (CHAT, {"tools": [PAINT], "guided_regex": "a"}, "guided_regex"),
    (CHAT, {"tools": [PAINT], "json_schema": {"type": "nothing"}}, "json_schema"),
    ("/generate", {"grammar": "a", "choices": ["b"]}, "grammar"),
    (
        "/v1/responses",
        {"tools": [{**PAINT["function"], "type": "function"}]}  # type: ignore[dict-item]
        | {"tool_choice": {"type": "function", "name": "x"}},
        "tool_choice",
    ),
    (
        "/v1/responses",
        {"text": {"format": {"type": "json_schema"}}},
        "text.format.schema",
    ),
    ("/v1/rerank", {"texts": ["a"]}, "documents"),
    ("/tokenize", {"prompt": None, "content": None}, "prompt"),
    ("/tokenize", {"content": "b"}, "prompt"),
    ("/tokenize", {"add_special": True}, "add_special"),
    ("/apply-template", {"messages": [1]}, "messages[0]"),
]
USER = {"role": "user"}
NAME, NO = {"name": "f"}, {"type": "nothing"}
FORCED: dict[str, Any] = {
    CHAT: "required",
    "/v1/responses": "required",
    "/v1/messages": {"type": "any"},
}
# Messages of chats, and items of conversations, by the place of their fault.
MESSAGES: list[tuple[object, str]] = [
    ("hello", ""),
    ({"content": "a"}, ".role"),
    ({"role": "function", "content": "a"}, ".role"),
    ({"role": ["user"], "content": "a"}, ".role"),
    ({"role": "tool", "content": "a", "tool_call_id": 5}, ".tool_call_id"),
    ({"role": "assistant", "tool_calls": [{"id": "b"}]}, ".tool_calls[0].function"),
    (USER, ".content"),
    ({**USER, "content": 5}, ".content"),
    ({**USER, "content": []}, ".content"),
    ({**USER, "content": "\ud800"}, ".content"),
    ({**USER, "content": ["a"]}, ".content[0]"),
    ({**USER, "content": [{"type": "image_url", "text": "a"}]}, ".content[0]"),
    ({**USER, "content": [{"type": "text", "text": 5}]}, ".content[0].text"),
    ({**USER, "content": [{"type": "text"}]}, ".content[0].text"),
    ({**USER, "content": [{"type": "text", "text": "a", "x": 1}]}, ".content[0].x"),
    ({**USER, "content": "a", "name": 5}, ".name"),
    ({**USER, "content": "a", "tool_call_id": "b"}, ".tool_call_id"),
]
ITEMS: list[tuple[object, str]] = [
    ("a", ""),
    ({"role": "robot", "content": "a"}, ".role"),
    ({**USER, "content": 1}, ".content"),
    ({**USER, "content": "a", "x": 1}, ".x"),
    ({"type": "item_reference", "id": "i"}, ".type"),
    ({"type": "computer_call"}, ".type"),
    ({"type": "function_call", "name": "a"}, ".call_id"),
    ({"type": "function_call_output", "call_id": "a"}, ".output"),
    ({"type": "reasoning", "content": ["a"]}, ".content[0]"),
    ({"type": "reasoning", "content": [{}]}, ".content[0].text"),
    ({**USER, "content": [{"type": "input_image"}]}, ".content[0]"),
    ({**USER, "content": [{"type": "input_text"}]}, ".content[0].text"),
]
BLOCKS: list[tuple[object, str]] = [
    ({"role": "tool", "content": "a"}, ".role"),
    (USER, ".content"),
    ({**USER, "content": [{"type": "image"}]}, ".content[0]"),
    ({**USER, "content": [1]}, ".content[0]"),
]
PARTS += [
    *((CHAT, {"messages": [part]}, f"messages[0]{where}") for part, where in MESSAGES),
    *(("/v1/responses", {"input": [part]}, f"input[0]{at}") for part, at in ITEMS),
    *(("/v1/messages", {"messages": [part]}, f"messages[0]{at}") for part, at in BLOCKS),
]
# Codes other than "invalid_value", by path, field and value as JSON.
CODES = {
    ("/generate", "prompt", "null"): "missing_field",
    ("/generate", "prompt", "[]"): "invalid_prompt",
    ("/generate", "prompt", json.dumps("a" * 2000)): "context_length_exceeded",
    ("/generate", "max_tokens", "1000"): "context_length_exceeded",
    ("/generate", "top_x", "1"): "unsupported_parameter",
    ("/v1/messages", "max_tokens", "null"): "missing_field",
    ("/v1/messages", "max_tokens", "1048576"): "context_length_exceeded",
    ("/v1/messages", "stop", '["a"]'): "unsupported_parameter",
    ("/v1/messages", "container", '"c"'): "unsupported_parameter",
    ("/generate", "stream", "1"): "invalid_value",
}


# Fields whose messages come from the compiler of the constraint.
OF_LIBRARY = (
    *("guided_regex", "json_schema", "output_config", "response_format"),
    *("regex", "grammar", "schema"),
)


def _refused(real: Client, path: str, fields: dict[str, Any]) -> dict[str, Any]:
    """Return the error of a request, whose message names the field."""
    status, response = real.post(path, {**BODIES[path], **fields})
    assert status == 400, (fields, response)
    error: dict[str, Any] = response["error"]
    assert (response["type"], error["type"]) == ("error", "invalid_request_error")
    assert "prompt failed" not in error["message"]
    field = str(error["param"]).partition("[")[0].partition(".")[0]
    assert field in error["message"] or field in OF_LIBRARY, error
    return error


@pytest.mark.parametrize(
    ("path", "name"), [(path, name) for path, names in WRONG.items() for name in names]
)
def test_wrong_values(real: Client, path: str, name: str) -> None:
    for value in WRONG[path][name]:
        error = _refused(real, path, {name: value})
        assert error["param"] == name, (value, error)
        code = CODES.get((path, name, json.dumps(value)))
        assert code in (None, error["code"])


@pytest.mark.parametrize(("path", "fields", "param"), PARTS)
def test_wrong_parts(real: Client, path: str, fields: dict[str, Any], param: str) -> None:
    assert _refused(real, path, fields)["param"] == param


@pytest.mark.parametrize(
    ("path", "fields", "words"),
    [
        (CHAT, {"response_format": {"type": "json_schema"}}, "is missing"),
        (
            TEXT,
            {"response_format": {"type": "json_schema", "json_schema": {"schema": 5}}},
            "response_format.json_schema.schema must be an object",
        ),
        (
            TEXT,
            {"response_format": {"type": "json_object", "schema": {"type": "nothing"}}},
            "is not valid at $.type",
        ),
        (
            CHAT,
            {"response_format": {"type": "json_object", "schema": {"properties": []}}},
            "is not valid at $.properties",
        ),
        (CHAT, {"guided_regex": "("}, "unclosed group"),
        (CHAT, {"system": "Be kind."}, 'as a message with the role "system"'),
        (CHAT, {"top_n": 5}, "'top_n' is not supported here"),
        ("/v1/embeddings", {"input": 5}, "input must be a string or a list, not 5"),
        ("/v1/embeddings", {"input": [5.5]}, "input[0] must be an integer, not 5.5"),
        ("/v1/embeddings", {"input": [-1]}, "input[0] must be at least 0, not -1"),
        *(
            (path, {"tools": [tool], **more}, f"tools[0].{field} is not valid at $.type")
            for path, tool, field in (
                (CHAT, {"function": {**NAME, "parameters": NO}}, "function.parameters"),
                (
                    "/v1/responses",
                    {**NAME, "type": "function", "parameters": NO},
                    "parameters",
                ),
                ("/v1/messages", {**NAME, "input_schema": NO}, "input_schema"),
            )
            for more in ({}, {"tool_choice": FORCED[path]})
        ),
        (
            CHAT,
            {
                "tools": [
                    {
                        "type": "function",
                        "function": {"name": "f", "parameters": {"properties": []}},
                    }
                ],
                "tool_choice": "required",
            },
            "is not valid at $.properties",
        ),
        (CHAT, {"guided_choice": []}, "guided_choice must not be empty"),
        (TEXT, {"best_of": 2}, "best_of must be 1 here"),
        (CHAT, {"n_predict": 4}, "n_predict must be -1 here, not 4: use max_tokens"),
        (
            CHAT,
            {"messages": [{**USER, "content": [{"type": "image_url"}]}]},
            'messages[0].content[0] is of type "image_url": this model reads text only',
        ),
        (
            CHAT,
            {"messages": [{**USER, "content": [{"type": "text"}]}]},
            "messages[0].content[0].text must be a string, not null",
        ),
        (CHAT, {"messages": [{**USER, "content": []}]}, "parts with text, not []"),
        (TEXT, {"prompt": ["a", "b " * 600]}, "prompt[1]: the prompt "),
        ("/v1/rerank", {"return_text": True}, "cannot be combined with documents"),
        *(
            (path, {"tools": [{"type": "web_search"}]}, "server has no other tools")
            for path in FORCED
        ),
    ],
)
def test_messages_say_what_is_wrong(
    real: Client, path: str, fields: dict[str, Any], words: str
) -> None:
    message = _refused(real, path, fields)["message"]
    assert words in message
    assert "did you mean" not in message
