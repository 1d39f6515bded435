from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import pytest
from hypothesis import given
from hypothesis import strategies as st
from llamaherd.engine.memory import hardware, kv_cells
from llamaherd.engine.memory.plan import MAX_HOLD, ROWS, ROWS_AMX, Plan, Sizes, make_plan
from llamaherd.engine.native.models import ModelInfo

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

GB = 10**9


def planned(
    sizes: Sizes,
    needs: list[int],
    n_prefixes: int = 0,
    memory_bytes: int = 8 * GB,
    *,
    n_shared: int = 0,
    n_rows: int = ROWS,
) -> Plan:
    return make_plan(
        sizes,
        needs,
        n_prefixes,
        n_shared,
        n_batch=512,
        n_rows=n_rows,
        bytes_per_cell=20_000,
        memory_bytes=memory_bytes,
    )


def test_all_automatic_gives_each_sequence_its_own_cells() -> None:
    plan = planned(Sizes(), [100] * 50, n_prefixes=2)
    assert plan == Plan(
        n_ctx=30 * 256,
        n_seq_max=28,
        n_hold=2,
        kv_layout="per_sequence",
        n_ctx_seq=256,
        capacity=8 * GB // 2 // 20_000 // 256 * 256,
        memory_bytes=30 * 256 * 20_000,
    )


@pytest.mark.parametrize(
    ("n_prompts", "n_slots"),
    [(1, 1), (34, 34), (40, 40), (41, 24), (64, 32), (100, 36), (10_000, 40)],
)
def test_rounds_of_prompts_are_even(n_prompts: int, n_slots: int) -> None:
    assert planned(Sizes(), [100] * n_prompts).n_seq_max == n_slots


@pytest.mark.parametrize(
    ("n_prompts", "n_slots"), [(1, 1), (20, 20), (33, 32), (100, 32), (10_000, 32)]
)
def test_no_more_run_at_once_than_amx_multiplies_together(
    n_prompts: int, n_slots: int
) -> None:
    plan = planned(Sizes(), [100] * n_prompts, n_rows=ROWS_AMX)
    assert plan.n_seq_max == n_slots


def test_fewer_run_at_once_when_memory_is_short() -> None:
    plan = planned(Sizes(), [2000] * 50, memory_bytes=GB // 5)
    assert (plan.n_seq_max, plan.n_ctx_seq) == (2, 2048)
    assert plan.memory_bytes <= GB // 10


def test_one_prompt_may_use_the_whole_pool() -> None:
    plan = planned(Sizes(n_ctx=2048, n_seq_max=8), [2000, 100], n_prefixes=3)
    assert (plan.n_seq_max, plan.n_hold, plan.n_ctx_seq) == (1, 0, 2048)


def test_how_many_run_at_once_follows_from_what_fits() -> None:
    plan = planned(Sizes(n_ctx=2048, n_seq_max=8), [500, 100] * 9, n_prefixes=3)
    assert (plan.n_seq_max, plan.n_hold, plan.n_ctx_seq) == (3, 1, 512)
    plan = planned(Sizes(n_ctx=4096, n_seq_max=8), [200, 100] * 9, n_prefixes=3)
    assert (plan.n_seq_max, plan.n_hold, plan.n_ctx_seq) == (8, 3, 256)
    assert plan.n_ctx <= 4096


def test_a_prompt_that_fits_nowhere_takes_no_room_from_the_others() -> None:
    plan = planned(Sizes(n_ctx=2048, n_seq_max=8), [5000, 100] * 9)
    assert (plan.n_seq_max, plan.n_ctx_seq, plan.capacity) == (8, 256, 2048)


def test_a_pool_is_shared_on_request() -> None:
    plan = planned(Sizes(n_ctx=2048, n_seq_max=8, kv_layout="unified"), [1500, 100])
    assert (plan.kv_layout, plan.n_ctx, plan.n_ctx_seq) == ("unified", 2048, 2048)
    plan = planned(Sizes(kv_layout="unified"), [2000] * 50, memory_bytes=GB // 10)
    assert 2000 <= plan.n_ctx_seq == plan.n_ctx
    assert plan.memory_bytes <= GB // 20


def test_a_long_prefix_that_all_share_makes_a_pool() -> None:
    annotate = {"needs": [450] * 100, "n_prefixes": 1}
    plan = planned(Sizes(), **annotate, n_shared=400)
    assert (plan.kv_layout, plan.n_seq_max, plan.n_hold) == ("unified", 36, 1)
    # Cells for one copy of the prefix, and the additional cells of each prompt.
    assert 400 + 37 * 50 <= plan.n_ctx < 400 + 37 * 50 + 256
    for sizes, n_shared in [
        (Sizes(), 300),
        (Sizes(deterministic=True), 400),
        (Sizes(kv_layout="per_sequence"), 400),
    ]:
        plan = planned(sizes, **annotate, n_shared=n_shared)
        assert plan.kv_layout == "per_sequence"
    # Then few cells are enough.
    assert planned(Sizes(n_ctx=2048), **annotate, n_shared=400).n_seq_max == 36


STATE = 10_000_000  # bytes


def planned_recurrent(sizes: Sizes, memory_bytes: int) -> Plan:
    return make_plan(
        sizes,
        [2000] * 50,
        2,
        n_batch=512,
        bytes_per_cell=20_000,
        bytes_per_sequence=STATE,
        memory_bytes=memory_bytes,
    )


@pytest.mark.parametrize("layout", ["unified", "per_sequence"])
def test_recurrent_states_take_their_share_of_the_memory(layout: str) -> None:
    sizes = Sizes(kv_layout=layout)
    plan = planned_recurrent(sizes, 50 * GB)
    assert (plan.n_seq_max, plan.n_hold) == (28, 2)
    assert plan.memory_bytes == plan.n_ctx * 20_000 + 30 * STATE
    # Ten states need half of the allowed memory.
    plan = planned_recurrent(sizes, 40 * STATE)
    assert plan.n_sequences <= 10
    assert plan.memory_bytes <= 20 * STATE
    plan = planned_recurrent(sizes, 0)
    assert (plan.n_seq_max, plan.n_hold) == (1, 0)
    plan = planned_recurrent(Sizes(n_ctx=1 << 20, kv_layout=layout), 40 * STATE)
    assert plan.n_sequences == 10


def test_few_prompts_need_few_slots() -> None:
    assert planned(Sizes(), [10] * 3).n_seq_max == 3
    assert planned(Sizes(), []).n_seq_max == 1
    assert planned(Sizes(n_seq_max=7), [10] * 3).n_seq_max == 3
    assert planned(Sizes(n_seq_max=7), [10] * 30).n_seq_max == 7


def test_a_small_n_batch_limits_the_automatic_slots() -> None:
    plan = make_plan(Sizes(), [9] * 99, 0, n_batch=12, bytes_per_cell=1, memory_bytes=GB)
    assert plan.n_seq_max == 12 - MAX_HOLD


@given(
    n_ctx=st.none() | st.integers(1, 10_000),
    n_seq_max=st.none() | st.integers(1, 248),
    kv_layout=st.sampled_from([None, "unified", "per_sequence"]),
    needs=st.lists(st.integers(1, 8192), max_size=60),
    n_prefixes=st.integers(0, 100),
    memory_bytes=st.integers(0, 64 * GB),
)
def test_plans_are_sound(  # noqa: PLR0917
    n_ctx: int | None,
    n_seq_max: int | None,
    kv_layout: str | None,
    needs: list[int],
    n_prefixes: int,
    memory_bytes: int,
) -> None:
    sizes = Sizes(n_ctx=n_ctx, n_seq_max=n_seq_max, kv_layout=kv_layout)
    plan = planned(sizes, needs, n_prefixes, memory_bytes)
    assert plan.n_sequences <= 256
    assert plan.n_ctx_seq % 256 == 0
    if plan.kv_layout == "per_sequence":
        assert plan.n_ctx == plan.n_ctx_seq * plan.n_sequences
    else:
        assert plan.n_ctx == plan.n_ctx_seq
    assert n_ctx is None or plan.n_ctx < n_ctx + 256
    assert plan.n_ctx_seq >= max((n for n in needs if n <= plan.capacity), default=1)
    assert plan.covers(plan)
    assert not plan.covers(replace(plan, n_ctx_seq=plan.n_ctx_seq + 256))


def test_a_plan_explains_itself() -> None:
    text = str(planned(Sizes(), [100] * 4, n_prefixes=1))
    assert "4 prompts at once and 1 shared prefixes" in text
    assert "1280 KV cells" in text


INFO = ModelInfo(*([0] * len(fields(ModelInfo))))


@pytest.mark.parametrize(
    ("metadata", "types", "expected"),
    [
        # 30 layers of 3 heads of 64 numbers, keys and values, 2 bytes each
        ({"head_count": "9", "head_count_kv": "3"}, ("f16", "f16"), 23_040),
        ({"head_count": "9", "head_count_kv": "3"}, ("q8_0", "f32"), 29_160),
        ({"head_count": "9", "head_count_kv": "[3, 1, 3]"}, ("f16", "f16"), 23_040),
        (
            {
                "head_count": "4",
                "head_count_kv": "1",
                "key_length": "256",
                "value_length": "128",
            },
            ("f16", "f16"),
            30 * 768,
        ),
        ({}, ("f16", "f16"), 30 * 576 * 4),
        ({"head_count_kv": "0"}, ("f16", "f16"), 1),
    ],
)
def test_bytes_per_cell(
    metadata: dict[str, str], types: tuple[str, str], expected: int
) -> None:
    full = {f"llama.attention.{key}": value for key, value in metadata.items()}
    info = replace(INFO, n_layer=30, n_embd=576)
    full["general.architecture"] = "llama"
    assert kv_cells.bytes_per_cell(full, info, *types) == expected
    least = kv_cells.least_bytes_per_cell(full, info, *types)
    assert least == (expected // 8 if "[" in str(metadata) else expected)
    window = {**full, "llama.attention.sliding_window": "512"}
    hybrid = replace(info, is_hybrid=1)
    for n_bytes in (
        kv_cells.least_bytes_per_cell(window, info, *types),
        kv_cells.least_bytes_per_cell(full, hybrid, *types),
    ):
        assert n_bytes == max(1, expected // 8)


def test_the_machine_has_cores_and_memory() -> None:
    assert hardware.n_cores.__wrapped__() >= 1
    assert hardware.available_memory() > 0


def test_recurrent_states_count_by_sequence() -> None:
    info = replace(INFO, n_layer=2, n_embd=32)
    assert kv_cells.bytes_per_sequence({}, info) == 0
    recurrent = replace(info, is_recurrent=1)
    assert kv_cells.bytes_per_cell({}, recurrent, "f16", "f16") == 1
    mamba = {
        "general.architecture": "mamba",
        "mamba.ssm.inner_size": "64",
        "mamba.ssm.state_size": "8",
        "mamba.ssm.conv_kernel": "4",
    }
    assert kv_cells.bytes_per_sequence(mamba, info) == 2 * 4 * (3 * 64 + 8 * 64)
    rwkv = {"general.architecture": "rwkv7", "rwkv7.wkv.head_size": "16"}
    assert kv_cells.bytes_per_sequence(rwkv, info) == 2 * 4 * 32 * (16 + 2)
    lfm2 = {"general.architecture": "lfm2", "lfm2.shortconv.l_cache": "3"}
    assert kv_cells.bytes_per_sequence(lfm2, info) == 2 * 4 * 32 * 2


@pytest.fixture
def cgroups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create a tree of control groups, with this process in `slice/service`."""
    (tmp_path / "own").write_text("0::/slice/service\n")
    monkeypatch.setattr(hardware, "_CGROUPS", tmp_path)
    monkeypatch.setattr(hardware, "_OWN_CGROUP", tmp_path / "own")
    (tmp_path / "slice" / "service").mkdir(parents=True)
    return tmp_path


def set_limit(folder: Path, limit: object, used: int, stat: str = "") -> None:
    (folder / "memory.max").write_text(f"{limit}\n")
    (folder / "memory.current").write_text(f"{used}\n")
    if stat:
        (folder / "memory.stat").write_text(stat)


@pytest.mark.parametrize("place", ["", "slice", "slice/service"])
def test_memory_is_what_the_container_may_have(cgroups: Path, place: str) -> None:
    unlimited = hardware.available_memory()
    set_limit(cgroups / place, "max", 600)
    assert hardware.available_memory() > unlimited / 2
    set_limit(cgroups / place, 1000, 600)
    assert hardware.available_memory() == 400
    set_limit(cgroups / place, 1000, 1200)
    assert hardware.available_memory() == 0


def test_the_memory_in_all_is_what_the_container_may_have(cgroups: Path) -> None:
    unlimited = hardware.total_memory()
    assert unlimited >= hardware.available_memory()
    set_limit(cgroups / "slice", "max", 600)
    assert hardware.total_memory() == unlimited
    set_limit(cgroups / "slice", 1000, 600)
    assert hardware.total_memory() == 1000


@pytest.mark.parametrize("layout", ["auto", "unified", "per_sequence"])
def test_a_cache_that_the_memory_cannot_hold_is_refused_at_once(
    monkeypatch: pytest.MonkeyPatch, tiny_path: Callable[[str], Path], layout: Any
) -> None:
    with lh.Model(tiny_path("llama")) as model:
        cell = kv_cells.bytes_per_cell(model.metadata, model.info, "f16", "f16")
        monkeypatch.setattr(hardware, "total_memory", lambda: 1000 * cell)
        with pytest.raises(lh.ContextError, match=r"to at most 1000$"):
            lh.Context(model, n_ctx=1001, kv_layout=layout)
        lh.Context(model, n_ctx=1000, kv_layout=layout).close()


def test_contexts_of_one_machine_take_equal_shares(
    monkeypatch: pytest.MonkeyPatch, tiny_path: Callable[[str], Path]
) -> None:
    monkeypatch.setattr(hardware, "available_memory", lambda: 64_000_000)

    def n_bytes(n_sharing: int, **sizes: int) -> int:
        with (
            lh.Model(tiny_path("llama")) as model,
            lh.Context(model, **sizes) as context,
        ):
            context.loop.share(n_sharing)
            prompts = [f"{i}: {'word ' * 60}" for i in range(40)]
            results = lh.generate_parallel(context, prompts, max_tokens=4)
            assert results.stats.n_failed == 0
            return context.plan.memory_bytes

    alone = n_bytes(1)
    assert 4_000_000 < alone < 32_000_000
    assert n_bytes(16) <= 2_000_000
    assert n_bytes(16, n_ctx=16384) == n_bytes(1, n_ctx=16384) > 2_000_000


def test_cached_files_do_not_count_against_the_limit(cgroups: Path) -> None:
    set_limit(cgroups, 1000, 900, "anon 200\ninactive_file 500\nactive_file 150\n")
    assert hardware.available_memory() == 750
    set_limit(cgroups / "slice", 1000, 300)  # the smallest limit applies
    assert hardware.available_memory() == 700


def test_without_control_groups_the_machine_counts(
    cgroups: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_limit(cgroups, 1000, 600)
    monkeypatch.setattr(hardware, "_OWN_CGROUP", cgroups / "none")
    assert hardware.available_memory() > 1000


@pytest.mark.parametrize("place", ["", "slice", "slice/service"])
def test_there_are_no_more_threads_than_the_container_has_time_for(
    cgroups: Path, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hardware, "n_physical_cores", lambda: 16)
    monkeypatch.setattr(hardware.os, "sched_getaffinity", lambda _: set(range(12)))
    for content, n in (
        ("max 100000", 12),
        ("350000 100000", 3),
        ("50000 100000", 1),
        ("0 0", 12),
        ("nonsense", 12),
    ):
        (cgroups / place / "cpu.max").write_text(f"{content}\n")
        assert hardware.n_cores.__wrapped__() == n  # as conftest.py found it
