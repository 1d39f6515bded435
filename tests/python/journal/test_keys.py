"""Journal keys: requests with different results never have the same key."""

from __future__ import annotations

from array import array
from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from journalled import NUMERICS, request
from llamaherd.calls.journal.entry import SCORES, journal_key, settings_json
from llamaherd.calls.journal.recording import RecordedCall
from llamaherd.engine.core.request import NEUTRAL, Request, ThoughtStage, TokenTree
from llamaherd.engine.core.sampling import SamplingParams
from thorough import examples

MODEL = b"m" * 32


def tree(*nodes: tuple[int, int]) -> TokenTree:
    tokens, parents = zip(*nodes, strict=True)
    depths = [1]
    for parent in parents[1:]:
        depths.append(1 if parent < 0 else depths[parent] + 1)
    return TokenTree(array("i", tokens), array("i", parents), max(depths))


small = st.integers(0, 2)
trees = st.lists(small, min_size=1, max_size=3).flatmap(
    lambda tokens: st.tuples(*(st.integers(-1, i - 1) for i in range(len(tokens)))).map(
        lambda parents: tree(*zip(tokens, parents, strict=True))
    )
)
samplings = st.builds(
    SamplingParams,
    temperature=st.sampled_from([0.0, 0.7]),
    top_k=st.sampled_from([40, 3]),
    logit_bias=st.sampled_from([{}, {1: 1.0}]),
    regex=st.sampled_from([None, "a", "b"]),
    ignore_eos=st.booleans(),
)
thoughts = st.builds(
    ThoughtStage,
    budget=st.integers(0, 1),
    is_open=st.booleans(),
    closing=st.sampled_from([(), (1,), (1, 2), (12,)]),
    sampling=st.sampled_from([SamplingParams(), SamplingParams(temperature=0.5)]),
    seed=st.integers(0, 1),
)
requests = st.builds(
    Request,
    tokens=st.lists(small, min_size=1, max_size=3).map(lambda ids: array("i", ids)),
    max_tokens=st.integers(1, 2),
    sampling=samplings,
    stop=st.sampled_from([(), ("a",), ("a", "b"), ("ab",)]),
    seed=st.integers(0, 1),
    text=st.sampled_from([None, "a"]),
    priority=st.integers(0, 1),
    tree=st.none() | trees,
    logprobs=st.none() | st.integers(0, 1),
    thought=st.none() | thoughts,
)


def key_in(calls: list[Request]) -> list[bytes]:
    """Return the keys that a call of these requests computes, with its caches."""
    return [
        journal_key(MODEL, settings_json(request, NUMERICS), request) for request in calls
    ]


def meaning(asked: Request) -> dict[str, object]:
    """Return the parts of a request that determine its result, listed separately."""
    told = {
        field.name: getattr(asked, field.name)
        for field in fields(Request)
        if field.name not in {"text", "problem", "shape", "priority", "is_whole"}
    }
    told["tokens"] = list(asked.tokens)
    if asked.tree is not None:
        told["tree"] = (list(asked.tree.tokens), list(asked.tree.parents))
    if asked.sampling.temperature <= 0:
        del told["seed"]
    thought = asked.thought
    if thought is not None and thought.sampling.temperature <= 0:
        told["thought"] = replace(thought, seed=0)
    return told


@examples(400)
@given(requests, requests)
def test_requests_share_a_key_only_if_all_is_equal_that_decides(
    one: Request, other: Request
) -> None:
    keys = key_in([one, other])
    assert (keys[0] == keys[1]) == (meaning(one) == meaning(other))


@examples(100)
@given(requests, st.data())
def test_each_part_of_a_request_alone_makes_another_key(
    asked: Request, data: st.DataObject
) -> None:
    other = data.draw(requests)
    for field in fields(Request):
        changed = replace(asked, **{field.name: getattr(other, field.name)})
        keys = key_in([asked, changed])
        assert (keys[0] == keys[1]) == (meaning(asked) == meaning(changed)), field.name


@examples(60)
@given(st.lists(requests, min_size=2, max_size=6))
def test_settings_do_not_depend_on_other_requests_of_the_call(
    calls: list[Request],
) -> None:
    call = RecordedCall.__new__(RecordedCall)  # its file and journal are not used here
    call._context, call._settings = dict(NUMERICS), {}
    assert [call._settings_of(request) for request in calls] == [
        settings_json(request, NUMERICS) for request in calls
    ]


def test_settings_of_a_context_never_take_the_place_of_a_request_s() -> None:
    context = {"type_k", "type_v", "flash_attn", "deterministic", "lora"}
    names = {field.name for cls in (Request, SamplingParams) for field in fields(cls)}
    assert not context & (names | {SCORES, "engine"})
    assert names >= NEUTRAL


def test_parts_that_cannot_be_written_as_json_are_an_error() -> None:
    with pytest.raises(TypeError, match="not JSON serializable"):
        settings_json(replace(request([1]), stop=(b"a",)), NUMERICS)
