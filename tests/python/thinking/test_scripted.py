"""Thoughts in a real engine, with a model that follows a script."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

import llamaherd as lh
import pytest
import scripted_model
from llamaherd.calls.run.call import Call
from llamaherd.engine.core.request import Request, ThoughtStage

if TYPE_CHECKING:
    from pathlib import Path

    from llamaherd.engine.core.results import Result
    from scripted_model import Script

# Each test has another model with two layers of a few kilobytes.
BUDGET = 20


def stage(
    script: Script, budget: int = BUDGET, end: tuple[int, ...] = ()
) -> ThoughtStage:
    end = end or script.tokens("</think>")
    return ThoughtStage(
        budget=budget,
        is_open=True,
        end=end,
        after=script.tokens("\n"),
        closing=(*script.tokens("."), *end, *script.tokens("\n")),
    )


def ask(script: Script, *stages: ThoughtStage) -> list[Result]:
    """Return the results of one call with a prompt for each stage."""
    tokens = array("i", [1, *script.tokens("?")])
    requests = [Request(tokens=tokens, max_tokens=8, thought=stage) for stage in stages]
    model = lh.Model(script.path)
    with lh.Context(model, n_ctx=1024, n_seq_max=4) as context:
        results = Call(requests, seed=1).run(context.loop)
    model.close()
    return [result for samples in results.samples for result in samples]


@pytest.mark.parametrize(
    "entries",
    [
        pytest.param(("Hm", "</", "think", ">", "yes"), id="pieces"),
        pytest.param(("Hm</", "think>", "yes"), id="text before it in a token"),
        pytest.param(("Hm", "</think>\n", "yes"), id="the blank line in it"),
        pytest.param(("Hm", "</think> x", "yes"), id="other text in it"),
        pytest.param(("H", "m</think>no", "yes"), id="text before and behind"),
    ],
)
def test_a_marker_in_plain_text_may_begin_and_end_inside_tokens(
    entries: tuple[str, ...], tmp_path: Path
) -> None:
    links = {"\n": "yes"}
    script = scripted_model.write(
        tmp_path / "m.gguf", *entries, links=links, is_plain=True
    )
    [result] = ask(script, stage(script, end=script.tokens(*"</think>")))
    assert result.error is None
    assert (result.thinking, result.thinking_complete) == ("Hm", True)
    assert result.text == "yes"


def test_a_budget_that_ends_inside_a_character_lasts_to_its_end(tmp_path: Path) -> None:
    links = {"\n": "yes", b"\xac": "and"}
    euro = (b"\xe2", b"\x82", b"\xac")
    script = scripted_model.write(
        tmp_path / "m.gguf", "Hm", *euro, "and", "</think>", "yes", links=links
    )
    results = ask(script, *(stage(script, n) for n in (1, 2, 3, 4, 5)))
    assert [(r.thinking, r.n_thinking_tokens) for r in results] == [
        ("Hm", 1),
        ("Hm€", 4),
        ("Hm€", 4),
        ("Hm€", 4),
        ("Hm€and", 5),
    ]
    assert all(r.text == "yes" and not r.thinking_complete for r in results)


def test_a_character_that_never_ends_is_cut_off(tmp_path: Path) -> None:
    links = {b"\x9f": b"\xf0", "\n": "yes"}
    script = scripted_model.write(
        tmp_path / "m.gguf", b"\xf0", b"\x9f", "</think>", "yes", links=links
    )
    [result] = ask(script, stage(script, 2))
    assert result.n_thinking_tokens == 5
    assert (result.text, result.thinking_complete) == ("yes", False)
