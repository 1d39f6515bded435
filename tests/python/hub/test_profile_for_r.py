"""The hardware profile as R receives it."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import llamaherd as lh
from llamaherd import _r
from llamaherd.engine.hub.profile import Gpu
from plain_forms import plain

if TYPE_CHECKING:
    import pytest


def test_the_memory_of_a_gpu_is_a_float(monkeypatch: pytest.MonkeyPatch) -> None:
    """R's integers have 32 bits, and reticulate cuts off the others."""
    gpu = Gpu(name="a GPU", memory_bytes=24 << 30, source="libllama")
    profile = dataclasses.replace(lh.hardware_profile(measure=False), gpus=(gpu,))
    monkeypatch.setattr(lh, "hardware_profile", lambda: profile)
    status = _r.hardware_profile()
    found = plain(status["value"])["gpu"]
    assert (found["name"], found["source"]) == (["a GPU"], "libllama")
    [size] = found["vram_bytes"]
    assert isinstance(size, float)
    assert size == 24.0 * 2**30
