"""Tests of same_results(), which is the same in each version of Python."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import pytest
from same_results import same_results


@dataclass(frozen=True)
class Value:
    """A result with a number."""

    value: float
    name: str = "x"


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x,
        Value,
        lambda x: [Value(x), 1],
        lambda x: {"a": (Value(x), "text")},
    ],
)
def test_nan_equals_nan_at_any_depth(change: Any) -> None:
    assert same_results(change(math.nan), change(float("nan")))
    assert same_results(change(1.5), change(1.5))
    assert not same_results(change(1.5), change(math.nan))
    assert not same_results(change(1.5), change(2.5))


def test_results_of_different_forms_differ() -> None:
    assert not same_results(Value(1.0, "x"), Value(1.0, "y"))
    assert not same_results([1.0], [1.0, 2.0])
    assert not same_results({"a": 1.0}, {"b": 1.0})
    assert not same_results(Value(1.0), 1.0)
