"""Thoughts on a cluster equal those of one context, in all behaviours and in scores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import llamaherd as lh
import numpy as np
import pytest
from thinking_behaviours import BEHAVIOURS, Behaviour, codebook
from thinking_doors import DOORS, LABELS, Desk, has

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [
    pytest.mark.usefixtures("cluster"),
    pytest.mark.filterwarnings("ignore::llamaherd.ThinkingWarning"),
]

[RAY] = [door for door in DOORS if door.name == "Ray"]
TEXTS = [f"{'word ' * (i % 5)}{i} #{i % 4}" for i in range(24)]
DRAWN: dict[str, Any] = {"chat": True, "thinking": 12, "seed": 5}


@pytest.fixture(scope="module")
def desk(cluster: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:  # noqa: ARG001
    desk = Desk(tmp_path_factory.mktemp("thinking"))
    yield desk
    desk.close()


@pytest.mark.long(reason="starts actors of Ray or runs very many prompts")
@pytest.mark.parametrize(
    "behaviour",
    [behaviour for behaviour in BEHAVIOURS if has("Ray", behaviour)],
    ids=lambda b: b.name,
)
def test_a_behaviour_is_right_through_a_door(behaviour: Behaviour, desk: Desk) -> None:
    assert tuple(RAY.abilities[behaviour.does](desk, behaviour)) == behaviour.results


@pytest.mark.long(reason="starts actors of Ray or runs very many prompts")
def test_drawn_thoughts_are_those_of_one_context(desk: Desk) -> None:
    how = {**DRAWN, "temperature": 2.0, "max_tokens": 4, "n": 2}
    here = lh.generate_parallel(desk.context("deterministic"), TEXTS, **how)
    remote = lh.generate_parallel(desk.cluster, TEXTS, **how)
    for a, b in zip(here.samples, remote.samples, strict=True):
        assert [r.thinking for r in a] == [r.thinking for r in b]
        assert [r.tokens for r in a] == [r.tokens for r in b]
    assert remote.stats.n_thinking_tokens == here.stats.n_thinking_tokens > 0
    assert remote.stats.n_thoughts_closed == here.stats.n_thoughts_closed


@pytest.mark.long(reason="starts actors of Ray or runs very many prompts")
def test_scores_behind_thoughts_are_those_of_one_context(desk: Desk) -> None:
    how = {**DRAWN, "n_thoughts": 3}
    here = lh.classify_parallel(desk.context("deterministic"), TEXTS, LABELS, **how)
    remote = lh.classify_parallel(desk.cluster, TEXTS, LABELS, **how)
    assert remote.thoughts == here.thoughts
    np.testing.assert_allclose(remote.probs, here.probs, atol=1e-6)
    assert remote.between is not None
    np.testing.assert_allclose(remote.between, here.between, atol=1e-6)
    frame = {"text": TEXTS}
    del how["seed"]
    on = (desk.context("deterministic"), desk.cluster)
    here, remote = (lh.annotate(frame, "text", codebook(), host, **how) for host in on)
    assert here.frame["thinking"] == remote.frame["thinking"]
    assert here.frame["label"] == remote.frame["label"]
    assert remote.run["thinking"]["n_thoughts"] == 3 * len(TEXTS)
