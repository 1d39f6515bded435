"""Forced tokens are computed together; the answer is the same as with one per step."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import llamaherd as lh
import pytest
from llamaherd.engine.native import engine
from thorough import is_long, sized

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.model

SCHEMA = {
    "type": "object",
    "properties": {
        "sentiment": {"enum": ["positive", "negative", "neutral"]},
        "intensity": {"type": "integer", "minimum": 0, "maximum": 10},
        "emotions": {
            "type": "array",
            "items": {"enum": ["joy", "anger", "fear", "sadness"]},
            "maxItems": 3,
        },
        "reason": {"type": "string", "maxLength": 60},
        "is_sarcastic": {"type": "boolean"},
    },
    "required": ["sentiment", "intensity", "emotions", "reason", "is_sarcastic"],
    "additionalProperties": False,
}
GBNF = r"""
root ::= "The verdict of the committee is: " verdict ", on the grounds of its " part "."
verdict ::= "accepted" | "rejected without discussion" | "rejected after discussion"
part ::= "introduction" | "conclusion"
"""
PROMPTS = [
    "The food was cold and the waiter rude. ",
    "What a match! Three goals in ten minutes. ",
    "The bus leaves at nine. ",
    "I will never buy from them again. ",
]
KINDS = [
    {"schema": SCHEMA},
    {"schema": SCHEMA, "temperature": 0.9, "penalty_repeat": 1.1, "repeat_last_n": 64},
    {"grammar": GBNF, "max_tokens": 60},
    {"choices": ["the answer is: yes, it is", "the answer is: no, it is not"]},
    {
        "regex": r"On (Monday|Tuesday|Wednesday) at [0-9]{2}:[0-9]{2}, as agreed",
        "max_tokens": 40,
    },
    {"schema": SCHEMA, "stop": '"reason":"'},
    {"schema": SCHEMA, "stop": "ensity"},
    *({"schema": SCHEMA, "max_tokens": n} for n in (1, 2, 9)),
]


def answers(
    context: lh.Context, settings: dict[str, object], prompts: list[str] = PROMPTS
) -> tuple[list[object], lh.Stats]:
    results = lh.generate_parallel(context, prompts, **settings)
    return [
        (result.text, result.partial, result.tokens, result.finish_reason, result.error)
        for result in results
    ], results.stats


@pytest.mark.long(reason="compiles many large schemas")
@pytest.mark.more(reason="on a real model, 2 of 4 prompts and the first three kinds")
@pytest.mark.parametrize(
    "name",
    ["smollm2", pytest.param("gemma3", marks=pytest.mark.long(reason="half a minute"))],
)
def test_the_answers_are_those_of_one_token_a_step(
    name: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = request.getfixturevalue(name)
    prompts = sized(PROMPTS[:2], PROMPTS)
    with lh.Context(model, n_seq_max=3, deterministic=True) as context:
        for settings in KINDS if name == "smollm2" and is_long() else KINDS[:3]:
            monkeypatch.setattr(engine, "STEP_FORCED", False)
            together, fast = answers(context, settings, prompts)
            monkeypatch.setattr(engine, "STEP_FORCED", True)
            stepwise, slow = answers(context, settings, prompts)
            assert together == stepwise, settings
    assert slow.n_generated_tokens == fast.n_generated_tokens


def test_fewer_steps(smollm2: lh.Model, monkeypatch: pytest.MonkeyPatch) -> None:
    with lh.Context(smollm2, n_seq_max=1) as context:
        for settings in (KINDS[0], {**KINDS[3], "temperature": 0.5}):
            fast = answers(context, settings, PROMPTS[:1])[1]
            monkeypatch.setattr(engine, "STEP_FORCED", True)
            slow = answers(context, settings, PROMPTS[:1])[1]
            monkeypatch.setattr(engine, "STEP_FORCED", False)
            assert fast.n_batches <= 0.7 * slow.n_batches


def test_one_is_cancelled_between_tokens_that_must_come(
    smollm2: lh.Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One token is computed per step, so that there is a time between tokens."""
    monkeypatch.setattr(engine, "STEP_FORCED", True)
    words = " ".join(str(i) for i in range(400))
    with lh.Context(smollm2, n_seq_max=2) as context:
        beside = context.submit(PROMPTS[0], schema=SCHEMA)
        handle = context.submit(
            "Say it. ", schema={"const": words}, max_tokens=2000, stream=True
        )
        pieces = iter(handle)
        first = next(pieces)
        handle.cancel()
        result = handle.result()
        assert result.finish_reason == "cancelled"
        assert result.text is None
        assert result.parsed is None
        whole = json.dumps(words)
        assert (result.partial or "").startswith(first)
        assert whole.startswith(result.partial or "x")
        assert len(result.partial or "") < len(whole)
        assert beside.result().parsed.keys() == SCHEMA["properties"].keys()
        # Its slot is free again, and no cells are left in it.
        monkeypatch.setattr(engine, "STEP_FORCED", False)
        again = context.submit("Say it. ", schema={"const": words}, max_tokens=2000)
        assert again.result().parsed == words


def test_an_answer_that_is_known_needs_no_step(smollm2: lh.Model) -> None:
    with lh.Context(smollm2) as context:
        out = lh.generate_parallel(
            context, ["Say it. ", "Or not. "], schema={"const": {"a": [1, 2, 3]}}
        )
        assert out.texts == ['{"a":[1,2,3]}'] * 2
        assert out.finish_reasons == ["stop"] * 2
        one = lh.generate(context, "Again: ", grammar='root ::= "just this"')
        assert one.text == "just this"


@pytest.mark.long(reason="9 s on a real model; make test pauses other requests")
def test_they_survive_what_goes_first(smollm2: lh.Model) -> None:
    """One slot: a prompt of higher priority pauses the one that runs."""
    with lh.Context(smollm2, n_seq_max=1, deterministic=True) as context:
        expected = lh.generate_parallel(context, PROMPTS, schema=SCHEMA)
        handles = [context.submit(prompt, schema=SCHEMA) for prompt in PROMPTS]
        first = context.submit(PROMPTS[-1], schema=SCHEMA, priority=9)
        assert [handle.result().text for handle in handles] == expected.texts
        assert first.result().parsed == expected.parsed[-1]
        assert [handle.result().parsed for handle in handles] == expected.parsed


def test_they_are_in_the_journal_and_in_streams(
    smollm2: lh.Model, tmp_path: Path
) -> None:
    path = tmp_path / "journal.sqlite"
    with lh.Context(smollm2) as context:
        first = lh.generate_parallel(context, PROMPTS, schema=SCHEMA, journal=path)
        again = lh.generate_parallel(context, PROMPTS, schema=SCHEMA, journal=path)
        assert again.stats.n_journal == len(PROMPTS)
        assert again.texts == first.texts
        assert again.parsed == first.parsed
        pieces = list(lh.generate(context, PROMPTS[0], schema=SCHEMA, stream=True))
        assert json.loads("".join(pieces)).keys() == SCHEMA["properties"].keys()
