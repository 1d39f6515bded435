"""Single decisions of the scheduler."""

from __future__ import annotations

from fake_calls import request
from llamaherd.engine.schedule.client import Client, State
from llamaherd.engine.schedule.prefixes import PrefixCache
from llamaherd.engine.schedule.queue import MOST_PASSED, Queue
from llamaherd.engine.schedule.scheduler import Kind, Limits, Scheduler


def test_a_prefix_that_nobody_needs_any_more_is_not_computed() -> None:
    cache = PrefixCache()
    scheduler = Scheduler(Limits(n_slots=1, n_hold=1, n_cells=500), cache)
    stem = [1] * 100
    prefix = Client(id=0, call=0, request=request(stem, 0), n_unsubmitted=2)
    first = request([*stem, 2], priority=1)
    own = Client(id=1, call=0, index=0, request=first, parent=prefix)
    other = Client(id=2, call=1, index=0, request=request([*stem, 4]), parent=prefix)
    cache.insert(prefix)
    scheduler.add(Queue(0, [prefix, own]))
    scheduler.add(Queue(1, [other]))
    assert [action.client for action in scheduler.admit(0)] == [prefix]
    scheduler.held(prefix)
    assert [action.client for action in scheduler.admit(100)] == [own]
    # The prefix must be computed again for the other call, which is then removed.
    action = scheduler.make_room()
    assert (action.kind, action.client) == (Kind.RELEASE, prefix)
    assert not scheduler.remove(1)
    scheduler.ended(own)
    assert not scheduler.admit(0)


def nested(n_calls: int) -> tuple[Scheduler, Client, Client, list[Client]]:
    """Create a prefix, a longer prefix, and for each call a prompt that continues it."""
    cache = PrefixCache()
    scheduler = Scheduler(Limits(n_slots=4, n_hold=4, n_cells=None), cache)
    outer = Client(id=0, call=0, request=request([1] * 50, 0), n_unsubmitted=1)
    inner = Client(
        id=1,
        call=0,
        request=request([1] * 80, 0),
        parent=outer,
        n_unsubmitted=n_calls,
    )
    prompts = [
        Client(id=2 + i, call=i, index=0, request=request([1] * 80 + [i]), parent=inner)
        for i in range(n_calls)
    ]
    for prefix in (outer, inner):
        cache.insert(prefix)
    for i, prompt in enumerate(prompts):
        own = [outer, inner, prompt] if i == 0 else [prompt]
        scheduler.add(Queue(i, own))
    return scheduler, outer, inner, prompts


def started(scheduler: Scheduler) -> list[Client]:
    return [action.client for action in scheduler.admit(0)]


def test_prefixes_are_handed_from_call_to_call() -> None:
    scheduler, outer, inner, prompts = nested(3)
    assert not scheduler.remove(0)
    assert not scheduler.remove(1)
    assert started(scheduler) == [outer]
    scheduler.held(outer)
    assert started(scheduler) == [inner]
    scheduler.held(inner)
    assert started(scheduler) == [prompts[2]]


def test_a_call_that_starts_no_more_prompts_leaves_its_prefixes_to_others() -> None:
    scheduler, outer, inner, prompts = nested(2)
    scheduler.stop(0)
    assert started(scheduler) == [outer]
    scheduler.held(outer)
    assert started(scheduler) == [inner]
    scheduler.held(inner)
    assert started(scheduler) == [prompts[1]]


def test_a_new_call_takes_prefixes_over_that_nobody_else_starts() -> None:
    scheduler, outer, inner, prompts = nested(1)
    scheduler.stop(0)
    assert not started(scheduler)
    new = Client(id=9, call=9, index=0, request=request([1] * 81), parent=inner)
    inner.n_unsubmitted += 1
    scheduler.add(Queue(9, [new]))
    assert started(scheduler) == [outer]
    scheduler.held(outer)
    assert started(scheduler) == [inner]
    scheduler.held(inner)
    assert started(scheduler) == [new]
    assert prompts[0].state is State.WAITING


def test_urgent_calls_that_are_cancelled_leave_a_prefix_as_it_was() -> None:
    scheduler, outer, inner, prompts = nested(2)
    for call in range(10, 20):
        asked = request([1] * 80 + [call], priority=call)
        urgent = Client(id=call, call=call, index=0, request=asked, parent=inner)
        inner.n_unsubmitted += 1
        scheduler.add(Queue(call, [urgent]))
        assert inner.call == outer.call == call
        assert not scheduler.remove(call)
    assert inner.call == outer.call == 0
    queue = scheduler._turns[0]
    assert len(queue.clients) == 3
    assert [len(heap) for heap in queue._prefixes.values()] == [1]
    assert list(outer.dependents) == [inner]
    assert [c for c in inner.dependents if c.state is State.WAITING] == prompts
    assert started(scheduler) == [outer]
    scheduler.held(outer)
    assert started(scheduler) == [inner]
    scheduler.held(inner)
    assert started(scheduler) == prompts


def test_a_prefix_is_handed_over_whose_own_one_is_gone() -> None:
    scheduler, outer, inner, prompts = nested(2)
    assert started(scheduler) == [outer]
    scheduler.held(outer)
    scheduler.lost([outer])  # `inner` was ready
    assert not scheduler.remove(0)
    assert started(scheduler) == [outer]
    scheduler.held(outer)
    assert started(scheduler) == [inner]
    scheduler.held(inner)
    assert started(scheduler) == [prompts[1]]


def test_a_prefix_that_finds_no_place_is_done_without() -> None:
    """If the prefix that it continues were released for it, both would wait forever."""
    cache = PrefixCache()
    scheduler = Scheduler(Limits(n_slots=2, n_hold=1, n_cells=None), cache)
    outer = Client(id=0, call=0, request=request([1] * 50, 0), n_unsubmitted=2)
    first = Client(id=1, call=0, index=0, request=request([1] * 51), parent=outer)
    cache.insert(outer)
    scheduler.add(Queue(0, [outer, first]))
    assert started(scheduler) == [outer]
    inner = Client(
        id=2, call=1, request=request([1] * 80, 0), parent=outer, n_unsubmitted=1
    )
    second = Client(id=3, call=1, index=0, request=request([1] * 81), parent=inner)
    cache.insert(inner)
    scheduler.add(Queue(1, [inner, second]))
    scheduler.held(outer)
    assert started(scheduler) == [first]
    scheduler.ended(first)
    (action,) = scheduler.admit(0)
    assert (action.client, action.fork_from) == (second, outer.id)
    assert cache.n_idle == 1  # the outer prefix, which no client needs any more


def test_a_prefix_that_others_come_to_continue_needs_more_places() -> None:
    cache = PrefixCache()
    scheduler = Scheduler(Limits(n_slots=4, n_hold=1, n_cells=None), cache)
    other = Client(id=0, call=0, request=request([7] * 50, 0), n_unsubmitted=1)
    outer = Client(id=1, call=1, request=request([1] * 50, 0), n_unsubmitted=1)
    for call, prefix in enumerate((other, outer)):
        tokens = [*prefix.request.tokens, 2]
        prompt = Client(
            id=10 + call, call=call, index=0, request=request(tokens), parent=prefix
        )
        cache.insert(prefix)
        scheduler.add(Queue(call, [prefix, prompt]))
    inner = Client(id=2, call=2, request=request([1] * 80, 0), parent=outer)
    assert (outer.n_levels, inner.n_levels) == (2, 1)
    assert (outer.depth, inner.depth) == (1, 2)
    actions = scheduler.admit(0)  # one slot never suffices for two levels
    assert [action.client.id for action in actions] == [other.id, 11]
    assert actions[1].fork_from is None
    scheduler.held(other)
    assert [client.id for client in started(scheduler)] == [10]


def test_a_prefix_has_the_highest_priority_of_the_prompts_that_continue_it() -> None:
    """Prompts of a middle priority must not come first (priority inversion)."""
    cache = PrefixCache()
    scheduler = Scheduler(Limits(n_slots=1, n_hold=2, n_cells=None), cache)
    outer = Client(
        id=0, call=0, request=request([1] * 50, 0, priority=-1), n_unsubmitted=1
    )
    inner = Client(
        id=1,
        call=0,
        request=request([1] * 80, 0, priority=-1),
        parent=outer,
        n_unsubmitted=2,
    )
    low = request([1] * 80 + [2], priority=-1)
    lowest = Client(id=2, call=0, index=0, request=low, parent=inner)
    for prefix in (outer, inner):
        cache.insert(prefix)

    def other(call: int) -> Queue:
        prompt = Client(id=10 + call, call=call, index=0, request=request([call]))
        return Queue(call, [prompt])

    scheduler.add(other(5))
    (first,) = started(scheduler)
    scheduler.add(Queue(0, [outer, inner, lowest]))
    urgent = Client(id=3, call=1, index=0, request=request([1] * 81), parent=inner)
    scheduler.add(Queue(1, [urgent]))
    begun = []
    for call in range(6, 12):  # a prompt arrives whenever another one ends
        scheduler.add(other(call))
        scheduler.ended(first)
        begun += (actions := started(scheduler))
        for client in actions:
            if client.is_prefix:
                scheduler.held(client)
            else:
                first = client
        begun += (more := started(scheduler))
        for client in more:
            if client.is_prefix:
                scheduler.held(client)
        if urgent in begun:
            break
    assert urgent in begun
    assert lowest not in begun
    assert inner.priority == outer.priority == 0


def test_prefixes_that_need_few_hold_slots_do_not_pass_a_deep_one_forever() -> None:
    cache = PrefixCache()
    scheduler = Scheduler(Limits(n_slots=40, n_hold=2, n_cells=None), cache)

    def call_of(call: int) -> Client:
        """Add a call with one prefix; return this prefix."""
        prefix = Client(
            id=2 * call, call=call, request=request([call] * 50, 0), n_unsubmitted=1
        )
        tokens = [*prefix.request.tokens, 2]
        prompt = Client(
            id=2 * call + 1, call=call, index=0, request=request(tokens), parent=prefix
        )
        cache.insert(prefix)
        scheduler.add(Queue(call, [prefix, prompt]))
        return prefix

    before = call_of(100)
    assert started(scheduler) == [before]
    outer = Client(id=0, call=0, request=request([1] * 50, 0), n_unsubmitted=1)
    inner = Client(
        id=1, call=0, request=request([1] * 80, 0), parent=outer, n_unsubmitted=1
    )
    deep = Client(id=2, call=0, index=0, request=request([1] * 81), parent=inner)
    for prefix in (outer, inner):
        cache.insert(prefix)
    scheduler.add(Queue(0, [outer, inner, deep]))
    n_calls = 0
    while deep.state is State.WAITING:
        n_calls += 1
        assert n_calls <= 2 * MOST_PASSED
        after = call_of(100 + n_calls)  # one of two hold slots is always in use
        scheduler.admit(0)
        if before.state is State.RUNNING:
            scheduler.held(before)
        for client in started(scheduler):
            if not client.is_prefix:
                scheduler.ended(client)
        before = after if after.state is State.RUNNING else before
        if inner.state is State.RUNNING:
            scheduler.held(inner)
            scheduler.admit(0)
    assert n_calls >= MOST_PASSED


def test_two_prefixes_do_not_replace_each_other_forever() -> None:
    """A call may take over prefixes, which all start before its prompts."""
    cache = PrefixCache()
    scheduler = Scheduler(Limits(n_slots=2, n_hold=2, n_cells=100), cache)
    stems = ([1] * 60, [2] * 60)
    first, second = prefixes = [
        Client(id=i, call=0, request=request(stem, 0), n_unsubmitted=1)
        for i, stem in enumerate(stems)
    ]
    prompts = [
        Client(id=2 + i, call=0, index=i, request=request([*stem, 3]), parent=prefix)
        for i, (stem, prefix) in enumerate(zip(stems, prefixes, strict=True))
    ]
    for prefix in prefixes:
        cache.insert(prefix)
    scheduler.add(Queue(0, [*prefixes, *prompts]))
    assert started(scheduler) == [first]
    scheduler.held(first)
    assert [action.client for action in scheduler.admit(60)] == [second]
    action = scheduler.make_room()
    assert (action.kind, action.client) == (Kind.FAIL, second)
    scheduler.ended(second)
    starts = scheduler.admit(60)
    assert [
        (each.client, each.fork_from) for each in starts if each.client in prompts
    ] == [
        (prompts[0], first.id),
        (prompts[1], None),
    ]


def test_states_are_saved_and_restored_before_forks_are_pending() -> None:
    cache = PrefixCache()
    scheduler = Scheduler(Limits(n_slots=2, n_hold=1, n_cells=None), cache)
    prefix = Client(id=0, call=0, request=request([9] * 50, 0), n_unsubmitted=1)

    def fork(id_: int, priority: int) -> Client:
        asked = request([9] * 50 + [id_], priority=priority)
        return Client(id=id_, call=id_, index=0, request=asked, parent=prefix)

    cache.insert(prefix)
    first = fork(1, 0)
    first.call = 0
    scheduler.add(Queue(0, [prefix, first]))
    assert started(scheduler) == [prefix]
    scheduler.held(prefix)
    assert started(scheduler) == [first]
    low = Client(id=2, call=2, index=0, request=request([2], priority=-1))
    scheduler.add(Queue(2, [low]))
    assert started(scheduler) == [low]
    scheduler.pause(first, 51)
    urgent = fork(3, 1)
    prefix.n_unsubmitted += 1
    cache.use(prefix)
    scheduler.add(Queue(3, [urgent]))
    assert [(action.kind, action.client) for action in scheduler.admit(0)] == [
        (Kind.PAUSE, low),
        (Kind.RESUME, first),
        (Kind.SUBMIT, urgent),
    ]


def test_claims_of_clients_that_leave_do_not_pile_up() -> None:
    """Clients that time out while a prefix waits would stay in memory."""
    prefix = Client(id=0, call=0, request=request([1] * 50, 0), n_unsubmitted=3)
    stays = [
        Client(id=1 + i, call=1 + i, request=request([1] * 51), parent=prefix)
        for i in range(2)
    ]
    for client in stays:
        prefix.add_dependent(client, client.call)
        prefix.add_dependent(client, client.call)
    for i in range(10, 1000):
        leaves = Client(id=i, call=i, request=request([1] * 51), parent=prefix)
        prefix.add_dependent(leaves, 0)
        del prefix.dependents[leaves]
    assert len(prefix.claims) < 40
    assert min(prefix.claims)[3] is stays[1]
    assert {claim[3] for claim in prefix.claims} >= set(stays)
