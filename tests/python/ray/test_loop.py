"""A cluster's loop with actors in this process: nothing is lost, and no call hangs."""

from __future__ import annotations

import threading
from array import array
from random import Random
from threading import Event
from typing import TYPE_CHECKING

import llamaherd as lh
import pytest
from fake_engine import answer, text_of
from hypothesis import given
from hypothesis import strategies as st
from llamaherd.calls.run.call import Call
from llamaherd.calls.run.handle import Handle
from llamaherd.engine.core.errors import (
    ArgumentError,
    ClusterError,
    ContextClosedError,
    ContextError,
)
from llamaherd.engine.core.request import Request
from llamaherd.engine.core.sampling import SamplingParams
from llamaherd.ray import loop as cluster_loop
from local_ray import LocalActor, LocalRay, local_cluster
from ray.exceptions import ActorDiedError
from stepping import plan, stepping
from thorough import examples
from waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Sequence

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


def has_bad(sent: Sequence[Request]) -> bool:
    return any(BAD in request.tokens for request in sent)


def check(results: lh.Results, prompts: list[Request], *bad: int) -> None:
    for i, (result, request) in enumerate(zip(results, prompts, strict=True)):
        if i in bad:
            assert result.finish_reason == "error"
            assert "processes that computed only this prompt died" in result.error
            assert "it was killed" in result.error
        else:
            assert result.text == text_of(answer(request)[0])


def test_actors_share_a_call_and_what_they_did_adds_up() -> None:
    prompts = requests(300)
    actors = LocalActor(), LocalActor()
    with local_cluster(*actors) as loop:
        results = Call(prompts, seed=1).run(loop)
    check(results, prompts)
    stats = results.stats
    assert [(row.actor, row.node) for row in stats.actors] == [(0, "node0"), (1, "node1")]
    assert sum(row.n_done for row in stats.actors) == 300
    assert all(row.n_done >= 12 for row in stats.actors)  # of the first piece
    assert sum(row.n_batches for row in stats.actors) == stats.n_batches > 0
    assert stats.n_slots == 24
    assert 0 < stats.mean_batch_occupancy <= 1
    total = sum(row.n_prefill_tokens for row in stats.actors)
    assert total == stats.n_prefill_tokens < stats.n_prompt_tokens / 3
    assert all(result.stats.wall_s >= result.stats.queue_s >= 0 for result in results)
    assert max(len(sent) for actor in actors for sent in actor.sent) <= 40


@given(seed=st.integers(0, 999), n=st.integers(1, 80), n_actors=st.integers(1, 3))
@examples(20)
def test_actors_that_die_at_random_lose_nothing(seed: int, n: int, n_actors: int) -> None:
    draw = Random(seed)
    prompts = requests(n)
    dies = [LocalActor(lambda sent: len(sent) > 1 and draw.random() < 0.6)]
    with local_cluster(*dies, *(LocalActor() for _ in range(n_actors - 1))) as loop:
        results = Call(prompts, seed=1).run(loop)
    check(results, prompts)


def test_a_death_before_the_first_answers_is_counted() -> None:
    deaths = iter([True])
    with local_cluster(LocalActor(lambda _: next(deaths, False))) as loop:
        assert Call(requests(80), seed=1).run(loop).stats.actors[0].n_deaths == 1
        assert Call(requests(5), seed=1).run(loop).stats.actors[0].n_deaths == 0


@pytest.mark.parametrize("bad", [(0,), (17,), (3, 4, 60), tuple(range(40, 46))])
def test_a_prompt_that_kills_its_process_fails_alone(bad: tuple[int, ...]) -> None:
    prompts = requests(80)
    for i in bad:
        prompts[i].tokens.append(BAD)
    with local_cluster(LocalActor(has_bad), LocalActor(has_bad)) as loop:
        results = Call(prompts, seed=1).run(loop)
    check(results, prompts, *bad)
    assert results.stats.n_failed == len(bad)


def test_on_error_stops_a_cluster_as_well() -> None:
    prompts = requests(40)
    prompts[3].tokens.append(BAD)
    with (
        local_cluster(LocalActor(has_bad)) as loop,
        pytest.raises(lh.GenerationError, match=r"prompts\[3\] failed: .* died") as error,
    ):
        Call(prompts, seed=1, on_error="stop").run(loop)
    assert len(error.value.results) == 40


def test_processes_that_all_die_end_the_call() -> None:
    actors = LocalActor(lambda _: True), LocalActor(lambda _: True)
    with (
        local_cluster(*actors) as loop,
        pytest.raises(ContextError, match="20 pieces of the call were lost"),
    ):
        Call(requests(2000), seed=1).run(loop)


def refuse(_sent: Sequence[Request]) -> None:
    raise ContextError("no room for it")


def test_what_an_actor_has_no_memory_for_others_do() -> None:
    prompts = requests(100)
    actors = LocalActor(), LocalActor(before=refuse)
    with (
        local_cluster(*actors) as loop,
        pytest.warns(UserWarning, match="actor 1 on node1 answers no more .*no room"),
    ):
        results = Call(prompts, seed=1).run(loop)
    check(results, prompts)
    assert results.stats.actors[0].n_done == 100
    assert len(actors[1].sent) <= 2


def test_an_actor_that_is_gone_for_good_fails_no_prompt() -> None:
    def gone(_sent: Sequence[Request]) -> None:
        raise ActorDiedError

    prompts = requests(30)
    with (
        local_cluster(LocalActor(before=gone), LocalActor()) as loop,
        pytest.warns(UserWarning, match="actor 0 on node0 answers no more"),
    ):
        check(Call(prompts, seed=1).run(loop), prompts)
    with (  # nobody is left to continue: an error without a warning
        local_cluster(LocalActor(before=gone)) as loop,
        pytest.raises(ContextError, match="died"),
    ):
        Call(prompts, seed=1).run(loop)


def test_what_no_actor_has_memory_for_ends_the_call_alone() -> None:
    actor = LocalActor(before=refuse)
    with local_cluster(actor) as loop:
        with pytest.raises(ContextError, match="no room for it"):
            Call(requests(60), seed=1).run(loop)
        actor._before = lambda _: None
        check(Call(requests(5), seed=1).run(loop), requests(5))


def test_a_piece_whose_actor_is_silent_also_runs_on_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cluster_loop, "_BACKUP_S", 0.2)
    is_over = Event()
    prompts = requests(100)
    with local_cluster(
        LocalActor(before=lambda _: is_over.wait(60)), LocalActor()
    ) as loop:
        results = Call(prompts, seed=1).run(loop)
        is_over.set()
    check(results, prompts)
    assert [row.actor for row in results.stats.actors] == [1]


def test_a_call_that_is_cancelled_keeps_what_it_has() -> None:
    prompts = requests(3000, max_tokens=40)
    with local_cluster(LocalActor(), LocalActor()) as loop:
        call = Call(prompts, seed=1)
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
        check(Call(again, seed=1).run(loop), again)  # the actors can be used again


def test_prompts_that_run_keep_their_beginnings_when_they_are_cancelled() -> None:
    actor = LocalActor()
    actor.inner._loop.close()
    actor.inner._loop, engine = stepping(plan(n_slots=12, n_hold=8, pooled=True))
    prompts = requests(100, max_tokens=250)
    call = Call(prompts, seed=1)

    def cancel(n_runs: int) -> None:
        if n_runs == 9:
            call.cancel()
            wait_until(lambda: bool(actor.inner._ended))

    engine.before_run = cancel
    with local_cluster(actor) as loop:
        results = call.run(loop)
    begun = [r for r in results if r.finish_reason == "cancelled" and r.tokens]
    assert 0 < len(begun) <= 12
    for r in begun:
        assert r.tokens == answer(prompts[r.index])[0][: len(r.tokens)]
        assert r.partial == text_of(r.tokens)


def test_what_an_actor_does_not_give_back_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cluster_loop, "_CANCEL_S", 0.2)
    is_over = Event()
    with local_cluster(LocalActor(before=lambda _: is_over.wait(60))) as loop:
        handle = Handle(loop, requests(1)[0], None)
        handle.cancel()
        assert handle.result(60).finish_reason == "cancelled"
        is_over.set()


def test_callers_share_the_actors() -> None:
    calls = [requests(150), requests(90, n_head=5), requests(40, n_head=30)]
    results: dict[int, lh.Results] = {}

    def run_call(k: int) -> None:
        results[k] = Call(calls[k], seed=1).run(loop)

    with local_cluster(LocalActor(), LocalActor()) as loop:
        threads = [threading.Thread(target=run_call, args=(k,)) for k in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    for k in range(3):
        check(results[k], calls[k])


def test_a_loop_that_is_closed_ends_its_calls() -> None:
    is_over = Event()
    actor = LocalActor(before=lambda _: is_over.wait(60))
    with local_cluster(actor) as loop:
        handle = Handle(loop, requests(1)[0], None)
        wait_until(lambda: bool(actor.sent))
        assert (loop.load.n_waiting, loop.plan) == (1, None)
        loop.close()
        with pytest.raises(ContextClosedError):
            handle.result(60)
        with pytest.raises(ContextClosedError, match="the cluster is closed"):
            Call(requests(1), seed=1).run(loop)
        is_over.set()


def test_ray_that_was_shut_down_is_not_started_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    is_over = Event()
    actor = LocalActor(before=lambda _: is_over.wait(60))
    with local_cluster(actor) as loop:
        handle = Handle(loop, requests(1)[0], None)
        wait_until(lambda: bool(actor.sent))
        monkeypatch.setattr(LocalRay, "is_shut_down", True)
        with pytest.raises(ClusterError, match="Ray was shut down"):
            handle.result(60)
        with pytest.raises(ClusterError, match="create a new cluster"):
            Call(requests(1), seed=1).run(loop)
        is_over.set()
        assert len(actor.sent) == 1


def test_streams_are_refused_with_what_to_use() -> None:
    with (
        local_cluster(LocalActor()) as loop,
        pytest.raises(ArgumentError, match=r"whole calls: use a Context.*serve_app"),
    ):
        Handle(loop, requests(1)[0], None, stream=True)


def test_an_error_of_the_loop_itself_is_raised_to_callers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with local_cluster(LocalActor()) as loop:

        def fail(_work: object) -> None:
            raise MemoryError("no memory for a list")

        monkeypatch.setattr(loop, "_hand_out", fail)
        with pytest.raises(MemoryError, match="no memory for a list"):
            Call(requests(60), seed=1).run(loop)
        monkeypatch.undo()
        check(Call(requests(6), seed=1).run(loop), requests(6))
