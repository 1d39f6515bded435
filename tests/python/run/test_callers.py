"""Callers on a real model: cancelled calls do not change the results of other calls."""

from __future__ import annotations

import os
import random

import llamaherd as lh
import pytest
from thorough import sized

N_REQUESTS = sized(16, 32)
MAX_TOKENS = 12
# 200 rounds are in docs/reliability.md.
N_ROUNDS = int(os.environ.get("LLAMAHERD_CANCEL_ROUNDS", sized(2, 5)))
STEMS = ["", "The old harbour town was quiet in winter, and ", "Dear reader, I "]
SETTINGS = lh.SamplingParams(max_tokens=MAX_TOKENS, ignore_eos=True)


@pytest.mark.long(reason="a process or a thread for each case")
@pytest.mark.model
@pytest.mark.more(reason="2 of 5 rounds, 16 of 32 callers")
def test_cancelling_half_of_them_leaves_the_others_as_they_are(smollm2: lh.Model) -> None:
    prompts = [
        STEMS[i % 3] + "the word " * (i % 7) + f"number {i}" for i in range(N_REQUESTS)
    ]
    with lh.Context(smollm2, n_seq_max=1, deterministic=True) as context:
        alone = [lh.generate(context, prompt, params=SETTINGS) for prompt in prompts]
    n_midway = 0
    with lh.Context(smollm2, n_seq_max=N_REQUESTS, deterministic=True) as context:
        for k in range(N_ROUNDS):
            results, leaving = one_round(context, prompts, random.Random(k))
            for i, (result, whole) in enumerate(zip(results, alone, strict=True)):
                if result.finish_reason == "cancelled":
                    assert i in leaving
                    assert result.tokens == whole.tokens[: len(result.tokens)]
                    n_midway += 0 < len(result.tokens) < MAX_TOKENS
                else:
                    assert (result.tokens, result.text) == (whole.tokens, whole.text)
    assert n_midway > N_ROUNDS


def one_round(
    context: lh.Context, prompts: list[str], draw: random.Random
) -> tuple[list[lh.Result], set[int]]:
    """Return all results; half of the calls were cancelled at random steps."""
    order = draw.sample(range(N_REQUESTS), N_REQUESTS)
    leaving, stays = set(order[: N_REQUESTS // 2]), order[-1]
    # Times are steps of a call that is not cancelled. The loop's thread cancels others
    # when it reports a piece of this call, so that no slow machine matters.
    moments = [(draw.randrange(MAX_TOKENS), i) for i in leaving]
    handles: list[lh.types.Handle] = []

    def cancel_due() -> None:
        n_steps = handles[stays]._n_chars // 4  # about
        for moment, i in moments:
            if moment <= n_steps:
                handles[i].cancel()
        moments[:] = [moment for moment in moments if moment[0] > n_steps]

    with context.loop._lock:  # type: ignore[attr-defined]  # no call starts before all are there
        handles += [
            context.submit(prompt, params=SETTINGS, stream=i == stays)
            for i, prompt in enumerate(prompts)
        ]
        handles[stays]._listeners.append(cancel_due)
    return [handle.result(300) for handle in handles], leaving
