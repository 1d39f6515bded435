"""End of an answer by `min_tokens` and `stop_token_ids`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import llamaherd as lh
import pytest
import tiny_models
from llamaherd.engine.model.tokens import prompt_tokens

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


PROMPT = "The capital of France is"


@pytest.fixture(scope="module")
def context(smollm2: lh.Model) -> Iterator[lh.Context]:
    with lh.Context(smollm2, deterministic=True) as context:
        yield context


@pytest.fixture(scope="module")
def plain(context: lh.Context) -> lh.Result:
    return lh.generate(context, PROMPT, max_tokens=24, ignore_eos=True, logprobs=0)


@pytest.mark.model
def test_a_stop_token_ends_the_answer_before_it(
    context: lh.Context, plain: lh.Result
) -> None:
    at = 7
    stop = plain.tokens[at]
    first = plain.tokens.index(stop)
    for more in ({}, {"ignore_eos": True}):
        result = lh.generate(
            context, PROMPT, max_tokens=24, stop_token_ids=[stop], logprobs=0, **more
        )
        assert result.tokens == plain.tokens[:first]
        assert plain.text.startswith(result.text)
        assert (result.finish_reason, result.complete) == ("stop", True)
        assert len(result.logprobs or ()) == first
    pieces = lh.generate(
        context, PROMPT, max_tokens=24, stop_token_ids=[stop], stream=True
    )
    assert "".join(pieces) == result.text


@pytest.mark.model
@pytest.mark.long(reason="several calls of a real model")
def test_min_tokens_puts_off_every_end(context: lh.Context, plain: lh.Result) -> None:
    stop = plain.tokens[3]
    ends: dict[str, Any] = {"stop_token_ids": [stop, *_ends(context)]}
    short = lh.generate(context, PROMPT, max_tokens=24, **ends)
    assert len(short.tokens) <= 3
    for least in (4, 9):
        result = lh.generate(context, PROMPT, max_tokens=24, min_tokens=least, **ends)
        assert len(result.tokens) >= least
        assert stop not in result.tokens
    # A stop text that is complete within these tokens has no effect.
    text = lh.detokenize(context.model, plain.tokens[2:3])
    cut = lh.generate(context, PROMPT, max_tokens=24, stop=text)
    long = lh.generate(context, PROMPT, max_tokens=24, stop=text, min_tokens=6)
    assert len(cut.tokens) <= 3
    assert len(long.tokens) > 6


def _ends(context: lh.Context) -> list[int]:
    eos = context.model.info.eos
    return [] if eos is None else [eos]


@pytest.mark.model
def test_an_end_token_may_be_named_beside_ignore_eos(context: lh.Context) -> None:
    # Here the end token is by far the most likely token.
    bias = dict.fromkeys(_ends(context), 100.0)
    settings: dict[str, Any] = {"max_tokens": 6, "logit_bias": bias}
    assert lh.generate(context, PROMPT, **settings).tokens == []
    free = lh.generate(context, PROMPT, ignore_eos=True, **settings)
    assert len(free.tokens) == 6
    named = {"ignore_eos": True, "stop_token_ids": list(bias)}
    assert lh.generate(context, PROMPT, **named, **settings).tokens == []
    least = lh.generate(context, PROMPT, min_tokens=4, **settings)
    assert least.tokens == free.tokens[:4]


@pytest.mark.model
def test_the_answer_after_a_thought_has_its_own_ends(context: lh.Context) -> None:
    # The thought consists of the tokens that the answer must not contain.
    thought = lh.Thinking(budget=5, start="<think>", end="</think>")
    plain = lh.generate(
        context, PROMPT, chat=True, thinking=thought, max_tokens=8, ignore_eos=True
    )
    result = lh.generate(
        context,
        PROMPT,
        chat=True,
        thinking=thought,
        max_tokens=8,
        ignore_eos=True,
        stop_token_ids=plain.tokens[:1],
    )
    assert result.tokens == []
    assert result.thinking == plain.thinking


@pytest.mark.model
def test_what_cannot_be_combined_is_named(context: lh.Context) -> None:
    for constraint in ({"choices": ["a", "b"]}, {"regex": "a"}, {"schema": {}}):
        with pytest.raises(ValueError, match=r"min_tokens and \w+ cannot be given toget"):
            lh.generate(context, PROMPT, min_tokens=1, **constraint)
    with pytest.raises(ValueError, match=r"min_tokens is 9, but .* up to 8 tokens"):
        lh.generate(context, PROMPT, min_tokens=9, max_tokens=8)
    n_vocab = context.model.n_vocab
    with pytest.raises(ValueError, match=r"stop_token_ids names no token: \d+ is"):
        lh.generate(context, PROMPT, stop_token_ids=[1, n_vocab])
    params = [lh.SamplingParams(min_tokens=n, max_tokens=4) for n in (4, 5)]
    results = lh.generate_parallel(context, [PROMPT] * 2, params=params)
    assert results.errors == [
        None,
        "min_tokens is 5, but an answer may have up to 4 tokens",
    ]


@pytest.mark.model
def test_a_constraint_and_a_stop_token(context: lh.Context) -> None:
    comma = lh.tokenize(context.model, "a,b", add_special=False)[1]
    options: dict[str, Any] = {"max_tokens": 9, "stop_token_ids": [comma]}
    for grammar, complete in (('"a,b"', False), ('"a" (",b")?', True)):
        result = lh.generate(context, PROMPT, grammar=f"root ::= {grammar}", **options)
        assert (result.text, result.complete) == ("a", complete)
    with pytest.warns(UserWarning, match="stop_token_ids has no effect"):
        result = lh.generate(context, PROMPT, choices=["a,b", "a,c"], **options)
    assert result.text in {"a,b", "a,c"}


# ---- a forced token has the log-probability that the model gives it


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
