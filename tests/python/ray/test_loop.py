"""The herd's loop with actors in this process: no result is lost, and no call hangs."""

from __future__ import annotations

import threading
from array import array
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import pytest
from fake_engine import answer, text_of
from llamaherd.core.errors import ClusterError, ContextClosedError, ContextError
from llamaherd.core.outcome import Finish, Output
from llamaherd.core.request import Request
from llamaherd.core.sampling import SamplingParams
from llamaherd.core.stats import RequestStats
from llamaherd.loop.group import Group
from llamaherd.ray.loop import HerdLoop
from llamaherd.ray.member import ActorState, Death
from llamaherd.ray.tracked_actor import Silence
from llamaherd.ray.wire import Change, HandIn
from llamaherd.ray.work import Chunk, GroupWork
from llamaherd.run.call import Call
from llamaherd.run.handle import Handle
from local_link import LocalLink
from stepping import plan, stepping
from waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from llamaherd.core.pieces import TextPiece
    from llamaherd.ray.wire import Report

BAD = 777  # a token that kills


def requests(n: int, n_head: int = 12, max_tokens: int = 6) -> list[Request]:
    """Return prompts with a common beginning; some are equal and sampled."""
    return [
        Request(
            tokens=array("i", [*range(1, n_head), 20 + i % 50, i % 7]),
            max_tokens=max_tokens,
            sampling=SamplingParams(temperature=1.0),
            seed=i,
        )
        for i in range(n)
    ]


def poisoned(n: int, *bad: int) -> list[Request]:
    made = requests(n)
    for i in bad:
        made[i].tokens.append(BAD)
    return made


def has_bad(order: HandIn) -> bool:
    return any(BAD in request.tokens for request in order.requests)


@contextmanager
def herd(*links: LocalLink, **options: object) -> Iterator[HerdLoop]:
    loop = HerdLoop(links, n_slots=12, **options)
    for link in links:
        link.loop = loop
    try:
        yield loop
    finally:
        loop.close()
        for link in links:
            link.close()


def check(results: lh.Results, asked: list[Request], *bad: int) -> None:
    for i, (result, request) in enumerate(zip(results, asked, strict=True)):
        if i in bad:
            assert result.finish_reason == "error"
            assert "died twice" in result.error
            assert result.error.endswith("it was killed")
        else:
            assert result.text == text_of(answer(request)[0])


def test_actors_share_a_call_and_what_they_did_adds_up() -> None:
    asked = requests(300)
    with herd(LocalLink(0), LocalLink(1)) as loop:
        results = Call(asked, seed=1).run(loop)
    check(results, asked)
    stats = results.stats
    assert [row.actor for row in stats.actors] == [0, 1]
    assert [row.node for row in stats.actors] == ["node0", "node1"]
    assert sum(row.n_done for row in stats.actors) == 300
    assert all(row.n_done >= 24 for row in stats.actors)  # of the first chunk
    assert sum(row.n_batches for row in stats.actors) == stats.n_batches > 0
    assert stats.n_slots == 24
    assert 0.3 < stats.mean_batch_occupancy <= 1
    total = sum(row.n_prefill_tokens for row in stats.actors)
    assert total == stats.n_prefill_tokens < stats.n_prompt_tokens / 3
    assert all(result.stats.wall_s >= result.stats.queue_s >= 0 for result in results)


def test_actors_never_have_many_more_prompts_than_slots() -> None:
    links = LocalLink(0), LocalLink(1)
    with herd(*links) as loop:
        Call(requests(200), seed=1).run(loop)
    for link in links:
        sizes = [len(order.requests) for order in link.handed_in]
        assert max(sizes) <= 24


@pytest.mark.parametrize("n_actors", [1, 2])
def test_an_actor_that_dies_loses_nothing(n_actors: int) -> None:
    seen: list[int] = []

    def third(_: HandIn) -> bool:
        seen.append(1)
        return len(seen) == 3

    asked = requests(150)
    links = [LocalLink(0, third), *map(LocalLink, range(1, n_actors))]
    with herd(*links) as loop:
        results = Call(asked, seed=1).run(loop)
    check(results, asked)
    assert results.stats.actors[0].n_deaths == 1
    assert results.stats.n_failed == 0


@pytest.mark.parametrize("bad", [(0,), (17,), (3, 4, 99), tuple(range(40, 46))])
def test_a_prompt_that_kills_its_actor_twice_fails_alone(bad: tuple[int, ...]) -> None:
    asked = poisoned(120, *bad)
    with herd(LocalLink(0, has_bad), LocalLink(1, has_bad)) as loop:
        results = Call(asked, seed=1).run(loop)
    check(results, asked, *bad)
    assert results.stats.n_failed == len(bad)


class SlowLink(LocalLink):
    """Link whose next actor starts slowly."""

    def restart(self, generation: int) -> None:
        if generation == self.generation and self.state is ActorState.READY:
            self.state = ActorState.STARTING
            threading.Timer(0.5, self._replace).start()


def test_a_prompt_is_not_to_blame_for_actors_that_died_before_it_came() -> None:
    links = SlowLink(0), SlowLink(1)
    asked = requests(2)
    with herd(*links) as loop:
        check(Call(asked, seed=1).run(loop), asked)
        for link in links:
            link.is_dead = True
        check(Call(asked[:1], seed=1).run(loop), asked[:1])


def test_on_error_stops_a_herd_as_well() -> None:
    asked = poisoned(40, 3)
    with (
        herd(LocalLink(0, has_bad)) as loop,
        pytest.raises(lh.GenerationError, match=r"prompts\[3\] failed: .* died") as error,
    ):
        Call(asked, seed=1, on_error="stop").run(loop)
    assert len(error.value.results) == 40


def test_a_handle_of_a_poisoned_prompt_fails() -> None:
    with herd(LocalLink(0, has_bad)) as loop:
        handle = Handle(loop, poisoned(1, 0)[0], None)
        with pytest.raises(lh.GenerationError, match="died twice"):
            handle.result(60)


def test_a_node_that_is_lost_is_no_prompts_fault() -> None:
    seen: list[int] = []

    def often(_: HandIn) -> bool:
        seen.append(1)
        return len(seen) < 6

    request = requests(1)[0]
    with herd(LocalLink(0, often, is_crash=False)) as loop:
        result = Handle(loop, request, None).result(60)
    assert result.text == text_of(answer(request)[0])
    assert len(seen) == 6


def test_actors_that_all_die_end_the_call() -> None:
    with (
        herd(LocalLink(0, lambda _: True), LocalLink(1, lambda _: True)) as loop,
        pytest.raises(ContextError, match="20 actors died one after the other"),
    ):
        # In pairs, so that more deaths are needed until one of them fails.
        Call(requests(2000), seed=1).run(loop)


def test_a_herd_whose_actors_cannot_be_started_says_why() -> None:
    with (
        herd(LocalLink(0, lambda _: True, n_lives=2)) as loop,
        pytest.raises(ContextError, match="no actor can be started: no room"),
    ):
        Call(requests(10), seed=1).run(loop)


def test_patience_with_actors_that_do_not_come_ends() -> None:
    link = LocalLink(0)
    link.state = ActorState.STARTING
    with (
        herd(link, patience_s=0.2) as loop,
        pytest.raises(ClusterError, match="there has been no actor for"),
    ):
        Call(requests(3), seed=1).run(loop)


def test_work_waits_for_an_actor_that_comes_late() -> None:
    asked = requests(5)
    link = LocalLink(0)
    link.state, link.generation = ActorState.STARTING, 0
    with herd(link) as loop:

        def come() -> None:
            link.generation, link.state = 1, ActorState.READY
            loop.changed(link)

        timer = threading.Timer(0.3, come)
        timer.start()
        results = Call(asked, seed=1).run(loop)
        timer.join()
    check(results, asked)


class MuteLink(LocalLink):
    """Link whose first actor does not respond."""

    def poll(
        self, generation: int, then: Callable[[Report, BaseException | None], None]
    ) -> None:
        if self.generation > 1:
            super().poll(generation, then)

    def restart(self, generation: int) -> None:
        self.loop._actors[self.number].silence = Silence(300)  # it answers from now on
        super().restart(generation)


def test_an_actor_that_says_nothing_is_given_up() -> None:
    asked = requests(100)
    with herd(MuteLink(0), LocalLink(1)) as loop:
        loop._actors[0].silence = Silence(0.2)
        results = Call(asked, seed=1).run(loop)
    check(results, asked)
    assert [row.n_deaths for row in results.stats.actors] == [1, 0]


def test_time_in_which_this_process_is_stopped_is_no_silence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now_s = [0.0]
    monkeypatch.setattr("llamaherd.ray.tracked_actor.monotonic", lambda: now_s[0])
    silence = Silence(2.0)
    for past_s in (0.5, 3600.0, 0.5):
        now_s[0] += past_s
        silence.check()
    now_s[0] += 0.5
    with pytest.raises(Death, match="silent for 2 s"):
        silence.check()


def refuse(link: LocalLink, n_before: int = 0) -> None:
    """Let an actor run out of memory after n chunks, which it answers partly."""
    seen: list[Group] = []

    def refused(group: Group) -> None:
        seen.append(group)
        if len(seen) <= n_before:
            for i in range(len(group.requests) // 2):
                group.deliver(i, Output(finish=Finish.LENGTH), RequestStats())
        else:
            group.end(ContextError("no room for it"))

    link._actor._loop.hand_in = refused


def test_what_an_actor_has_no_memory_for_others_do() -> None:
    asked = requests(100)
    links = LocalLink(0), LocalLink(1)
    refuse(links[1])
    with (
        herd(*links) as loop,
        pytest.warns(UserWarning, match="actor 1 on node 'node1' does not .*: no room"),
    ):
        results = Call(asked, seed=1).run(loop)
    check(results, asked)
    assert results.stats.actors[0].n_done == 100
    assert len(links[1].handed_in) == 1  # the actor was asked only once


def test_what_no_actor_has_memory_for_ends_the_call_alone() -> None:
    link = LocalLink(0)
    refuse(link, n_before=1)
    with herd(link) as loop:
        with (
            pytest.warns(UserWarning, match="no room"),
            pytest.raises(ContextError, match="no room for it"),
        ):
            Call(requests(60), seed=1).run(loop)
        # The actor must not continue requests that it had received.
        first = link.handed_in[0]
        assert loop.wait(60)
        given_up = [order for order in link.orders if isinstance(order, Change)]
        assert given_up == [Change("give_up", first.chunk)]


def test_what_was_given_up_is_told_when_the_loop_itself_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    link = LocalLink(0)
    with herd(link) as loop:

        def fail(_work: object) -> None:
            if link.orders:
                raise MemoryError("no memory for a list")

        monkeypatch.setattr(loop, "_why_nobody", fail)
        with pytest.raises(MemoryError, match="no memory for a list"):
            Call(requests(60, max_tokens=250), seed=1).run(loop)
        assert loop.wait(60)
        assert isinstance(link.orders[-1], Change)


def test_actors_are_told_how_many_share_their_memory() -> None:
    links = [LocalLink(i) for i in range(4)]
    for link in links[:3]:
        link.node = ("one", 7)
    links[2].state, links[2].error = ActorState.FAILED, ValueError("no room")
    with herd(*links) as loop:
        Call(requests(100), seed=1).run(loop)
        told = [{order.n_on_node for order in link.handed_in} for link in links]
        assert told == [{2}, {2}, set(), {1}]
        assert [p._actor._loop._sizing.n_sharing for p in links] == [2, 2, 1, 1]


def test_an_actor_that_cannot_be_started_again_is_told_of() -> None:
    asked = requests(100)
    links = LocalLink(0), LocalLink(1, lambda _: True, n_lives=1, is_crash=False)
    with (
        herd(*links) as loop,
        pytest.warns(UserWarning, match="actor 1 on node 'node1' cannot be started agai"),
    ):
        check(Call(asked, seed=1).run(loop), asked)


def test_a_call_that_is_cancelled_keeps_what_it_has() -> None:
    asked = requests(3000, max_tokens=40)
    with herd(LocalLink(0), LocalLink(1)) as loop:
        call = Call(asked, seed=1)
        n_new = []

        def on_output(_i: int, _output: object) -> None:
            n_new.append(1)
            if len(n_new) == 50:
                call.cancel()

        results = call.run(loop, on_output=on_output)
        done = [r for r in results if r.finish_reason in ("stop", "length")]
        assert 50 <= len(done) < 2000
        assert {r.finish_reason for r in results} <= {"stop", "length", "cancelled"}
        assert loop.wait(60)
        again = requests(10)
        check(Call(again, seed=1).run(loop), again)  # the actor can be used again


def test_prompts_that_run_keep_their_beginnings_when_they_are_cancelled() -> None:
    link = LocalLink(0)
    link._actor._loop.close()
    actors_loop, engine = stepping(plan(n_slots=12, n_hold=8, pooled=True))
    link._actor._loop = link._actor._outbox.loop = actors_loop
    asked = requests(100, max_tokens=250)
    call = Call(asked, seed=1)

    def cancel(n_runs: int) -> None:
        if n_runs == 9:
            call.cancel()
            wait_until(lambda: any(isinstance(order, Change) for order in link.orders))

    engine.before_run = cancel
    with herd(link) as loop:
        results = call.run(loop)
    begun = [r for r in results if r.finish_reason == "cancelled" and r.tokens]
    assert 0 < len(begun) <= 12
    for r in begun:
        tokens = answer(asked[r.index])[0][: len(r.tokens)]
        assert r.tokens == tokens
        assert r.partial == text_of(tokens)


def test_what_an_actor_does_not_give_back_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("llamaherd.ray.loop._CANCEL_S", 0.2)
    link = LocalLink(0)
    link.poll = lambda _: None  # type: ignore[method-assign]
    with herd(link) as loop:
        handle = Handle(loop, requests(1)[0], None)
        handle.cancel()
        assert handle.result(60).finish_reason == "cancelled"


def test_callers_share_the_actors() -> None:
    asked = [requests(150), requests(90, n_head=5), requests(40, n_head=30)]
    with herd(LocalLink(0), LocalLink(1)) as loop:
        found: dict[int, lh.Results] = {}
        threads = [
            threading.Thread(
                target=lambda k=k: found.update({k: Call(asked[k], seed=1).run(loop)})
            )
            for k in range(3)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
    for k in range(3):
        check(found[k], asked[k])


@pytest.mark.parametrize("logprobs", [None, 1])
def test_a_stream_is_told_once_though_its_actor_dies(logprobs: int | None) -> None:
    request = replace(requests(1, max_tokens=200)[0], logprobs=logprobs)
    expected = text_of(answer(request)[0])
    link = LocalLink(0)
    pieces: list[TextPiece] = []
    with herd(link) as loop:
        handle = Handle(loop, request, None, stream=True)
        for piece in handle:
            pieces.append(piece)
            if len(pieces) == 2:
                link.is_dead = True
    assert "".join(pieces) == expected
    assert len(pieces) > 2
    found = [row.logprob for piece in pieces for row in piece.logprobs]
    assert found == (handle.result(0).logprobs or [])
    assert len(found) == (0 if logprobs is None else len(answer(request)[0]))


def test_a_herd_that_is_closed_ends_what_runs() -> None:
    link = LocalLink(0)
    link._actor.orders = lambda _: None  # the actor is slow
    with herd(link) as loop:
        handle = Handle(loop, requests(1)[0], None)
        loop.close()
        with pytest.raises(ContextClosedError):
            handle.result(60)
        with pytest.raises(ContextClosedError, match="the herd is closed"):
            Handle(loop, requests(1)[0], None)
        assert loop.is_closed
        assert loop.wait(60)


def test_a_model_for_embeddings_answers_nothing() -> None:
    with (
        herd(LocalLink(0), problem="it is for embeddings") as loop,  # type: ignore[arg-type]
        pytest.raises(ContextError, match="it is for embeddings"),
    ):
        Call(requests(1), seed=1).run(loop)


def test_load_and_plan_are_those_of_all_actors() -> None:
    with herd(LocalLink(0), LocalLink(1)) as loop:
        assert loop.plan is None
        assert loop.load.n_slots == 0
        Call(requests(100), seed=1).run(loop)
        assert loop.plan.n_seq_max == loop.load.n_slots == 24
        assert loop.plan.n_ctx == 2 << 15
        assert loop.load.n_running == loop.load.n_waiting == 0


def test_the_thread_leaves_when_there_is_nothing_to_do() -> None:
    with herd(LocalLink(0)) as loop:
        Call(requests(5), seed=1).run(loop)
        assert loop.wait(60)
        loop.settle()
        Call(requests(5), seed=1).run(loop)  # a new thread: without it this would hang


def test_a_prompt_with_priority_goes_to_an_actor_that_is_full() -> None:
    link = LocalLink(0)
    with herd(link) as loop:
        slow = [Handle(loop, request, None) for request in requests(60, max_tokens=250)]
        first = requests(1)[0]
        urgent = Request(
            tokens=first.tokens, max_tokens=2, sampling=first.sampling, priority=5
        )
        assert Handle(loop, urgent, None).result(60).finish_reason in ("stop", "length")
        for handle in slow:
            handle.cancel()


def test_an_error_of_the_actor_itself_is_told() -> None:
    link = LocalLink(0)

    def fail(
        _generation: int, _orders: object, on_failure: Callable[[BaseException], None]
    ) -> None:
        on_failure(MemoryError("no room for a list"))

    link.order = fail  # type: ignore[method-assign]
    with herd(link) as loop, pytest.raises(MemoryError, match="no room for a list"):
        Call(requests(3), seed=1).run(loop)


def test_a_conversation_on_an_actor_computes_each_turn_once() -> None:
    counts = []
    with herd(LocalLink(0)) as loop:
        for n in (40, 80, 120, 160):
            asked = Request(tokens=array("i", [*range(n), 900 + n % 7]), max_tokens=4)
            result = Handle(loop, asked, None, n_again=n).result(60)
            assert result.text == text_of(answer(asked)[0])
            counts.append(result.stats.n_prefill_tokens)
    assert counts == [41] * 4


def test_an_actor_that_another_call_replaces_loses_nothing() -> None:
    """The failure of its last call may be reported after the next actor is ready."""

    class ReplacedLink(LocalLink):
        def order(self, *args: Any) -> None:
            super().order(*args)
            self.restart(1)

    asked = requests(100)
    with herd(ReplacedLink(0)) as loop:
        handle = Handle(loop, asked[0], None)
        assert handle.result(60).text == text_of(answer(asked[0])[0])
        check(Call(asked, seed=1).run(loop), asked)


def test_requests_are_counted_and_cancelled_before_the_thread_sees_them() -> None:
    link = LocalLink(0)
    with herd(link) as loop:
        seen, may_go_on = threading.Event(), threading.Event()
        with loop._lock:
            loop._put(lambda: seen.set() or may_go_on.wait(60))
        assert seen.wait(60)
        handle = Handle(loop, requests(1)[0], None)
        assert loop.load.n_waiting == 1
        loop.cancel()
        may_go_on.set()
        assert handle.result(60).finish_reason == "cancelled"
        assert not link.orders


def test_requests_that_found_no_thread_are_sent_to_no_actor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def start() -> None:
        raise RuntimeError("can't start new thread")

    link = LocalLink(0)
    with herd(link) as loop:
        monkeypatch.setattr(loop, "_start", start)
        with pytest.raises(RuntimeError, match="can't start"):
            Handle(loop, requests(1)[0], None)
        monkeypatch.undo()
        asked = requests(5)
        check(Call(asked, seed=1).run(loop), asked)
        assert sum(len(order.requests) for order in link.handed_in) == 5


class OneByOneLink(LocalLink):
    """Link that reports the end of one of several chunks, so its actor is never empty.

    It reports nothing before the event `go`.
    """

    def __init__(self, number: int, go: threading.Event, **options: int) -> None:
        super().__init__(number, **options)
        self._go = go
        self._left: Report | None = None

    def poll(
        self, generation: int, then: Callable[[Report, BaseException | None], None]
    ) -> None:
        self._pool.submit(self._go.wait, 60)
        if self._left is not None:
            self._pool.submit(self._tell, self._left, then)
        else:
            super().poll(generation, partial(self._part, then))

    def _part(
        self,
        then: Callable[[Report, BaseException | None], None],
        report: Report,
        error: BaseException | None,
    ) -> None:
        if error is None and report.ended:
            self._tell(report, then)
        else:
            then(report, error)

    def _tell(
        self, report: Report, then: Callable[[Report, BaseException | None], None]
    ) -> None:
        if self.is_dead:
            self._left = None
            then(None, self._death())  # type: ignore[arg-type]
            return
        ended = report.ended[0]
        outputs = [each for each in report.outputs if each[0] == ended.chunk]
        others = [each for each in report.outputs if each[0] != ended.chunk]
        left = replace(report, ended=report.ended[1:], outputs=others)
        self._left = left if left.ended else None
        then(replace(report, ended=[ended], outputs=outputs), None)


def test_suspect_prompts_run_although_others_come_without_end() -> None:
    """They run alone on an actor, which therefore must become empty."""
    others = requests(400)
    n_most, handles = len(others), []
    go = threading.Event()
    links = OneByOneLink(0, go, n_lives=1), OneByOneLink(1, go)
    with herd(*links) as loop, ThreadPoolExecutor(1) as pool:

        def again(_handle: Handle | None = None) -> None:
            if not suspect.done() and len(handles) < n_most:
                handles.append(Handle(loop, others[len(handles)], None))
                handles[-1].add_done_callback(again)

        call = Call(requests(2), seed=1)
        suspect = pool.submit(call.run, loop)
        wait_until(lambda: links[0].orders)
        for _ in range(12):
            again()
        wait_until(lambda: len(links[1].orders) > 3)

        def lose() -> lh.Results:
            links[0].is_dead = True
            go.set()
            return suspect.result()

        with pytest.warns(UserWarning, match="cannot be started again"):
            results = lose()
        check(results, requests(2))
        assert len(handles) < n_most


def test_a_prompt_fails_whose_actor_is_lost_again_and_again() -> None:
    """Its actor may seem lost because the prompt takes too long."""
    bad = poisoned(1, 0)[0]
    others = requests(1000)
    n_others = 0
    links = [LocalLink(i, has_bad, is_crash=False) for i in range(2)]
    with herd(*links) as loop:
        handle = Handle(loop, bad, None)
        while not handle.done() and n_others < len(others):
            n_others += 1
            Handle(loop, others[n_others - 1], None).result(60)
        with pytest.raises(lh.GenerationError, match="20 processes were lost after it"):
            handle.result(60)


@pytest.mark.parametrize("has_arrived", [True, False])
def test_a_prompt_is_sent_to_as_many_actors_as_its_failure_says(
    *, has_arrived: bool
) -> None:
    outputs: list[Output] = []
    listener = SimpleNamespace(
        on_output=lambda _i, output, _stats: outputs.append(output)
    )
    work = GroupWork(Group(requests(1), listener), 1)
    n_sent = 0
    while not outputs:
        chunk = Chunk(number=n_sent, actor=0, work=work, indices=work.take(0, 1))
        work.sent(chunk)
        n_sent += 1
        chunk.has_arrived = has_arrived
        work.lost(chunk, "no network", is_crash=False, was_alone=True)
    expected = f"{n_sent} processes were lost after it was sent to them: no network"
    assert outputs[0].message == expected
