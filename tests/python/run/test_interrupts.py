"""Ctrl-C at any moment of a call loses no result."""

from __future__ import annotations

import linecache
import os
import random
import signal
import sys
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import pytest
from llamaherd.calls.run.job import Interrupts, wait_for_end
from llamaherd.engine.loop import threads
from llamaherd.engine.loop.loop import Loop
from thorough import sized

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from types import FrameType


SETTINGS: dict[str, Any] = {"max_tokens": 5, "params": lh.SamplingParams(ignore_eos=True)}


@pytest.fixture(scope="module")
def context(tiny_path: Callable[[str], Path]) -> Iterator[lh.Context]:
    with lh.Model(tiny_path("llama")) as model, lh.Context(model, n_threads=1) as context:
        lh.generate(context, "a", **SETTINGS)
        yield context


@contextmanager
def interrupted_at(k: int) -> Iterator[list[int]]:
    """Send Ctrl-C before the k-th line that the library runs in this thread.

    At the end of a `with` block, the signal is sent at the next line: between the last
    line and `__exit__`, Python checks for no signals, and an error there would leave a
    lock locked. In a `__del__` method it is sent afterwards, because Python prints what
    such a method raises, and goes on. The function yields the number of lines so far, in
    a list.
    """
    n_lines = [0]
    is_pressed = [k < 1]
    withs: set[tuple[FrameType, int]] = set()

    def ends_with_block(frame: FrameType) -> bool:
        line = linecache.getline(frame.f_code.co_filename, frame.f_lineno)
        if not line.lstrip().startswith("with "):
            return False
        place = (frame, frame.f_lineno)
        is_left = place in withs
        withs.add(place)
        return is_left

    def is_finalizing(frame: FrameType | None) -> bool:
        while frame is not None and frame.f_code.co_name != "__del__":
            frame = frame.f_back
        return frame is not None

    def trace(frame: FrameType, event: str, _: object) -> Any:
        if "llamaherd" not in frame.f_code.co_filename:
            return None
        if event == "line":
            n_lines[0] += 1
            is_not_here = ends_with_block(frame) or is_finalizing(frame)
            if not (is_not_here or n_lines[0] < k or is_pressed[0]):
                is_pressed[0] = True
                signal.raise_signal(signal.SIGINT)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield n_lines
    finally:
        sys.settrace(before)


def n_running() -> int:
    """Return the number of running jobs and loops (a loop may have no work)."""
    every = set(threads._jobs)
    return sum(
        not waitable.wait(5 if isinstance(waitable, Loop) else 0) for waitable in every
    )


def outcome(k: int, call: Callable[[], object]) -> str:
    """Return the outcome of a call that was interrupted at line `k`."""
    handler = signal.getsignal(signal.SIGINT)
    with interrupted_at(k) as n_lines:
        results: lh.Results | None = None
        try:
            call()
            end = "returned" if n_lines[0] >= k else "too late"
        except lh.Interrupted as error:
            results = error.results
            end = "has results"
        except KeyboardInterrupt:
            end = "no results"
    if results is not None:
        assert len(results) == 2
        assert set(results.finish_reasons) <= {"length", "cancelled"}
    assert n_running() == 0
    assert signal.getsignal(signal.SIGINT) is handler
    return end


SIGNALS = pytest.mark.skipif(
    threading.current_thread() is not threading.main_thread(), reason="signals go to it"
)


@SIGNALS
@pytest.mark.long(reason="a process or a thread for each case")
def test_ctrl_c_at_any_line_of_a_call_gives_results(context: lh.Context) -> None:
    def call() -> object:
        return lh.generate_parallel(context, ["a", "b"], progress=print, **SETTINGS)

    ends: list[str] = []
    while "too late" not in ends:
        ends.append(outcome(len(ends) + 1, call))
    ends.pop()
    # Before any work has begun, and after all work has ended, Ctrl-C has the same
    # effect as outside of the call.
    first, last = ends.index("has results"), len(ends) - ends[::-1].index("has results")
    assert set(ends[:first]) <= {"no results"}
    assert set(ends[first:last]) == {"has results"}
    assert set(ends[last:]) <= {"no results", "returned"}
    assert last - first > 150
    assert len(lh.generate_parallel(context, ["a", "b"], **SETTINGS)) == 2


@SIGNALS
@pytest.mark.more(reason="a process or a thread for each case", cases=1)
@pytest.mark.parametrize("how", ["stream", "start", "optimize"])
def test_ctrl_c_at_any_line_leaves_nothing_running(
    context: lh.Context, tiny_path: Callable[[str], Path], how: str, tmp_path: Path
) -> None:
    def stream() -> None:
        list(lh.generate(context, "a", stream=True, **SETTINGS))

    def start() -> None:
        lh.start_parallel(context, ["a", "b"], **SETTINGS).results()

    def optimize() -> None:
        lh.model_optimize(tiny_path("llama"), tmp_path, types=["F16"], text="a" * 80)

    call = {"stream": stream, "start": start, "optimize": optimize}[how]
    # The first pass counts the lines.
    with interrupted_at(0) as lines:
        call()
    n_lines = lines[0]
    for k in range(1, n_lines + 1, max(1, n_lines // 60)):
        for file in tmp_path.iterdir():
            file.unlink()
        with interrupted_at(k), suppress(KeyboardInterrupt):
            call()
        for job in set(threads._jobs):
            if how == "start" and isinstance(job, lh.Job):
                job.cancel()
                job.wait()
        assert n_running() == 0, k


class Work:
    """Work that ends only when it is cancelled."""

    progress = 1

    def __init__(self, *, presses: int = 0) -> None:
        self.cancelled = threading.Event()
        self.n_presses = presses

    def wait(self, timeout_s: float | None = None) -> bool:
        if self.cancelled.is_set():
            for _ in range(self.n_presses):
                signal.raise_signal(signal.SIGINT)
        return self.cancelled.wait(timeout_s)

    def cancel(self) -> None:
        signal.raise_signal(signal.SIGINT)
        self.cancelled.set()

    def warn(self) -> None:
        """No journal: there is no problem."""


@SIGNALS
def test_more_of_ctrl_c_changes_nothing() -> None:
    work = Work(presses=20)
    with Interrupts() as interrupts:
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            wait_for_end(work, lambda _: None, interrupts)
    assert work.cancelled.is_set()


@SIGNALS
def test_what_else_ends_the_wait_ends_the_work() -> None:
    work = Work()
    with Interrupts() as interrupts, pytest.raises(ZeroDivisionError):
        wait_for_end(work, lambda _: 1 / 0, interrupts)
    assert work.cancelled.is_set()


@SIGNALS
def test_a_handler_of_ones_own_is_kept_and_called() -> None:
    pressed = []

    def handler(*_: object) -> None:
        pressed.append(1)

    before = signal.signal(signal.SIGINT, handler)
    try:
        with Interrupts() as interrupts:
            signal.raise_signal(signal.SIGINT)
            assert not pressed
            with interrupts.let_through():
                assert len(pressed) == 1
                signal.raise_signal(signal.SIGINT)
                assert len(pressed) == 2
        assert signal.getsignal(signal.SIGINT) is handler
        with Interrupts():
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


@SIGNALS
def test_calls_within_calls_pass_it_on() -> None:
    with Interrupts() as outer:
        with Interrupts() as inner:
            signal.raise_signal(signal.SIGINT)
            inner.deliver()  # signal to the outer block
        with pytest.raises(KeyboardInterrupt), outer.let_through():
            raise AssertionError


@SIGNALS
def test_other_threads_hold_nothing_back() -> None:
    handlers = []

    def enter() -> None:
        with Interrupts():
            handlers.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert handlers == [signal.getsignal(signal.SIGINT)]


@SIGNALS
def test_ctrl_c_at_any_line_of_a_chat_keeps_a_whole_conversation(
    tiny_path: Callable[[str], Path],
) -> None:
    roles = ["user", "assistant"]
    path = tiny_path("chat")
    with lh.Model(path) as model, lh.Context(model, n_threads=1) as context:
        settings: dict[str, Any] = {"max_tokens": 5, "ignore_eos": True}

        def talk(chat: lh.Chat, *, is_stream: bool) -> None:
            if is_stream:
                list(chat.stream("a"))
            else:
                chat.ask("a")

        for is_stream in (False, True):
            with interrupted_at(0) as lines:
                talk(lh.chat(context, **settings), is_stream=is_stream)
            n_lines = lines[0]
            for k in range(1, n_lines + 1, max(1, n_lines // 60)):
                chat = lh.chat(context, **settings)
                with interrupted_at(k), suppress(KeyboardInterrupt):
                    talk(chat, is_stream=is_stream)
                before = [turn["role"] for turn in chat.turns]
                assert before in ([], roles), k
                assert chat.ask("b").finish_reason == "length"
                assert [turn["role"] for turn in chat.turns] == [*before, *roles], k
            assert n_running() == 0


# ---- callers on a real model: cancelled calls do not change the results of other calls


N_REQUESTS = sized(16, 32)
MAX_TOKENS = 12
# 200 rounds are in docs/reliability.md.
N_ROUNDS = int(os.environ.get("LLAMAHERD_CANCEL_ROUNDS", sized(2, 5)))
STEMS = ["", "The old harbour town was quiet in winter, and ", "Dear reader, I "]
LONG_ANSWER = lh.SamplingParams(max_tokens=MAX_TOKENS, ignore_eos=True)


@pytest.mark.long(reason="a process or a thread for each case")
@pytest.mark.model
@pytest.mark.more(reason="2 of 5 rounds, 16 of 32 callers")
def test_cancelling_half_of_them_leaves_the_others_as_they_are(smollm2: lh.Model) -> None:
    prompts = [
        STEMS[i % 3] + "the word " * (i % 7) + f"number {i}" for i in range(N_REQUESTS)
    ]
    with lh.Context(smollm2, n_seq_max=1, deterministic=True) as context:
        alone = [lh.generate(context, prompt, params=LONG_ANSWER) for prompt in prompts]
    n_midway = 0
    with lh.Context(smollm2, n_seq_max=N_REQUESTS, deterministic=True) as context:
        for k in range(N_ROUNDS):
            results, leaving = one_round(context, prompts, random.Random(k))
            for i, (result, whole) in enumerate(zip(results, alone, strict=True)):
                if result.finish_reason == "cancelled":
                    assert i in leaving
                    assert result.tokens == whole.tokens[: len(result.tokens)]
                    n_midway += 0 < len(result.tokens) < MAX_TOKENS
                else:
                    assert (result.tokens, result.text) == (whole.tokens, whole.text)
    assert n_midway > N_ROUNDS


def one_round(
    context: lh.Context, prompts: list[str], draw: random.Random
) -> tuple[list[lh.Result], set[int]]:
    """Return all results; half of the calls were cancelled at random steps."""
    order = draw.sample(range(N_REQUESTS), N_REQUESTS)
    leaving, stays = set(order[: N_REQUESTS // 2]), order[-1]
    # Times are steps of a call that is not cancelled. The loop's thread cancels others
    # when it reports a piece of this call, so that no slow machine matters.
    moments = [(draw.randrange(MAX_TOKENS), i) for i in leaving]
    handles: list[lh.types.Handle] = []

    def cancel_due() -> None:
        n_steps = handles[stays]._n_chars // 4  # about
        for moment, i in moments:
            if moment <= n_steps:
                handles[i].cancel()
        moments[:] = [moment for moment in moments if moment[0] > n_steps]

    with context.loop._lock:  # type: ignore[attr-defined]  # no call starts before all are there
        handles += [
            context.submit(prompt, params=LONG_ANSWER, stream=i == stays)
            for i, prompt in enumerate(prompts)
        ]
        handles[stays]._listeners.append(cancel_due)
    return [handle.result(300) for handle in handles], leaving
