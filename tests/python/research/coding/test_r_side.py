"""What R gets: messages that count from 1, columns that it takes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import pytest
from llamaherd import _r

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

BOOK = {"question": "Which?", "labels": {"a": "", "b": ""}, "type": "label"}


@pytest.fixture(scope="module")
def context(tiny_path: Callable[[str], Path]) -> Iterator[lh.Context]:
    with lh.Model(tiny_path("llama")) as model, lh.Context(model) as context:
        yield context


def coded(context: lh.Context, book: dict[str, Any], **options: Any) -> dict[str, Any]:
    content = json.dumps(book)
    status = _r.annotate_start(context, ["x", None, "y"], content, options)
    assert status["ok"], status
    status = _r.annotate_result(status["value"]["job"])
    assert status["ok"], status
    return status["value"]


def test_places_count_from_one() -> None:
    examples = [{"text": "x", "label": "a"}, {"text": "y", "label": "c"}]
    status = _r.codebook_make(json.dumps({**BOOK, "examples": examples}))
    assert status["error_type"] == "ValueError"
    assert status["message"].startswith("examples[2].label must be one of the labels")
    made = _r.codebook_make(json.dumps(BOOK))["value"]
    plan = {"orders": [["b", "a"], ["a"]], "seeds": [], "n_texts": None, "seed": 1.0}
    status = _r.robustness_plan(
        [made["json"]],
        ["1"],
        ["1"],
        [True],
        {**plan, "crossed": False, "run": None, "context": None, "settings": {}},
    )
    assert status["message"].startswith("orders[2] must have each label once")


def test_columns_are_those_that_were_told(context: lh.Context) -> None:
    for book, options in (
        (BOOK, {}),
        (BOOK, {"method": "generate"}),
        ({**BOOK, "type": "multiple"}, {}),
        ({**BOOK, "type": "ordinal"}, {"calibrate": "batch"}),
    ):
        roles = _r.annotate_roles(json.dumps(book), options)["value"]
        found = coded(context, book, **options, seed=4e9, versions={"R": "4.2.2"})
        assert list(found["columns"]) == roles
        assert [label is None for label in found["labels"]] == [False, True, False]
        for role in set(roles) - {"label", "error"}:
            assert all(isinstance(value, float) for value in found["columns"][role])
        assert json.loads(found["run"])["versions"]["R"] == "4.2.2"
        assert "prompts" in found["stats"]["line"]


def test_a_codebook_is_described() -> None:
    made = _r.codebook_make(json.dumps(BOOK))["value"]
    assert made["hash"] == lh.Codebook("Which?", ["a", "b"]).hash
    assert made["names"] == ["a", "b"]
    assert made["page"][0].startswith("<Codebook> one label a text")
    preview = _r.codebook_preview(made["json"], "T", None, False)["value"]
    assert preview["prompt"].endswith("Text: T\nLabel:")
    assert preview["tokens"] is None
