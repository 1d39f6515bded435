"""Thoughts in chat templates: found by trial rendering, closed, opened, continued."""

from __future__ import annotations

from typing import TYPE_CHECKING

import llamaherd as lh
import pytest
import tiny_models
from llamaherd.calls.asks.rendering import plan_thinking
from llamaherd.calls.chat.chat import chat_prompts
from llamaherd.calls.chat.conversations import ChatPrompt, Refused
from llamaherd.engine.core.errors import ArgumentError
from llamaherd.engine.core.thinking import Thinking
from llamaherd.engine.native import vocabulary

if TYPE_CHECKING:
    from pathlib import Path

# Like Qwen3: the model decides, and a variable closes the thought.
DECIDES = (
    "{% for m in messages %}<|start|>{{ m.role }}<|message|>"
    "{% if m.reasoning_content %}<think>\n{{ m.reasoning_content }}\n</think>\n\n"
    "{% endif %}{{ m.content }}</s>{% endfor %}"
    "{% if add_generation_prompt %}<|start|>assistant<|message|>"
    "{% if enable_thinking is defined and not enable_thinking %}"
    "<think>\n\n</think>\n\n{% endif %}{% endif %}"
)
# Like DeepSeek-R1: always open, no variable, thoughts of earlier answers are removed.
OPEN = (
    "{% for m in messages %}<|start|>{{ m.content.split('</think>')[-1] }}{% endfor %}"
    "{% if add_generation_prompt %}<|message|><think>\n{% endif %}"
)
PLAIN = "{% for m in messages %}<|start|>{{ m.content }}<|message|>{% endfor %}"
# The end marker of this thought is unknown.
UNKNOWN = PLAIN + "<|reasoning|>"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> lh.Model:
    path: Path = tmp_path_factory.mktemp("thinking") / "m.gguf"
    return lh.Model(tiny_models.write(path, "llama", tokenizer="gpt2"))


@pytest.fixture(scope="module")
def sentencepiece(tmp_path_factory: pytest.TempPathFactory) -> lh.Model:
    path: Path = tmp_path_factory.mktemp("thinking") / "m.gguf"
    return lh.Model(tiny_models.write(path, "llama"))


def text_of(model: lh.Model, tokens: tuple[int, ...]) -> str:
    return lh.detokenize(model, tokens, unparse_special=True)


@pytest.mark.parametrize("template", [DECIDES, OPEN])
@pytest.mark.parametrize(("thinking", "constrained"), [(False, False), (None, True)])
def test_a_thought_that_is_off_is_closed_in_the_prompt(
    model: lh.Model, template: str, *, thinking: bool | None, constrained: bool
) -> None:
    plan = plan_thinking(model, thinking, constrained=constrained, template=template)  # type: ignore[arg-type]
    assert plan is not None
    assert bool(plan.notice) == constrained
    prompt = chat_prompts(
        model, ["the"], None, template=template, variables=plan.variables, prefix="yes"
    )[0]
    text, stage = plan.apply(prompt)
    assert stage is None
    assert text.endswith("<|message|><think>\n\n</think>\n\nyes")


def test_a_free_answer_keeps_what_the_model_does(model: lh.Model) -> None:
    plan = plan_thinking(model, None, constrained=False, template=DECIDES)
    assert plan is not None
    prompt = chat_prompts(model, ["the"], None, template=DECIDES)[0]
    text, stage = plan.apply(prompt)
    assert (text, stage is not None and stage.is_open) == (str(prompt), False)
    assert plan_thinking(model, None, constrained=False, template=PLAIN) is None
    closed = {"enable_thinking": False}
    assert (
        plan_thinking(model, None, constrained=False, template=DECIDES, variables=closed)
        is None
    )


@pytest.mark.parametrize("template", [DECIDES, OPEN])
def test_a_thought_that_is_asked_for_is_opened(model: lh.Model, template: str) -> None:
    thinking = Thinking(budget=7, message="Enough.\n")
    plan = plan_thinking(model, thinking, constrained=True, template=template)
    assert plan is not None
    text, stage = plan.apply(
        chat_prompts(model, ["the"], None, template=template)[0], "{"
    )
    assert text.endswith("<|message|><think>\n")
    assert stage is not None
    assert (stage.budget, stage.is_open) == (7, True)
    assert text_of(model, stage.start) == "<think>"
    assert text_of(model, stage.end) == "</think>"
    assert text_of(model, stage.after) == "\n\n{"
    assert text_of(model, stage.closing) == "Enough.\n</think>\n\n{"
    (marker,) = stage.end
    with model.using() as handle:
        assert vocabulary.is_special(handle, marker)


def test_a_closed_thought_is_opened_again(model: lh.Model) -> None:
    plan = plan_thinking(model, Thinking(), constrained=False, template=DECIDES)
    assert plan is not None
    closed = chat_prompts(
        model, ["the"], None, template=DECIDES, variables={"enable_thinking": False}
    )[0]
    assert plan.apply(closed)[0].endswith("<|message|><think>\n")


def test_markers_of_the_caller_count(model: lh.Model) -> None:
    with pytest.raises(ArgumentError, match=r"Thinking\(start=, end=\)"):
        plan_thinking(model, Thinking(), constrained=False, template=PLAIN)
    thinking = Thinking(start="<tool_call>", end="[/INST]")
    plan = plan_thinking(model, thinking, constrained=False, template=PLAIN)
    assert plan is not None
    text, stage = plan.apply(chat_prompts(model, ["the"], None, template=PLAIN)[0])
    assert text.endswith("<|message|><tool_call>")
    assert stage is not None
    assert text_of(model, stage.end) == "[/INST]"


def test_a_thought_whose_end_nobody_knows_is_an_error(model: lh.Model) -> None:
    with pytest.raises(ArgumentError, match="thinking cannot be turned off"):
        plan_thinking(model, None, constrained=True, template=UNKNOWN)
    assert plan_thinking(model, None, constrained=False, template=UNKNOWN) is None


def test_marks_in_texts_stay_text(model: lh.Model) -> None:
    """Markers in texts of users, prefixes or messages have no effect on thoughts."""
    thinking = Thinking(message="</think><|start|>")
    plan = plan_thinking(model, thinking, constrained=False, template=DECIDES)
    assert plan is not None
    prompt = chat_prompts(model, ["</think><think>"], None, template=DECIDES)[0]
    text, stage = plan.apply(prompt, "</think>")
    assert stage is not None
    marker = stage.end[0]
    assert list(stage.closing).count(marker) == 1
    assert list(stage.after).count(marker) == 0
    with model.using() as handle:
        tokens = vocabulary.tokenize_prompt(handle, text, 1).tolist()
    assert tokens.count(marker) == 0
    assert tokens.count(stage.start[0]) == 1  # the switch of the plan


def test_forced_tokens_have_no_space_of_sentencepiece(sentencepiece: lh.Model) -> None:
    thinking = Thinking(message="the")
    plan = plan_thinking(sentencepiece, thinking, constrained=False, template=OPEN)
    assert plan is not None
    _, stage = plan.apply(chat_prompts(sentencepiece, ["a"], None, template=OPEN)[0])
    assert stage is not None
    assert stage.closing[0] == tiny_models.token_of("the")


def test_a_last_message_of_the_assistant_begins_the_answer(model: lh.Model) -> None:
    talk = [
        {"role": "user", "content": [{"type": "text", "text": "the "}] * 2},
        {"role": "assistant", "content": "yes<think>"},
    ]
    (prompt,) = chat_prompts(model, [talk], None, template=DECIDES, prefix="no")
    assert isinstance(prompt, ChatPrompt)
    assert prompt.question.endswith("the the </s><|start|>assistant<|message|>")
    assert prompt.prefill == "yes\ufdd0<think>\ufdd1no"


def test_a_refused_system_message_is_merged_or_fails_alone(model: lh.Model) -> None:
    template = (
        "{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}"
        "{% endif %}" + PLAIN
    )
    refused, fine = chat_prompts(
        model, ["the", [{"role": "user", "content": "x"}]], "be", template=template
    )
    assert isinstance(refused, Refused)
    assert "merge_system" in refused.reason
    assert isinstance(fine, Refused)
    (merged,) = chat_prompts(model, ["the"], "be", template=template, merge_system=True)
    assert merged == "<|start|>be\n\nthe<|message|>"
    (kept,) = chat_prompts(model, ["the"], "be", template=PLAIN, merge_system=True)
    assert kept == "<|start|>be<|message|><|start|>the<|message|>"


@pytest.mark.parametrize("name", ["messages", "bos_token", "strftime_now"])
def test_variables_replace_nothing_of_ours(model: lh.Model, name: str) -> None:
    with pytest.raises(ArgumentError, match=name):
        chat_prompts(model, ["a"], None, template=PLAIN, variables={name: ""})


@pytest.mark.parametrize("field", ["reasoning_content", "thinking", "reasoning"])
def test_thoughts_of_earlier_answers_reach_the_template(
    model: lh.Model, field: str
) -> None:
    talk = [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "b", field: "the</think>"},
        {"role": "user", "content": "c"},
    ]
    prompt = lh.apply_chat_template(model, talk, template=DECIDES)
    assert "<think>\nthe\ufdd0</think>\ufdd1\n</think>\n\nb" in prompt


def test_an_undefined_variable_is_compared(model: lh.Model) -> None:
    """Granite 3.3 searches for 'citations' in an undefined variable."""
    template = "{% if 'a' in controls %}x{% endif %}y"
    talk = [{"role": "user", "content": "a"}]
    assert lh.apply_chat_template(model, talk, template=template) == "y"
