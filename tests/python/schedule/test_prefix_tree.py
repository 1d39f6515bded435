from __future__ import annotations

from array import array
from itertools import count, takewhile
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st
from llamaherd.engine.core.request import Request
from llamaherd.engine.loop.group import find_prefixes
from llamaherd.engine.schedule.prefixes import PrefixCache
from llamaherd.engine.schedule.queue import make_clients

if TYPE_CHECKING:
    from llamaherd.engine.schedule.prefixes import PrefixTree

prompts_ = st.lists(
    st.lists(st.integers(0, 2), max_size=12).map(lambda tokens: array("i", tokens)),
    max_size=25,
)


def n_computed(prompts: list[array[int]], tree: PrefixTree) -> int:
    """Return the number of tokens to decode if nodes and prompts fork from parents."""
    total = 0
    for length, parent in zip(tree.length, tree.parent, strict=True):
        total += length - (tree.length[parent] if parent >= 0 else 0)
    for i, prompt in enumerate(prompts):
        node = tree.node_of[i]
        total += len(prompt) - (tree.length[node] if node >= 0 else 0)
    return total


def n_in_trie(prompts: list[array[int]]) -> int:
    """Return the minimum: distinct prefixes, and the last token of each prompt."""
    shared = {tuple(p[:n]) for p in prompts for n in range(1, len(p))}
    return len(shared) + sum(len(p) > 0 for p in prompts)


@given(prompts_)
def test_sharing_is_perfect(prompts: list[array[int]]) -> None:
    tree = find_prefixes(prompts, min_tokens=1)
    assert n_computed(prompts, tree) == n_in_trie(prompts)


@given(prompts_, st.integers(1, 5), st.integers(0, 4))
def test_every_node_is_a_prefix_of_what_continues_it(
    prompts: list[array[int]], min_tokens: int, max_depth: int
) -> None:
    tree = find_prefixes(prompts, min_tokens).limited(max_depth)
    assert sorted(tree.order) == list(range(len(prompts)))
    n_children = [0] * tree.n_nodes
    depth = []
    for k, parent in enumerate(tree.parent):
        assert parent < k
        depth.append(1 if parent < 0 else depth[parent] + 1)
        if parent >= 0:
            n_children[parent] += 1
            assert tree.length[k] - tree.length[parent] >= min_tokens
            shorter = prompts[tree.prompt[parent]][: tree.length[parent]]
            assert prompts[tree.prompt[k]][: tree.length[parent]] == shorter
    assert max(depth, default=0) <= max_depth
    for i, node in enumerate(tree.node_of):
        if node >= 0:
            n_children[node] += 1
            length = tree.length[node]
            assert length < len(prompts[i])
            assert prompts[i][:length] == prompts[tree.prompt[node]][:length]
    assert all(n >= 2 for n in n_children)


@given(prompts_, st.integers(1, 4))
def test_clients_come_after_what_they_continue(
    prompts: list[array[int]], max_depth: int
) -> None:
    tree = find_prefixes(prompts, 1).limited(max_depth)
    requests = [Request(tokens=prompt, max_tokens=1) for prompt in prompts]
    clients = make_clients(
        requests,
        range(len(prompts)),
        tree,
        PrefixCache(),
        count(),
        call=3,
        max_cached_depth=max_depth,
    )
    assert [client.rank for client in clients] == list(range(len(clients)))
    assert len({client.id for client in clients}) == len(clients)
    for client in clients:
        if client.parent is not None:
            n = client.parent.n_tokens
            assert client.parent.rank < client.rank
            assert client.request.tokens[:n] == client.parent.request.tokens
    for prefix in clients:
        children = [client for client in clients if client.parent is prefix]
        assert prefix.n_unsubmitted == len(children)
    indices = [client.index for client in clients if not client.is_prefix]
    assert sorted(indices) == list(range(len(prompts)))


@given(prompts_)
def test_what_all_share_is_found(prompts: list[array[int]]) -> None:
    # A prompt's last token is never part of a prefix.
    columns = zip(*(p[:-1] for p in prompts), strict=False)
    expected = sum(1 for _ in takewhile(lambda column: len(set(column)) == 1, columns))
    tree = find_prefixes(prompts, min_tokens=1)
    assert tree.n_shared == (expected if len(prompts) > 1 else 0)


@given(prompts_)
def test_the_prefix_shared_with_an_earlier_prompt_is_the_longest(
    prompts: list[array[int]],
) -> None:
    cache = PrefixCache()
    for i, prompt in enumerate(prompts):
        earlier = [other for other in prompts[:i] if other[:8] == prompt[:8]]
        expected = max(
            (sum(takewhile(bool, map(int.__eq__, prompt, other))) for other in earlier),
            default=0,
        )
        assert cache.shared(prompt).n_tokens == expected
        cache.note(prompt, is_prompt=True)


@given(prompts_.filter(bool), st.data())
def test_nodes_above_the_roots_change_nothing_below_them(
    prompts: list[array[int]], data: st.DataObject
) -> None:
    tree = find_prefixes(prompts, min_tokens=2)
    above = [
        sorted(data.draw(st.sets(st.integers(1, max(1, length or len(prompts[i]))))))
        for i, length in tree.roots
    ]
    longer = tree.below(above)
    assert longer.order == tree.order
    assert longer.n_nodes == tree.n_nodes + sum(map(len, above))
    assert all(parent < k for k, parent in enumerate(longer.parent))

    def chain(tree: PrefixTree, node: int) -> list[int]:
        return [*chain(tree, tree.parent[node]), tree.length[node]] if node >= 0 else []

    root_of = {}
    for k, (i, length) in enumerate(tree.roots):
        root_of[tuple(prompts[i][:length]) if length else i] = above[k]
    for i, node in enumerate(tree.node_of):
        old = chain(tree, node)
        new = root_of[tuple(prompts[i][: old[0]]) if old else i]
        assert chain(longer, longer.node_of[i]) == [*new, *old]
