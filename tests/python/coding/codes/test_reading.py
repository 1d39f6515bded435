"""Tests that codes of any type are read in the same way."""

from __future__ import annotations

import enum
import math
import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from llamaherd.coding.codes import are_measured, names_of, read, read_sets, text_of
from thorough import examples

if TYPE_CHECKING:
    from collections.abc import Callable

BLANKS = ["", " ", "\u00a0", "\ufeff", "NA", "N/A", "nan", "<NA>", None, math.nan]
BLANKS += [float("nan"), np.nan, pd.NA, pd.NaT, Decimal("NaN")]
BLANKS += [np.datetime64("NaT", "ns")]


class Colour(str, enum.Enum):
    RED = "red"


@pytest.mark.parametrize("blank", BLANKS)
def test_what_stands_for_nothing_is_no_code(blank: object) -> None:
    assert read([["a", blank], [blank, "a"]]).columns == [["a", None], [None, "a"]]


def test_a_label_that_is_known_stands_for_something() -> None:
    assert read([["NA", ""]], ["NA", "b"]).columns == [["NA", None]]


EQUAL: list[list[Any]] = [
    [1, 1.0, "1", "1.0", np.int8(1), np.float32(1), Decimal("1.00"), b"1", "1.00"],
    [0.1, "0.1", np.float32(0.1), Decimal("0.10"), "0.10"],
    [100_000, "1e+05", "100000"],
    [10**20, str(10**20), 1e20, Decimal(10**20)],
    ["s\u00ed", "si\u0301", np.str_("si\u0301")],
    ["red", Colour.RED],
    ["2020-01-31", pd.Timestamp("2020-01-31"), np.datetime64("2020-01-31")],
]


@pytest.mark.parametrize("values", EQUAL, ids=str)
def test_equal_codes_of_any_type_are_the_same(values: list[Any]) -> None:
    first, *others = [column[0] for column in read([[value] for value in values]).columns]
    assert all(other == first and type(other) is type(first) for other in others)


@pytest.mark.parametrize(
    "columns",
    [
        [[True, False], ["TRUE", "FALSE"]],
        [[True, False], ["True", "False"], ["true", "false"]],
        [[True, False], [1, 0], ["1", "0"]],
        [[True, False], ["TRUE", "?"]],
        [[np.True_, np.False_], [True, False]],
    ],
)
def test_truth_values_take_the_form_of_the_others(columns: list[list[Any]]) -> None:
    codes = read(columns).columns
    assert len({column[0] for column in codes}) == 1
    assert codes[0][0] != codes[0][1]


@pytest.mark.parametrize(
    ("one", "other"), [("Pos", "pos"), ("pos", "pos "), ("a b", "a\u00a0b"), ("01", "1")]
)
def test_what_looks_alike_is_named(one: str, other: str) -> None:
    with pytest.raises(ValueError, match="did you mean"):
        read([[one, "x"], [other, "x"]])
    with pytest.raises(ValueError, match=re.escape(f"gold has the code {other!r}")):
        read([[other, "x"]], [one, "x"], argument="gold")
    assert read([[one], [other]], [one, other]).columns == [[one], [other]]


def test_codes_are_numbers_truth_values_or_texts() -> None:
    assert read([[1, 2], ["1", "?"]]).columns == [["1", "2"], ["1", "?"]]
    assert read([["1", "2"], [1, 2]], ["1", "2"]).columns == [["1", "2"]] * 2
    assert read([[1, 2], ["1.0", "2.0"]]).columns == [[1, 2]] * 2
    with pytest.raises(TypeError, match="gold must be single values, not"):
        read([[["a"]]], argument="gold")


def test_labels_of_several_columns_of_categories() -> None:
    assert names_of([["a", "A"], ["b", "a ", "c"]]) == ["a", "A", "b", "c"]
    # R reads an empty cell as ""
    assert read([["a", ""]], ["a", ""]).columns == [["a", None]]


def test_long_digits_are_texts() -> None:
    long = "1" * 5000
    assert read([[long, "1e+999"], [long, "2"]]).columns[0][0] == long


def test_sets_of_labels() -> None:
    columns = read_sets(
        [["b; a", "", "none", "NA", None, "1.0"]], ["a", "b"], ";", ["none"]
    )
    assert columns == [[("b", "a"), (), (), None, None, ("1",)]]
    with pytest.raises(ValueError, match="did you mean 'a'"):
        read_sets([["A; b"]], ["a", "b"], ";", ["none"])


def test_numbers_that_are_measurements() -> None:
    assert are_measured([0.5, 1])
    assert are_measured(range(21))
    assert not are_measured(range(20))
    assert not are_measured(["0.5"])
    assert not are_measured([True, 0.5])
    assert not are_measured([None])


FORMS: list[Callable[[int], Any]] = [
    int,
    float,
    str,
    lambda i: f"{i}.0",
    np.int16,
    Decimal,
]
KINDS: list[Callable[[list[Any]], Any]] = [
    list,
    np.array,
    pd.Series,
    pl.Series,
    lambda values: pd.Series(values).astype("category"),
]


@examples(60)
@given(
    codes=st.lists(st.tuples(*[st.integers(0, 3) | st.none()] * 2), min_size=2),
    data=st.data(),
)
def test_forms_of_codes_make_no_difference(codes: list[Any], data: st.DataObject) -> None:
    from llamaherd import krippendorff_alpha  # the whole of it

    def column(j: int) -> Any:
        form = data.draw(st.sampled_from(FORMS))
        kind = data.draw(st.sampled_from(KINDS if form in {str, float} else [list]))
        blank = data.draw(st.sampled_from(["", "NA", None] if form is str else [None]))
        return kind([blank if row[j] is None else form(row[j]) for row in codes])

    plain = [[row[j] for row in codes] for j in range(2)]
    a = krippendorff_alpha(plain)
    b = krippendorff_alpha([column(0), column(1)])
    assert a.n_units == b.n_units
    assert a.value == b.value or (math.isnan(a.value) and math.isnan(b.value))


def test_texts_of_codes() -> None:
    assert [text_of(code) for code in (1, 1.0, 0.5, True, None, math.inf)] == [
        "1",
        "1",
        "0.5",
        "True",
        None,
        "inf",
    ]
