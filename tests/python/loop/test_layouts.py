"""The layout of the cells of single prompts follows the prompts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from fake_calls import request
from llamaherd import PromptError
from llamaherd.engine.loop.sizing import AT_ONCE, N_LATEST
from llamaherd.engine.memory.plan import Sizes
from planning import CODEBOOK, coding, in_pool, other, planned, run_all, run_forties
from stepping import submit

if TYPE_CHECKING:
    from collections.abc import Callable

    from llamaherd.engine.core.request import Request


def test_prompts_that_continue_one_long_prefix_share_a_pool() -> None:
    loop, sizing = in_pool()
    assert loop.plan.kv_layout == "unified"
    # Cells for one copy of the codebook, for the separate text of each running prompt,
    # and for one prompt of the length of a stream.
    assert loop.plan.n_ctx < 400 + (40 + 8) * 20 + 1024 + 256
    n_before = sizing.engine.numbers["n_prefill"]
    run_forties(loop, coding, 80)
    assert sizing.engine.numbers["n_prefill"] == n_before + 40 * 12


def test_prompts_that_fill_all_slots_at_once_share_their_prefix() -> None:
    loop, sizing = planned(Sizes(kv_layout="per_sequence"))
    run_forties(loop, coding)
    assert loop.plan.n_hold > 0
    assert sizing.engine.numbers["n_prefill"] < 40 * 12 + 3 * len(CODEBOOK)


@pytest.mark.parametrize("n_at_once", [1, AT_ONCE - 1])
def test_few_prompts_at_once_keep_their_own_cells(n_at_once: int) -> None:
    loop, sizing = planned()
    for start in range(0, 20 * n_at_once, n_at_once):
        run_all(loop, [coding(start + i) for i in range(n_at_once)])
    assert sizing.layouts == ["per_sequence"]


@pytest.mark.more(reason="random schedules on many layouts", cases=2)
@pytest.mark.parametrize(
    "one",
    [
        other,
        lambda i: coding(i, 120),  # long answers
        lambda i: coding(i) if i % 16 else other(i),
        lambda i: request([*CODEBOOK[i % 2 :], *range(10), i], 8),  # two codebooks
    ],
)
def test_other_prompts_keep_their_own_cells(one: Callable[[int], Request]) -> None:
    loop, sizing = planned()
    run_forties(loop, one, *range(0, 200, 40))
    assert sizing.layouts == ["per_sequence"]


@pytest.mark.parametrize(
    ("sizes", "layout"),
    [
        (Sizes(kv_layout="per_sequence"), "per_sequence"),
        (Sizes(kv_layout="unified"), "unified"),
        (Sizes(deterministic=True), "per_sequence"),
    ],
)
def test_a_fixed_layout_stays(sizes: Sizes, layout: str) -> None:
    loop, sizing = planned(sizes)
    for one in (coding, other, coding):
        run_forties(loop, one, 0, 40)
    assert sizing.layouts == [layout]


def test_a_fixed_number_of_cells_stays() -> None:
    loop, sizing = planned(Sizes(n_ctx=4096))
    for one in (coding, other):
        for start in (0, 40):
            run_forties(loop, one, start)
            assert loop.plan.n_ctx <= 4096
    run_all(loop, [other(0, 4000), *(coding(i) for i in range(40))])
    assert sizing.layouts[:3] == ["per_sequence", "unified", "per_sequence"]


def test_a_pool_is_left_for_other_prompts() -> None:
    loop, sizing = planned()
    run_all(loop, [other(0, 900)])
    run_forties(loop, coding, 0, 40)
    assert loop.plan.kv_layout == "unified"
    run_forties(loop, other)
    assert loop.plan.kv_layout == "per_sequence"
    assert loop.plan.n_ctx_seq >= 908
    run_forties(loop, other, 40)
    assert sizing.layouts == ["per_sequence", "unified", "per_sequence"]


def test_other_prompts_one_after_the_other_stay_in_a_pool() -> None:
    loop, sizing = in_pool()
    for i in range(64):
        run_all(loop, [other(2 * i + k) for k in range(1 if i % 16 else 2)])
    assert sizing.layouts == ["per_sequence", "unified"]


def test_a_pool_has_room_for_a_prompt_that_fitted_into_a_stream() -> None:
    loop, sizing = planned()
    longest = other(0, 2000)
    run_all(loop, [longest])
    run_forties(loop, coding, 0, 40)
    assert loop.plan.kv_layout == "unified"
    n_sizes = len(sizing.engine.sizes)
    run_all(loop, [longest, *(coding(80 + i) for i in range(40))])
    assert len(sizing.engine.sizes) == n_sizes


def test_a_single_other_prompt_does_not_end_a_pool() -> None:
    loop, sizing = in_pool()
    for start in range(80, 400, 40):
        run_all(loop, [other(start, 90), *(coding(start + i) for i in range(39))])
    assert sizing.layouts == ["per_sequence", "unified"]


@pytest.mark.parametrize("is_busy", [False, True])
def test_a_pool_takes_every_prompt_that_streams_take(*, is_busy: bool) -> None:
    loop, _ = in_pool(4096)
    longest = request(range(900), 100)
    assert longest.n_cells < loop.plan.capacity
    beside = [coding(80 + i) for i in range(40)] if is_busy else []
    run_all(loop, [*beside, longest, *beside])
    for n in (2000, 4000):
        run_all(loop, [*beside, request([i % 999 for i in range(n)], 90), *beside])
    with pytest.raises(PromptError, match="more than the 4096"):
        submit(loop, request([i % 999 for i in range(4090)], 10)).result(60)


@pytest.mark.long(reason="random schedules on many layouts")
def test_prompts_that_alternate_change_the_layout_ever_more_rarely() -> None:
    loop, sizing = planned()
    n_cycles = 40
    for cycle in range(n_cycles):
        for one in (coding, other):
            run_all(loop, [one(40 * cycle + i) for i in range(40)])
    # The number of prompts before a pool is doubled five times, up to 1,024.
    n_pools = sizing.layouts.count("unified")
    assert 2 <= n_pools <= 6 + 80 * n_cycles / 1024


def test_a_pool_that_was_used_for_long_is_used_again_soon() -> None:
    loop, _ = in_pool()
    run_forties(loop, coding, *range(80, 1200, 40))
    run_forties(loop, other)
    assert loop.plan.kv_layout == "per_sequence"
    run_all(loop, [coding(i) for i in range(N_LATEST)])
    run_all(loop, [coding(i) for i in range(N_LATEST)])
    assert loop.plan.kv_layout == "unified"


@pytest.mark.parametrize("layout", ["unified", "per_sequence"])
def test_without_memory_for_the_other_layout_nothing_changes(layout: str) -> None:
    if layout == "unified":
        loop, sizing = in_pool()
    else:
        loop, sizing = planned()
        run_forties(loop, other)
    sizing.most_bytes = 0
    for start in (100, 140, 180):
        one = other if layout == "unified" else coding
        run_all(loop, [one(start + i) for i in range(40)])
    assert loop.plan.kv_layout == layout
    assert not sizing.engine.numbers_of
