"""Thoughts are the same alone and together with those of other prompts."""

from __future__ import annotations

import random
from array import array
from dataclasses import replace
from typing import TYPE_CHECKING

import llamaherd as lh
import pytest
from llamaherd.calls.run.call import Call
from llamaherd.engine.core.request import Request, ThoughtStage
from llamaherd.engine.core.sampling import SamplingParams
from thorough import sized

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from llamaherd.engine.core.results import Result


def stage(model: lh.Model, budget: int, **changes: object) -> ThoughtStage:
    """Return a thought stage that ends at a full stop, for a model without markers."""

    def tokens(text: str) -> tuple[int, ...]:
        return tuple(lh.tokenize(model, text, add_special=False))

    thought = ThoughtStage(
        budget=budget,
        is_open=True,
        end=tokens("."),
        after=tokens("\nAnswer:"),
        closing=tokens("... enough.\nAnswer:"),
    )
    return replace(thought, **changes)


def run(context: lh.Context, requests: Sequence[Request]) -> list[Result]:
    results = Call(requests, seed=1).run(context.loop)
    answers = [result for samples in results.samples for result in samples]
    assert all(result.error is None for result in answers), answers
    return answers


@pytest.mark.more(reason="many prompts with random budgets")
def test_thoughts_of_any_budget_are_as_alone(tiny_path: Callable[[str], Path]) -> None:
    draw = random.Random(1)
    with lh.Model(tiny_path("llama")) as model:
        requests = []
        for i in range(sized(40, 1000)):
            words = " ".join(draw.choices(["the", "answer", "yes", "no"], k=1 + i % 9))
            sampling = SamplingParams(temperature=0.8)
            thought = stage(
                model, draw.randrange(25), sampling=sampling, seed=draw.randrange(2**32)
            )
            asked = Request(
                tokens=array("i", lh.tokenize(model, words)),
                max_tokens=1 + i % 7,
                sampling=sampling,
                seed=i,
                thought=thought if i % 3 else None,
            )
            requests.append(asked)
        with lh.Context(model, deterministic=True, n_seq_max=8) as context:
            together = run(context, requests)
        with lh.Context(model, deterministic=True, n_seq_max=1) as context:
            alone = [run(context, [asked])[0] for asked in requests]
    for a, b in zip(together, alone, strict=True):
        assert (a.text, a.thinking, a.n_thinking_tokens) == (
            b.text,
            b.thinking,
            b.n_thinking_tokens,
        )
    assert {a.thinking_complete for a in together} >= {False, None}
