"""Plans depend on the memory of layers and KV cache. The GPUs are fakes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import llamaherd as lh
import pytest
from llamaherd.engine.loop.sizing import NativeSizing, Work
from llamaherd.engine.memory import hardware
from llamaherd.engine.memory.device import Placement, device_of, memory_of_model
from llamaherd.engine.memory.plan import AUTO_SLOTS
from llamaherd.engine.native import shim
from llamaherd.engine.native.shim import GpuMemory

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

GB = 10**9
HOST = 32 * GB
N_LAYER = 10


def fake_gpus(
    monkeypatch: pytest.MonkeyPatch, *free: int, shares_memory: bool = False
) -> None:
    gpus = tuple(
        GpuMemory(f"FAKE{i}", "a fake", n, n, shares_memory) for i, n in enumerate(free)
    )
    monkeypatch.setattr(shim, "gpus", lambda: gpus)
    monkeypatch.setattr(shim, "supports_gpu", lambda: bool(gpus))
    monkeypatch.setattr(hardware, "available_memory", lambda: HOST)


def available(*, offload: bool = True, **placement: object) -> int:
    device = device_of(Placement(**placement), N_LAYER, offload_kqv=offload)
    return device.available_memory()


def test_without_a_gpu_host_memory_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_gpus(monkeypatch)
    assert available(n_gpu_layers=-1) == HOST
    assert shim.gpus() == ()
    assert device_of(Placement(n_gpu_layers=-1), N_LAYER).auto_slots == AUTO_SLOTS


def test_a_cache_lies_where_its_layers_do(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_gpus(monkeypatch, 8 * GB)
    assert available() == HOST
    assert available(n_gpu_layers=-1) == 8 * GB
    assert available(n_gpu_layers=99) == 8 * GB
    assert available(n_gpu_layers=-1, offload=False) == HOST
    # The output is placed on the GPU first, so 6 layers are the output and 5 of 10
    # layers.
    assert available(n_gpu_layers=6) == 16 * GB
    assert available(n_gpu_layers=1) == HOST
    fake_gpus(monkeypatch, 100 * GB)
    assert available(n_gpu_layers=6) == 2 * HOST


def test_a_cache_in_gpu_memory_can_have_all_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gpu = GpuMemory("FAKE0", "a fake", GB, 8 * GB)  # 1 of 8 GB is free
    monkeypatch.setattr(shim, "gpus", lambda: (gpu,))
    monkeypatch.setattr(shim, "supports_gpu", lambda: True)
    monkeypatch.setattr(hardware, "total_memory", lambda: HOST)
    assert device_of(Placement(), N_LAYER).total_memory() == HOST
    assert device_of(Placement(n_gpu_layers=-1), N_LAYER).total_memory() == 8 * GB
    assert device_of(Placement(n_gpu_layers=6), N_LAYER).total_memory() == 16 * GB


def test_a_gpu_that_shares_the_processors_memory_adds_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A driver may report more free memory for it than other programs have left."""
    fake_gpus(monkeypatch, 100 * GB, shares_memory=True)
    assert available(n_gpu_layers=-1) == HOST
    assert available(n_gpu_layers=6) == HOST
    assert memory_of_model(Placement(n_gpu_layers=-1)) == HOST
    assert memory_of_model(Placement(n_gpu_layers=6)) == HOST
    fake_gpus(monkeypatch, 8 * GB, shares_memory=True)
    assert available(n_gpu_layers=-1) == 8 * GB
    assert available(n_gpu_layers=6) == 16 * GB
    assert memory_of_model(Placement(n_gpu_layers=-1)) == 8 * GB


def test_only_gpus_that_hold_layers_count(monkeypatch: pytest.MonkeyPatch) -> None:
    gpus = (
        GpuMemory("FAKE0", "a fake", 100 * GB, 100 * GB),
        GpuMemory("FAKE1", "a fake", 100 * GB, 100 * GB, shares_memory=True),
    )
    fake_gpus(monkeypatch)
    monkeypatch.setattr(shim, "gpus", lambda: gpus)
    monkeypatch.setattr(shim, "supports_gpu", lambda: True)
    assert available(n_gpu_layers=-1, split_mode="none") == 100 * GB
    assert available(n_gpu_layers=-1, split_mode="none", main_gpu=1) == HOST
    assert available(n_gpu_layers=-1, tensor_split=(1.0, 0.0)) == 100 * GB
    assert available(n_gpu_layers=-1, tensor_split=(1.0, 1.0)) == HOST
    assert available(n_gpu_layers=-1) == HOST


def test_several_gpus_count_as_the_model_is_split(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fake_gpus(monkeypatch, 8 * GB, 2 * GB)
    assert available(n_gpu_layers=-1) == 10 * GB
    assert available(n_gpu_layers=-1, split_mode="none", main_gpu=1) == 2 * GB
    # A quarter of the cache fills the second GPU.
    assert available(n_gpu_layers=-1, tensor_split=(3.0, 1.0)) == 8 * GB
    assert available(n_gpu_layers=-1, tensor_split=(1.0, 0.0)) == 8 * GB


def test_a_model_is_compared_with_the_memory_that_it_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fake_gpus(monkeypatch, 8 * GB)
    assert memory_of_model(Placement()) == HOST
    assert memory_of_model(Placement(n_gpu_layers=-1)) == 8 * GB
    assert memory_of_model(Placement(n_gpu_layers=4)) == HOST + 8 * GB


def test_a_model_larger_than_the_gpu_is_refused(
    tiny_path: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_gpus(monkeypatch, 1000)
    with pytest.raises(lh.ModelLoadError, match=r"does not fit .* 1000 bytes are"):
        lh.Model(tiny_path("llama"), n_gpu_layers=-1)
    lh.Model(tiny_path("llama"), n_gpu_layers=-1, check_memory=False).close()


def test_texts_to_embed_are_compared_with_the_memory_of_the_gpu(
    tiny_path: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_gpus(monkeypatch, 8 * GB)
    with lh.Model(tiny_path("bert"), n_gpu_layers=-1) as model:
        fake_gpus(monkeypatch, 1000)
        with pytest.raises(lh.ContextError, match=r"of GPU memory to embed, 0\.0 are"):
            lh.embed_parallel(model, ["text"])
        fake_gpus(monkeypatch, 8 * GB)
        monkeypatch.setattr(hardware, "available_memory", lambda: 1000)
        assert lh.embed_parallel(model, ["text"]).errors == [None]


def test_a_gpu_runs_more_prompts_at_once_and_refuses_what_it_cannot_hold(
    tiny_path: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_gpus(monkeypatch, 8 * GB)
    with lh.Model(tiny_path("llama"), n_gpu_layers=-1) as model:
        context = lh.Context(model)

        def sizing() -> NativeSizing:
            base = context.loop._sizing
            return NativeSizing(
                model,
                base._params,
                base._sizes,
                1000,
                0,
                device=device_of(model.placement, model.info.n_layer),
            )

        work = Work(needs=[100] * 1000)
        on_gpu = sizing().plan(work)
        assert on_gpu.n_seq_max == 200
        fake_gpus(monkeypatch, 20_000_000)
        plan = sizing().plan(work)
        assert plan.n_seq_max < AUTO_SLOTS
        assert plan.memory_bytes <= 10_000_000
        with pytest.raises(lh.ContextError, match=r"of GPU memory, 0\.0 are available"):
            sizing().check_memory(on_gpu)
        context.close()


@pytest.mark.parametrize(
    ("n_original", "fixed", "layout"),
    [
        (None, "auto", "unified"),
        (4096, "auto", "unified"),  # the pool has fewer cells than this number
        (1024, "auto", "per_sequence"),
        (400, "auto", "unified"),  # each prompt alone is longer than this number
        (1024, "unified", "unified"),
    ],
)
def test_a_pool_does_not_change_the_rope_factors(
    tiny_path: Callable[[str], Path], n_original: int | None, fixed: str, layout: str
) -> None:
    with lh.Model(tiny_path("llama")) as model, lh.Context(model, kv_layout=fixed) as ctx:
        if n_original is not None:
            name = "llama.rope.scaling.original_context_length"
            model.metadata[name] = str(n_original)
        base = ctx.loop._sizing
        placed = device_of(model.placement, model.info.n_layer)
        sizing = NativeSizing(model, base._params, base._sizes, 1000, 0, device=placed)
        plan = sizing.plan(Work(needs=[450] * 32, n_shared=400))
        assert plan.kv_layout == layout
        assert plan.n_ctx_seq == (2048 if layout == "unified" else 512)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"split_mode": "rows"}, ValueError, "split_mode must be"),
        ({"main_gpu": -1}, ValueError, "main_gpu must be"),
        ({"main_gpu": 2}, ValueError, r"main_gpu must be less than .* GPUs \(2\), not 2"),
        ({"tensor_split": "3"}, TypeError, "tensor_split must be a list"),
        ({"tensor_split": [1, "2"]}, TypeError, "tensor_split must be"),
        ({"tensor_split": [0, 0]}, ValueError, "tensor_split must have a share above 0"),
        ({"tensor_split": [1, 1, 1]}, ValueError, "each of the 2 GPUs, not 3 shares"),
    ],
)
def test_bad_arguments_are_named(
    tiny_path: Callable[[str], Path],
    monkeypatch: pytest.MonkeyPatch,
    arguments: dict[str, object],
    error: type[Exception],
    message: str,
) -> None:
    fake_gpus(monkeypatch, GB, GB)
    with pytest.raises(error, match=message):
        lh.Model(tiny_path("llama"), n_gpu_layers=-1, **arguments)


def test_a_split_reaches_libllama(tiny_path: Callable[[str], Path]) -> None:
    # Without layers on a GPU the argument has no effect, but it is checked and stored.
    with (
        lh.Model(
            tiny_path("llama"), n_gpu_layers=0, split_mode="none", tensor_split=[1, 2]
        ) as model,
        lh.Context(model) as context,
    ):
        assert lh.generate(context, "a", max_tokens=2).text is not None
