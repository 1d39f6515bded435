"""The contract of generate_parallel, on the real models. Points refer to the design."""

from __future__ import annotations

import random
from functools import cache
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import numpy as np
import pytest
from llamaherd.engine.model.tokens import prompt_tokens
from llamaherd.engine.native.shim import derive_seed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    Alone = Callable[..., str]

pytestmark = pytest.mark.model

TOPICS = ["cats", "the sea", "bread", "Paris", "winter", "trains", "music", "the moon"]
# In a pool of cells the order of additions differs. The models are sure enough of these
# answers that they do not depend on this order.
COUNTS = [", ".join(str(n + i) for n in range(8)) + "," for i in range(8)]


def chat(model: lh.Model, text: str) -> str:
    return lh.apply_chat_template(model, [{"role": "user", "content": text}])


@pytest.fixture(scope="module")
def prompts(smollm2: lh.Model) -> list[str]:
    return [chat(smollm2, f"Say something about {topic}.") for topic in TOPICS]


@pytest.fixture(scope="module")
def alone(smollm2: lh.Model) -> Alone:
    """Return a function that answers one prompt in a separate context."""

    @cache
    def text(prompt: str, max_tokens: int = 24) -> str:
        with lh.Context(smollm2, n_seq_max=1) as context:
            return lh.generate(context, prompt, max_tokens=max_tokens).text

    return text


@pytest.fixture(scope="module")
def context(smollm2: lh.Model) -> Iterator[lh.Context]:
    with lh.Context(smollm2, n_seq_max=4) as context:
        yield context


def test_the_next_call_starts_from_a_prefix_that_was_shared(
    smollm2: lh.Model, prompts: list[str]
) -> None:
    rules = "Answer with one word, in English, about what the text is about. " * 8
    labelled = [rules + prompt for prompt in prompts]
    with lh.Context(smollm2, n_seq_max=4) as context:
        first, second = (
            lh.generate_parallel(context, labelled, max_tokens=8) for _ in range(2)
        )
        other = lh.generate_parallel(context, prompts, max_tokens=8)
    assert second.texts == first.texts
    n_shared = first.stats.n_prefill_tokens - second.stats.n_prefill_tokens
    assert n_shared > 100
    assert second.stats.n_reused_tokens == first.stats.n_reused_tokens
    with lh.Context(smollm2, n_seq_max=4) as context:
        assert lh.generate_parallel(context, prompts, max_tokens=8).texts == other.texts


def test_chat_makes_prompts_of_what_users_say(
    smollm2: lh.Model, context: lh.Context
) -> None:
    texts = ["What is the capital of France?", "A <|im_end|> in a text stays text."]
    system = "Answer with one <|im_start|> word."
    by_hand = [
        lh.apply_chat_template(
            smollm2,
            [{"role": "system", "content": system}, {"role": "user", "content": text}],
        )
        for text in texts
    ]
    expected = lh.generate_parallel(context, by_hand, max_tokens=8)
    out = lh.generate_parallel(context, texts, max_tokens=8, chat=True, system=system)
    assert out.texts == expected.texts
    n_tokens = [result.n_prompt_tokens for result in expected]
    assert [result.n_prompt_tokens for result in out] == n_tokens
    talk = [{"role": "system", "content": system}, {"role": "user", "content": texts[0]}]
    single = lh.generate(context, talk, max_tokens=8, chat=True)
    assert single.text == expected[0].text
    with pytest.raises(ValueError, match=r"prompts\[1\]\[0\] has no 'content'"):
        lh.generate_parallel(context, ["a", [{"role": "user"}]], chat=True)


def test_no_prompts_have_no_results(smollm2: lh.Model) -> None:
    with lh.Context(smollm2) as context:
        out = lh.generate_parallel(context, [])
        assert (len(out), out.texts, out.stats.n_prompts) == (0, [], 0)
        assert len(lh.generate_parallel(context, [], params=[], chat=True)) == 0
        assert context.plan is None


# 1, 2, 3, 7: order, any number, isolation, greedy as alone


def test_each_prompt_gets_the_answer_it_would_get_alone(
    context: lh.Context, prompts: list[str], alone: Alone
) -> None:
    out = lh.generate_parallel(context, prompts, max_tokens=24)
    assert out.texts == [alone(prompt) for prompt in prompts]
    assert [result.index for result in out] == list(range(len(prompts)))


def test_order_and_company_do_not_matter(smollm2: lh.Model, alone: Alone) -> None:
    order = [5, 2, 7, 0, 6, 1, 3, 4]
    with lh.Context(smollm2, n_ctx=2048, n_seq_max=3, kv_layout="unified") as context:
        out = lh.generate_parallel(context, [COUNTS[i] for i in order], max_tokens=24)
    assert out.texts == [alone(COUNTS[i]) for i in order]
    assert len(set(out.texts)) == len(order)


def test_seeds_give_the_same_texts_whatever_runs_beside(
    smollm2: lh.Model, prompts: list[str]
) -> None:
    texts = []
    for n_seq_max in (1, 3, 8):
        with lh.Context(smollm2, n_seq_max=n_seq_max) as context:
            out = lh.generate_parallel(
                context, prompts, max_tokens=12, temperature=0.8, seed=42
            )
            texts.append(out.texts)
    assert texts[0] == texts[1] == texts[2]
    assert out.stats.seed == 42
    assert [result.seed for result in out] == [
        derive_seed(42, i) for i in range(len(prompts))
    ]


def test_equal_prompts_draw_different_answers(
    context: lh.Context, prompts: list[str]
) -> None:
    out = lh.generate_parallel(context, prompts[:1] * 4, max_tokens=16, temperature=1.5)
    assert len(set(out.texts)) > 1
    assert all(result.n_reused_tokens > 20 for result in out)


def test_a_negative_seed_is_a_fresh_one(context: lh.Context, prompts: list[str]) -> None:
    options = {"max_tokens": 12, "temperature": 1.5}
    first = lh.generate_parallel(context, prompts[:2], seed=-1, **options)
    second = lh.generate_parallel(context, prompts[:2], seed=None, **options)
    again = lh.generate_parallel(context, prompts[:2], seed=first.stats.seed, **options)
    assert first.stats.seed != second.stats.seed
    assert first.texts != second.texts
    assert first.texts == again.texts


# 4: exact counts, ends, UTF-8


@pytest.mark.parametrize("max_tokens", [1, 2, 7])
def test_max_tokens_are_exact(
    context: lh.Context, prompts: list[str], max_tokens: int
) -> None:
    out = lh.generate_parallel(context, prompts, max_tokens=max_tokens, ignore_eos=True)
    assert [len(result.tokens) for result in out] == [max_tokens] * len(prompts)
    assert set(out.finish_reasons) == {"length"}


def test_the_end_of_generation_is_not_in_the_text(context: lh.Context) -> None:
    prompt = chat(context.model, "Answer with one word: what is the capital of France?")
    result = lh.generate(context, prompt, max_tokens=60)
    assert result.finish_reason == "stop"
    assert result.n_generated_tokens < 60
    assert "<|im_end|>" not in result.text
    assert lh.detokenize(context.model, result.tokens) == result.text


def test_stop_texts_end_the_answer(
    context: lh.Context, prompts: list[str], alone: Alone
) -> None:
    whole = alone(prompts[0])
    stop = whole[8:14]
    result = lh.generate(context, prompts[0], max_tokens=24, stop=["never", stop])
    assert result.finish_reason == "stop"
    assert result.text == whole[: whole.index(stop)]


# 5: shared prefixes


def test_a_common_prefix_is_decoded_once(smollm2: lh.Model) -> None:
    prefix = (lh.tokenize(smollm2, "The sea is wide and the ships are slow. ") * 50)[:400]
    prompts = [[*prefix, *lh.tokenize(smollm2, f"Number {i}:")] for i in range(50)]
    n_own = sum(len(prompt) - 400 for prompt in prompts)
    with lh.Context(smollm2, n_seq_max=8) as context:
        out = lh.generate_parallel(context, prompts, max_tokens=4)
    assert out.errors == [None] * 50
    assert 400 <= out.stats.n_prefill_tokens <= 400 + n_own
    assert all(result.n_reused_tokens >= 400 for result in out)


def test_documents_and_questions_share_a_tree(smollm2: lh.Model) -> None:
    documents = [
        lh.tokenize(smollm2, f"Document {i} says: " + f"word{i} " * 20) for i in range(4)
    ]
    questions = [lh.tokenize(smollm2, f"\nQuestion {i}?") for i in range(5)]
    prompts = [document + question for question in questions for document in documents]
    with lh.Context(smollm2, n_seq_max=4) as context:
        out = lh.generate_parallel(context, prompts, max_tokens=3)
    n_unique = sum(map(len, documents)) + 4 * sum(map(len, questions))
    assert out.stats.n_prefill_tokens <= n_unique
    assert out.stats.n_prompt_tokens == sum(map(len, prompts))


def test_equal_prompts_are_computed_once(smollm2: lh.Model, prompts: list[str]) -> None:
    with lh.Context(smollm2, n_seq_max=4) as context:
        out = lh.generate_parallel(context, prompts[:1] * 20, max_tokens=8)
    n_prompt = len(prompt_tokens(context.model, "p", prompts[0]))
    assert out.stats.n_prefill_tokens == n_prompt
    assert out.stats.n_generated_tokens == 8
    assert len(set(out.texts)) == 1


# 6: errors are isolated


def test_only_the_guilty_fail(
    smollm2: lh.Model, context: lh.Context, prompts: list[str], alone: Alone
) -> None:
    out_of_vocabulary = [*lh.tokenize(smollm2, "Hello there"), 99_999_999]
    bad_grammar = lh.SamplingParams(grammar="root ::= (", max_tokens=24)
    good = lh.SamplingParams(max_tokens=24)
    mixed = [
        prompts[0],
        out_of_vocabulary,
        prompts[1],
        "",
        prompts[2],
        "word " * 9000,
        prompts[3],
        prompts[4],
        [-7],
        prompts[5],
    ]
    params = [good] * 7 + [bad_grammar] + [good] * 2
    out = lh.generate_parallel(context, mixed, params=params)
    failed = {
        1: "the prompt has the token 99999999, but the model's token ids are 0 to 49151",
        3: "the prompt is empty",
        5: "9001 tokens; with an answer .up to 24. that is 9025, more than the 8192",
        7: "grammar",
        8: "the prompt has the token -7, but the model's token ids are 0 to 49151",
    }
    for i, result in enumerate(out):
        if i in failed:
            assert result.text is None
            with pytest.raises(ValueError, match=failed[i]):
                raise ValueError(result.error)
        else:
            assert result.text == alone(mixed[i])
    assert out.stats.n_failed == 5
    again = lh.generate_parallel(context, prompts[:3], max_tokens=24)
    assert again.texts == [alone(prompt) for prompt in prompts[:3]]
    assert again.stats.n_fallbacks == 0


@pytest.mark.parametrize(
    "ids", [[2**31], [-(2**31) - 1], [1, 2**63], [10**30], np.array([1, 2**40])]
)
def test_an_id_of_any_size_outside_the_vocabulary_fails_only_its_prompt(
    context: lh.Context, ids: Sequence[int]
) -> None:
    i = len(ids) - 1
    problem = (
        f"the prompt has the token {ids[i]}, but the model's token ids are 0 to 49151"
    )
    prompts = ["Hello", ids]
    answers = lh.generate_parallel(context, prompts, max_tokens=2).errors
    labels = lh.classify_parallel(context, prompts, [" yes", " no"]).errors
    scores = lh.score_parallel(context, prompts, [" yes", " no"]).errors
    for first, second in (answers, labels, scores):
        assert first is None
        assert second is not None
        assert problem in second


@pytest.mark.long(reason="long answers or batches of a real model")
def test_a_long_prompt_is_computed_as_alone_while_others_answer(
    smollm2: lh.Model, alone: Alone
) -> None:
    draw = random.Random(1)
    prompts = [" ".join(draw.choices(TOPICS, k=60)) for _ in range(12)]
    with lh.Context(smollm2, n_seq_max=4) as context:
        out = lh.generate_parallel(context, prompts, max_tokens=24)
    assert min(result.n_prompt_tokens for result in out) >= 64
    assert out.texts == [alone(prompt) for prompt in prompts]


def test_too_small_a_cache_runs_fewer_at_once_and_changes_no_text(
    smollm2: lh.Model, prompts: list[str], alone: Alone
) -> None:
    with lh.Context(smollm2, n_ctx=512, n_seq_max=8) as context:
        out = lh.generate_parallel(context, prompts, max_tokens=40)
        assert context.plan.n_ctx == 512
    assert out.stats.n_slots < 8
    assert out.texts == [alone(prompt, 40) for prompt in prompts]


@pytest.mark.long(reason="long answers or batches of a real model")
def test_too_small_a_pool_pauses_clients_and_loses_nothing(smollm2: lh.Model) -> None:
    options = {"max_tokens": 50, "ignore_eos": True}
    with lh.Context(smollm2, n_ctx=256, n_seq_max=8, kv_layout="unified") as context:
        out = lh.generate_parallel(context, COUNTS, **options)
        assert context.plan.n_ctx == 256
        again = lh.generate_parallel(context, COUNTS[:1], **options)
    assert out.errors == [None] * len(COUNTS)
    assert out.stats.n_pauses > 0
    with lh.Context(smollm2, n_seq_max=1) as context:
        alone = lh.generate_parallel(context, COUNTS, **options)
    assert out.texts == alone.texts
    assert again.texts == alone.texts[:1]


@pytest.mark.more(reason="long answers or batches of a real model", cases=1)
@pytest.mark.parametrize("kv_layout", ["auto", "unified"])
def test_one_prompt_may_use_the_whole_cache(smollm2: lh.Model, kv_layout: str) -> None:
    long = [100] * 480
    short = [[200 + i] * 10 for i in range(6)]
    options = {"n_ctx": 512, "n_seq_max": 4, "kv_layout": kv_layout}
    with lh.Context(smollm2, **options) as context:
        out = lh.generate_parallel(context, [*short, long], max_tokens=32)
        assert out.errors == [None] * 7
        too_long = lh.generate_parallel(context, [[100] * 481], max_tokens=32)
    with lh.Context(smollm2, **options) as context:  # whose cache is small at first
        at_first = lh.generate_parallel(context, [*short, [100] * 481], max_tokens=32)
    for results in (too_long, at_first):
        assert "513, more than the 512 that one prompt may have" in results.errors[-1]


# 8: nothing accumulates


@pytest.mark.slow(reason="ten calls")
def test_the_tenth_call_is_like_the_first(
    smollm2: lh.Model, prompts: list[str], alone: Alone
) -> None:
    with lh.Context(smollm2, n_seq_max=4) as context:
        outs = [
            lh.generate_parallel(context, prompts[:4], max_tokens=8) for _ in range(10)
        ]
    expected = [alone(prompt, 8) for prompt in prompts[:4]]
    assert [out.texts for out in outs] == [expected] * 10
    # The first prompt computes the shared beginning, which is kept for the other
    # prompts.
    later = [out.stats for out in outs[1:]]
    assert outs[0].stats.n_prefill_tokens > later[0].n_prefill_tokens
    assert len({stats.n_prefill_tokens for stats in later}) == 1
    assert len({stats.n_generated_tokens for stats in later}) == 1
    assert len({stats.n_batches for stats in later}) == 1
    assert len({stats.kv_cells_max for stats in later}) == 1


def test_a_codebook_is_read_once_from_one_pool(smollm2: lh.Model) -> None:
    codebook = "Say of which colour the thing is, in one word of the list. " * 20
    prompts = [f"{codebook}\nThing: {thing}" for thing in ("snow", "grass", "coal")]
    other = [f"Do not. {prompt}" for prompt in prompts]
    with lh.Context(smollm2) as context:
        outs = [
            lh.generate_parallel(context, chosen, max_tokens=8)
            for chosen in (prompts, prompts, other, prompts)
        ]
        assert context.plan is not None
        assert context.plan.kv_layout == "unified"
        lh.generate_parallel(context, ["snow", "grass"], max_tokens=8)
        assert context.plan.kv_layout == "per_sequence"
    n_prefilled = [out.stats.n_prefill_tokens for out in outs]
    assert n_prefilled[1] < n_prefilled[0] / 10
    assert n_prefilled[3] == n_prefilled[0]
    # Held prefixes do not change later results.
    assert outs[1].texts == outs[3].texts == outs[0].texts


# 2, 9: continuous batching, statistics


def test_slots_are_refilled_at_once(tiny_path: Callable[[str], Path]) -> None:
    lengths = [1 + round(49 * ((37 * i) % 100 / 99) ** 2) for i in range(100)]
    assert (min(lengths), max(lengths)) == (1, 50)
    model = lh.Model(tiny_path("llama"))
    prompts = [lh.tokenize(model, f"Story number {i}:") for i in range(100)]
    params = [lh.SamplingParams(max_tokens=n, ignore_eos=True) for n in lengths]
    with model, lh.Context(model, n_seq_max=8) as context:
        out = lh.generate_parallel(context, prompts, params=params)
    assert [result.n_generated_tokens for result in out] == lengths
    assert out.stats.n_batches <= 1.1 * sum(lengths) / 8 + max(lengths)
    # Chunks of eight prompts, each as slow as its slowest prompt, would need far more
    # batches.
    chunks = sum(max(lengths[i : i + 8]) for i in range(0, 100, 8))
    assert out.stats.n_batches < 0.8 * chunks
    assert out.stats.mean_batch_occupancy > 0.85


@pytest.mark.long(reason="long answers or batches of a real model")
def test_texts_that_repeat_themselves_are_guessed(smollm2: lh.Model) -> None:
    rows = ["".join(f"{name}, {n}, yes\n" for n in range(9)) for name in ("a", "bc")]
    params = lh.SamplingParams(max_tokens=60, ignore_eos=True)
    with lh.Context(smollm2) as context:
        both = lh.generate_parallel(context, rows, params=params)
        alone = [lh.generate_parallel(context, [row], params=params) for row in rows]
    assert both.stats.n_draft_tokens > 0
    assert both.stats.n_batches < 60
    assert [result.n_generated_tokens for result in both] == [60, 60]
    assert [single.stats.n_draft_tokens for single in alone] == [0, 0]
    with lh.Context(smollm2, deterministic=True) as context:
        repeated = lh.generate_parallel(context, rows, params=params)
    assert repeated.stats.n_draft_tokens == 0


def test_statistics_add_up(context: lh.Context, prompts: list[str]) -> None:
    out = lh.generate_parallel(context, prompts, max_tokens=8, ignore_eos=True)
    stats = out.stats
    assert stats.n_prompts == 8
    assert stats.n_generated_tokens == 64
    assert stats.n_prompt_tokens == sum(result.n_prompt_tokens for result in out)
    assert stats.n_reused_tokens == sum(result.n_reused_tokens for result in out)
    assert stats.n_slots == 4
    assert 0 < stats.mean_batch_occupancy <= 1.5
    assert 0 < stats.kv_cells_max <= stats.n_ctx
    assert stats.prefill_s + stats.decode_s <= stats.wall_s
    assert stats.prefill_tokens_per_s > 0
    assert stats.decode_tokens_per_s > 0
    assert "8 prompts (0 failed)" in str(stats)


# other settings and the other model


def test_a_bias_outside_the_vocabulary_fails_its_prompt(
    context: lh.Context, prompts: list[str]
) -> None:
    params = [lh.SamplingParams(), lh.SamplingParams(logit_bias={49152: 1.0})]
    out = lh.generate_parallel(context, prompts[:2], params=params, max_tokens=2)
    assert out[0].error is None
    assert "logit_bias token must be between 0 and 49151, not 49152" in out.errors[1]


@pytest.mark.more(reason="long answers or batches of a real model", cases=1)
@pytest.mark.parametrize("kv_layout", ["unified", "per_sequence"])
def test_a_sliding_window_model_passes(gemma3: lh.Model, kv_layout: str) -> None:
    story = "Once upon a time there was a king who had a daughter. " * 50
    prompts = [f"{story} Her name was {name} and" for name in ("Ann", "Bo", "Cleo")]
    prompts += ["1, 2, 3, 4, 5, 6,", "a b c d e f"]
    with lh.Context(gemma3, n_seq_max=3, kv_layout=kv_layout) as context:
        outs = [lh.generate_parallel(context, prompts, max_tokens=6) for _ in range(2)]
    assert outs[0].texts == outs[1].texts
    assert outs[0].errors == [None] * 5
    assert outs[0].texts[3].startswith(" 7, 8")
    n_story = len(lh.tokenize(gemma3, story))
    assert n_story > gemma3.info.n_swa
    assert outs[0].stats.n_prefill_tokens < n_story + 100


@pytest.mark.long(reason="long answers or batches of a real model")
def test_a_sliding_window_model_pauses_and_resumes(gemma3: lh.Model) -> None:
    prompts = [f"A poem about {topic}:" for topic in TOPICS]
    with lh.Context(gemma3, n_ctx=256, n_seq_max=8, kv_layout="unified") as context:
        out = lh.generate_parallel(context, prompts, max_tokens=50, ignore_eos=True)
    assert out.errors == [None] * 8
    assert out.stats.n_pauses > 0
    assert [result.n_generated_tokens for result in out] == [50] * 8


# 10: a single prompt


def test_a_stream_is_the_text_in_pieces(context: lh.Context, prompts: list[str]) -> None:
    whole = lh.generate(context, prompts[0], max_tokens=24)
    pieces = list(lh.generate(context, prompts[0], max_tokens=24, stream=True))
    assert "".join(pieces) == whole.text
    assert len(pieces) > 10


def test_a_stream_may_be_left_early(context: lh.Context, prompts: list[str]) -> None:
    stream = lh.generate(context, prompts[0], max_tokens=1000, stream=True)
    next(stream)
    stream.close()
    assert lh.generate(context, prompts[0], max_tokens=2).n_generated_tokens == 2


def test_a_single_prompt_that_fails_raises(context: lh.Context) -> None:
    with pytest.raises(lh.GenerationError, match="the prompt is empty"):
        lh.generate(context, "")
    with pytest.raises(lh.GenerationError, match="the prompt is empty"):
        list(lh.generate(context, "", stream=True))


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("n_ctx", "reason"),
    [
        ("auto", "more than the 8192 that the model was trained for"),
        (256, r"more than the 256 that one prompt may have \(see n_ctx\)"),
    ],
)
def test_a_prompt_that_the_model_cannot_look_back_on_raises(
    smollm2: lh.Model, stream: bool, n_ctx: Any, reason: str
) -> None:
    with lh.Context(smollm2, n_ctx=n_ctx) as context:
        prompt = [100] * (smollm2.n_ctx_train - 3)
        with pytest.raises(lh.GenerationError, match=reason):
            list(lh.generate(context, prompt, max_tokens=4, stream=stream))
