"""Errors of functions of coding for arguments of a wrong type name the argument."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import numpy as np
import pandas as pd
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

DATA = pd.DataFrame(
    {"text": ["x", "y"], "label": ["a", "b"], "p_a": [1, 0], "p_b": [0, 1]}
)
SAMPLE = lh.gold_sample(DATA, 2, seed=1)
BOOK = lh.Codebook("Which letter?", ["a", "b"])
PEOPLE = {"anna": ["a", "b"], "ben": ["a", "b"]}
OTHERS = [None, 3, float("nan"), {"a": 1}, b"a", object(), DATA, BOOK]


@pytest.mark.parametrize("value", OTHERS, ids=lambda each: type(each).__name__)
@pytest.mark.parametrize(
    ("argument", "call"),
    [
        ("gold", lh.dawid_skene),
        ("gold", lambda gold: lh.estimate(DATA, gold, prob="simple")),
        ("gold", lambda gold: lh.recalibrate(DATA, gold, prob="simple")),
        ("path", lh.read_codebook),
        ("path", lambda path: lh.write_codebook(BOOK, path)),
        ("path", lh.read_spans),
    ],
    ids=["dawid_skene", "estimate", "recalibrate", "read", "write", "read_spans"],
)
def test_a_wrong_type_is_an_error_of_the_argument(
    argument: str, call: Callable[[Any], object], value: object
) -> None:
    with pytest.raises(TypeError) as caught:
        call(value)
    assert isinstance(caught.value, lh.ArgumentTypeError)
    assert str(caught.value).startswith(f"{argument} must be ")


@pytest.mark.parametrize("value", [None, 3, object(), BOOK, SAMPLE])
def test_a_sheet_of_codes_is_a_path_or_a_table(value: object) -> None:
    with pytest.raises(lh.ArgumentTypeError, match="path must be a path or a list"):
        lh.read_gold(value, SAMPLE)
    with pytest.raises(lh.ArgumentTypeError, match=r"path\[1\] must be a path, not"):
        lh.read_gold([Path("a.csv"), value], SAMPLE)


@pytest.mark.parametrize("people", [PEOPLE, pd.DataFrame(PEOPLE)])
@pytest.mark.parametrize("measure", [lh.krippendorff_alpha, lh.percent_agreement])
def test_codes_by_coder_are_not_read_as_the_names_of_coders(
    measure: Callable[[Any], object], people: Any
) -> None:
    with pytest.raises(lh.ArgumentTypeError, match=r"take the columns of the coders"):
        measure(people)


def test_an_array_is_no_integer() -> None:
    with pytest.raises(lh.ArgumentTypeError, match="n must be an integer, not array"):
        lh.gold_sample(DATA, np.ones(2, dtype=int), seed=1)  # type: ignore[arg-type] # wrong
