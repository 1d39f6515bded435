"""Requests that would cost too much are refused before they are prepared."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from llamaherd.server.work_api import MOST_PAIRS
from served import served

if TYPE_CHECKING:
    from fake_context import FakeContext

_LABELS = [f"label {i}" for i in range(MOST_PAIRS // 100 + 1)]
_TEXTS = ["x"] * 100


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
    ],
)
def test_a_request_of_products_is_bounded(
    fake: FakeContext, path: str, body: dict[str, object], field: str
) -> None:
    with served(fake) as client:
        status, answer = client.post(path, body)
        assert status == 400
        assert answer["error"]["param"] == field
        assert "a request may have" in answer["error"]["message"]
