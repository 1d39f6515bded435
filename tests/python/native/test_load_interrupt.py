"""Another thread can stop the loading of a model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import llamaherd as lh
import pytest
import tiny_models
from llamaherd.engine.native.models import LoadInterrupt

if TYPE_CHECKING:
    from pathlib import Path


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
