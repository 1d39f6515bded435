"""Priorities of requests in the engine of llamaherd.h, on a tiny random model."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import llamaherd as lh
from llamaherd.engine.native.engine import NativeEngine

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest
    from llamaherd.engine.core.outcome import RunOutcome

STEM = "a b c d " * 60


def test_an_urgent_prompt_raises_the_prefix_that_it_shares(
    tiny_path: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    has_begun, is_urgent_there = threading.Event(), threading.Event()
    raised: list[int] = []
    run, set_priority = NativeEngine.run, NativeEngine.set_priority

    def step(engine: NativeEngine, **_options: object) -> RunOutcome:
        outcome = run(engine, max_steps=1)
        has_begun.set()
        assert is_urgent_there.wait(60)
        return outcome

    def recorded(engine: NativeEngine, id_: int, priority: int) -> None:
        raised.append(priority)
        set_priority(engine, id_, priority)

    monkeypatch.setattr(NativeEngine, "run", step)
    monkeypatch.setattr(NativeEngine, "set_priority", recorded)
    options = {"max_tokens": 4, "ignore_eos": True}
    model = lh.Model(tiny_path("llama"))
    with model, lh.Context(model, n_batch=64, n_threads=1) as context:
        prompts = [f"{STEM}{i}" for i in range(3)]
        job = lh.start_parallel(context, prompts, **options)
        assert has_begun.wait(60)
        urgent = context.submit(f"{STEM}9", priority=7, **options)
        is_urgent_there.set()
        assert urgent.result(60).error is None
        assert all(result.error is None for result in job.result())
    assert raised == [7]
