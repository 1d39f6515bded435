"""When the loop changes the layout of the cells for single prompts, also in use."""

from __future__ import annotations

import random
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from fake_calls import assert_all_right, assert_right, long_request, request
from fake_engine import answer
from llamaherd import PromptError
from llamaherd.calls.run.call import Call
from llamaherd.calls.run.handle import Handle
from llamaherd.engine.loop.sizing import AT_ONCE, N_LATEST
from llamaherd.engine.memory.plan import Sizes
from stepping import (
    CELLS,
    CODEBOOK,
    coding,
    in_pool,
    other,
    planned,
    run_all,
    run_forties,
    submit,
)
from waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from llamaherd.engine.core.request import Request
    from llamaherd.engine.core.results import Result


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


def test_the_layout_changes_while_prompts_come_without_end() -> None:
    """Answers that run end first, so that none of them computes the codebook again."""
    loop, sizing = planned()
    handles = []

    def come(_: int) -> None:
        is_few = loop.load.n_running + loop.load.n_waiting < 2 * AT_ONCE
        for _ in range(3 if is_few and len(handles) < 200 else 0):
            handles.append(submit(loop, coding(len(handles))))

    sizing.before_run = come
    with loop._lock:  # `come` appends nothing before
        handles.append(submit(loop, coding(0)))
    wait_until(lambda: len(handles) >= 200)
    assert_all_right(handles, coding)
    assert sizing.layouts == ["per_sequence", "unified"]
    forks = [
        tokens for tokens in sizing.engine.paused if len(tokens) == len(CODEBOOK) + 12
    ]
    assert len(forks) <= 2  # the two that revealed the prefix
    assert not sizing.engine.numbers_of


def test_a_call_in_a_pool_of_single_prompts_ends_the_pool() -> None:
    loop, sizing = in_pool()
    requests = [other(i) for i in range(60)]
    started = threading.Event()
    sizing.before_run = lambda _: started.set() or may_run.wait(60)
    may_run = threading.Event()
    single = submit(loop, coding(90))
    started.wait(60)
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(Call(requests, seed=1).run, loop)
        wait_until(lambda: len(loop._groups) + len(loop._arrived) == 2)
        may_run.set()
        assert_all_right(call.result(), requests)
    assert_right(single.result(60), coding(90))
    assert sizing.layouts == ["per_sequence", "unified", "per_sequence"]


def test_a_pool_of_a_call_stays_while_the_call_runs() -> None:
    loop, sizing = planned()
    requests = [coding(i, 10) for i in range(300)]
    call = Call(requests, seed=1)
    handles = []

    def come(n_runs: int) -> None:
        if n_runs == 3:
            handles.extend(submit(loop, other(i)) for i in range(40))
        if any(not group.is_alone for group in loop._groups):
            layouts.add(sizing.layouts[-1])

    layouts: set[str] = set()
    sizing.before_run = come
    assert_all_right(call.run(loop), requests)
    assert_all_right(handles, other)
    assert layouts == {"unified"}


def test_a_long_answer_without_the_prefix_is_paused() -> None:
    loop, sizing = planned()
    handles = []

    def come(n_runs: int) -> None:
        if n_runs == 2:
            handles.extend(submit(loop, coding(i)) for i in range(40))

    prompt = long_request(7)
    sizing.before_run = come
    assert_right(submit(loop, prompt).result(60), prompt)
    assert_all_right(handles, coding)
    assert sizing.layouts == ["per_sequence", "unified"]
    assert tuple(prompt.tokens) in sizing.engine.paused


def test_requests_do_not_wait_for_a_long_answer_with_the_prefix() -> None:
    loop, sizing = planned()
    long_one = next(
        one for one in (coding(i, 200) for i in range(400)) if len(answer(one)[0]) == 200
    )
    run_all(loop, [other(i, 1000) for i in range(40)])  # many long streams
    run_all(loop, [coding(i, 200) for i in (400, 401)])  # they reveal the prefix
    at_end = []

    def come(_: int) -> None:
        if not handles and tuple(long_one.tokens) in sizing.engine.started:
            handles.extend(submit(loop, coding(i)) for i in range(80))

    def ended(_: Handle) -> None:
        n_done = sum(handle.done() for handle in handles)
        at_end.append((list(sizing.layouts), n_done))

    handles: list[Handle] = []
    sizing.before_run = come
    handle = submit(loop, long_one)
    handle.add_done_callback(ended)
    assert_right(handle.result(60), long_one)
    assert_all_right(handles, coding)
    wait_until(lambda: bool(at_end))  # callbacks run after the result is there
    assert at_end == [(["per_sequence"], 80)]


Pending = tuple["Future[list[Result]] | Handle", list["Request"]]


def of_phase(i: int, rng: random.Random) -> Request:
    """Return a request: 150 requests with the codebook follow 150 without it."""
    if i // 150 % 2 == 0 or rng.random() < 0.1:
        return coding(i, rng.randint(1, 30), priority=rng.randrange(2))
    n = rng.choice([20, 20, 100, 800, 3000])
    return request([i % 900, *(k % 900 for k in range(n))], rng.choice([1, 50, 200]))


def check_some(pending: list[Pending], n_left: int, rng: random.Random) -> None:
    """Wait for results in any order, until `n_left` are left, and check them."""
    while len(pending) > n_left:
        running, requests = pending.pop(rng.randrange(len(pending)))
        outcome = running.result(60)
        results = [outcome] if isinstance(running, Handle) else outcome
        for one, result in zip(requests, results, strict=True):
            if result.finish_reason != "cancelled":
                assert_right(result, one)


@pytest.mark.more(reason="random schedules on many layouts", cases=1)
@pytest.mark.parametrize("n_cells", [9_000, CELLS])
def test_callers_of_all_kinds_get_the_right_answers_while_layouts_change(
    n_cells: int,
) -> None:
    rng = random.Random(11)
    loop, sizing = planned(n_cells=n_cells)
    pending: list[Pending] = []
    with ThreadPoolExecutor(8) as pool:
        for i in range(900):
            requests = [of_phase(i, rng)]
            kind = rng.randrange(12)
            if kind == 0:
                requests += [coding(i + k) for k in range(rng.randrange(6))]
                pending.append((pool.submit(Call(requests, seed=1).run, loop), requests))
                continue
            handle = submit(loop, requests[0], stream=kind == 1)
            if kind == 2:
                threading.Timer(rng.random() * 0.01, handle.cancel).start()
            pending.append((handle, requests))
            if len(pending) > 120:
                check_some(pending, 40, rng)
        check_some(pending, 0, rng)
    assert loop.wait(60)
    assert len(sizing.layouts) >= 3
    assert not sizing.engine.numbers_of
    assert sizing.engine.is_idle
    assert loop.load.n_running == loop.load.n_waiting == 0
