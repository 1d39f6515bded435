"""Failures of prompts have codes in every call."""

from __future__ import annotations

from typing import TYPE_CHECKING

import llamaherd as lh
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

PROMPTS = ["a", [], "a" * 5000, [10**6]]
CODES = [None, "empty", "too_long", "not_tokenized"]


@pytest.fixture(scope="module")
def context(tiny_path: Callable[[str], Path]) -> Iterator[lh.Context]:
    with lh.Model(tiny_path("llama")) as model, lh.Context(model) as context:
        yield context


def test_each_failure_has_a_code(context: lh.Context, tmp_path: Path) -> None:
    for _ in range(2):  # the second time with a journal that has the first answer
        out = lh.generate_parallel(
            context, PROMPTS, max_tokens=2, journal=tmp_path / "a.journal"
        )
        assert out.error_codes == CODES
        assert [each.error_code for each in out] == CODES
    frame = out.to_pandas()
    assert list(frame["error"])[1:] == out.errors[1:]
    assert out.to_arrow()["error"].to_pylist() == out.errors
    assert lh.classify_parallel(context, PROMPTS, ["b", "c"]).error_codes == CODES
    assert lh.score_parallel(context, PROMPTS, "b").error_codes == CODES
    texts = lh.embed_parallel(context.model, ["a", "", "a" * 5000], truncate=False)
    assert texts.error_codes == [None, "empty", "too_long"]


def test_answers_have_codes(context: lh.Context) -> None:
    (cut,) = lh.generate_parallel(
        context, ["a"], schema={"type": "string", "minLength": 50}, max_tokens=1
    )
    assert cut.error_code == "cut_off"


def test_an_error_has_the_code_of_its_prompt(context: lh.Context) -> None:
    with pytest.raises(lh.GenerationError) as caught:
        lh.generate_parallel(context, ["a", []], max_tokens=1, on_error="stop")
    assert caught.value.code == "empty"
    with pytest.raises(lh.PromptError) as single:
        context.submit([], max_tokens=1).result()
    assert single.value.code == "empty"
