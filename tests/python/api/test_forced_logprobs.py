"""A forced token has the log-probability that the model gives it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import llamaherd as lh
import pytest
import tiny_models
from llamaherd.engine.model.tokens import prompt_tokens

if TYPE_CHECKING:
    from pathlib import Path

TEXT = "the answer"


@pytest.mark.parametrize(
    "constraint",
    [
        {"regex": TEXT},
        {"grammar": f'root ::= "{TEXT}"'},
        {"choices": [TEXT]},
        {"schema": {"const": TEXT}},
    ],
)
def test_forced_tokens_have_log_probabilities(
    tmp_path: Path, constraint: dict[str, object]
) -> None:
    path = tiny_models.write(tmp_path / "a.gguf", "llama")
    with lh.Model(path) as model, lh.Context(model) as ctx:
        settings: dict[str, object] = {"temperature": 0, "max_tokens": 40, **constraint}
        plain = lh.generate_parallel(ctx, ["yes"], **settings)[0]
        result = lh.generate_parallel(ctx, ["yes"], logprobs=2, **settings)[0]
        assert result.tokens == plain.tokens
        assert result.logprobs is not None
        assert len(result.logprobs) == len(result.tokens)
        assert all(len(top) == 2 for top in result.top_logprobs or ())
        start = prompt_tokens(model, "prompt", "yes").tolist()
        for i, token in enumerate(result.tokens):
            free = lh.generate_parallel(
                ctx,
                [start + result.tokens[:i]],
                max_tokens=1,
                logit_bias={token: 100.0},
                temperature=0,
                logprobs=0,
            )[0]
            assert free.tokens == [token]
            assert free.logprobs is not None
            assert result.logprobs[i] == pytest.approx(free.logprobs[0], abs=1e-3)
