"""Requests that would cost too much are refused before they are prepared."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from llamaherd.server.limits import MOST_CHARACTERS, MOST_FORM, MOST_PAIRS, MOST_STRINGS

if TYPE_CHECKING:
    from served import Client

_LABELS = [f"label {i}" for i in range(MOST_PAIRS // 100 + 1)]
_TEXTS = ["x"] * 100
_LONG = "x" * (MOST_CHARACTERS // 100 + 1)
_FORM = "x" * MOST_FORM
_TOKENS = "a" * (MOST_STRINGS + 1)  # each letter is a token
_TOOL = {"type": "function", "function": {"name": "f", "description": _FORM}}
_CHAT = {"messages": [{"role": "user", "content": "x"}], "max_tokens": 1}
CONTEXT = {"n_threads": 1, "n_seq_max": 2}


def _book(question: str, labels: list[str]) -> dict[str, object]:
    return {"question": question, "labels": labels}


CLASSIFY, SCORE, ANNOTATE = "/v1/classify", "/v1/score", "/v1/annotate"
TEXT = "/v1/completions"
TEXTS = {"prompts": _TEXTS}
MANY: dict[str, object] = {"prompt": ["x" * 500] * 400, "max_tokens": 1}
SEVERAL = {"prompt": _TEXTS, "n": 20, "max_tokens": 100, "temperature": 1.0}


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        (CLASSIFY, {**TEXTS, "labels": _LABELS}, "labels"),
        (CLASSIFY, {**TEXTS, "labels": dict.fromkeys(_LABELS, "")}, "labels"),
        (CLASSIFY, {**TEXTS, "labels": [_LONG, "b"]}, "labels"),
        (SCORE, {**TEXTS, "continuations": _LABELS}, "continuations"),
        (SCORE, {**TEXTS, "continuations": [_LABELS] * 100}, "continuations"),
        (SCORE, {**TEXTS, "continuations": [[1, 2] for _ in _LABELS]}, "continuations"),
        (SCORE, {**TEXTS, "continuations": [_LONG] * 2}, "continuations"),
        (ANNOTATE, {"texts": _TEXTS, "codebook": _book("What?", _LABELS)}, "codebook"),
        (ANNOTATE, {"texts": ["x"], "codebook": _book("?" * 300_000, ["a"])}, "codebook"),
        (ANNOTATE, {"texts": ["x"], "codebook": "- a\n" * 100_000}, "codebook"),
        ("/v1/rerank", {"query": _LONG, "documents": _TEXTS}, "query"),
        ("/generate", {"prompt": "x", "regex": _FORM}, "regex"),
        ("/generate", {"prompt": "x", "grammar": _FORM}, "grammar"),
        ("/generate", {"prompt": "x", "schema": {"description": _FORM}}, "schema"),
        ("/generate", {"prompt": "x", "choices": [_FORM, "a"]}, "choices"),
        (TEXT, {"prompt": "x", "guided_regex": _FORM}, "guided_regex"),
        (
            TEXT,
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
        (TEXT, {**SEVERAL, "logprobs": 20}, "logprobs"),
        (TEXT, {**MANY, "prompt_logprobs": 20}, "prompt_logprobs"),
        (TEXT, {**MANY, "max_tokens": 0, "echo": True, "logprobs": 20}, "logprobs"),
    ],
)
def test_a_request_of_products_is_bounded(
    real: Client, path: str, body: dict[str, object], field: str
) -> None:
    status, answer = real.post(path, body)
    assert status == 400
    assert answer["error"]["param"] == field, answer
    assert "request may have" in answer["error"]["message"], answer
