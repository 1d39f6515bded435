"""Prompts that continue earlier prompts: numbers of tokens computed again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from fake_calls import assert_right, request
from fake_engine import make_loop
from llamaherd.memory.plan import Plan
from llamaherd.run.handle import Handle

if TYPE_CHECKING:
    from llamaherd.loop.loop import Loop
    from llamaherd.memory.plan import Layout

N_TURN = 40  # tokens that each turn adds


def loop_of(layout: Layout) -> Loop:
    """Create a loop with enough cells for long conversations."""
    plan = Plan(
        n_ctx=1 << 15,
        n_seq_max=12,
        n_hold=8,
        kv_layout=layout,
        n_ctx_seq=(1 << 15) // (20 if layout == "per_sequence" else 1),
        capacity=1 << 11,
        memory_bytes=0,
    )
    return make_loop(plan)


def turns(layout: Layout, *, is_told: bool) -> list[int]:
    """Return the number of computed prompt tokens for each of 20 turns.

    The last five tokens of a prompt are not in later prompts, like the end of a
    rendered chat.
    """
    loop = loop_of(layout)
    counts = []
    for i in range(1, 21):
        n = i * N_TURN
        asked = request([*range(n), *[900 + i % 50] * 5])
        handle = Handle(loop, asked, None, n_again=n if is_told else 0)
        result = handle.result(60)
        assert_right(result, asked)
        counts.append(result.stats.n_prefill_tokens)
    return counts


LAYOUTS = pytest.mark.parametrize("layout", ["per_sequence", "unified"])


@LAYOUTS
def test_a_conversation_computes_each_turn_once(layout: Layout) -> None:
    assert turns(layout, is_told=True) == [N_TURN + 5] * 20


@LAYOUTS
def test_a_long_conversation_of_plain_requests_computes_two_turns_each_time(
    layout: Layout,
) -> None:
    counts = turns(layout, is_told=False)
    assert counts[:2] == [N_TURN + 5, 2 * N_TURN + 5]
    assert counts[2:] == [2 * N_TURN + 5] * 18


@LAYOUTS
def test_plain_requests_that_extend_each_other_compute_each_turn_once(
    layout: Layout,
) -> None:
    loop = loop_of(layout)
    counts = []
    for i in range(1, 21):
        asked = request(range(i * N_TURN))
        result = Handle(loop, asked, None).result(60)
        assert_right(result, asked)
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
        asked = request([*common, *[910 + i] * 20, 900])
        result = Handle(loop, asked, None, n_again=220).result(60)
        assert_right(result, asked)
        counts.append(result.stats.n_prefill_tokens)
    # The second prompt reveals the shared prefix, and later prompts use it.
    assert counts == [121, 121, *[21] * (n_forks - 2)]


def test_tokens_that_come_again_are_held_but_never_the_whole_prompt() -> None:
    loop = loop_of("per_sequence")
    asked = request(range(100))
    for n_prefill in (100, 1, 1):
        result = Handle(loop, asked, None, n_again=100).result(60)
        assert_right(result, asked)
        assert result.stats.n_prefill_tokens == n_prefill
