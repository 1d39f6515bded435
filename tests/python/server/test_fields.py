"""Each field of other servers is served, has no effect, or is refused by its name.

`request_fields.json` lists the fields; scripts/request_fields.py writes it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from llamaherd.server.errors import JSON
from llamaherd.server.responses import REFUSED
from llamaherd.server.routes import FORMATS
from llamaherd.server.schemas import kinds_of
from served import BODIES, NAME

sys.path.append(str(Path(__file__).parents[3] / "scripts"))

import request_fields
from request_fields import status_of, unused_field

if TYPE_CHECKING:
    from collections.abc import Iterator

    from served import Client

RECORD: dict[str, Any] = json.loads(request_fields.RECORD.read_text(encoding="utf-8"))
CASES = [
    (path, name)
    for path, name in sorted(
        {
            (path, name)
            for program in RECORD.values()
            for path, names in program["paths"].items()
            for name in names
        }
    )
]
CHAT = request_fields.CHAT
HELLO = {"role": "user", "content": "a"}
STREAM = {"messages": [HELLO], "stream": True}
OBFUSCATION = "include_obfuscation"
OBFUSCATED = f"stream_options.{OBFUSCATION}"
RANKED = {"query": "a", "documents": ["b"]}
NEEDED: dict[str, dict[str, Any]] = {
    CHAT: {"messages": [HELLO]},
    request_fields.TEXT: {"prompt": "a"},
    request_fields.RESPONSES: {"input": "a"},
    request_fields.COUNT: {"input": "a"},
    request_fields.EMBEDDINGS: {"input": "a"},
    request_fields.RERANK: RANKED,
}
# A value of each JSON type; no field without an effect accepts one of them by its value.
SAMPLES: dict[str, object] = {
    "boolean": True,
    "integer": 77,
    "number": 7.5,
    "string": "never",
    "array": ["never"],
    "object": {"never": "a value without an effect"},
}
KINDS = {"integer": {"integer", "number"}}  # an integer is a number
UNUSED = [case for case in CASES if unused_field(*case) is not None]


def _is_accepted(path: str, status: int, response: Any) -> bool:
    """Whether a request was accepted; the fake context computes no scores."""
    no_scores = "not FakeContext" in str(response.get("error"))
    return status == 200 or (path == request_fields.RERANK and no_scores)


def test_the_record_has_the_fields_of_the_installed_client() -> None:
    """Fails for a field that a new version of the client adds.

    Record the field; serve it, add it to `server/unused_fields.py`, or let it be refused.
    """
    recorded = RECORD["OpenAI"]["paths"]
    for path, names in request_fields.of_openai().items():
        assert set(names) <= set(recorded[path]), path


def test_a_field_without_an_effect_has_none_on_some_path() -> None:
    """A field that the server follows now is no longer in `unused_fields.py`."""
    unused = {name for form in FORMATS.values() for name in form.unused}
    without_effect = {
        name for form in FORMATS.values() for name in form.unused.keys() - form.fields
    }
    assert unused - without_effect == set()


@pytest.mark.parametrize("path", NEEDED)
def test_null_counts_as_missing(client: Client, path: str) -> None:
    """Some clients send null for every field that they know."""
    fields = {name: None for of, name in CASES if of == path}
    status, response = client.post(path, {**fields, "nonsense": None, **NEEDED[path]})
    assert _is_accepted(path, status, response), response


@pytest.mark.parametrize(
    ("path", "name"), [case for case in CASES if status_of(*case) == "refused"]
)
def test_other_fields_are_refused(client: Client, path: str, name: str) -> None:
    status, response = client.post(path, {**NEEDED[path], name: "never"})
    assert status == 400, response
    error = response["error"]
    assert (error["param"], error["code"]) == (name, "unsupported_parameter")


@pytest.mark.more(reason="many requests or long waits in the server", cases=77)
@pytest.mark.parametrize(("path", "name"), UNUSED)
def test_the_type_is_checked_before_the_support(
    client: Client, path: str, name: str
) -> None:
    field = unused_field(path, name)
    assert field is not None
    assert set(kinds_of(field.kind)) <= SAMPLES.keys()
    for kind, value in SAMPLES.items():
        status, response = client.post(path, {**NEEDED[path], name: value})
        is_typed = bool(KINDS.get(kind, {kind}) & {*kinds_of(field.kind)})
        if is_typed and (field.values is None or value in field.values):
            assert _is_accepted(path, status, response), response
            continue
        assert status == 400, response
        error = response["error"]
        code = "unsupported_parameter" if is_typed else "invalid_value"
        assert (error["param"], error["code"]) == (name, code), response
        message = error["message"]
        assert name in message
        if is_typed and field.values:  # the accepted values are named
            assert all(JSON.literal(choice) in message for choice in field.values)
        elif not is_typed:
            assert "must be" in message
        if field.reason and (is_typed or not field.values):
            assert field.reason in message


@pytest.mark.more(reason="many requests or long waits in the server", cases=26)
@pytest.mark.parametrize(("path", "name"), UNUSED)
def test_accepted_values_are_accepted(client: Client, path: str, name: str) -> None:
    field = unused_field(path, name)
    assert field is not None
    for value in field.values or ():
        status, response = client.post(path, {**NEEDED[path], name: value})
        assert _is_accepted(path, status, response), response


@pytest.mark.parametrize(
    ("path", "body", "param", "is_typed"),
    [
        (CHAT, {"messages": [{**HELLO, "name": 5}]}, "messages[0].name", False),
        (CHAT, {"messages": [{**HELLO, "weight": 5}]}, "messages[0].weight", True),
        (CHAT, {**STREAM, "stream_options": {OBFUSCATION: 5}}, OBFUSCATED, False),
        (
            "/v1/responses",
            {"input": "a", "stream": True, "stream_options": {OBFUSCATION: 5}},
            OBFUSCATED,
            False,
        ),
        ("/v1/embeddings", {"input": "a", "user": 5}, "user", False),
        ("/v1/score", {"prompts": ["a"], "continuations": "b", "user": 5}, "user", False),
        ("/api/show", {"model": NAME, "system": 0}, "system", False),
        ("/api/show", {"model": NAME, "system": "Be kind."}, "system", True),
        ("/api/show", {"model": NAME, "options": []}, "options", False),
        ("/v1/rerank", {**RANKED, "priority": "3"}, "priority", False),
        ("/v1/rerank", {**RANKED, "priority": 3}, "priority", True),
    ],
)
def test_the_type_is_checked_first_in_other_formats(
    client: Client, path: str, body: dict[str, Any], param: str, is_typed: bool
) -> None:
    status, response = client.post(path, body)
    assert status == 400, response
    error = response["error"]
    code = "unsupported_parameter" if is_typed else "invalid_value"
    assert (error["param"], error["code"]) == (param, code), response


@pytest.mark.parametrize("value", [True, False, None])
@pytest.mark.parametrize(
    ("path", "body"),
    [
        (CHAT, {"messages": [HELLO]}),
        (request_fields.TEXT, {"prompt": "a"}),
        ("/v1/responses", {"input": "a"}),
    ],
)
def test_padding_of_streams_has_no_effect(
    client: Client, path: str, body: dict[str, Any], value: bool | None
) -> None:
    options = {"stream_options": {OBFUSCATION: value}}
    status, text, _ = client.ask("POST", path, {**body, "stream": True, **options})
    assert status == 200, text
    assert text.count("data: ") > 1
    assert "obfuscation" not in text


@pytest.mark.parametrize(
    ("path", "body", "message"),
    [
        (
            "/v1/rerank",
            {**RANKED, "softmax": False},
            "softmax must be true here, not false",
        ),
        (
            CHAT,
            {"messages": [HELLO], "reasoning_format": "none"},
            'reasoning_format must be one of "auto", "deepseek" here, not "none"',
        ),
        (
            "/v1/responses",
            {"input": "a", "truncation": "auto"},
            'truncation must be "disabled" here, not "auto": '
            + REFUSED["truncation"].reason,
        ),
        (
            "/v1/responses",
            {"input": "a", "prompt": "x"},
            'prompt must be an object, not "x"; it is not supported here: '
            + REFUSED["prompt"].reason,
        ),
    ],
)
def test_a_refusal_says_what_to_send(
    client: Client, path: str, body: dict[str, Any], message: str
) -> None:
    status, response = client.post(path, body)
    assert (status, response["error"]["message"]) == (400, message)


def test_the_table_of_the_docs_is_current() -> None:
    assert request_fields.table() in request_fields.PAGE.read_text(encoding="utf-8")


# Objects within messages and items, each of whose fields has one JSON type;
# `test_openapi.py` tries the parts of other fields.
SYSTEM = {"role": "system", "content": [{"type": "text", "text": "a"}]}
CALL_ = {"id": "i", "index": 0, "type": "function"}
CALL: dict[str, Any] = {**CALL_, "function": {"name": "f", "arguments": "{}"}}
SAID = {
    "role": "assistant",
    "reasoning_content": "a",
    "refusal": "b",
    "tool_calls": [CALL],
}
PART = {
    "type": "text",
    "text": "a",
    "cache_control": {},
    "annotations": [],
    "logprobs": [],
}
PARTS = [{"type": "input_text", "text": "a"}]
OF_ITEMS = {"id": "a", "status": "b", "created_by": "c"}
NESTED: list[tuple[str, dict[str, Any]]] = [
    (
        CHAT,
        {
            "messages": [
                {"role": "user", "content": [PART], "name": "a"},
                {**SAID, "content": "a"},
                {"role": "tool", "tool_call_id": "i", "content": "a"},
                SYSTEM,
            ],
            "metadata": {"a": "b"},
        },
    ),
    (CHAT, {"thinking": {"type": "disabled", "budget_tokens": 5}}),
    (
        "/v1/responses",
        {
            "input": [
                {
                    "role": "user",
                    "content": [{"type": "input_text", "text": "a"}],
                    **OF_ITEMS,
                },
                {"type": "message", "role": "user", "content": "a", "phase": "b"},
                {
                    "type": "reasoning",
                    "summary": [{"type": "summary_text", "text": "a"}],
                    "encrypted_content": "b",
                },
                {
                    "type": "function_call",
                    "call_id": "a",
                    "name": "f",
                    "arguments": "{}",
                    "namespace": "b",
                    **OF_ITEMS,
                },
                {"type": "function_call_output", "call_id": "a", "output": "b"},
                {"role": "user", "content": "a"},
            ],
            "metadata": {"a": "b"},
        },
    ),
    (
        "/v1/messages",
        {
            "system": [{"type": "text", "text": "a", "cache_control": {}}],
            "messages": [
                {
                    "role": "assistant",
                    "content": [
                        {"type": "thinking", "thinking": "a", "signature": "b"},
                        {"type": "redacted_thinking", "data": "a"},
                        {
                            "type": "tool_use",
                            "id": "i",
                            "name": "f",
                            "input": {},
                            "caller": {},
                        },
                    ],
                },
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "tool_result",
                            "tool_use_id": "i",
                            "content": [PART],
                            "is_error": False,
                        }
                    ],
                },
            ],
            "metadata": {"user_id": "a"},
        },
    ),
    ("/api/chat", {"messages": [{"role": "user", "content": "a"}]}),
]
# Values of each JSON type; those of other types are wrong in a field.
OF_TYPES: list[Any] = [True, 5, 1.5, "x", ["x"], {"x": 1}]
# Fields that also have values of another type.
ALSO: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("content", "output"), (str, list)),
}


def _changed(value: Any, place: str) -> Iterator[tuple[Any, str]]:
    """Yield copies of a value with one part of another type, and the part's place."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in items:
        where = f"{place}.{key}" if isinstance(value, dict) else f"{place}[{key}]"
        for wrong in OF_TYPES:
            if type(wrong) not in ALSO.get(str(key), (type(item),)):
                yield _with(value, key, wrong), where
        if isinstance(item, (dict, list)):
            for part, inner in _changed(item, where):
                yield _with(value, key, part), inner


def _with(value: Any, key: Any, item: object) -> Any:
    if isinstance(value, dict):
        return {**value, key: item}
    return [*value[:key], item, *value[key + 1 :]]


@pytest.mark.parametrize(
    ("path", "fields"),
    NESTED,
    ids=[f"{path} {' '.join(fields)}" for path, fields in NESTED],
)
def test_parts_of_another_type_are_refused_by_their_place(
    real: Client, path: str, fields: dict[str, Any]
) -> None:
    for name, value in fields.items():
        for part, place in _changed(value, name):
            status, response = real.post(path, {**BODIES[path], **fields, name: part})
            assert (status, place in response["error"]["message"]) == (400, True), (
                part,
                response,
            )
