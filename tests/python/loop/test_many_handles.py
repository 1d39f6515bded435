"""Work of the loop for many handles at once."""

from __future__ import annotations

import gc
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest
from fake_calls import long_request, request
from fake_engine import FakeEngine, FakeSizing
from llamaherd.engine.loop.fit import change_layout
from llamaherd.engine.loop.group import Group
from llamaherd.engine.loop.runner import Runner
from llamaherd.engine.loop.sizing import LayoutChoice
from stepping import plan, stepping, submit

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from llamaherd.engine.core.outcome import Output
    from llamaherd.engine.core.request import Request
    from llamaherd.engine.core.stats import RequestStats


def n_instructions(work: Callable[[], object]) -> int:
    """Return the number of bytecode instructions that a function runs on this thread.

    Loops inside C functions, such as a copy of a list, are one instruction. Functions
    that the garbage collector would call for objects of other tests are not counted.
    """
    n = 0

    def trace(frame: FrameType, event: str, _arg: object) -> Any:
        nonlocal n
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        n += event == "opcode"
        return trace

    before = sys.gettrace()
    # Python 3.12 counts nothing in the first function.
    for function in (lambda: None, work):
        n = 0
        gc.collect()
        gc.disable()
        sys.settrace(trace)
        try:
            function()
        finally:
            sys.settrace(before)
            gc.enable()
    return n


N = 150
ORDERS: dict[str, Callable[[list], list]] = {
    "first to last": list,
    "last to first": lambda entries: entries[::-1],
}


def is_linear(n_of: Callable[[int], int]) -> bool:
    """Return whether twice the number of handles makes at most 2.4 times the work."""
    return n_of(2 * N) < 2.4 * n_of(N)


class Ends:
    """Listener that counts the requests that ended."""

    def __init__(self) -> None:
        self.n = 0

    def on_output(self, _i: int, _output: Output, _stats: RequestStats) -> None:
        self.n += 1

    def on_end(self, error: BaseException | None) -> None:
        assert error is None


@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS)
def test_cancelling_handles_one_by_one_is_linear(
    order: Callable[[list], list],
) -> None:
    def n_of(n: int) -> int:
        loop, engine = stepping(plan(n_slots=2))
        all_in, accepted, cancelled = (threading.Event() for _ in range(3))

        def before_run(n_runs: int) -> None:
            if n_runs == 0:
                all_in.wait(60)
            elif n_runs == 1:
                accepted.set()
                cancelled.wait(60)
                aborted.append(engine.aborted)

        aborted: list[bool] = []
        engine.before_run = before_run
        handles = [submit(loop, long_request(i)) for i in range(2)]
        handles += [submit(loop, request([i, i, 1], 5)) for i in range(2, n)]
        all_in.set()
        accepted.wait(60)
        count = n_instructions(lambda: [handle.cancel() for handle in order(handles)])
        cancelled.set()
        for handle in handles:
            assert handle.result(60).finish_reason == "cancelled"
        assert aborted == [True]
        assert loop.wait(60)
        return count

    assert is_linear(n_of)


def waiting(n: int, make: Callable[[int], Request]) -> tuple[Runner, list[Group], Ends]:
    """Return a runner with n prompts that wait, because another one has the only slot."""
    sizes = plan(n_slots=1, n_hold=2)
    runner = Runner(FakeEngine(sizes.n_ctx, sizes.n_sequences, pooled=False), sizes)
    ends = Ends()
    runner.add(Group([long_request()], ends))
    runner.run_slice()
    groups = [Group([make(i)], ends) for i in range(n)]
    for group in groups:
        runner.add(group)
    return runner, groups, ends


PROMPTS: dict[str, Callable[[int], Request]] = {
    "a common beginning": lambda i: request([3] * 40 + [i, 1], 5),
    "two common beginnings": lambda i: request([3] * 40 + [i % 2] * 20 + [i, 1], 5),
    "nothing in common": lambda i: request([i] * 40, 5),
    "more and more urgent": lambda i: request([3] * 40 + [i, 1], 5, priority=i),
    "less and less urgent": lambda i: request([3] * 40 + [i, 1], 5, priority=-i),
}


@pytest.mark.more(reason="traces every instruction", cases=3)
@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS)
@pytest.mark.parametrize("make", PROMPTS.values(), ids=PROMPTS)
def test_removing_waiting_prompts_is_linear(
    make: Callable[[int], Request], order: Callable[[list], list]
) -> None:
    def n_of(n: int) -> int:
        runner, groups, ends = waiting(n, make)
        count = n_instructions(lambda: [runner.drop(group) for group in order(groups)])
        assert ends.n == n
        return count

    assert is_linear(n_of)


def test_a_turn_does_not_look_at_prompts_that_wait() -> None:
    def n_of(n: int) -> int:
        runner, *_ = waiting(n, PROMPTS["a common beginning"])
        sizing, choice = FakeSizing(runner.plan, runner.engine), LayoutChoice()

        def turn() -> None:
            change_layout(sizing, runner, choice)
            runner.run_slice()

        turn()  # the first one looks at the prompts that are new
        return n_instructions(turn)

    assert n_of(10 * N) == n_of(N)


def test_a_prefix_goes_to_the_most_urgent_prompt_that_is_left() -> None:
    runner, groups, _ = waiting(8, PROMPTS["more and more urgent"])
    prefix = runner._cache.match(groups[0].requests[0].tokens)
    owners = []
    for group in reversed(groups[1:]):
        owners.append(prefix.call)
        runner.drop(group)
    assert owners == [group.number for group in reversed(groups[1:])]
