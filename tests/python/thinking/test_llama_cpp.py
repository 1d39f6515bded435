"""Thoughts and the text after them equal two separate calls of llama-cpp-python.

The first call writes the thought token by token. The second gets prompt, thought and end
marker as one prompt, in an empty cache, and computes the answer or a label behind it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import llamaherd as lh
import numpy as np
import pytest
from llamaherd.calls.asks.options import GenerateOptions
from llamaherd.calls.asks.requests import make_requests
from step_by_step import StepByStep

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from llamaherd.engine.core.request import Request

pytestmark = pytest.mark.model

_BF16 = 30  # values of a deterministic context, for which attention has one kernel
# SmolLM2's own format. A thought ends at a full stop, which the model itself writes.
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\nLet me think:{% endif %}"
)
PROMPTS = [
    "Is grass green? Answer yes or no.",
    "Which is larger, the sun or the moon?",
    "Name a colour.",
    "Does it snow in July in Norway?",
]
LABELS = [" Yes", " No", " Maybe"]  # separate tokens after "Answer:"
BUDGETS = (0, 1, 6, 48)


def chat(budget: int) -> dict[str, Any]:
    how = lh.Thinking(budget=budget, start="Let me think:", end=".")
    return {"chat": True, "template": TEMPLATE, "thinking": how, "prefix": "\nAnswer:"}


@pytest.fixture(scope="module")
def context(smollm2: lh.Model) -> Iterator[lh.Context]:
    with lh.Context(smollm2, deterministic=True, n_seq_max=4) as context:
        yield context


@pytest.fixture(scope="module")
def steps(smollm2_path: Path) -> Iterator[StepByStep]:
    with StepByStep(smollm2_path, n_threads=1, type_v=_BF16) as steps:
        yield steps


def requests(model: lh.Model, budget: int) -> list[Request]:
    """Return the prompts that llamaherd renders, with the ends of their thoughts."""
    return make_requests(model, PROMPTS, GenerateOptions(**chat(budget)))[0]


def second_prompt(request: Request, steps: StepByStep) -> tuple[list[int], int, bool]:
    """Return prompt with thought, the thought's tokens, and whether it ended itself."""
    stage, prompt = request.thought, list(request.tokens)
    assert stage is not None
    thought = steps.greedy(prompt, stage.budget, end=stage.end)
    is_own = bool(thought) and tuple(thought[-len(stage.end) :]) == stage.end
    behind = stage.after if is_own else stage.closing
    return [*prompt, *thought, *behind], len(thought), is_own


def n_computed(stats: lh.Stats) -> int:
    return stats.n_prefill_tokens + stats.n_decode_tokens


def n_given(stats: lh.Stats, n_forced: int) -> int:
    """Count the tokens of prompts, thoughts and following tokens, each once."""
    return (
        stats.n_prompt_tokens - stats.n_reused_tokens + stats.n_thinking_tokens + n_forced
    )


@pytest.mark.more(reason="several calls of a real model", cases=1)
@pytest.mark.parametrize("budget", BUDGETS)
def test_answers_are_those_of_two_calls_by_hand(
    budget: int, context: lh.Context, steps: StepByStep
) -> None:
    results = lh.generate_parallel(
        context, PROMPTS, max_tokens=5, logprobs=0, **chat(budget)
    )
    n_forced = 0
    for request, result in zip(requests(context.model, budget), results, strict=True):
        prompt, n_thought, is_own = second_prompt(request, steps)
        assert result.error is None
        assert (result.n_thinking_tokens, result.thinking_complete) == (n_thought, is_own)
        tokens = steps.greedy(prompt, 5)
        assert result.tokens == tokens
        logprobs = steps.token_logprobs(prompt, [tokens])[0] if tokens else []
        assert result.logprobs is not None
        np.testing.assert_allclose(result.logprobs, logprobs, atol=1e-6)
        n_forced += len(prompt) - len(request.tokens) - n_thought
    assert any(result.tokens for result in results)
    n_answer = sum(len(result.tokens) for result in results)
    stats = results.stats
    # The last token of an answer is not computed.
    n_left = n_computed(stats) - n_given(stats, n_forced) - n_answer
    assert -len(PROMPTS) <= n_left <= 0


@pytest.mark.more(reason="several calls of a real model", cases=1)
@pytest.mark.parametrize("budget", BUDGETS)
def test_labels_are_those_of_two_calls_by_hand(
    budget: int, context: lh.Context, steps: StepByStep
) -> None:
    model = context.model
    labelled = lh.classify_parallel(context, PROMPTS, LABELS, **chat(budget))
    behind = [list(lh.tokenize(model, label, add_special=False)) for label in LABELS]
    assert {len(tokens) for tokens in behind} == {1}
    n_forced = 0
    for i, request in enumerate(requests(model, budget)):
        prompt, n_thought, is_own = second_prompt(request, steps)
        assert labelled.n_thinking_tokens[i] == n_thought
        assert labelled.thinking_complete[i] is is_own
        logprobs = [row[0] for row in steps.token_logprobs(prompt, behind)]
        np.testing.assert_allclose(labelled.logprobs[i], logprobs, atol=1e-6)
        n_forced += len(prompt) - len(request.tokens) - n_thought
    # There is one prefill: prompt and thought are not computed again for the labels.
    assert n_computed(labelled.stats) == n_given(labelled.stats, n_forced)


@pytest.mark.long(reason="several calls of a real model")
def test_some_thoughts_end_themselves_and_some_are_ended(context: lh.Context) -> None:
    """The cases above include both kinds."""
    labelled = lh.classify_parallel(context, PROMPTS, LABELS, **chat(BUDGETS[-1]))
    assert True in labelled.thinking_complete
    labelled = lh.classify_parallel(context, PROMPTS, LABELS, **chat(6))
    assert False in labelled.thinking_complete
