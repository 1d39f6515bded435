"""Requests that would cost too much are refused before they are prepared."""

from __future__ import annotations

from typing import TYPE_CHECKING

import llamaherd as lh
import pytest
from llamaherd.server.limits import MOST_CHARACTERS, MOST_FORM, MOST_PAIRS, MOST_STRINGS
from served import served

if TYPE_CHECKING:
    from collections.abc import Iterator

    from served import Client

_LABELS = [f"label {i}" for i in range(MOST_PAIRS // 100 + 1)]
_TEXTS = ["x"] * 100
_LONG = "x" * (MOST_CHARACTERS // 100 + 1)
_FORM = "x" * MOST_FORM
_TOKENS = "a" * (MOST_STRINGS + 1)  # each letter is a token
_TOOL = {"type": "function", "function": {"name": "f", "description": _FORM}}
_CHAT = {"messages": [{"role": "user", "content": "x"}], "max_tokens": 1}


@pytest.fixture(scope="module")
def client(chat_model: lh.Model) -> Iterator[Client]:
    with (
        lh.Context(chat_model, n_threads=1, n_seq_max=2) as ctx,
        served(ctx) as made,
    ):
        yield made


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/v1/classify", {"prompts": _TEXTS, "labels": _LABELS}, "labels"),
        (
            "/v1/classify",
            {"prompts": _TEXTS, "labels": dict.fromkeys(_LABELS, "")},
            "labels",
        ),
        ("/v1/score", {"prompts": _TEXTS, "continuations": _LABELS}, "continuations"),
        (
            "/v1/score",
            {"prompts": _TEXTS, "continuations": [_LABELS] * 100},
            "continuations",
        ),
        (
            "/v1/score",
            {"prompts": _TEXTS, "continuations": [[1, 2] for _ in _LABELS]},
            "continuations",
        ),
        (
            "/v1/annotate",
            {"texts": _TEXTS, "codebook": {"question": "What?", "labels": _LABELS}},
            "codebook",
        ),
        (
            "/v1/annotate",
            {"texts": ["x"], "codebook": {"question": "?" * 300_000, "labels": ["a"]}},
            "codebook",
        ),
        ("/v1/annotate", {"texts": ["x"], "codebook": "- a\n" * 100_000}, "codebook"),
        ("/v1/classify", {"prompts": _TEXTS, "labels": [_LONG, "b"]}, "labels"),
        (
            "/v1/score",
            {"prompts": _TEXTS, "continuations": [_LONG] * 2},
            "continuations",
        ),
        ("/v1/rerank", {"query": _LONG, "documents": _TEXTS}, "query"),
        ("/generate", {"prompt": "x", "regex": _FORM}, "regex"),
        ("/generate", {"prompt": "x", "grammar": _FORM}, "grammar"),
        ("/generate", {"prompt": "x", "schema": {"description": _FORM}}, "schema"),
        ("/generate", {"prompt": "x", "choices": [_FORM, "a"]}, "choices"),
        ("/v1/completions", {"prompt": "x", "guided_regex": _FORM}, "guided_regex"),
        (
            "/v1/completions",
            {"prompt": "x", "structured_outputs": {"regex": _FORM}},
            "structured_outputs",
        ),
        ("/v1/chat/completions", {**_CHAT, "tools": [_TOOL]}, "tools"),
        ("/tokenize", {"content": _TOKENS, "with_pieces": True}, "with_pieces"),
        (
            "/tokenize",
            {"prompt": _TOKENS, "return_token_strs": True},
            "return_token_strs",
        ),
        (
            "/v1/completions",
            {"prompt": _TEXTS, "n": 20, "max_tokens": 100, "logprobs": 20}
            | {"temperature": 1.0},
            "logprobs",
        ),
        (
            "/v1/completions",
            {"prompt": ["x" * 500] * 400, "max_tokens": 1, "prompt_logprobs": 20},
            "prompt_logprobs",
        ),
        (
            "/v1/completions",
            {"prompt": ["x" * 500] * 400, "max_tokens": 0, "echo": True}
            | {"logprobs": 20},
            "logprobs",
        ),
    ],
)
def test_a_request_of_products_is_bounded(
    client: Client, path: str, body: dict[str, object], field: str
) -> None:
    status, answer = client.post(path, body)
    assert status == 400
    assert answer["error"]["param"] == field, answer
    assert "request may have" in answer["error"]["message"], answer
