"""Thoughts before answers, with SmolLM2 and templates of models that think."""

from __future__ import annotations

import warnings
from array import array
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import pytest
from llamaherd.calls.asks import rendering
from llamaherd.calls.asks.answers import again
from llamaherd.calls.asks.options import GenerateOptions
from llamaherd.calls.asks.requests import make_requests

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

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
SCHEMA = {"type": "object", "properties": {"even": {"type": "boolean"}}}
SCHEMA |= {"required": ["even"], "additionalProperties": False}


@pytest.fixture(scope="module")
def context(smollm2: lh.Model) -> Iterator[lh.Context]:
    options: dict[str, Any] = {"deterministic": True, "n_seq_max": 8}
    with lh.Context(smollm2, n_threads=2, **options) as context:
        yield context


def ask(context: lh.Context, prompts: list[Any], **settings: Any) -> lh.Results:
    settings = {"template": OPEN, "max_tokens": 4, "chat": True, **settings}
    return lh.generate_parallel(context, prompts, **settings)


def requests(model: lh.Model, prompts: list[Any], **settings: Any) -> list[Request]:
    own = {
        name: settings.pop(name)
        for name in ("thinking", "template", "n")
        if name in settings
    }
    options = GenerateOptions(chat=True, sampling=settings, **own)
    return make_requests(model, prompts, options)[0]


def by_hand(
    context: lh.Context, request: Request, thinking: int, **settings: Any
) -> tuple[lh.Result, lh.Result]:
    """Compute a thought in one call, its closing tokens and the answer in another call.

    SmolLM2 never closes a thought: it continues, or ends its turn.
    """
    thought = lh.generate(context, request.tokens, max_tokens=thinking)
    again = array("i", [*request.tokens, *thought.tokens, *request.thought.closing])
    return thought, lh.generate(context, again, **{"max_tokens": 4, **settings})


SETTINGS: dict[str, dict[str, Any]] = {
    "text": {},
    "choices": {"choices": ["yes", "no", "nobody knows"], "max_tokens": None},
    "schema": {"schema": SCHEMA, "max_tokens": 12},
    "regex": {"regex": "[a-z]{3}"},
    "grammar": {"grammar": 'root ::= "a" | "bc"'},
    "logprobs": {"logprobs": 2},
}


@pytest.mark.long(reason="several calls of a real model")
@pytest.mark.parametrize("name", SETTINGS)
def test_the_answer_is_that_of_two_calls_by_hand(context: lh.Context, name: str) -> None:
    settings = SETTINGS[name]
    found = ask(context, PROMPTS[:2], thinking=7, **settings)
    # A chat describes its schema to the model.
    shown = {"schema": SCHEMA} if name == "schema" else {}
    each = requests(context.model, PROMPTS[:2], thinking=7, template=OPEN, **shown)
    for result, request in zip(found, each, strict=True):
        thought, answer = by_hand(context, request, 7, **settings)
        assert result.text == answer.text
        assert result.tokens == answer.tokens
        assert result.complete == answer.complete
        assert result.logprobs == answer.logprobs
        assert result.parsed == answer.parsed
        assert result.thinking.startswith(thought.text.strip())
        assert result.n_thinking_tokens == len(thought.tokens) <= 7
        assert result.thinking_complete is False
    # There is one prefill: neither prompt nor thought is computed again.
    n_given = sum(len(one.tokens) + len(one.thought.closing) for one in each)
    n_forced = sum(len(result.tokens) for result in found)  # at most
    assert found.stats.n_prefill_tokens <= n_given + n_forced
    assert found.stats.n_thinking_tokens == sum(found.n_thinking_tokens)
    assert (found.stats.n_thoughts, found.stats.n_thoughts_closed) == (2, 2)


@pytest.mark.long(reason="several calls of a real model")
def test_max_tokens_is_of_the_answer_and_the_budget_of_the_thought(
    context: lh.Context,
) -> None:
    for budget in (0, 1, 9):
        found = ask(context, PROMPTS[:3], thinking=budget, max_tokens=3, ignore_eos=True)
        assert [len(result.tokens) for result in found] == [3] * 3
        assert 0 <= max(found.n_thinking_tokens) <= budget
        assert all(found.n_thinking_tokens) == (budget > 0)


@pytest.mark.long(reason="several calls of a real model")
def test_thoughts_beside_plain_prompts_are_as_alone(context: lh.Context) -> None:
    budgets = [None, 0, 1, 9, None, 4]

    def submitted(i: int) -> lh.types.Handle:
        return context.submit(
            f"Say {i}.",
            chat=True,
            template=PLAIN if budgets[i] is None else OPEN,
            thinking=budgets[i],
            max_tokens=3,
            temperature=0.8 * (i % 2),
            seed=i,
        )

    handles = [submitted(i) for i in range(len(budgets))]
    together = [handle.result(60) for handle in handles]
    for i, (budget, one) in enumerate(zip(budgets, together, strict=True)):
        alone = submitted(i).result(60)
        assert (one.thinking, one.text) == (alone.thinking, alone.text)
        assert one.n_thinking_tokens == alone.n_thinking_tokens <= (budget or 0)
        assert (one.thinking is None) == (budget is None)


def test_samples_have_thoughts_of_their_own(context: lh.Context) -> None:
    found = ask(context, PROMPTS[:1], thinking=10, n=3, temperature=1.0, seed=5)
    thoughts = [sample.thinking for sample in found.samples[0]]
    assert len(set(thoughts)) == 3
    single = ask(context, PROMPTS[:1], thinking=10, temperature=1.0, seed=5)
    assert (single[0].thinking, single[0].text) == (thoughts[0], found[0].text)
    first, *others = requests(
        context.model, PROMPTS[:1], thinking=10, n=3, temperature=1.0, template=OPEN
    )
    seeds = {r.thought.seed for r in (first, *others)}
    assert len(seeds | {r.seed for r in (first, *others)}) == 6


def test_equal_greedy_prompts_think_once(context: lh.Context) -> None:
    found = ask(context, PROMPTS[:1] * 3, thinking=10)
    assert found.stats.n_copied == 2
    assert len({result.thinking for result in found}) == 1
    assert found.stats.n_thoughts == 1


@pytest.mark.long(reason="several calls of a real model")
def test_settings_of_the_answer_do_not_act_in_the_thought(context: lh.Context) -> None:
    plain = ask(context, PROMPTS[:1], thinking=10)[0]
    token = plain.tokens[0]
    for own in ({"logit_bias": {token: -100.0}}, {"stop": plain.thinking[:4]}):
        other = ask(context, PROMPTS[:1], thinking=10, **own)[0]
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
        found = ask(context, PROMPTS, template=template, regex="[a-z]{4}")
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert found.thinking == [None] * 6
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = ask(context, PROMPTS, template=template, regex="[a-z]{4}")
        off = ask(context, PROMPTS, template=template, regex="[a-z]{4}", thinking=False)
    assert found.texts == again.texts == off.texts
    assert not found.has_thoughts


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
        ask(context, PROMPTS, template=PLAIN, thinking=5)
    assert raised.value.argument == "thinking"
    own = lh.Thinking(budget=4, start="<t>", end="</t>", message=" Enough.")
    found = ask(context, PROMPTS[:2], template=PLAIN, thinking=own)
    assert found.n_thinking_tokens == [4, 4]
    (request,) = requests(context.model, PROMPTS[:1], template=PLAIN, thinking=own)
    closing = lh.detokenize(context.model, request.thought.closing)
    assert closing.startswith(" Enough.")
    assert closing.strip().endswith("</t>")


def test_a_raw_prompt_inside_a_thought_is_not_constrained(
    context: lh.Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(context.model, "chat_template", OPEN)
    text = lh.apply_chat_template(context.model, [{"role": "user", "content": "Hi"}])
    tokens = lh.tokenize(context.model, text, parse_special=True)
    given: list[Any] = [text, tokens, "Hi", f"{text}Hm.\n</think>\n\n"]
    found = lh.generate_parallel(context, given, regex="[a-z]", max_tokens=3)
    for failed in found[:2]:
        assert "opens a thought" in failed.error
        assert "thinking" in failed.error
    assert found.errors[2:] == [None, None]
    assert lh.generate_parallel(context, given, max_tokens=3).errors == [None] * 4


# ---- other options of a rendered chat --------------------------------------------------


def test_a_prefix_is_the_start_of_the_answer(context: lh.Context) -> None:
    found = ask(context, PROMPTS[:1], template=PLAIN, prefix="Answer:")[0]
    text = lh.apply_chat_template(
        context.model, [{"role": "user", "content": PROMPTS[0]}], template=PLAIN
    )
    hand = lh.generate(context, f"{text}Answer:", parse_special=True, max_tokens=4)
    assert found.text == hand.text
    (request,) = requests(context.model, PROMPTS[:1], template=OPEN, thinking=4)
    thought = ask(context, PROMPTS[:1], thinking=4, prefix="Answer:")[0]
    _, plain = by_hand(context, request, 4)
    assert thought.text != plain.text


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
    own = {"template": template, "system": "Be brief."}
    refused = ask(context, PROMPTS[:1], **own)[0]
    assert "merge_system" in refused.error
    merged = ask(context, PROMPTS[:1], merge_system=True, **own)[0]
    same = ask(context, [f"Be brief.\n\n{PROMPTS[0]}"], template=template)[0]
    assert merged.text == same.text


# ---- journal, streams, ends ------------------------------------------------------------


@pytest.mark.long(reason="several calls of a real model")
def test_a_journal_has_the_thoughts(context: lh.Context, tmp_path: Path) -> None:
    own = {"thinking": 6, "temperature": 0.9, "journal": tmp_path / "j", "seed": 4}
    first = ask(context, PROMPTS, **own)
    again = ask(context, PROMPTS, **own)
    assert again.stats.n_journal == 6
    assert again.thinking == first.thinking
    assert again.thinking_complete == first.thinking_complete
    assert again.n_thinking_tokens == [6] * 6
    read = lh.journal_read(tmp_path / "j")
    assert [entry.thinking.strip() for entry in read] == first.thinking
    assert ask(context, PROMPTS, **own | {"thinking": 7}).stats.n_journal == 0


def test_a_retry_thinks_again(context: lh.Context) -> None:
    (request,) = requests(context.model, PROMPTS[:1], thinking=5, template=OPEN)
    other = again(request, 1)
    assert other.thought.sampling.temperature > 0
    assert other.thought.seed not in (request.thought.seed, other.seed)
    assert again(request, 2).thought.seed != other.thought.seed


@pytest.mark.long(reason="several calls of a real model")
def test_a_stream_has_the_thought_before_the_answer(context: lh.Context) -> None:
    own: dict[str, Any] = {"chat": True, "template": OPEN, "thinking": 12}
    own["max_tokens"] = 4
    pieces = list(lh.generate(context, PROMPTS[0], stream="all", **own))
    whole = lh.generate(context, PROMPTS[0], **own)
    kinds = [piece.kind for piece in pieces]
    assert kinds == sorted(kinds, reverse=True)
    for kind, text in (("thinking", whole.thinking), ("answer", whole.text)):
        assert "".join(each for each in pieces if each.kind == kind) == text
    assert "".join(lh.generate(context, PROMPTS[0], stream=True, **own)) == whole.text


def test_a_prompt_that_is_cancelled_in_its_thought(context: lh.Context) -> None:
    handle = context.submit(
        PROMPTS[0], chat=True, template=OPEN, thinking=1500, stream=True
    )
    piece = next(iter(handle.pieces()))
    handle.cancel()
    result = handle.result(60)
    assert piece.kind == "thinking"
    assert result.finish_reason == "cancelled"
    assert (result.text, result.partial, result.tokens) == (None, None, [])
    assert result.thinking.startswith(piece)
    assert 0 < result.n_thinking_tokens < 1500
    assert result.thinking_complete is None


def test_a_thought_that_cannot_fit_fails_its_prompt(context: lh.Context) -> None:
    found = ask(context, PROMPTS[:1], thinking=9000)[0]
    assert found.error_code == "too_long"
    assert "lower the limit of its thought" in found.error
