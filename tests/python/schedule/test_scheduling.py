"""Calls on a fake engine: every prompt gets its answer, whatever faults occur."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from fake_calls import assert_all_right, assert_right, request
from fake_engine import BAD_GRAMMAR, N_VOCAB, FakeEngine, answer, make_loop, text_of
from hypothesis import given
from hypothesis import strategies as st
from llamaherd import GenerationError
from llamaherd.calls.run.call import Call
from llamaherd.engine.core.errors import NativeError
from llamaherd.engine.memory.plan import MAX_HOLD, Plan
from thorough import examples

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.engine.core.outcome import RunOutcome
    from llamaherd.engine.core.request import Request
    from llamaherd.engine.core.results import Results
    from llamaherd.engine.loop.loop import Loop

POISON = N_VOCAB + 7


def plan(
    n_slots: int = 4,
    n_cells: int = 4096,
    n_hold: int = MAX_HOLD,
    *,
    pooled: bool = True,
) -> Plan:
    """Create a plan; without a pool, every sequence has enough cells."""
    return Plan(
        n_ctx=n_cells if pooled else n_cells * (n_slots + n_hold),
        n_seq_max=n_slots,
        n_hold=n_hold,
        kv_layout="unified" if pooled else "per_sequence",
        n_ctx_seq=n_cells,
        capacity=n_cells,
        memory_bytes=0,
    )


def run(
    requests: Sequence[Request],
    sizes: Plan | None = None,
    engine: FakeEngine | None = None,
    *,
    loop: Loop | None = None,
    **options: object,
) -> tuple[Results, FakeEngine]:
    """Run a call, on a loop that may have run other calls before."""
    if loop is None:
        loop = make_loop(sizes or plan(), engine)
    sizes, engine = loop._sizing.sizes, loop._sizing.engine
    call = Call(requests, seed=1, **options)
    try:
        return call.run(loop), engine
    finally:
        assert loop.wait()
        held = [slot for slot in engine.slots.values() if slot.is_held]
        ended = [slot for slot in engine.slots.values() if not slot.is_held]
        assert engine.is_idle
        assert len(held) <= sizes.n_hold
        assert len(ended) <= sizes.n_seq_max
        every = [*held, *ended]
        n_tokens = sum(len(s.request.tokens) + len(s.generated) for s in every)
        assert len(engine.used) <= n_tokens
        assert not engine.numbers_of


@st.composite
def workloads(draw: st.DrawFn, n_most: int = 40) -> list[Request]:
    """Draw prompts that share prefixes at several depths; some are equal, some fail."""
    stems = draw(st.lists(st.integers(16, 40), min_size=1, max_size=4))
    requests = []
    for _ in range(draw(st.integers(1, n_most))):
        tokens: list[int] = []
        for depth in range(draw(st.integers(0, len(stems)))):
            tokens += [depth * 10 + draw(st.integers(0, 1))] * stems[depth]
        tokens += draw(st.lists(st.integers(0, 5), max_size=30))
        if draw(st.integers(0, 9)) == 0:
            tokens.insert(draw(st.integers(0, len(tokens))), POISON)
        temperature = draw(st.sampled_from([0.0, 0.8]))
        requests.append(
            request(tokens, draw(st.integers(1, 60)), temperature=temperature)
        )
    return requests


@given(
    requests=workloads(),
    n_slots=st.integers(1, 9),
    n_cells=st.integers(40, 800),
    pooled=st.booleans(),
    n_batch=st.integers(20, 200),
)
@examples(300)
@pytest.mark.slow(reason="random schedules on a fake engine")
def test_every_prompt_gets_the_answer_it_would_get_alone(
    requests: list[Request], n_slots: int, n_cells: int, n_batch: int, *, pooled: bool
) -> None:
    sizes = plan(n_slots, n_cells, pooled=pooled)
    engine = FakeEngine(sizes.n_ctx, sizes.n_sequences, n_batch=n_batch, pooled=pooled)
    results, _ = run(requests, sizes, engine)
    assert [result.index for result in results] == list(range(len(requests)))
    for prompt, result in zip(requests, results, strict=True):
        n_prompt = len(prompt.tokens)
        if n_prompt == 0:
            assert "empty" in str(result.error)
        elif n_prompt + prompt.max_tokens > n_cells:
            assert str(n_prompt + prompt.max_tokens) in str(result.error)
        elif POISON in prompt.tokens:
            assert "llama_decode: -1" in str(result.error)
        else:
            assert_right(result, prompt)
    assert results.stats.n_failed == sum(r.finish_reason == "error" for r in results)


@given(st.lists(workloads(), min_size=2, max_size=4), st.integers(1, 6), st.booleans())
@examples(200)
@pytest.mark.slow(reason="random schedules on a fake engine")
def test_calls_after_each_other_share_what_is_kept(
    calls: list[list[Request]],
    n_hold: int,
    pooled: bool,
) -> None:
    loop = make_loop(plan(4, 1000, n_hold, pooled=pooled))
    for requests in calls:
        results, _ = run(requests, loop=loop)
        for prompt, result in zip(requests, results, strict=True):
            if prompt.tokens and POISON not in prompt.tokens:
                assert_right(result, prompt)


@given(
    st.lists(workloads(n_most=3), min_size=5, max_size=12),
    st.integers(1, 4),
    st.integers(60, 800),
    st.booleans(),
    st.booleans(),
)
@examples(200)
@pytest.mark.slow(reason="random schedules on a fake engine")
def test_small_calls_in_any_order_continue_what_ended_before(
    calls: list[list[Request]], n_slots: int, n_cells: int, pooled: bool, can_cut: bool
) -> None:
    loop = make_loop(plan(n_slots, n_cells, 2, pooled=pooled))
    loop._sizing.engine.can_cut = can_cut
    for requests in calls:
        results, _ = run(requests, loop=loop)
        for prompt, result in zip(requests, results, strict=True):
            n_needed = len(prompt.tokens) + prompt.max_tokens
            if prompt.tokens and POISON not in prompt.tokens and n_needed <= n_cells:
                assert_right(result, prompt)


def test_a_call_of_several_prompts_copies_what_a_single_prompt_has_computed() -> None:
    for pooled in (True, False):
        loop = make_loop(plan(pooled=pooled))
        run([request([7] * 100 + [1] * 5)], loop=loop)
        results, _ = run([request([7] * 100 + [i] * 5) for i in range(2, 6)], loop=loop)
        assert results.stats.n_prefill_tokens == 1 + 4 * 5


def test_without_kept_prefixes_a_call_computes_all_its_tokens() -> None:
    loop = make_loop(plan(pooled=False))
    loop._sizing.keeps_prefixes = False
    for _ in range(2):
        for n_prompts in (1, 1, 4):
            prompts = [request([7] * 100 + [i] * 5) for i in range(n_prompts)]
            results, engine = run(prompts, loop=loop)
            assert results.stats.n_prefill_tokens == 100 + 5 * n_prompts
            assert not engine.used


def test_a_prefix_is_kept_for_the_next_call() -> None:
    loop = make_loop(plan(n_slots=4, n_hold=2, pooled=False))

    def n_prefilled(first: int) -> int:
        prompts = [request([first] * 100 + [500 + i]) for i in range(10)]
        return run(prompts, loop=loop)[0].stats.n_prefill_tokens

    assert [n_prefilled(first) for first in (1, 1, 2, 1)] == [110, 10, 110, 10]
    # The third prefix replaces the least recently used prefix.
    assert [n_prefilled(first) for first in (3, 1, 2)] == [110, 10, 110]


def test_a_pool_keeps_what_all_prompts_share() -> None:
    loop = make_loop(plan())
    prompts = [request([1] * 100 + [500 + i]) for i in range(10)]
    others = [request([2] * 100 + [500 + i]) for i in range(10)]

    def n_prefilled(requests: list[Request]) -> int:
        return run(requests, loop=loop)[0].stats.n_prefill_tokens

    assert [n_prefilled(prompts) for _ in range(3)] == [110, 10, 10]
    # For another beginning, the pool is in the same state as for a first call.
    assert n_prefilled(others) == 110
    assert [s.request.tokens[0] for s in loop._sizing.engine.slots.values()] == [2]
    assert n_prefilled(prompts + others) == 120  # the last prefix is kept
    assert len(loop._sizing.engine.slots) == 1


def test_what_a_pool_keeps_makes_room() -> None:
    loop = make_loop(plan(n_cells=300))
    _, engine = run([request([1] * 100 + [500 + i]) for i in range(4)], loop=loop)
    assert len(engine.slots) == 1
    # The same prefix is used again, and released when the answers need its cells.
    again = [request([1] * 100 + [500 + i], 180) for i in range(4)]
    results, _ = run(again, loop=loop)
    assert_all_right(results, again)


def test_nothing_is_kept_after_an_error() -> None:
    class Failing(FakeEngine):
        fails = False

        def run(self, *args: object, **kwargs: object) -> RunOutcome:
            if self.fails:
                raise RuntimeError("asked too much")
            return super().run(*args, **kwargs)

    prompts = [request([1] * 100 + [500 + i]) for i in range(10)]
    sizes = plan(pooled=False)
    loop = make_loop(sizes, Failing(sizes.n_ctx, sizes.n_sequences, pooled=False))
    _, engine = run(prompts, loop=loop)
    assert len(engine.slots) == 1
    engine.fails = True
    with pytest.raises(RuntimeError, match="asked too much"):
        run(prompts, loop=loop)
    assert not engine.slots


def test_long_answers_start_first() -> None:
    # Two prompts run at once; in the given order, the long one would run alone at the
    # end.
    requests = [request([i, 30], 10) for i in range(10)] + [request([30, 31], 100)]
    assert len(answer(requests[-1])[0]) == 100
    _, engine = run(requests, plan(n_slots=2))
    assert engine.numbers["n_batches"] == 100


def test_perfect_sharing_of_one_prefix() -> None:
    prefix = [1] * 400
    requests = [request([*prefix, 500 + i, i]) for i in range(50)]
    results, engine = run(requests, plan(n_slots=8))
    assert engine.numbers["n_prefill"] == 400 + 50 * 2
    assert [result.n_reused_tokens for result in results] == [400] * 50
    assert results.stats.n_prompt_tokens == 50 * 402


def test_perfect_sharing_of_a_tree() -> None:
    requests = [
        request([9] * 100 + [document] * 50 + [500 + question] * 3)
        for question in range(6)
        for document in range(20)
    ]
    _, engine = run(requests, plan(n_slots=8))
    assert engine.numbers["n_prefill"] == 100 + 20 * 50 + 120 * 3


def test_a_short_prefix_is_not_worth_a_fork_of_many_cells() -> None:
    prompts = [[1] * 20 + [500 + i] for i in range(4)]
    for longest, n_reused in [(100, 80), (1322, 80), (1323, 0)]:
        requests = [request(tokens, longest) for tokens in prompts[:1]]
        requests += [request(tokens, 5) for tokens in prompts[1:]]
        results, _ = run(requests, plan(pooled=False))
        assert results.stats.n_reused_tokens == n_reused


def test_deep_prefixes_are_flattened() -> None:
    # Each prompt continues the prompt before it: 30 nested prefixes.
    requests = [request([*range(20 * (i + 1)), 999]) for i in range(30)]
    results, engine = run(requests, plan(n_slots=4))
    assert_all_right(results, requests)
    assert engine.numbers["n_prefill"] < sum(len(r.tokens) for r in requests)


def test_continuous_batching_takes_the_steps_that_the_work_needs() -> None:
    lengths = [1 + i * 199 // 99 for i in range(100)]
    requests = [request([i, i + 1], n) for i, n in enumerate(lengths)]
    results, engine = run(requests, plan(n_slots=8))
    work = sum(result.n_generated_tokens for result in results) / 8
    assert engine.numbers["n_batches"] < 1.2 * work + max(lengths)
    assert results.stats.mean_batch_occupancy > 0.8


def test_too_small_a_pool_pauses_and_resumes() -> None:
    requests = [request([i] * 20, 100) for i in range(12)]
    results, engine = run(requests, plan(n_slots=12, n_cells=256))
    assert_all_right(results, requests)
    assert results.stats.n_pauses > 0
    # No token is computed twice.
    assert engine.numbers["n_prefill"] == 12 * 20


def test_a_client_that_cannot_be_resumed_fails_alone() -> None:
    engine = FakeEngine(256, 12 + MAX_HOLD)
    engine.resumable = False
    requests = [request([i] * 20, 100) for i in range(12)]
    results, _ = run(requests, plan(n_slots=12, n_cells=256), engine)
    failed = [result for result in results if result.error]
    assert failed
    assert len(failed) < 12
    assert all("too small" in str(result.error) for result in failed)


def test_only_the_guilty_fail() -> None:
    requests = [request([i, POISON if i % 7 == 3 else 5, 6]) for i in range(30)]
    results, _ = run(requests, plan(n_slots=16))
    for i, result in enumerate(results):
        assert (result.error is not None) == (i % 7 == 3)
    assert results.stats.n_fallbacks > 0


def test_a_poisoned_prefix_fails_what_shares_it() -> None:
    poisoned = [request([POISON, *[1] * 30, i]) for i in range(5)]
    clean = [request([2] * 30 + [i]) for i in range(5)]
    results, _ = run([*poisoned, *clean])
    assert [result.error is not None for result in results] == [True] * 5 + [False] * 5


def test_a_request_that_is_refused_at_once_fails_alone() -> None:
    requests = [request([1, 2]), request([1, 3], grammar=BAD_GRAMMAR), request([1, 4])]
    results, _ = run(requests)
    assert [r.finish_reason for r in results].count("error") == 1
    assert results[1].error == "grammar cannot be parsed"


def test_equal_greedy_prompts_are_computed_once() -> None:
    requests = [request([1, 2, 3]) for _ in range(5)] + [request([1, 2, 3], 11)]
    results, engine = run(requests)
    assert engine.n_submitted == 3  # the prompt that both continue
    assert len({tuple(result.tokens) for result in results[:5]}) == 1
    assert results.stats.n_copied == 4
    assert [r.n_reused_tokens for r in results[:5]] == [3, 3, 3, 3, 3]


def test_equal_sampled_prompts_share_their_prefill() -> None:
    requests = [request([7] * 50, temperature=1.0) for _ in range(5)]
    _, engine = run(requests)
    assert engine.numbers["n_prefill"] == 50


def test_on_error_return_finishes_what_runs() -> None:
    requests = [request([-1])] + [request([i, i]) for i in range(50)]
    results, _ = run(requests, plan(n_slots=4), on_error="return")
    assert results.finish_reasons.count("error") == 1
    assert results.finish_reasons.count("cancelled") == 47
    assert_all_right(results[1:4], requests[1:4])


def test_on_error_stop_raises_with_the_results() -> None:
    requests = [request([i, i], 100) for i in range(20)] + [request([POISON])]
    with pytest.raises(GenerationError, match=r"prompts\[20\].*-1") as caught:
        run(requests, plan(n_slots=32), on_error="stop")
    assert caught.value.results[20].error is not None
    assert "cancelled" in caught.value.results.finish_reasons


@pytest.mark.parametrize("on_error", ["return", "stop"])
def test_what_is_known_before_the_start_keeps_the_rest_from_starting(
    on_error: str,
) -> None:
    requests = [request([1, 2]), request([])]
    engine = FakeEngine(100, 10)
    if on_error == "stop":
        with pytest.raises(GenerationError, match="empty"):
            run(requests, plan(), engine, on_error=on_error)
    else:
        results, _ = run(requests, plan(), engine, on_error=on_error)
        assert results.finish_reasons == ["cancelled", "error"]
    assert engine.n_submitted == 0


def test_cancelling_keeps_what_is_finished() -> None:
    class Cancelling(FakeEngine):
        def run(self, *args: object, **kwargs: object) -> RunOutcome:
            if self.numbers["n_batches"] > 60:
                call.cancel()
            return super().run(*args, **kwargs)

    requests = [request([i], 1 if i < 4 else 200) for i in range(8)]
    call = Call(requests, seed=1)
    sizes = plan(n_slots=8)
    results = call.run(make_loop(sizes, Cancelling(sizes.n_ctx, sizes.n_sequences)))
    assert all(result.is_finished for result in results[:4])
    cancelled = [r for r in results if r.finish_reason == "cancelled"]
    assert cancelled
    for result in cancelled:
        assert result.text is None
        whole, _ = answer(requests[result.index])
        assert result.tokens == whole[: len(result.tokens)]
        assert result.partial == (text_of(result.tokens) if result.tokens else None)
    assert any(result.partial for result in cancelled)
    assert [result.partial for result in results[:4]] == [None] * 4


def test_what_is_cancelled_before_it_runs_needs_no_engine() -> None:
    call = Call([request([1, 2])], seed=1)
    call.cancel()
    engine = FakeEngine(100, 20)
    results = call.run(make_loop(plan(), engine))
    assert results.finish_reasons == ["cancelled"]
    assert engine.n_submitted == 0


def test_progress_ends_complete() -> None:
    requests = [request([1]), request([1]), request([POISON]), request([])]
    call = Call(requests, seed=1)
    call.run(make_loop())
    progress = call.progress
    assert (progress.n_done, progress.n_failed, progress.n_total) == (4, 2, 4)
    assert (progress.n_prompt_tokens, progress.n_prompt_tokens_total) == (3, 3)
    assert progress.n_generated_tokens > 0


def test_progress_counts_prompt_tokens_that_are_read_or_need_not_be() -> None:
    class Watched(FakeEngine):
        def run(self, *args: object, **kwargs: object) -> RunOutcome:
            seen.append(call.progress)
            return super().run(*args, **kwargs)

    shared = list(range(40))
    requests = [request([*shared, 50 + i], 20) for i in range(30)]
    requests += [requests[0]] * 3
    call = Call(requests, seed=1)
    total = sum(len(prompt.tokens) for prompt in requests)
    seen = [call.progress]
    call.run(make_loop(plan(n_slots=4, n_cells=400), Watched(400, 20)))
    seen.append(call.progress)
    counts = [progress.n_prompt_tokens for progress in seen]
    assert counts[0] == 0
    assert counts[-1] == total
    assert counts == sorted(counts)
    assert len(set(counts)) > 5
    assert {progress.n_prompt_tokens_total for progress in seen} == {total}
    for progress in seen:  # the finished part is read
        assert progress.n_prompt_tokens >= progress.n_done * 41


def test_no_prompts_need_no_engine() -> None:
    results = Call([], seed=7).run(make_loop())
    assert list(results) == results.texts == []
    assert results.stats.n_prompts == 0
    assert results.stats.seed == 7
    assert repr(results) == "<Results: 0 of 0 prompts answered, 0 failed>"


def test_what_the_engine_itself_fails_with_fails_what_has_not_ended() -> None:
    class Failing(FakeEngine):
        def run(self, *args: object, **kwargs: object) -> RunOutcome:
            if self.numbers["n_batches"] > 60:
                raise NativeError("out of memory", 9)
            return super().run(*args, **kwargs)

    requests = [request([i + 1], 1 if i < 4 else 50) for i in range(12)]
    sizes = plan()
    out, engine = run(requests, sizes, Failing(4096, sizes.n_sequences))
    assert [result.index for result in out] == list(range(12))
    failed = [r for r in out if r.error == "the engine failed: out of memory"]
    finished = [r for r in out if r.error is None]
    assert len(failed) > 0
    assert len(finished) > 0
    assert len(failed) + len(finished) == 12
    assert all(r.text == text_of(answer(requests[r.index])[0]) for r in finished)
    assert not engine.slots


def test_a_request_that_the_engine_cannot_take_fails_alone() -> None:
    class Failing(FakeEngine):
        def submit(
            self, id_: int, request: Request, *args: object, **kwargs: object
        ) -> None:
            if request.tokens[0] == 2:
                raise NativeError("out of memory", 9)
            super().submit(id_, request, *args, **kwargs)

    requests = [request([i + 1]) for i in range(5)]
    out, _ = run(requests, engine=Failing(4096, plan().n_sequences))
    assert out.errors == [None, "out of memory", None, None, None]
