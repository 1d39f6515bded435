"""Decisions of the scheduler, and the search for the client that made a batch fail."""

from __future__ import annotations

from array import array

from fake_calls import request
from fake_engine import FakeEngine
from llamaherd.engine.core.outcome import Finish, RunOutcome, Status
from llamaherd.engine.core.request import Request
from llamaherd.engine.schedule.client import Client, State
from llamaherd.engine.schedule.engine import is_guilty, isolate
from llamaherd.engine.schedule.prefixes import PrefixCache
from llamaherd.engine.schedule.queue import MOST_PASSED, Queue
from llamaherd.engine.schedule.scheduler import Kind, Limits, Scheduler


class Bench:
    """A scheduler whose calls a test adds and whose actions it carries out."""

    def __init__(self, n_slots: int, n_hold: int, n_cells: int | None = None) -> None:
        self.cache = PrefixCache()
        limits = Limits(n_slots=n_slots, n_hold=n_hold, n_cells=n_cells)
        self.scheduler = Scheduler(limits, self.cache)

    def add(self, call: int, *clients: Client) -> None:
        for client in clients:
            if client.is_prefix:
                self.cache.insert(client)
        self.scheduler.add(Queue(call, list(clients)))

    def started(self, n_cells_taken: int = 0) -> list[Client]:
        return [action.client for action in self.scheduler.admit(n_cells_taken)]

    def hold(self, *prefixes: Client) -> None:
        """Check that each prefix starts alone, and hold it."""
        for stem in prefixes:
            assert self.started() == [stem]
            self.scheduler.held(stem)


def prefix(
    id_: int,
    call: int,
    tokens: list[int],
    parent: Client | None = None,
    *,
    n: int = 1,
    priority: int = 0,
) -> Client:
    """Create a prefix that n clients continue."""
    needed = request(tokens, 0, priority=priority)
    return Client(id=id_, call=call, request=needed, parent=parent, n_unsubmitted=n)


def prompt(
    id_: int,
    call: int,
    tokens: list[int],
    parent: Client | None = None,
    *,
    priority: int = 0,
    index: int = 0,
) -> Client:
    needed = request(tokens, priority=priority)
    return Client(id=id_, call=call, index=index, request=needed, parent=parent)


def test_a_prefix_that_nobody_needs_any_more_is_not_computed() -> None:
    bench = Bench(1, 1, 500)
    stem = prefix(0, 0, [1] * 100, n=2)
    urgent = prompt(1, 0, [1] * 100 + [2], stem, priority=1)
    bench.add(0, stem, urgent)
    bench.add(1, prompt(2, 1, [1] * 100 + [4], stem))
    bench.hold(stem)
    assert bench.started(100) == [urgent]
    # The prefix must be computed again for the other call, which is then removed.
    action = bench.scheduler.make_room()
    assert (action.kind, action.client) == (Kind.RELEASE, stem)
    assert not bench.scheduler.remove(1)
    bench.scheduler.ended(urgent)
    assert not bench.started()


def nested(n_calls: int) -> tuple[Bench, Client, Client, list[Client]]:
    """Create a prefix, a longer prefix, and for each call a prompt that continues it."""
    bench = Bench(4, 4)
    outer = prefix(0, 0, [1] * 50)
    inner = prefix(1, 0, [1] * 80, outer, n=n_calls)
    prompts = [prompt(2 + i, i, [1] * 80 + [i], inner) for i in range(n_calls)]
    for i, one in enumerate(prompts):
        bench.add(i, *([outer, inner] if i == 0 else []), one)
    return bench, outer, inner, prompts


def test_prefixes_are_handed_from_call_to_call() -> None:
    bench, outer, inner, prompts = nested(3)
    assert not bench.scheduler.remove(0)
    assert not bench.scheduler.remove(1)
    bench.hold(outer, inner)
    assert bench.started() == [prompts[2]]


def test_a_call_that_starts_no_more_prompts_leaves_its_prefixes_to_others() -> None:
    bench, outer, inner, prompts = nested(2)
    bench.scheduler.stop(0)
    bench.hold(outer, inner)
    assert bench.started() == [prompts[1]]


def test_a_new_call_takes_prefixes_over_that_nobody_else_starts() -> None:
    bench, outer, inner, prompts = nested(1)
    bench.scheduler.stop(0)
    assert not bench.started()
    new = prompt(9, 9, [1] * 81, inner)
    inner.n_unsubmitted += 1
    bench.add(9, new)
    bench.hold(outer, inner)
    assert bench.started() == [new]
    assert prompts[0].state is State.WAITING


def test_urgent_calls_that_are_cancelled_leave_a_prefix_as_it_was() -> None:
    bench, outer, inner, prompts = nested(2)
    for call in range(10, 20):
        inner.n_unsubmitted += 1
        bench.add(call, prompt(call, call, [1] * 80 + [call], inner, priority=call))
        assert inner.call == outer.call == call
        assert not bench.scheduler.remove(call)
    assert inner.call == outer.call == 0
    queue = bench.scheduler._turns[0]
    assert len(queue.clients) == 3
    assert [len(heap) for heap in queue._prefixes.values()] == [1]
    assert list(outer.dependents) == [inner]
    assert [c for c in inner.dependents if c.state is State.WAITING] == prompts
    bench.hold(outer, inner)
    assert bench.started() == prompts


def test_a_prefix_is_handed_over_whose_own_one_is_gone() -> None:
    bench, outer, inner, prompts = nested(2)
    bench.hold(outer)
    bench.scheduler.lost([outer])  # `inner` was ready
    assert not bench.scheduler.remove(0)
    bench.hold(outer, inner)
    assert bench.started() == [prompts[1]]


def test_a_prefix_that_finds_no_place_is_done_without() -> None:
    """If the prefix that it continues were released for it, both would wait forever."""
    bench = Bench(2, 1)
    outer = prefix(0, 0, [1] * 50, n=2)
    first = prompt(1, 0, [1] * 51, outer)
    bench.add(0, outer, first)
    assert bench.started() == [outer]
    inner = prefix(2, 1, [1] * 80, outer)
    second = prompt(3, 1, [1] * 81, inner)
    bench.add(1, inner, second)
    bench.scheduler.held(outer)
    assert bench.started() == [first]
    bench.scheduler.ended(first)
    (action,) = bench.scheduler.admit(0)
    assert (action.client, action.fork_from) == (second, outer.id)
    assert bench.cache.n_idle == 1  # the outer prefix, which no client needs any more


def test_a_prefix_that_others_come_to_continue_needs_more_places() -> None:
    bench = Bench(4, 1)
    other, outer = prefix(0, 0, [7] * 50), prefix(1, 1, [1] * 50)
    for call, stem in enumerate((other, outer)):
        bench.add(call, stem, prompt(10 + call, call, [*stem.request.tokens, 2], stem))
    inner = prefix(2, 2, [1] * 80, outer, n=0)
    assert (outer.n_levels, inner.n_levels) == (2, 1)
    assert (outer.depth, inner.depth) == (1, 2)
    actions = bench.scheduler.admit(0)  # one slot never suffices for two levels
    assert [action.client.id for action in actions] == [other.id, 11]
    assert actions[1].fork_from is None
    bench.scheduler.held(other)
    assert [client.id for client in bench.started()] == [10]


def test_a_prefix_has_the_highest_priority_of_the_prompts_that_continue_it() -> None:
    """Prompts of a middle priority must not come first (priority inversion)."""
    bench = Bench(1, 2)
    outer = prefix(0, 0, [1] * 50, priority=-1)
    inner = prefix(1, 0, [1] * 80, outer, n=2, priority=-1)
    lowest = prompt(2, 0, [1] * 80 + [2], inner, priority=-1)
    bench.add(5, prompt(15, 5, [5]))
    (first,) = bench.started()
    bench.add(0, outer, inner, lowest)
    urgent = prompt(3, 1, [1] * 81, inner)
    bench.add(1, urgent)
    begun: list[Client] = []
    for call in range(6, 12):  # a prompt arrives whenever another one ends
        bench.add(call, prompt(10 + call, call, [call]))
        bench.scheduler.ended(first)
        for _ in range(2):
            begun += (clients := bench.started())
            for client in clients:
                if client.is_prefix:
                    bench.scheduler.held(client)
                else:
                    first = client
        if urgent in begun:
            break
    assert urgent in begun
    assert lowest not in begun
    assert inner.priority == outer.priority == 0


def test_prefixes_that_need_few_hold_slots_do_not_pass_a_deep_one_forever() -> None:
    bench = Bench(40, 2)

    def call_of(call: int) -> Client:
        """Add a call with one prefix; return this prefix."""
        stem = prefix(2 * call, call, [call] * 50)
        bench.add(call, stem, prompt(2 * call + 1, call, [call] * 50 + [2], stem))
        return stem

    before = call_of(100)
    assert bench.started() == [before]
    outer = prefix(0, 0, [1] * 50)
    inner = prefix(1, 0, [1] * 80, outer)
    deep = prompt(2, 0, [1] * 81, inner)
    bench.add(0, outer, inner, deep)
    n_calls = 0
    while deep.state is State.WAITING:
        n_calls += 1
        assert n_calls <= 2 * MOST_PASSED
        after = call_of(100 + n_calls)  # one of two hold slots is always in use
        bench.started()
        if before.state is State.RUNNING:
            bench.scheduler.held(before)
        for client in bench.started():
            if not client.is_prefix:
                bench.scheduler.ended(client)
        before = after if after.state is State.RUNNING else before
        if inner.state is State.RUNNING:
            bench.scheduler.held(inner)
            bench.started()
    assert n_calls >= MOST_PASSED


def test_two_prefixes_do_not_replace_each_other_forever() -> None:
    """A call may take over prefixes, which all start before its prompts."""
    bench = Bench(2, 2, 100)
    first, second = prefixes = [prefix(i, 0, [1 + i] * 60) for i in range(2)]
    prompts = [
        prompt(2 + i, 0, [*stem.request.tokens, 3], stem, index=i)
        for i, stem in enumerate(prefixes)
    ]
    bench.add(0, *prefixes, *prompts)
    bench.hold(first)
    assert bench.started(60) == [second]
    action = bench.scheduler.make_room()
    assert (action.kind, action.client) == (Kind.FAIL, second)
    bench.scheduler.ended(second)
    starts = bench.scheduler.admit(60)
    forks = [(s.client, s.fork_from) for s in starts if s.client in prompts]
    assert forks == [(prompts[0], first.id), (prompts[1], None)]


def test_states_are_saved_and_restored_before_forks_are_pending() -> None:
    bench = Bench(2, 1)
    stem = prefix(0, 0, [9] * 50)
    first = prompt(1, 0, [9] * 50 + [1], stem)
    bench.add(0, stem, first)
    bench.hold(stem)
    assert bench.started() == [first]
    low = prompt(2, 2, [2], priority=-1)
    bench.add(2, low)
    assert bench.started() == [low]
    bench.scheduler.pause(first)
    first.n_saved = 51
    urgent = prompt(3, 3, [9] * 50 + [3], stem, priority=1)
    stem.n_unsubmitted += 1
    bench.cache.use(stem)
    bench.add(3, urgent)
    assert [(action.kind, action.client) for action in bench.scheduler.admit(0)] == [
        (Kind.PAUSE, low),
        (Kind.RESUME, first),
        (Kind.SUBMIT, urgent),
    ]


def test_claims_of_clients_that_leave_do_not_pile_up() -> None:
    """Clients that time out while a prefix waits would stay in memory."""
    stem = prefix(0, 0, [1] * 50, n=3)
    stays = [prompt(1 + i, 1 + i, [1] * 51, stem) for i in range(2)]
    for client in stays:
        stem.add_dependent(client, client.call)
        stem.add_dependent(client, client.call)
    for i in range(10, 1000):
        leaves = prompt(i, i, [1] * 51, stem)
        stem.add_dependent(leaves, 0)
        del stem.dependents[leaves]
    assert len(stem.claims) < 40
    assert min(stem.claims)[3] is stays[1]
    assert {claim[3] for claim in stem.claims} >= set(stays)


REFUSAL = RunOutcome(status=Status.REFUSED, decode_code=-1, message="invalid batch")


def engine_with(guilty: set[int], n: int = 32) -> FakeEngine:
    engine = FakeEngine(1000, n, n_batch=1000)
    for i in range(n):
        tokens = array("i", [-5 if i in guilty else 5, i])
        engine.submit(i, Request(tokens=tokens, max_tokens=10), None)
    return engine


def test_only_the_guilty_are_ended() -> None:
    guilty = {3, 17, 18}
    engine = engine_with(guilty)
    assert set(isolate(engine, range(32))) == guilty
    for i in range(32):
        output = engine.get(i)
        assert (output.finish is Finish.ERROR) == (i in guilty)
        assert len(output.tokens) == (i not in guilty)


def test_it_takes_k_log_n_batches() -> None:
    engine = engine_with({7})
    isolate(engine, range(32))
    assert engine.numbers["n_failed_decodes"] == 5
    assert engine.numbers["n_batches"] == 5


def test_a_client_alone_ends_when_it_is_refused_again() -> None:
    engine = engine_with({0}, 1)
    assert isolate(engine, [0]) == [0]
    assert engine.get(0).finish is Finish.ERROR
    assert engine.numbers["n_failed_decodes"] == 1


def test_what_passes_costs_a_client_alone_nothing() -> None:
    engine = engine_with(set(), 1)
    assert isolate(engine, [0]) == []
    assert len(engine.get(0).tokens) == 1


def test_who_is_innocent_but_ends_is_reported() -> None:
    engine = FakeEngine(1000, 2)
    for i, token in enumerate([5, -5]):
        request = Request(tokens=array("i", [token]), max_tokens=1)
        engine.submit(i, request, None)
    assert isolate(engine, [0, 1]) == [0, 1]
    assert engine.get(0).finish is Finish.LENGTH


def test_want_of_cells_is_nobodys_guilt() -> None:
    full = RunOutcome(status=Status.REFUSED, decode_code=1)
    assert not is_guilty(full)
    assert is_guilty(REFUSAL)
    assert not is_guilty(RunOutcome(status=Status.OK))
    assert not is_guilty(RunOutcome(status=Status.ABORTED))
    engine = FakeEngine(3, 4)  # each half needs four cells
    for i in range(4):
        engine.submit(i, Request(tokens=array("i", [1, i]), max_tokens=5), None)
    assert isolate(engine, range(4)) == []
