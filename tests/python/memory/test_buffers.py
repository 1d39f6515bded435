"""The estimate of a context's buffers is an upper one, and not far too large."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import pytest
import tiny_models
from llamaherd.engine.memory.kv_cells import buffers_of
from llamaherd.engine.native.shim import ffi, lib

if TYPE_CHECKING:
    from pathlib import Path

SETTINGS: list[dict[str, Any]] = [
    {"n_seq_max": 4, "n_ctx": 1024, "kv_layout": "per_sequence"},
    {"n_seq_max": 32, "n_ctx": 16384, "kv_layout": "unified"},
    {"n_seq_max": 4, "n_ctx": 2048, "n_batch": 64},
    {"n_seq_max": 8, "n_ctx": 4096, "kv_layout": "unified", "flash_attn": False},
]
KINDS = ["llama", "qwen2", "mamba", "mamba2", "jamba"]
_MOST_LOG = 1 << 20


def _log() -> str:
    buffer = ffi.new("char[]", _MOST_LOG)
    n = lib.lh_log_drain(buffer, _MOST_LOG)
    return bytes(ffi.buffer(buffer, n)).decode(errors="replace")


def _measured_and_estimated(
    model: lh.Model, options: dict[str, Any]
) -> tuple[float, int]:
    """Sizes by libllama's log, and by the estimate, in bytes."""
    _log()
    with lh.Context(model, n_threads=1, **options) as ctx:
        prompts = [f"{i} a b" for i in range(options["n_seq_max"])]
        lh.generate_parallel(ctx, prompts, max_tokens=2)
        pattern = r"(?:compute|output) buffer size = *([\d.]+) MiB"
        sizes = [float(size) for size in re.findall(pattern, _log())]
        assert sizes
        assert ctx.plan is not None
        buffers = buffers_of(
            model.metadata,
            model.info,
            n_ubatch=min(512, options.get("n_batch", 512)),
            n_sequences=ctx.plan.n_sequences,
            flash_attn=options.get("flash_attn", True),
        )
        return sum(sizes) * (1 << 20), buffers.of(ctx.plan.n_ctx)


@pytest.mark.parametrize("options", SETTINGS, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_tiny_models_need_no_more(
    tmp_path: Path, kind: str, options: dict[str, Any]
) -> None:
    with lh.Model(tiny_models.write(tmp_path / "tiny.gguf", kind)) as model:
        measured, estimated = _measured_and_estimated(model, options)
    assert measured <= estimated


@pytest.mark.more(reason="loads real models", cases=1)
@pytest.mark.model
@pytest.mark.parametrize("options", SETTINGS, ids=str)
def test_real_models_need_no_more_and_not_much_less(
    smollm2: lh.Model, gemma3: lh.Model, options: dict[str, Any]
) -> None:
    """Rows of logits, which are twice in the estimate, are most of a real model's."""
    for model in (smollm2, gemma3):
        measured, estimated = _measured_and_estimated(model, options)
        assert measured <= estimated <= 4 * measured


def test_a_context_keeps_its_cache_and_buffers_within_a_limit(tmp_path: Path) -> None:
    path = tiny_models.write(tmp_path / "tiny.gguf", "llama")
    limit = 40_000_000
    with lh.Model(path) as model, lh.Context(model, n_seq_max=4) as ctx:
        assert ctx.limit_memory(limit) <= limit
        lh.generate_parallel(ctx, ["a " * 400] * 400, max_tokens=100)
        assert ctx.plan is not None
        buffers = buffers_of(model.metadata, model.info, n_ubatch=512, n_sequences=12)
        assert ctx.plan.memory_bytes + buffers.of(ctx.plan.n_ctx) <= limit
    # A limit that is too low for the buffers is exceeded, and the result says so.
    with lh.Model(path) as model, lh.Context(model, n_seq_max=4) as ctx:
        assert ctx.limit_memory(1000) > buffers.n_bytes
