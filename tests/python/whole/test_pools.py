"""Single prompts get the same answers while the layout of their cells changes."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import llamaherd as lh
import pytest
from pooled import NEAR, assert_near, coding, other

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from llamaherd.engine.core.results import Result


def run_all(context: lh.Context, prompts: list[str], **options: object) -> list[Result]:
    """Submit prompts at the same time; cancel another prompt, and return the results."""
    params = lh.SamplingParams(ignore_eos=True)
    with context.loop._lock:
        cancelled = context.submit(prompts[0], max_tokens=60)
        handles = [
            context.submit(prompt, max_tokens=6, params=params, logprobs=3, **options)
            for prompt in prompts
        ]
    cancelled.cancel()
    return [handle.result(120) for handle in handles]


def test_answers_stay_the_same_while_the_layout_changes(model: lh.Model) -> None:
    rng = random.Random(5)
    phases = [
        [one(100 * k + i) for i in range(60)]
        for k, one in enumerate((coding, coding, other, coding, coding))
    ]
    for prompts in phases:
        prompts[rng.randrange(26)] = "x" * rng.randrange(300, 480)  # a long prompt
    with lh.Context(model, n_threads=1, kv_layout="per_sequence") as context:
        expected = [run_all(context, prompts) for prompts in phases]
        assert context.plan.kv_layout == "per_sequence"
    layouts = []
    with lh.Context(model, n_threads=1) as context:
        for prompts, results in zip(phases, expected, strict=True):
            for result, right in zip(run_all(context, prompts), results, strict=True):
                assert_near(result, right)
            layouts.append(context.plan.kv_layout)
    # After a pool, the next one needs 64 prompts.
    pool, own = "unified", "per_sequence"
    assert layouts == [pool, pool, own, own, pool]


@pytest.mark.parametrize("kind", ["mamba", "jamba"])
def test_recurrent_states_are_never_put_into_a_pool(
    tiny_path: Callable[[str], Path], kind: str
) -> None:
    with lh.Model(tiny_path(kind)) as model, lh.Context(model, n_threads=1) as context:
        for _ in range(2):
            run_all(context, [coding(i) for i in range(40)])
            assert context.plan.kv_layout == "per_sequence"


def test_a_deterministic_context_never_uses_a_pool(model: lh.Model) -> None:
    options = {"n_threads": 1, "deterministic": True}
    with lh.Context(model, **options) as context:
        for _ in range(2):
            run_all(context, [coding(i) for i in range(40)])
            assert context.plan.kv_layout == "per_sequence"


def test_choices_and_scores_work_beside_single_prompts_in_a_pool(model: lh.Model) -> None:
    words = [" yes", " no"]
    with lh.Context(model, n_threads=1) as context:
        first = lh.classify_parallel(context, [coding(0)], words)
        for _ in range(2):
            run_all(context, [coding(i) for i in range(40)])
        assert context.plan.kv_layout == "unified"
        running = [
            context.submit(coding(i), max_tokens=6, choices=words) for i in range(10)
        ]
        second = lh.classify_parallel(context, [coding(0)], words)
        for handle in running:
            assert handle.result(120).text in words
    assert second.logprobs == pytest.approx(first.logprobs, abs=NEAR)
