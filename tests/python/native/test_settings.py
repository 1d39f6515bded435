"""Settings in native form: cached, and alive as long as a request is submitted."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import scripted_model
from llamaherd.engine.native import engine

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

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
    made: list[weakref.ref[Any]] = []
    native_sampling, native_thinking = engine.native_sampling, engine.native_thinking

    def noted_sampling(*args: Any) -> Any:
        settings = native_sampling(*args)
        made.append(weakref.ref(settings[0]))
        return settings

    def noted_thinking(*args: Any) -> Any:
        # The settings of the answer, then the settings of its thought, which emptied the
        # cache.
        assert [ref() is not None for ref in made[-2:]] == [True, True]
        return native_thinking(*args)

    monkeypatch.setattr(engine, "_MAX_SETTINGS", 1)
    monkeypatch.setattr(engine, "native_sampling", noted_sampling)
    monkeypatch.setattr(engine, "native_thinking", noted_thinking)
    thinking = lh.Thinking(budget=5, start="<think>", end="</think>")
    with lh.Model(script.path) as model, lh.Context(model, n_ctx=256) as context:
        found = lh.generate_parallel(
            context, ["a", "b"], chat=True, thinking=thinking, regex="yes|no"
        )
    assert found.errors == [None, None]
    assert len(made) == 2 * 2
