"""Thoughts in a real engine, with a model that follows a script."""

from __future__ import annotations

from array import array
from dataclasses import replace
from typing import TYPE_CHECKING

import llamaherd as lh
import pytest
import scripted_model
from llamaherd.calls.run.call import Call
from llamaherd.engine.core.request import Request, ThoughtStage
from llamaherd.engine.core.sampling import SamplingParams

if TYPE_CHECKING:
    from pathlib import Path

    from llamaherd.engine.core.results import Result
    from scripted_model import Script

# Each test has another model with two layers of a few kilobytes.
BUDGET = 20


def stage(script: Script, budget: int = BUDGET, **changes: object) -> ThoughtStage:
    end = script.tokens("</think>") if "</think>" in script.ids else changes.pop("end")
    made = ThoughtStage(
        budget=budget,
        is_open=True,
        end=end,
        after=script.tokens("\n"),
        closing=(*script.tokens("."), *end, *script.tokens("\n")),
    )
    return replace(made, **changes)


def ask(script: Script, *stages: ThoughtStage | None, **options: object) -> list[Result]:
    """Return the results of one call with a prompt for each stage."""
    sampling = SamplingParams(**options)
    requests = [
        Request(
            tokens=array("i", [1, *script.tokens("?")]),
            max_tokens=8,
            thought=each,
            sampling=sampling,
        )
        for each in stages
    ]
    model = lh.Model(script.path)
    with lh.Context(model, n_ctx=1024, n_seq_max=4) as context:
        results = Call(requests, seed=1).run(context.loop)
    model.close()
    return [result for samples in results.samples for result in samples]


def told(result: Result) -> tuple[object, ...]:
    assert result.error is None, result.error
    return (
        result.thinking,
        result.n_thinking_tokens,
        result.thinking_complete,
        result.text,
    )


@pytest.fixture
def thinks(tmp_path: Path) -> Script:
    links = {"\n": "yes"}
    return scripted_model.write(
        tmp_path / "m.gguf", "Hm", ", so", "</think>", "yes", links=links
    )


def test_a_thought_that_closes_itself(thinks: Script) -> None:
    [result] = ask(thinks, stage(thinks))
    assert told(result) == ("Hm, so", 3, True, "yes")


def test_the_budget_is_exact(thinks: Script) -> None:
    each = ask(thinks, *(stage(thinks, n) for n in (0, 1, 2, 3)))
    assert [told(result) for result in each[1:]] == [
        ("Hm", 1, False, "yes"),
        ("Hm, so", 2, False, "yes"),
        ("Hm, so", 3, True, "yes"),
    ]
    assert (each[0].n_thinking_tokens, each[0].text) == (0, "yes")


def test_a_thought_that_is_never_closed(tmp_path: Path) -> None:
    links = {"b": "a", "\n": "yes", "yes": scripted_model.END}
    script = scripted_model.write(
        tmp_path / "m.gguf", "a", "b", "</think>", "yes", links=links
    )
    [result] = ask(script, stage(script, 5))
    assert told(result) == ("ababa", 5, False, "yes")


def test_a_model_that_ends_its_turn_inside_the_thought(tmp_path: Path) -> None:
    links = {"b": scripted_model.END, "\n": "yes"}
    script = scripted_model.write(
        tmp_path / "m.gguf", "a", "b", "</think>", "yes", links=links
    )
    [result] = ask(script, stage(script))
    assert told(result) == ("ab", 2, False, "yes")


def test_a_model_that_opens_its_thought_twice(tmp_path: Path) -> None:
    script = scripted_model.write(
        tmp_path / "m.gguf", "<think>", "Hm", "</think>", "yes", links={"\n": "yes"}
    )
    [result] = ask(script, stage(script, start=script.tokens("<think>")))
    assert told(result) == ("Hm", 3, True, "yes")


def test_a_model_that_opens_its_thought_itself(tmp_path: Path) -> None:
    script = scripted_model.write(
        tmp_path / "m.gguf", "<think>", "Hm", "</think>", "yes", links={"\n": "yes"}
    )
    own = stage(script, is_open=False, start=script.tokens("<think>"))
    [result] = ask(script, own)
    assert told(result) == ("Hm", 2, True, "yes")


def test_a_model_that_opens_none_answers_as_without(thinks: Script) -> None:
    own = stage(thinks, is_open=False, start=thinks.tokens("<think>"))
    with_stage, plain = ask(thinks, own, None)
    assert told(with_stage) == told(plain) == (None, 0, None, "Hm, so</think>yes")
    with_stage, plain = ask(thinks, own, None, regex="[a-z]+s")
    assert told(with_stage) == told(plain)


@pytest.mark.parametrize(
    ("script", "answer"),
    [
        pytest.param(("Hm", "</", "think", ">", "yes"), "yes", id="pieces"),
        pytest.param(("Hm</", "think>", "yes"), "yes", id="text before it in a token"),
        pytest.param(("Hm", "</think>\n", "yes"), "yes", id="the blank line in it"),
        pytest.param(("Hm", "</think> x", "yes"), "yes", id="other text in it"),
        pytest.param(("H", "m</think>no", "yes"), "yes", id="text before and behind"),
    ],
)
def test_a_marker_in_plain_text_may_begin_and_end_inside_tokens(
    script: tuple[str, ...], answer: str, tmp_path: Path
) -> None:
    made = scripted_model.write(
        tmp_path / "m.gguf", *script, links={"\n": "yes"}, is_plain=True
    )
    end = (
        made.tokens(*"</think>") if "</think>" not in script else made.tokens("</think>")
    )
    [result] = ask(made, stage(made, end=end))
    assert result.error is None
    assert (result.thinking, result.thinking_complete) == ("Hm", True)
    assert result.text == answer


def test_a_budget_that_ends_inside_a_character_lasts_to_its_end(tmp_path: Path) -> None:
    links = {"\n": "yes", b"\xac": "and"}
    euro = (b"\xe2", b"\x82", b"\xac")
    script = scripted_model.write(
        tmp_path / "m.gguf", "Hm", *euro, "and", "</think>", "yes", links=links
    )
    each = ask(script, *(stage(script, n) for n in (1, 2, 3, 4, 5)))
    assert [(r.thinking, r.n_thinking_tokens) for r in each] == [
        ("Hm", 1),
        ("Hm€", 4),
        ("Hm€", 4),
        ("Hm€", 4),
        ("Hm€and", 5),
    ]
    assert all(r.text == "yes" and not r.thinking_complete for r in each)


def test_a_character_that_never_ends_is_cut_off(tmp_path: Path) -> None:
    links = {b"\x9f": b"\xf0", "\n": "yes"}
    script = scripted_model.write(
        tmp_path / "m.gguf", b"\xf0", b"\x9f", "</think>", "yes", links=links
    )
    [result] = ask(script, stage(script, 2))
    assert result.n_thinking_tokens == 5
    assert (result.text, result.thinking_complete) == ("yes", False)


def test_answers_begin_behind_the_thought(thinks: Script) -> None:
    """Limits, stop texts and constraints of answers do not apply to the thought."""
    for settings in (
        {"choices": ("yes", "Hm")},
        {"regex": "yes|Hm"},
        {"grammar": 'root ::= "yes" | "Hm"'},
    ):
        [result] = ask(thinks, stage(thinks), **settings)
        assert told(result) == ("Hm, so", 3, True, "yes"), settings
