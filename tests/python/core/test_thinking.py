"""The argument `thinking`, and its normalized form."""

from __future__ import annotations

import llamaherd as lh
import numpy as np
import pytest
from llamaherd.calls.asks.options import GenerateOptions
from llamaherd.engine.core.thinking import DEFAULT_BUDGET, MOST_TOKENS, checked_thinking


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (None, None),
        (False, False),
        (True, lh.Thinking(budget=DEFAULT_BUDGET)),
        (0, lh.Thinking(budget=0)),
        (1, lh.Thinking(budget=1)),
        (np.int64(7), lh.Thinking(budget=7)),
        (lh.Thinking(end="</t>"), lh.Thinking(end="</t>")),
        (lh.Thinking(9, "<t>", "</t>"), lh.Thinking(budget=9, start="<t>", end="</t>")),
        ({"budget": 3, "start": "<t>"}, lh.Thinking(budget=3, start="<t>")),
        ({}, lh.Thinking()),
    ],
)
def test_each_form_of_the_argument_becomes_one(given: object, wanted: object) -> None:
    assert checked_thinking("thinking", given) == wanted
    assert GenerateOptions(thinking=given, chat=True).thinking == wanted


@pytest.mark.parametrize(
    ("given", "kind", "why"),
    [
        ("on", TypeError, "thinking must be None, True, False, a number of tokens or"),
        (1.5, TypeError, "thinking must be None, True, False"),
        (-1, ValueError, "thinking must be between 0 and"),
        (MOST_TOKENS + 1, ValueError, "thinking must be between 0 and"),
        ({"budgte": 3}, TypeError, "no field 'budgte' .*did you mean 'budget'"),
        ({"budget": -3}, ValueError, r"thinking\['budget'\] must be between 0 and"),
        ({"end": " "}, ValueError, r"thinking\['end'\] must not be blank"),
    ],
)
def test_other_values_are_refused(given: object, kind: type, why: str) -> None:
    with pytest.raises(kind, match=why) as raised:
        checked_thinking("thinking", given)
    assert raised.value.argument == "thinking"


def test_the_fields_of_thinking_are_checked() -> None:
    with pytest.raises(TypeError, match="budget must be an integer"):
        lh.Thinking(budget="many")
    with pytest.raises(ValueError, match="start must not be blank"):
        lh.Thinking(start="")
    with pytest.raises(TypeError, match="message must be a text"):
        lh.Thinking(message=None)
