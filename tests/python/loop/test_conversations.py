"""Runners that fit new groups, and the beginnings that conversations keep."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from fake_calls import assert_right, request
from fake_engine import make_loop
from llamaherd.calls.run.handle import Handle
from llamaherd.engine.loop.fit import fit
from llamaherd.engine.loop.group import Group
from llamaherd.engine.loop.open_groups import OpenGroups
from llamaherd.engine.loop.sizing import LayoutChoice
from llamaherd.engine.memory.plan import MAX_HOLD, Plan, Sizes, make_plan

if TYPE_CHECKING:
    from llamaherd.engine.loop.loop import Loop
    from llamaherd.engine.memory.plan import Layout


class Limited:
    """Sizing with a limited number of slots."""

    n_sharing = 1
    keeps_prefixes = True

    def __init__(self, n_seq_max: int | None, *, deterministic: bool) -> None:
        self.sizes = Sizes(n_seq_max=n_seq_max, deterministic=deterministic)

    def plan(self, work: Any, _layout: str | None = None) -> Plan:
        return make_plan(
            self.sizes,
            work.needs,
            work.n_prefixes,
            work.n_shared,
            n_batch=512,
            bytes_per_cell=1,
            memory_bytes=1 << 30,
        )

    def check_memory(self, plan: Plan, _n_bytes_freed: int = 0) -> None:
        pass


@pytest.mark.more(reason="random schedules on many layouts", cases=98)
@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("n_seq_max", [*range(1, 34), None])
@pytest.mark.parametrize("n_first", range(1, 9))
def test_prompts_that_come_one_by_one_get_all_slots(
    n_first: int, n_seq_max: int | None, *, deterministic: bool
) -> None:
    sizing: Any = Limited(n_seq_max, deterministic=deterministic)
    prompts = [Group([request([i], 20)], SimpleNamespace()) for i in range(90)]
    runner: Any = SimpleNamespace(
        groups=OpenGroups(),
        plan=sizing.plan(SimpleNamespace(needs=[1], n_prefixes=0, n_shared=0)),
    )
    runner.n_hold_target, runner.is_draining = MAX_HOLD, False
    runner.n_waited, runner.n_continued = 0, lambda _: 0
    runner.resize = lambda plan: setattr(runner, "plan", plan)
    n_changes = 0
    while prompts:
        new = [prompts.pop() for _ in range(1 if runner.groups else n_first)]
        before = runner.plan
        fit(sizing, runner, new, LayoutChoice())
        n_changes += runner.plan is not before
        for group in new:
            group.number = id(group)
            runner.groups.add(group)
    if n_seq_max is None:  # rounds of equal size: 36 of 71 prompts, for example
        assert 36 <= runner.plan.n_seq_max <= 40
    else:
        assert runner.plan.n_seq_max == n_seq_max
    assert n_changes <= 7


N_TURN = 40  # tokens that each turn adds


def loop_of(layout: Layout, *, can_cut: bool = True) -> Loop:
    """Create a loop with enough cells for long conversations.

    Args:
        layout: Layout of the cells.
        can_cut: Whether cells can be truncated; recurrent states cannot.
    """
    plan = Plan(
        n_ctx=1 << 15,
        n_seq_max=12,
        n_hold=8,
        kv_layout=layout,
        n_ctx_seq=(1 << 15) // (20 if layout == "per_sequence" else 1),
        capacity=1 << 11,
        memory_bytes=0,
    )
    loop = make_loop(plan)
    loop._sizing.engine.can_cut = can_cut
    return loop


def turns(layout: Layout, *, is_told: bool, can_cut: bool) -> list[int]:
    """Return the number of computed prompt tokens for each of 20 turns.

    The last five tokens of a prompt are not in later prompts, like the end of a
    rendered chat.
    """
    loop = loop_of(layout, can_cut=can_cut)
    counts = []
    for i in range(1, 21):
        n = i * N_TURN
        turn = request([*range(n), *[900 + i % 50] * 5])
        handle = Handle(loop, turn, None, n_again=n if is_told else 0)
        result = handle.result(60)
        assert_right(result, turn)
        counts.append(result.stats.n_prefill_tokens)
    return counts


LAYOUTS = pytest.mark.parametrize("layout", ["per_sequence", "unified"])


@LAYOUTS
@pytest.mark.parametrize("can_cut", [True, False])
@pytest.mark.parametrize("is_told", [True, False])
def test_a_conversation_computes_each_turn_once(
    layout: Layout, *, is_told: bool, can_cut: bool
) -> None:
    """Plain requests compute two turns each time if nothing can be truncated."""
    n_turns = 1 if is_told or can_cut else 2
    counts = turns(layout, is_told=is_told, can_cut=can_cut)
    assert counts == [N_TURN + 5, *[n_turns * N_TURN + 5] * 19]


@LAYOUTS
def test_an_answer_is_not_computed_again_in_the_next_turn(layout: Layout) -> None:
    for can_cut in (True, False):
        loop = loop_of(layout, can_cut=can_cut)
        tokens = list(range(100))
        for _ in range(4):
            result = Handle(loop, request(tokens, 30), None).result(60)
            n_before = len(tokens)
            tokens += [*result.tokens, *range(500, 520)]
            n_new = len(tokens) - n_before
        # Only the last token of an answer has no cell.
        assert result.stats.n_prefill_tokens <= n_new + 1
        assert n_new > 20


@LAYOUTS
@pytest.mark.parametrize("n_text", [10, 300])
def test_a_loop_computes_its_instruction_once(layout: Layout, n_text: int) -> None:
    loop = loop_of(layout)
    counts = []
    for i in range(6):
        prompt = request([*range(200), *[500 + i] * n_text], 30)
        result = Handle(loop, prompt, None).result(60)
        assert_right(result, prompt)
        counts.append(result.stats.n_prefill_tokens)
    assert counts == [200 + n_text, *[n_text] * 5]


@LAYOUTS
def test_users_in_turns_keep_their_conversations(layout: Layout) -> None:
    loop = loop_of(layout)
    talks = [[i] * 60 for i in range(4)]
    for turn in range(5):
        for talk in talks:
            talk.extend([900 + turn] * 20)
            result = Handle(loop, request(talk, 10), None).result(60)
            assert result.stats.n_prefill_tokens == (80 if turn == 0 else 20)


@LAYOUTS
def test_without_truncation_requests_that_extend_each_other_compute_each_turn_once(
    layout: Layout,
) -> None:
    loop = loop_of(layout, can_cut=False)
    counts = []
    for i in range(1, 21):
        turn = request(range(i * N_TURN))
        result = Handle(loop, turn, None).result(60)
        assert_right(result, turn)
        counts.append(result.stats.n_prefill_tokens)
    # The second turn shows that it is a conversation. A prompt's last token, whose
    # logits are needed, is computed again.
    assert counts == [N_TURN, 2 * N_TURN, *[N_TURN + 1] * 18]


@LAYOUTS
@pytest.mark.parametrize("n_forks", [2, 5])
def test_forks_of_a_conversation_compute_their_common_part_once(
    layout: Layout, n_forks: int
) -> None:
    loop = loop_of(layout)
    common = list(range(200))
    first = request([*common[:100], 900])
    Handle(loop, first, None, n_again=100).result(60)
    counts = []
    for i in range(n_forks):
        turn = request([*common, *[910 + i] * 20, 900])
        result = Handle(loop, turn, None, n_again=220).result(60)
        assert_right(result, turn)
        counts.append(result.stats.n_prefill_tokens)
    # In a pool, an ended prompt cannot be truncated within a prefix that it shares: the
    # second prompt reveals what later prompts share.
    n_second = 121 if layout == "unified" else 21
    assert counts == [121, n_second, *[21] * (n_forks - 2)]


def test_tokens_that_come_again_are_held_but_never_the_whole_prompt() -> None:
    loop = loop_of("per_sequence")
    prompt = request(range(100))
    for n_prefill in (100, 1, 1):
        result = Handle(loop, prompt, None, n_again=100).result(60)
        assert_right(result, prompt)
        assert result.stats.n_prefill_tokens == n_prefill
