"""Errors of requests use the words of the request: JSON, and fields of its path."""

from __future__ import annotations

import dataclasses
import json
import re
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import pytest
import tiny_models
from llamaherd.cli.wording import COMMAND_LINE
from llamaherd.server.errors import JSON
from llamaherd.server.models.spec import AdapterSpec, ModelSpec
from llamaherd.server.routes import FORMATS
from served import BODIES, served, served_models

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from llamaherd.engine.core.words import LanguageTerms
    from served import Client

# A server has no user to warn.
pytestmark = pytest.mark.filterwarnings("ignore")
# The model decides whether it thinks, and a variable closes the thought.
TEMPLATE = (
    "{% for m in messages %}<|start|>{{ m.content }}{% endfor %}<|message|>"
    "{% if enable_thinking is defined and not enable_thinking %}"
    "<think>\n\n</think>\n\n{% endif %}"
)
BOOK: dict[str, Any] = {"question": "Which?", "labels": ["good", "bad"]}
CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
SMALL = ("_tokens", "-template", "/api/chat", "/api/embed")
WRONG: list[Any] = [True, -1, 1.5, "x", [], {"x": 1}, ["x", 7]]
OBJECT = {"type": "object", "properties": {"a": {"type": "string", "quote": True}}}
FORMAT = {"type": "json_schema", "json_schema": {"schema": {"type": "integer"}}}
TOOL = {"type": "function", "function": {"name": "f"}}
# Fields that are right alone, and wrong together or for the model.
TOGETHER: list[tuple[str, dict[str, Any]]] = [
    *(
        (path, {"min_tokens": 1, **form})
        for path, form in [
            ("/generate", {"regex": "a+"}),
            (TEXT, {"guided_regex": "a+"}),
            (CHAT, {"response_format": FORMAT}),
            (CHAT, {"tools": [TOOL], "tool_choice": "required"}),
            ("/v1/responses", {"text": {"format": {"type": "json_object"}}}),
        ]
    ),
    *((path, {"min_tokens": 9}) for path in (TEXT, CHAT, "/generate", "/v1/responses")),
    *(
        (path, {"stop_token_ids": [1, 99_999]})
        for path in (TEXT, CHAT, "/generate", "/v1/responses")
    ),
    *((path, {"logit_bias": {"99999": 1}}) for path in (TEXT, CHAT, "/v1/responses")),
    ("/generate", {"regex": "a", "choices": ["a", "b"]}),
    ("/generate", {"system": "Be kind."}),
    ("/generate", {"schema": OBJECT, "prompt": [5]}),
    ("/generate", {"prompt": "<think>", "regex": "a"}),
    ("/generate", {"prompt": []}),
    (TEXT, {"prompt": "<think>", "guided_regex": "a"}),
    (TEXT, {"prompt": []}),
    (TEXT, {"prompt": "a " * 600}),
    (CHAT, {"messages": [{"role": "user", "content": "a " * 600}]}),
    ("/v1/responses", {"input": "a " * 600}),
    ("/v1/responses", {"reasoning": {"effort": 5}}),
    (CHAT, {"thinking": "x"}),
    ("/v1/responses", {"thinking": "x"}),
    (CHAT, {"thinking": 9, "messages": [{"role": "user", "content": "a" * 500}]}),
    (CHAT, {"chat_template_kwargs": {"messages": 5}}),
    ("/v1/responses", {"chat_template_kwargs": {"messages": 5}}),
    (TEXT, {"grammar": "yes | no"}),
    ("/v1/score", {"prompts": [[]]}),
    ("/v1/score", {"prompts": ["a " * 600]}),
    ("/v1/score", {"normalize": "pmi", "chat": True, "thinking": 5}),
    ("/v1/score", {"n_thoughts": 3}),
    ("/v1/classify", {"prompts": [[]]}),
    ("/v1/classify", {"prompts": ["<think>"]}),
    ("/v1/classify", {"method": "contextual"}),
    ("/v1/classify", {"method": "contextual", "content_free": "N/A"}),
    ("/v1/classify", {"labels": ["good", "good"]}),
    ("/v1/annotate", {"texts": ["", "a " * 600]}),
    ("/v1/annotate", {"method": "generate", "calibrate": "batch"}),
    ("/v1/annotate", {"method": "generate", "split": "mean"}),
    ("/v1/annotate", {"distribution": True}),
    ("/v1/annotate", {"part_tokens": 5}),
    ("/v1/annotate", {"evidence": 5}),
    ("/v1/annotate", {"system": "Be kind."}),
    ("/v1/annotate", {"evidence": True, "split": "mean"}),
    ("/v1/annotate", {"thinking": 5, "calibrate": "contextual"}),
    ("/v1/annotate", {"codebook": {"question": "?", "schema": OBJECT}, "evidence": True}),
    *(
        ("/v1/annotate", {"codebook": {"question": "Which?", **book}})
        for book in [
            {"type": "scale"},
            {"type": "scale", "scale": 5},
            {"type": "scale", "scale": {"from": 5, "to": 1}},
            {"type": "fields"},
            {"type": "spans", "labels": ["good"], "quote": True},
            {"type": "spans", "labels": ["good"], "quote": 5},
            {"type": "spans", "labels": ["good"], "quote": {"least": 5, "most": 1}},
            {
                "type": "multiple",
                "labels": ["a"],
                "examples": [{"text": "a", "label": {"a": None}}],
            },
            {"labels": ["a", "b"], "examples": [5]},
            {"labels": ["a", "b"], "examples": [["a", "b", "c"]]},
            {"labels": ["a", "b"], "examples": [{"text": "a", "label": True}]},
            {"labels": ["a"]},
            {"labels": None},
            {"labels": ["a", "b"], "max_spans": 5},
        ]
    ),
]
BOOK_FIELDS = frozenset(field.name for field in dataclasses.fields(lh.Codebook))
# Options whose names are words; a message about another door would advise to set them.
OF_CALLS = ("choices", "regex", "schema", "prompts", "params", "system", "variables")
# Notation of Python or R.
NOTATION = re.compile(
    r"\b\w+\(|\b(True|False|None|TRUE|FALSE|NULL|NA)\b|\b\w+ ?= ?[\w'\"(]|<[A-Z]\w+ "
    r"|\b(str|dict|bool|NoneType|tuple|np|character vector|named list)\b"
)
QUOTED = re.compile(r"\"[^\"]*\"|'[^']*'")
OBJECT_IN_IT = re.compile(r"\{[^{}]*\}")
NAMED = re.compile(r"(?<![\w.])[a-z]+(?:_[a-z0-9]+)+")
CONTEXT = {"n_threads": 1, "n_ctx": 512}


def _fields(path: str) -> frozenset[str]:
    form = FORMATS.get(path.removeprefix("/v1"))
    fields: frozenset[str] = frozenset() if form is None else form.fields
    return fields | BOOK_FIELDS if path == "/v1/annotate" else fields


def _messages(status: int, response: Any) -> list[str]:
    """Return the error of a response, or the errors of its rows."""
    if status >= 400:
        return [response["error"]["message"]]
    rows = [response, *(response.get("data") or ())] if isinstance(response, dict) else []
    errors = [row["error"] for row in rows if isinstance(row.get("error"), dict)]
    return [error["message"] for error in errors] + response.get("notes", [])


def _foreign(message: str, path: str) -> list[str]:
    """Return the words of a message that are not words of the path."""
    named_paths = re.findall(r"/[\w/]+", message)
    fields = frozenset[str]().union(*map(_fields, (path, *named_paths)))
    while (less := OBJECT_IN_IT.sub("", message)) != message:
        message = less
    settings = re.findall(r"\"(\w+)\":", message)
    advised = (x for x in OF_CALLS if re.search(rf"\b(set|use|add) {x}\b", message))
    named = (*NAMED.findall(QUOTED.sub("", message)), *advised)
    wrong = [name for name in (*settings, *named) if name not in fields]
    notation = [match[0] for match in NOTATION.finditer(QUOTED.sub("", message))]
    return wrong + notation


@pytest.mark.more(reason="many requests or long waits in the server", cases=3)
@pytest.mark.parametrize("path", [path for path in BODIES if not path.endswith(SMALL)])
def test_refusals_of_each_field_have_the_words_of_the_path(
    real: Client, path: str
) -> None:
    seen = 0
    for name in sorted(_fields(path) - BOOK_FIELDS | BODIES[path].keys()):
        for value in WRONG:
            status, response = real.post(path, {**BODIES[path], name: value})
            assert status != 500, (name, value, response)
            if name == "stream" and status == 200:
                continue
            for message in _messages(status, response):
                seen += 1
                assert not _foreign(message, path), (name, value, message)
    assert seen > 5


@pytest.mark.parametrize("name", sorted(BOOK_FIELDS))
def test_refusals_of_a_codebook_have_the_words_of_json(real: Client, name: str) -> None:
    for value in WRONG:
        body = {"texts": ["a"], "codebook": {**BOOK, name: value}}
        for message in _messages(*real.post("/v1/annotate", body)):
            assert not _foreign(message, "/v1/annotate"), (value, message)


@pytest.mark.parametrize(
    ("path", "more"),
    TOGETHER,
    ids=[f"{path} {json.dumps(x)[:60]}" for path, x in TOGETHER],
)
def test_refusals_of_fields_together_have_the_words_of_the_path(
    real: Client, path: str, more: dict[str, Any]
) -> None:
    status, response = real.post(path, {**BODIES[path], **more})
    messages = _messages(status, response)
    assert messages, (status, response)
    for message in messages:
        assert not _foreign(message, path), message


@pytest.mark.parametrize(
    ("path", "more", "start"),
    [
        (
            CHAT,
            {"min_tokens": 1, "response_format": FORMAT},
            "min_tokens and response_format cannot be given together",
        ),
        (
            "/v1/responses",
            {"min_tokens": 1, "text": {"format": {"type": "json_object"}}},
            "min_tokens and text cannot be given together",
        ),
        ("/v1/responses", {"min_tokens": 9}, "min_tokens is 9, but an answer may have"),
        ("/v1/responses", {"thinking": "x"}, "thinking must be true or false or an"),
        (TEXT, {"stop_token_ids": [1, 99_999]}, "stop_token_ids names no token: 99999"),
        (TEXT, {"logit_bias": {"99999": 1}}, "logit_bias[99999] names no token: 99999"),
        (TEXT, {"prompt": "a " * 600}, "the prompt has 602 tokens; with an answer (up"),
        (
            "/v1/annotate",
            {"texts": ["y" * 1000]},
            "the prompt has 1085 characters, of",
        ),
    ],
)
def test_refusals_name_the_field_of_the_request(
    real: Client, path: str, more: dict[str, Any], start: str
) -> None:
    (message,) = _messages(*real.post(path, {**BODIES[path], **more}))
    assert message.startswith(start)


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ("scale must be made by number_scale()", ["number_scale", "number_scale("]),
        ("n_thoughts and min_tokens cannot be given", ["min_tokens"]),
        ("use chat=True", ["chat=T"]),
        ("use /generate with stop_token_ids", []),
        ("if it is a label, use choices instead", ["choices"]),
        ('use "chat": true, or "n_ctx": 5', ["n_ctx"]),
        ("schema must be a str", ["str"]),
        ("codebook.max_length must be 'per_sequence'", []),
    ],
)
def test_foreign_words_are_found(message: str, words: list[str]) -> None:
    assert set(_foreign(message, "/v1/annotate")) == set(words)


@pytest.mark.parametrize("terms", [JSON, COMMAND_LINE])
def test_words_for_clients_and_commands_are_not_those_of_python(
    terms: LanguageTerms,
) -> None:
    for field in dataclasses.fields(terms):
        word = str(getattr(terms, field.name))
        assert not re.search(r"\w\(|\b(True|dict|str|Example)\b|\bchat=", word), word


HELLO = [{"role": "user", "content": "a"}]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a model without a template, a damaged model and adapter, and a reranker."""
    models = tmp_path_factory.mktemp("secret-folder")
    tiny_models.write(models / "plain.gguf", "llama")
    tiny_models.write(models / "ranks.gguf", "bert", changes={"pooling_type": 4})
    tiny_models.write(models / "t5.gguf", "t5")
    (models / "damaged.gguf").write_bytes(b"GGUF nothing")
    (models / "adapter.gguf").write_bytes(b"GGUF nothing")
    return models


@pytest.fixture(scope="module")
def client(folder: Path) -> Iterator[Client]:
    adapter = AdapterSpec("adapter", folder / "adapter.gguf")
    specs = [
        ModelSpec("plain", folder / "plain.gguf", (adapter,)),
        *(
            ModelSpec(name, folder / f"{name}.gguf")
            for name in ("ranks", "damaged", "t5")
        ),
    ]
    with served_models(specs) as connection:
        yield connection


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        (CHAT, {"messages": HELLO, "model": "plain"}, 400),
        ("/v1/responses", {"input": "a", "model": "plain"}, 400),
        ("/apply-template", {"messages": HELLO, "model": "plain"}, 400),
        (TEXT, {"prompt": "a", "model": "damaged"}, 500),
        (TEXT, {"prompt": "a", "model": "t5"}, 500),
        ("/api/show", {"model": "damaged"}, 500),
        (TEXT, {"prompt": "a", "model": "adapter"}, 500),
        ("/v1/embeddings", {"input": "a", "model": "ranks"}, 400),
        ("/v1/rerank", {"query": "a", "documents": ["b"], "model": "ranks"}, 400),
    ],
)
def test_no_message_shows_a_folder_or_an_argument_of_python(
    client: Client, path: str, body: dict[str, Any], status: int
) -> None:
    returned, response = client.post(path, body)
    assert returned == status, response
    message = response["error"]["message"]
    for text in ("secret-folder", "<Model", "template=", "leave chat out"):
        assert text not in message
    if body["model"] in {"damaged", "adapter"}:
        assert ".gguf" in message


def test_a_model_without_a_template_has_a_way_out(folder: Path) -> None:
    with (
        lh.Model(folder / "plain.gguf") as model,
        lh.Context(model) as ctx,
        served(ctx) as connection,
    ):
        _, response = connection.post(CHAT, {"messages": HELLO})
    assert "/v1/completions" in response["error"]["message"]
    assert "--template FILE" in response["error"]["message"]


def test_a_misspelt_model_or_path_gets_a_suggestion(client: Client) -> None:
    _, response = client.post(TEXT, {"prompt": "a", "model": "plian"})
    assert "did you mean 'plain'?" in response["error"]["message"]
    _, response = client.post("/v1/completion", {"prompt": "a"})
    assert "did you mean '/v1/completions'?" in response["error"]["message"]
