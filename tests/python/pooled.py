"""Single prompts for a real model: with one codebook, or with nothing in common."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from llamaherd.engine.core.results import Result

CODEBOOK = "The answer is yes, or the answer is no. " * 8
# Layouts round differently: by at most 0.05 in these log-probabilities. The first tokens
# of two prompts differ by 0.46 (median). Where two tokens are about equally probable, the
# answers of this model with random weights may differ.
NEAR = 0.1


def coding(i: int) -> str:
    return f"{CODEBOOK}{i}, {i * 7 % 13}"


def other(i: int) -> str:
    return f"{i} another text " + "then " * (i * 5 % 40)


def assert_near(result: Result, expected: Result) -> None:
    """Compare the log-probabilities of tokens up to a difference by rounding.

    The answers may differ from a token on that is as probable as another after
    penalties; the log-probabilities are those before penalties.
    """
    assert result.error is None
    for i, (token, same) in enumerate(zip(result.tokens, expected.tokens, strict=True)):
        if token != same:
            best, others = (
                sorted(one.top_logprobs[i].values()) for one in (result, expected)
            )
            assert best == pytest.approx(others, abs=NEAR)
            return
        assert result.logprobs[i] == pytest.approx(expected.logprobs[i], abs=NEAR)
