"""Models that fit this machine, in Python and for R."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import llamaherd as lh
import pytest
from llamaherd import _r
from llamaherd.engine.hub.profile import Gpu
from plain_forms import plain

PAGE = Path(__file__).resolve().parents[3] / "docs" / "models.md"


def test_larger_memory_fits_more() -> None:
    fits = [
        sum(model.fits for model in lh.recommended_models(memory))
        for memory in (0.1, 8, 16, 32)
    ]
    assert fits == [0, 2, 3, 4]
    sizes = [model.size_bytes for model in lh.recommended_models()]
    assert sizes == sorted(sizes)


def test_each_fits_the_memory_that_it_is_suggested_for() -> None:
    for model in lh.recommended_models():
        models = lh.recommended_models(model.memory_gb or 1)
        assert {one.source: one.fits for one in models}[model.source]


def test_figures_of_others_are_not_called_measured() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for model in lh.recommended_models(8):
        assert model.source in page
        assert (model.measured == "not measured") == bool(model.published)


def test_a_wrong_memory_is_named() -> None:
    for wrong in (0, -1, float("nan"), "8"):
        with pytest.raises((lh.ArgumentError, lh.ArgumentTypeError)) as caught:
            lh.recommended_models(wrong)  # type: ignore[arg-type]
        assert caught.value.argument == "memory_gb"


def test_the_memory_of_a_gpu_is_a_float(monkeypatch: pytest.MonkeyPatch) -> None:
    """R's integers have 32 bits, and reticulate cuts off the others."""
    gpu = Gpu(name="a GPU", memory_bytes=24 << 30, source="libllama")
    profile = dataclasses.replace(lh.hardware_profile(measure=False), gpus=(gpu,))
    monkeypatch.setattr(lh, "hardware_profile", lambda: profile)
    status = _r.hardware_profile()
    table = plain(status["value"])["gpu"]
    assert (table["name"], table["source"]) == (["a GPU"], "libllama")
    [size] = table["vram_bytes"]
    assert isinstance(size, float)
    assert size == 24.0 * 2**30
