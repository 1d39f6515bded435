"""Thoughts before answers, with SmolLM2 and templates of models that think."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import pytest
from llamaherd.calls.asks import rendering
from llamaherd.calls.asks.answers import again
from llamaherd.calls.asks.options import GenerateOptions
from llamaherd.calls.asks.requests import make_requests

if TYPE_CHECKING:
    from collections.abc import Iterator

    from llamaherd.engine.core.request import Request

_TURNS = """
{%- for m in messages -%}
<|im_start|>{{ m.role }}
{% if m.reasoning_content %}<think>
{{ m.reasoning_content }}
</think>

{% endif %}{{ m.content }}<|im_end|>
{% endfor -%}
{%- if add_generation_prompt -%}<|im_start|>assistant
"""
# Templates: one ends prompts inside a thought, one has a switch, one lets the model
# decide.
OPEN = _TURNS + "<think>\n{% endif %}"
SWITCHED = (
    _TURNS
    + "{% if enable_thinking is defined and not enable_thinking %}<think>\n\n</think>"
    + "\n\n{% else %}<think>\n{% endif %}{% endif %}"
)
BARE = _TURNS + "{% endif %}"
PLAIN = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n"
PLAIN += "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"

PROMPTS = [f"Is {i} an even number?" for i in range(6)]


@pytest.fixture(scope="module")
def context(smollm2: lh.Model) -> Iterator[lh.Context]:
    options: dict[str, Any] = {"deterministic": True, "n_seq_max": 8}
    with lh.Context(smollm2, n_threads=2, **options) as context:
        yield context


def answer(context: lh.Context, prompts: list[Any], **settings: Any) -> lh.Results:
    settings = {"template": OPEN, "max_tokens": 4, "chat": True, **settings}
    return lh.generate_parallel(context, prompts, **settings)


def requests(model: lh.Model, prompts: list[Any], **settings: Any) -> list[Request]:
    arguments = {
        name: settings.pop(name)
        for name in ("thinking", "template", "n")
        if name in settings
    }
    options = GenerateOptions(chat=True, sampling=settings, **arguments)
    return make_requests(model, prompts, options)[0]


def test_samples_have_thoughts_of_their_own(context: lh.Context) -> None:
    results = answer(context, PROMPTS[:1], thinking=10, n=3, temperature=1.0, seed=5)
    thoughts = [sample.thinking for sample in results.samples[0]]
    assert len(set(thoughts)) == 3
    single = answer(context, PROMPTS[:1], thinking=10, temperature=1.0, seed=5)
    assert (single[0].thinking, single[0].text) == (thoughts[0], results[0].text)
    first, *others = requests(
        context.model, PROMPTS[:1], thinking=10, n=3, temperature=1.0, template=OPEN
    )
    seeds = {r.thought.seed for r in (first, *others)}
    assert len(seeds | {r.seed for r in (first, *others)}) == 6


def test_equal_greedy_prompts_think_once(context: lh.Context) -> None:
    results = answer(context, PROMPTS[:1] * 3, thinking=10)
    assert results.stats.n_copied == 2
    assert len({result.thinking for result in results}) == 1
    assert results.stats.n_thoughts == 1


@pytest.mark.long(reason="several calls of a real model")
def test_settings_of_the_answer_do_not_act_in_the_thought(context: lh.Context) -> None:
    plain = answer(context, PROMPTS[:1], thinking=10)[0]
    token = plain.tokens[0]
    for settings in ({"logit_bias": {token: -100.0}}, {"stop": plain.thinking[:4]}):
        other = answer(context, PROMPTS[:1], thinking=10, **settings)[0]
        assert other.thinking == plain.thinking
    request = requests(
        context.model, PROMPTS[:1], thinking=10, template=OPEN, regex="a", top_k=7,
        temperature=0.5, logit_bias={1: 2.0}, ignore_eos=True,
    )[0]  # fmt: skip
    sampling = request.thought.sampling
    assert sampling == lh.SamplingParams(top_k=7, temperature=0.5)


# ---- behaviour of templates without an argument
# ----------------------------------------------------


def test_a_model_that_thinks_by_itself_is_split(context: lh.Context) -> None:
    (request,) = requests(context.model, PROMPTS[:1], template=OPEN)
    assert request.thought.budget == 1024
    assert request.thought.is_open
    assert requests(context.model, PROMPTS[:1], template=PLAIN)[0].thought is None
    off = requests(context.model, PROMPTS[:1], template=OPEN, thinking=False)[0]
    assert off.thought is None
    assert lh.detokenize(context.model, off.tokens).endswith("</think>\n\n")


@pytest.mark.more(reason="several calls of a real model", cases=1)
@pytest.mark.parametrize("template", [OPEN, SWITCHED])
def test_a_constraint_turns_thinking_off_and_says_so_once(
    context: lh.Context, template: str
) -> None:
    rendering._noticed.clear()
    with pytest.warns(lh.ThinkingWarning, match="thinking=256 lets it think") as caught:
        results = answer(context, PROMPTS, template=template, regex="[a-z]{4}")
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert results.thinking == [None] * 6
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = answer(context, PROMPTS, template=template, regex="[a-z]{4}")
        off = answer(
            context, PROMPTS, template=template, regex="[a-z]{4}", thinking=False
        )
    assert results.texts == again.texts == off.texts
    assert not results.has_thoughts


def test_constraints_of_some_prompts_leave_the_thoughts_of_others(
    context: lh.Context,
) -> None:
    rendering._noticed.clear()
    with pytest.warns(lh.ThinkingWarning, match="thinking=256 lets it think"):
        held, free = requests(
            context.model, PROMPTS[:2], template=OPEN, regex=["[a-z]", None]
        )
    assert held.thought is None
    assert free.thought is not None


def test_a_model_that_cannot_think_is_an_error(context: lh.Context) -> None:
    with pytest.raises(lh.ArgumentError, match="no markers of thoughts") as raised:
        answer(context, PROMPTS, template=PLAIN, thinking=5)
    assert raised.value.argument == "thinking"
    markers = lh.Thinking(budget=4, start="<t>", end="</t>", message=" Enough.")
    results = answer(context, PROMPTS[:2], template=PLAIN, thinking=markers)
    assert results.n_thinking_tokens == [4, 4]
    (request,) = requests(context.model, PROMPTS[:1], template=PLAIN, thinking=markers)
    closing = lh.detokenize(context.model, request.thought.closing)
    assert closing.startswith(" Enough.")
    assert closing.strip().endswith("</t>")


def test_a_raw_prompt_inside_a_thought_is_not_constrained(
    context: lh.Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(context.model, "chat_template", OPEN)
    text = lh.apply_chat_template(context.model, [{"role": "user", "content": "Hi"}])
    tokens = lh.tokenize(context.model, text, parse_special=True)
    prompts: list[Any] = [text, tokens, "Hi", f"{text}Hm.\n</think>\n\n"]
    results = lh.generate_parallel(context, prompts, regex="[a-z]", max_tokens=3)
    for failed in results[:2]:
        assert "opens a thought" in failed.error
        assert "thinking" in failed.error
    assert results.errors[2:] == [None, None]
    assert lh.generate_parallel(context, prompts, max_tokens=3).errors == [None] * 4


# ---- other options of a rendered chat --------------------------------------------------


def test_a_prefix_is_the_start_of_the_answer(context: lh.Context) -> None:
    result = answer(context, PROMPTS[:1], template=PLAIN, prefix="Answer:")[0]
    text = lh.apply_chat_template(
        context.model, [{"role": "user", "content": PROMPTS[0]}], template=PLAIN
    )
    hand = lh.generate(context, f"{text}Answer:", parse_special=True, max_tokens=4)
    assert result.text == hand.text


def test_variables_reach_the_template(context: lh.Context) -> None:
    template = PLAIN.replace("assistant\n", "assistant\n{{ effort }}: ")
    (request,) = make_requests(
        context.model,
        ["Hi"],
        GenerateOptions(chat=True, template=template, variables={"effort": "high"}),
    )[0]
    assert lh.detokenize(context.model, request.tokens).endswith("high: ")


def test_a_refused_system_text_can_be_merged(context: lh.Context) -> None:
    template = (
        "{% if messages[0].role == 'system' %}"
        "{{ raise_exception('System role not supported') }}{% endif %}" + PLAIN
    )
    settings = {"template": template, "system": "Be brief."}
    refused = answer(context, PROMPTS[:1], **settings)[0]
    assert "merge_system" in refused.error
    merged = answer(context, PROMPTS[:1], merge_system=True, **settings)[0]
    expected = answer(context, [f"Be brief.\n\n{PROMPTS[0]}"], template=template)[0]
    assert merged.text == expected.text


def test_a_retry_thinks_again(context: lh.Context) -> None:
    (request,) = requests(context.model, PROMPTS[:1], thinking=5, template=OPEN)
    other = again(request, 1)
    assert other.thought.sampling.temperature > 0
    assert other.thought.seed not in (request.thought.seed, other.seed)
    assert again(request, 2).thought.seed != other.thought.seed


def test_a_thought_that_cannot_fit_fails_its_prompt(context: lh.Context) -> None:
    result = answer(context, PROMPTS[:1], thinking=9000)[0]
    assert result.error_code == "too_long"
    assert "lower the limit of its thought" in result.error
