"""Native engine: settings in native form, priorities, frees, interrupted loading."""

from __future__ import annotations

import re
import threading
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import pytest
import scripted_model
import tiny_models
from llamaherd.engine.native import engine
from llamaherd.engine.native.engine import NativeEngine
from llamaherd.engine.native.models import LoadInterrupt

if TYPE_CHECKING:
    from collections.abc import Callable

    from llamaherd.engine.core.outcome import RunOutcome


TEMPLATE = (
    "{% for m in messages %}{{ m.content }}{% endfor %}"
    "{% if add_generation_prompt %}<think>{% endif %}"
)


def test_a_full_cache_keeps_the_settings_of_an_answer_behind_a_thought(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = scripted_model.write(
        tmp_path / "m.gguf", "Hm", "</think>", "yes", chat_template=TEMPLATE
    )
    refs: list[weakref.ref[Any]] = []
    native_sampling, native_thinking = engine.native_sampling, engine.native_thinking

    def noted_sampling(*args: Any) -> Any:
        settings = native_sampling(*args)
        refs.append(weakref.ref(settings[0]))
        return settings

    def noted_thinking(*args: Any) -> Any:
        # The settings of the answer, then the settings of its thought, which emptied the
        # cache.
        assert [ref() is not None for ref in refs[-2:]] == [True, True]
        return native_thinking(*args)

    monkeypatch.setattr(engine, "_MAX_SETTINGS", 1)
    monkeypatch.setattr(engine, "native_sampling", noted_sampling)
    monkeypatch.setattr(engine, "native_thinking", noted_thinking)
    thinking = lh.Thinking(budget=5, start="<think>", end="</think>")
    with lh.Model(script.path) as model, lh.Context(model, n_ctx=256) as context:
        results = lh.generate_parallel(
            context, ["a", "b"], chat=True, thinking=thinking, regex="yes|no"
        )
    assert results.errors == [None, None]
    assert len(refs) == 2 * 2


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


SHIM = Path(__file__).resolve().parents[3] / "capi_shim"
SOURCES = "\n".join(path.read_text() for path in sorted(SHIM.rglob("*.cpp")))
# Threads and locks of the parent do not exist in the child.
GUARDS = ("free_unless_forked", "is_refused_child", "guard(")
FREES = re.findall(
    r"API void (\w+_free)\(",
    (SHIM / "llamaherd.h").read_text() + (SHIM / "newrllama_capi.h").read_text(),
)


def test_there_are_functions_that_free() -> None:
    assert {"lh_model_free", "lh_engine_free", "lh_comparison_free"} <= set(FREES)


@pytest.mark.parametrize("name", FREES)
def test_a_forked_child_frees_nothing(name: str) -> None:
    body = re.search(rf"void {name}\([^)]*\) \{{(.*?)\}}\n", SOURCES, re.DOTALL)
    assert body is not None
    assert any(guard in body[1] for guard in GUARDS)


def test_a_load_stops_at_a_tensor_after_the_interrupt(tmp_path: Path) -> None:
    path = tiny_models.write(tmp_path / "tiny.gguf", "llama")
    interrupt = LoadInterrupt()
    interrupt.set()
    assert interrupt.is_set
    with pytest.raises(lh.ModelLoadError, match=r"tiny\.gguf.* was cancelled"):
        lh.Model(path, interrupt=interrupt)
    # The file and the process are unchanged afterwards.
    with lh.Model(path, interrupt=LoadInterrupt()) as model, lh.Context(model) as ctx:
        assert lh.generate(ctx, "one", max_tokens=2).text


def test_an_interrupt_after_the_load_changes_nothing(tmp_path: Path) -> None:
    interrupt = LoadInterrupt()
    path = tiny_models.write(tmp_path / "tiny.gguf", "llama")
    with lh.Model(path, interrupt=interrupt) as model:
        interrupt.set()
        with lh.Context(model) as ctx:
            assert lh.generate(ctx, "one", max_tokens=2).text
