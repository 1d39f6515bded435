"""Thoughts that were not requested, in a context with few cells."""

from __future__ import annotations

from typing import TYPE_CHECKING

import llamaherd as lh
import pytest
import tiny_models

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# The prompt ends in an open thought, which the tiny model never closes.
TEMPLATE = (
    "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant: <think>\n{% endif %}"
)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[lh.Model]:
    path: Path = tmp_path_factory.mktemp("room") / "tiny.gguf"
    tiny_models.write(path, "llama", chat_template=TEMPLATE)
    with lh.Model(path) as model:
        assert model.n_ctx_train <= 1024, "the default budget would fit"
        yield model


@pytest.mark.parametrize("sizes", [{}, {"n_ctx": 256}, {"n_ctx": 256, "n_seq_max": 1}])
def test_a_default_thought_leaves_room_for_the_answer(
    model: lh.Model, sizes: dict[str, int]
) -> None:
    with lh.Context(model, **sizes) as context:
        (result,) = lh.generate_parallel(
            context, ["Hello"], chat=True, max_tokens=8, ignore_eos=True
        )
        submitted = context.submit("Hello", chat=True, max_tokens=8, ignore_eos=True)
        again = submitted.result()
    assert result.error is None
    assert len(result.tokens) == 8
    assert 0 < result.n_thinking_tokens < 1024
    assert not result.thinking_complete
    assert (again.text, again.n_thinking_tokens) == (
        result.text,
        result.n_thinking_tokens,
    )


def test_a_budget_that_was_asked_for_is_not_cut(model: lh.Model) -> None:
    with lh.Context(model, n_ctx=256) as context:
        (result,) = lh.generate_parallel(
            context, ["Hello"], chat=True, thinking=1024, max_tokens=8
        )
    assert result.error_code == "too_long"
    assert "lower the limit of its thought" in (result.error or "")
