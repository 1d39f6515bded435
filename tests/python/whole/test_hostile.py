"""Hostile input results in a clear error or a correct result."""

from __future__ import annotations

import io
import math
from collections import deque
from typing import TYPE_CHECKING

import llamaherd as lh
import pytest
import tiny_models
from llamaherd.calls.asks.options import GenerateOptions
from llamaherd.calls.asks.requests import make_requests
from llamaherd.engine.core.sampling import SamplingParams
from llamaherd.engine.native import vocabulary
from thorough import sized

if TYPE_CHECKING:
    from array import array
    from collections.abc import Iterator

EDGE = 2**31
SPACE = tiny_models.token_of(" ")  # before every text
N_PREFIX = len(tiny_models.SPECIAL)  # byte b is token b + N_PREFIX


@pytest.fixture(scope="module")
def context(model: lh.Model) -> Iterator[lh.Context]:
    with lh.Context(model, n_threads=1, deterministic=True) as context:
        yield context


# ---- prompts --------------------------------------------------------------------------


def test_the_empty_text_is_the_start_of_a_text(context: lh.Context) -> None:
    empty, start = lh.generate_parallel(context, ["", [1]], max_tokens=4)
    assert empty.tokens == start.tokens
    assert empty.n_prompt_tokens == 1


def test_no_tokens_are_an_error_of_that_prompt(context: lh.Context) -> None:
    one, none = lh.generate_parallel(context, ["a", []], max_tokens=4)
    assert one.error is None
    assert none.error == "the prompt is empty: it has no tokens"


def test_a_prompt_of_ten_million_characters_fails_alone(context: lh.Context) -> None:
    prompts = ["a", "a" * 10_000_000]
    one, long = lh.generate_parallel(context, prompts, max_tokens=4)
    assert one.error is None
    assert long.error == (
        "the prompt has 10000000 characters, of which the first 4096 have about 4097 "
        "tokens, more than the 512 that the model was trained for: shorten it"
    )


def test_no_long_text_is_tokenized_as_a_whole(
    context: lh.Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The time of libllama's tokenizers grows with the square of the tokens for some
    # texts, such as spaces, of which this vocabulary makes three tokens each.
    sizes: list[int] = []

    def counted(model: object, text: str, how: int) -> array[int]:
        sizes.append(len(text))
        return _native_tokenize(model, text, how)

    _native_tokenize = vocabulary.tokenize_prompt
    monkeypatch.setattr(vocabulary, "tokenize_prompt", counted)
    for text in (" " * 130_000, " \n" * 65_000, "a" * 7000 + " " * 100):
        (result,) = lh.generate_parallel(context, [text], max_tokens=4)
        assert "shorten it" in str(result.error)
    assert max(sizes) <= 4096


def test_a_long_text_that_fits_is_one_prompt(smollm2: lh.Model) -> None:
    text = " " * 20_000 + "<|im_start|>"  # more characters than tokens may be
    options = GenerateOptions(sampling={"max_tokens": 1, "seed": 1})
    (request,), _ = make_requests(smollm2, [text], options)
    assert request.problem == ""
    assert request.tokens.tolist() == lh.tokenize(smollm2, text)


@pytest.mark.parametrize(
    ("prompts", "message"),
    [
        ({"a", "b"}, "not a set: its elements have no order"),
        (frozenset("a"), "not a frozenset"),
        (io.StringIO("a\nb"), "not an open file: read it first"),
        ([{1, 2}], r"prompts\[0\] must be text or a sequence of token ids, not {1, 2}"),
        ([{1: 2}], r"prompts\[0\] must be text or a sequence of token ids, not {1: 2}"),
        ([io.BytesIO(b"")], r"prompts\[0\] must be text or a sequence of token ids"),
    ],
)
def test_what_is_no_list_of_prompts_is_refused(
    context: lh.Context, prompts: object, message: str
) -> None:
    with pytest.raises(TypeError, match=message):
        lh.generate_parallel(context, prompts)


def test_other_rows_of_prompts_are_lists(context: lh.Context) -> None:
    for prompts in (("a", "b"), {"a": 1, "b": 2}.keys(), (c for c in "ab"), deque("ab")):
        assert len(lh.generate_parallel(context, prompts, max_tokens=1)) == 2


def test_every_character_reaches_the_model_as_it_is(context: lh.Context) -> None:
    text = "A\0b\u00e9\u20ac\U0001f600\ufffd\ufdd0\ufdd1\u202e\r\n\x7f"
    assert lh.tokenize(context.model, text) == [
        1,
        SPACE,
        *(N_PREFIX + byte for byte in text.encode()),
    ]
    answer, bytes_ = lh.generate_parallel(
        context,
        ["A\0b\u00e9", [1, SPACE, *(N_PREFIX + byte for byte in "A\0b\u00e9".encode())]],
        max_tokens=4,
    )
    assert answer.tokens == bytes_.tokens


def test_special_tokens_in_a_text_stay_text_unless_it_starts_with_one(
    model: lh.Model,
) -> None:
    inside = "A" + "".join(tiny_models.SPECIAL)
    pieces = ["<", *"unk", ">", "<", "s", ">", "<", "/", "s", ">"]
    known = {piece: tiny_models.token_of(piece) for piece in tiny_models.PIECES}
    plain = [1, SPACE, N_PREFIX + 65]
    plain += [known.get(piece, N_PREFIX + ord(piece)) for piece in pieces]
    assert lh.tokenize(model, inside) == plain
    assert lh.tokenize(model, inside, parse_special=True) == [
        1,
        SPACE,
        N_PREFIX + 65,
        0,
        1,
        2,
    ]
    with lh.Context(model, n_threads=1, deterministic=True) as context:
        out = lh.generate_parallel(
            context,
            [inside, plain, "<s>A</s>", [1, SPACE, N_PREFIX + 65, 2]],
            max_tokens=4,
        )
    assert out[0].tokens == out[1].tokens
    assert out[2].tokens == out[3].tokens


@pytest.mark.long(reason="many calls of a real model")
@pytest.mark.more(reason="10,000 of 100,000 prompts")
def test_a_hundred_thousand_prompts(model: lh.Model) -> None:
    n_prompts = sized(10_000, 100_000)
    prompts = [str(i) for i in range(n_prompts)]
    prompts[77] = [-1]
    with lh.Context(model, n_seq_max=64, n_threads=1) as context:
        out = lh.generate_parallel(context, prompts, max_tokens=1, ignore_eos=True)
        some = [0, 1, 4_999, n_prompts - 1]
        alone = [
            lh.generate(context, prompts[i], max_tokens=1, ignore_eos=True).tokens
            for i in some
        ]
    assert [result.index for result in out] == list(range(n_prompts))
    assert [i for i, result in enumerate(out) if result.error] == [77]
    assert [out[i].tokens for i in some] == alone


def test_long_wrong_values_make_short_messages(context: lh.Context) -> None:
    for prompt in (b"x" * 10_000_000, 10**5000):
        with pytest.raises(TypeError, match=r"prompts\[0\] must be text") as caught:
            lh.generate_parallel(context, [prompt])
        assert len(str(caught.value)) < 200


# ---- numbers --------------------------------------------------------------------------


def test_the_largest_n_seq_max_works(model: lh.Model) -> None:
    prompts = [f"{i} " + "shared by all of them, " * 4 + str(i) for i in range(300)]
    settings = {"max_tokens": 3, "ignore_eos": True}
    options = {"n_ctx": 512 * 256, "n_threads": 1, "deterministic": True}
    with lh.Context(model, n_seq_max=248, **options) as context:
        out = lh.generate_parallel(context, prompts, **settings)
        assert context.plan.n_seq_max == 248
    with lh.Context(model, n_seq_max=1, **options) as context:
        for i in (0, 120, 299):
            alone = lh.generate(context, prompts[i], **settings)
            assert out[i].tokens == alone.tokens


def test_more_tokens_than_fit_are_an_error_of_the_prompt(context: lh.Context) -> None:
    (result,) = lh.generate_parallel(context, ["a"], max_tokens=EDGE - 1)
    assert f"an answer (up to 2147483647) that is {EDGE + 1}, more than the 512" in (
        result.error
    )
    with pytest.raises(ValueError, match=f"max_tokens must be .*, not {EDGE}"):
        lh.generate(context, "a", max_tokens=EDGE)


@pytest.mark.parametrize("seed", [0, 1, EDGE - 1, EDGE, 2 * EDGE - 2, 2 * EDGE - 1])
def test_seeds_at_the_edges_are_reproducible(context: lh.Context, seed: int) -> None:
    settings = {"temperature": 1.5, "max_tokens": 8, "ignore_eos": True}
    first, second = (
        lh.generate_parallel(context, ["a", "a"], seed=seed, **settings) for _ in range(2)
    )
    assert first.stats.seed == seed
    assert [r.tokens for r in first] == [r.tokens for r in second]
    assert first[0].tokens != first[1].tokens


@pytest.mark.parametrize(
    ("temperature", "text"),
    [
        (math.nan, "nan"),
        (math.inf, "inf"),
        (-math.inf, "-inf"),
        (1.7e308, r"1\.7e\+308"),
        pytest.param(10**400, r"1e\+400", id="10^400"),
    ],
)
def test_temperatures_that_are_none_are_named(
    context: lh.Context, temperature: float, text: str
) -> None:
    message = rf"temperature must be between -1e\+06 and 1e\+06, not {text}"
    with pytest.raises(ValueError, match=message):
        lh.generate(context, "a", temperature=temperature)


@pytest.mark.parametrize("temperature", [5e-324, 1e-45, 1e-40, 1e-38, 1e-30, 1e-6])
@pytest.mark.parametrize("more", [{}, {"mirostat": 1}, {"mirostat": 2}, {"top_k": 0}])
def test_next_to_no_temperature_is_greedy(
    context: lh.Context, temperature: float, more: dict[str, int]
) -> None:
    cold = SamplingParams(temperature=temperature, ignore_eos=True, **more)
    greedy = SamplingParams(ignore_eos=True)
    out = lh.generate_parallel(
        context, ["abc", "abc"], params=[cold, greedy], max_tokens=12
    )
    assert out[0].error is None
    assert out[0].tokens == out[1].tokens


@pytest.mark.parametrize(
    "settings",
    [
        {"temperature": 1e6},
        {"temperature": 1, "top_k": -EDGE},
        {"temperature": 1, "top_k": EDGE - 1, "top_p": 0.0, "min_p": 1.0},
        {"temperature": 1, "typical_p": 0.0},
        {"temperature": 1, "xtc_probability": 1.0, "xtc_threshold": 0.0},
        {"temperature": 1, "mirostat": 1, "mirostat_tau": 0.0, "mirostat_eta": 1e6},
        {"temperature": 1, "mirostat": 2, "mirostat_tau": 0.0, "mirostat_eta": 1e6},
        {"temperature": 1, "mirostat": 1, "mirostat_tau": 1e6, "mirostat_eta": 0.0},
        {"repeat_last_n": EDGE - 1, "penalty_repeat": 1e6},
        {"repeat_last_n": -1, "penalty_freq": 1e6, "penalty_present": -1e6},
        {"dry_multiplier": 1e6, "dry_base": 1e6, "dry_allowed_length": 0},
        {"temperature": 1, "logit_bias": {5: 1e30, 6: 1e30, 7: -1e30}},
        {"temperature": 1e-40, "logit_bias": {5: 1e30, 6: 1e30}},
        {"temperature": 1, "top_n_sigma": 1e-30},
    ],
)
def test_settings_at_their_edges_give_answers(
    context: lh.Context, settings: dict[str, float]
) -> None:
    params = SamplingParams(ignore_eos=True, **settings)
    (result,) = lh.generate_parallel(context, ["abc"], params=params, max_tokens=12)
    assert result.error is None
    assert result.n_generated_tokens == 12


@pytest.mark.parametrize("bias", [[5], [(1, 2, 3)], ["ab"], [None], {5: "x"}, 5, "a"])
def test_a_logit_bias_of_another_shape_is_named(bias: object) -> None:
    with pytest.raises(TypeError, match="logit_bias"):
        SamplingParams(logit_bias=bias)
