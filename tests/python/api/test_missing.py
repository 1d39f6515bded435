"""Missing prompts and texts fail alone, in all calls with many prompts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import llamaherd as lh
import numpy as np
import pandas as pd
import pytest
import tiny_models

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TEXTS = pd.Series(["a b", None, "a b", float("nan"), pd.NA, pd.NaT, ""], dtype=object)
CODES = [None, "missing", None, "missing", "missing", "missing"]
REASONS = [None, "the {} is missing", None, *["the {} is missing"] * 3]
TEMPLATE = "{% for m in messages %}{{ m.role }}: {{ m.content }}{% endfor %}"


@pytest.fixture(scope="module")
def ctx(tmp_path_factory: pytest.TempPathFactory) -> Iterator[lh.Context]:
    path = tmp_path_factory.mktemp("models") / "tiny.gguf"
    made = tiny_models.write(path, "llama", chat_template=TEMPLATE)
    with lh.Model(made) as model, lh.Context(model) as context:
        yield context


def _ran(ctx: lh.Context, call: str, options: dict[str, Any]) -> Any:
    if call == "classify_parallel":
        return lh.classify_parallel(ctx, TEXTS, ["x", "y"], **options)
    if call == "score_parallel":
        return lh.score_parallel(ctx, TEXTS, "x", **options)
    if call == "generate_parallel":
        return lh.generate_parallel(ctx, TEXTS, max_tokens=2, **options)
    return lh.perplexity(ctx, TEXTS)


@pytest.mark.filterwarnings("ignore:all labels together are improbable")
@pytest.mark.parametrize(
    ("call", "options"),
    [
        ("generate_parallel", {}),
        ("generate_parallel", {"chat": True}),
        ("generate_parallel", {"temperature": 1.0, "n": 2}),
        ("generate_parallel", {"schema": {"type": "boolean"}}),
        ("generate_parallel", {"choices": ["x", "y"]}),
        ("classify_parallel", {}),
        ("classify_parallel", {"chat": True}),
        ("score_parallel", {}),
        ("perplexity", {}),
    ],
)
def test_a_missing_prompt_fails_alone(
    ctx: lh.Context, call: str, options: dict[str, Any]
) -> None:
    out = _ran(ctx, call, options)
    noun = "text" if call == "perplexity" else "prompt"
    reasons = [None if each is None else each.format(noun) for each in REASONS]
    there = [1, 3, 4, 5]  # a tiny model may not end the answer to the others
    assert [out.errors[i] for i in there] == [reasons[i] for i in there]
    assert out.error_codes[1] == out.error_codes[5] == "missing"
    assert len(out.errors) == len(TEXTS)


def test_a_missing_text_has_no_vector(tmp_path: Path) -> None:
    with lh.Model(tiny_models.write(tmp_path / "bert.gguf", "bert")) as model:
        out = lh.embed_parallel(model, TEXTS)
    assert out.error_codes[:6] == CODES
    assert out.errors[1] == "the text is missing"
    assert np.isnan(out.vectors[[1, 3, 4, 5]]).all()
    assert (out.vectors[0] == out.vectors[2]).all()


def test_a_missing_prompt_counts_as_a_failure(ctx: lh.Context) -> None:
    with pytest.raises(lh.GenerationError, match="the prompt is missing") as caught:
        lh.generate_parallel(ctx, TEXTS, max_tokens=2, on_error="stop")
    assert caught.value.code == "missing"


def test_a_missing_text_has_no_label_and_no_error(ctx: lh.Context) -> None:
    book = lh.Codebook("x or y?", labels={"x": "an x", "y": "a y"})
    out = lh.annotate(pd.DataFrame({"text": TEXTS[:5]}), "text", book, ctx)
    assert list(out.errors) == [None] * 5
    assert [out.labels[i] for i in (1, 3, 4)] == [None] * 3
