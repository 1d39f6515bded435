"""Answers with their prompts and log-probabilities, as lm_eval reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import llamaherd as lh
import pytest
import tiny_models
from llamaherd.engine.model.tokens import token_bytes
from served import served

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from served import Client

TEXT = "/v1/completions"
CHAT = "/v1/chat/completions"
TEMPLATE = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}"
HELLO = [{"role": "user", "content": "Hi"}]
CONTEXTS = ["The sky is", "The sky is", "Two words and then", "x"]
ENDINGS = [" blue today", " green", " no", " yz"]
ASK = {"max_tokens": 1, "logprobs": 1, "echo": True, "temperature": 0, "seed": 1234}
CONTEXT = {"n_seq_max": 4, "deterministic": True}


def _requests(model: lh.Model) -> list[list[int]]:
    """Return requests as lm_eval sends them: token ids, four prompts per request."""
    return [
        lh.tokenize(model, f"{context}{ending}")
        for context, ending in zip(CONTEXTS, ENDINGS, strict=True)
    ]


def _choices(real: Client, body: dict[str, Any]) -> list[Any]:
    status, response = real.post(TEXT, body)
    assert status == 200, response
    return response["choices"]  # type: ignore[no-any-return]


def _expected(ctx: lh.Context, tokens: Sequence[int]) -> list[float]:
    logprobs = lh.perplexity(ctx, [tokens]).token_logprobs[0]
    assert logprobs is not None
    return logprobs.tolist()


def test_lists_of_token_lists_have_the_numbers_of_the_library(
    real: Client, ctx: lh.Context
) -> None:
    prompts = _requests(ctx.model)
    choices = _choices(real, {"prompt": prompts, **ASK})
    assert [choice["index"] for choice in choices] == [0, 1, 2, 3]
    for prompt, choice in zip(prompts, choices, strict=True):
        logprobs = choice["logprobs"]
        values = logprobs["token_logprobs"]
        assert len(values) == len(prompt) + 1
        assert values[0] is None
        assert logprobs["top_logprobs"][0] is None
        assert values[1:-1] == pytest.approx(_expected(ctx, prompt), abs=1e-6)
        (best,) = lh.generate(ctx, prompt, max_tokens=1, logprobs=0).logprobs or [None]
        assert values[-1] == pytest.approx(best, abs=1e-5)


def test_the_numbers_are_those_of_score_parallel(real: Client, ctx: lh.Context) -> None:
    scores = lh.score_parallel(ctx, CONTEXTS, ENDINGS)
    choices = _choices(real, {"prompt": _requests(ctx.model), **ASK})
    for i, choice in enumerate(choices):
        scored = scores.continuations[i]
        assert scored is not None
        n = len(scored[0].tokens)
        values = choice["logprobs"]["token_logprobs"][-1 - n : -1]
        assert values == pytest.approx(scored[0].token_logprobs.tolist(), abs=1e-6)
        assert sum(values) == pytest.approx(scored[0].logprob, abs=1e-6)


def test_a_token_is_greedy_if_its_number_is_the_highest(
    real: Client, ctx: lh.Context
) -> None:
    start = lh.tokenize(ctx.model, "The sky is")
    written = lh.generate(ctx, start, max_tokens=6, ignore_eos=True).tokens
    other = (written[2] + 1) % ctx.model.n_vocab
    prompts = [[*start, *written], [*start, *written[:2], other, *written[3:]]]
    logprobs = [row["logprobs"] for row in _choices(real, {"prompt": prompts, **ASK})]
    greedy = [
        [
            value == max(top.values())
            for value, top in zip(
                row["token_logprobs"][len(start) : -1],
                row["top_logprobs"][len(start) : -1],
                strict=True,
            )
        ]
        for row in logprobs
    ]
    assert greedy[0] == [True] * 6
    assert greedy[1][:3] == [True, True, False]


def test_offsets_are_places_in_the_text(real: Client) -> None:
    (choice,) = _choices(real, {**ASK, "prompt": "one two", "max_tokens": 4})
    assert choice["text"].startswith("one two")
    logprobs = choice["logprobs"]
    assert len(set(map(len, logprobs.values()))) == 1
    offsets = logprobs["text_offset"]
    assert offsets == sorted(offsets)
    assert offsets[0] == 0
    n = next(i for i, at in enumerate(offsets) if at >= len("one two"))
    text = "".join(logprobs["tokens"][i] for i in range(n) if offsets[i + 1] > offsets[i])
    assert text.strip() == "one two"


def test_several_tokens_are_those_of_a_request_without_echo(real: Client) -> None:
    body = {"prompt": ["a", "b"], "max_tokens": 5, "temperature": 0, "logprobs": 2}
    plain = _choices(real, body)
    echoed = _choices(real, {**body, "echo": True})
    for prompt, one, other in zip("ab", plain, echoed, strict=True):
        assert other["text"] == prompt + one["text"]
        n = len(one["logprobs"]["token_logprobs"])
        for name in ("tokens", "token_logprobs", "top_logprobs"):
            assert other["logprobs"][name][-n:] == one["logprobs"][name]


def test_without_logprobs_or_tokens(real: Client, ctx: lh.Context) -> None:
    body = {"prompt": "a b", "echo": True, "temperature": 0}
    (echoed,) = _choices(real, {**body, "max_tokens": 3})
    (plain,) = _choices(real, {**body, "echo": False, "max_tokens": 3})
    assert echoed["text"] == "a b" + plain["text"]
    status, response = real.post(TEXT, {**body, "max_tokens": 0, "logprobs": 0})
    assert status == 200
    assert response["choices"][0]["text"] == "a b"
    assert response["usage"]["completion_tokens"] == 0
    values = response["choices"][0]["logprobs"]["token_logprobs"]
    assert values[1:] == pytest.approx(_expected(ctx, lh.tokenize(ctx.model, "a b")))
    events = real.events(TEXT, {**body, "max_tokens": 3, "stream": True})
    texts = [event["choices"][0]["text"] for event in events[:-1]]
    assert "".join(texts) == echoed["text"]


def test_long_beginnings_are_computed_once(real: Client, ctx: lh.Context) -> None:
    start = lh.tokenize(ctx.model, "the same words " * 8)
    prompts = [[*start, token] for token in (5, 6, 7)]
    status, response = real.post(TEXT, {"prompt": prompts, **ASK})
    assert status == 200
    reused = response["usage"]["prompt_tokens_details"]["cached_tokens"]
    assert reused == 2 * len(start)
    for prompt, choice in zip(prompts, response["choices"], strict=True):
        values = choice["logprobs"]["token_logprobs"][1:-1]
        assert values == pytest.approx(_expected(ctx, prompt), abs=1e-6)


def test_the_end_of_an_answer_counts_as_its_token(tmp_path: Path) -> None:
    """lm_eval ignores the last number."""
    path = tiny_models.write(tmp_path / "tiny.gguf", "llama")
    with lh.Model(path) as model, lh.Context(model) as ctx, served(ctx) as real:
        for prompt in ("a", "b", "c d", "e f g", "h"):
            tokens = lh.tokenize(model, prompt)
            (choice,) = _choices(real, {**ASK, "prompt": tokens})
            assert len(choice["logprobs"]["token_logprobs"]) == len(tokens) + 1


@pytest.mark.parametrize("n", [0, 1, 3])
def test_prompt_logprobs_are_those_of_vllms_api(
    real: Client, ctx: lh.Context, n: int
) -> None:
    prompts = _requests(ctx.model)
    body = {"prompt": prompts, "max_tokens": 2, "temperature": 0, "prompt_logprobs": n}
    choices = _choices(real, body)
    plain = _choices(real, {**body, "prompt_logprobs": None})
    for prompt, choice, other in zip(prompts, choices, plain, strict=True):
        assert (choice["text"], choice["logprobs"]) == (other["text"], None)
        first, *rows = choice["prompt_logprobs"]
        assert first is None
        assert len(rows) == len(prompt) - 1
        values = [row[str(t)]["logprob"] for t, row in zip(prompt[1:], rows, strict=True)]
        assert values == pytest.approx(_expected(ctx, prompt), abs=1e-6)
        for token, row in zip(prompt[1:], rows, strict=True):
            assert n <= len(row) <= n + 1
            entry = row[str(token)]
            (text,) = token_bytes(ctx.model, [token])
            assert entry["decoded_token"].encode() == text
            best = sorted(row.values(), key=lambda one: -one["logprob"])
            ranks = [one["rank"] for one in best]
            assert ranks[:n] == list(range(1, n + 1))
            # A token that is not among the alternatives has its rank, too.
            assert all(rank > n for rank in ranks[n:])


def test_ranks_do_not_depend_on_the_number_of_alternatives(
    real: Client, ctx: lh.Context
) -> None:
    for prompt in _requests(ctx.model):
        body = {"prompt": prompt, "max_tokens": 0, "temperature": 0}
        few, many = (
            _choices(real, {**body, "prompt_logprobs": n})[0]["prompt_logprobs"]
            for n in (0, 20)
        )
        for token, one, all_of_them in zip(prompt[1:], few[1:], many[1:], strict=True):
            rank = one[str(token)]["rank"]
            assert rank == all_of_them[str(token)]["rank"]
            logprob = one[str(token)]["logprob"]
            above = [o for o in all_of_them.values() if o["logprob"] > logprob]
            assert rank > min(len(above), 20)
            assert rank <= 20 or len(all_of_them) == 21


def test_prompt_logprobs_beside_echo_and_in_chats(real: Client, ctx: lh.Context) -> None:
    body = {"prompt": "one two", "max_tokens": 0, "temperature": 0, "prompt_logprobs": 1}
    (choice,) = _choices(real, body)
    assert choice["text"] == ""
    (both,) = _choices(real, {**body, "echo": True, "logprobs": 2, "max_tokens": 1})
    assert both["prompt_logprobs"] == choice["prompt_logprobs"]
    assert both["text"].startswith("one two")
    assert len(both["logprobs"]["top_logprobs"][1]) >= 2

    chat = {"messages": HELLO, "max_tokens": 3, "n": 2}
    status, response = real.post(CHAT, {**chat, "prompt_logprobs": 2, "logprobs": True})
    assert status == 200, response
    assert len(response["choices"]) == 2
    assert all("prompt_logprobs" not in choice for choice in response["choices"])
    assert len(response["choices"][0]["logprobs"]["content"]) <= 3
    rendered = lh.apply_chat_template(ctx.model, HELLO)
    tokens = lh.tokenize(ctx.model, rendered, parse_special=True)
    assert (
        len(response["prompt_logprobs"])
        == len(tokens)
        == response["usage"]["prompt_tokens"]
    )
    values = [
        row[str(token)]["logprob"]
        for token, row in zip(tokens[1:], response["prompt_logprobs"][1:], strict=True)
    ]
    assert values == pytest.approx(_expected(ctx, tokens), abs=1e-6)


@pytest.mark.parametrize("fields", [{"max_tokens": 0, "echo": False}, {"max_tokens": -1}])
def test_wrong_lengths(real: Client, fields: dict[str, Any]) -> None:
    status, response = real.post(TEXT, {**ASK, "prompt": "a", **fields})
    assert (status, response["error"]["param"]) == (400, "max_tokens")
