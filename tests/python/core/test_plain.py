"""Plain values, cells of tables, and JSON texts with equal keys."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import uuid
from enum import Enum, IntEnum
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from llamaherd.engine.core import checks
from llamaherd.engine.core.errors import ArgumentError
from llamaherd.engine.core.plain import (
    DuplicateKeyError,
    cell_text,
    is_missing,
    json_value,
    plain,
    plain_tree,
    read_json,
)
from llamaherd.engine.core.sampling import SamplingParams
from llamaherd.engine.core.values import checked_schema
from setting_examples import Liar

BERLIN = dt.timezone(dt.timedelta(hours=1))


class Word(str, Enum):
    YES = "yes"


class Number(IntEnum):
    THREE = 3


class Odd(float):
    """A number that converts itself to another one."""

    __slots__ = ()

    def __float__(self) -> float:
        return 9.0

    __pos__ = __float__


class Bytes(bytes):
    """Bytes of a subclass."""


TEXTS = [Word.YES, Liar("yes"), np.str_("yes"), pa.scalar("yes")]
VALUES = [
    *((text, "yes") for text in TEXTS),
    (Number.THREE, 3),
    (np.int8(3), 3),
    (np.uint64(3), 3),
    (np.float32(0.5), 0.5),
    (np.float64(0.5), 0.5),
    (Odd(0.5), 0.5),
    (np.array(0.5), 0.5),
    (np.True_, True),
    (pa.scalar(3), 3),
    (Bytes(b"a"), b"a"),
]


@pytest.mark.parametrize(("value", "expected"), VALUES)
def test_a_value_of_a_subclass_becomes_plain(value: Any, expected: Any) -> None:
    plain_value = plain(value)
    assert (type(plain_value), plain_value) == (type(expected), expected)
    tree = plain_tree({"a": [value, (value, {"b": value})]})
    assert repr(tree) == repr({"a": [expected, (expected, {"b": expected})]})


@pytest.mark.parametrize("text", TEXTS[:3])
def test_checks_return_plain_values(text: str) -> None:
    assert type(checks.text("x", text)) is str
    assert type(checks.choice("x", text, ["yes", "no"])) is str
    assert [type(item) for item in checks.some_texts("x", [text])] == [str]
    assert [type(item) for item in checks.prompt_list([text])] == [str]
    assert str(checks.path("x", text)) == "yes"
    params = SamplingParams(choices=[text, "no"], stop=[text], temperature=Odd(0.5))
    assert repr((params.choices, params.stop)) == "(('no', 'yes'), ('yes',))"
    assert params.temperature == 0.5
    schema = {text: {"enum": [text, Number.THREE, np.int64(4), np.float32(0.5)]}}
    assert checked_schema("schema", schema) == '{"yes":{"enum":["yes",3,4,0.5]}}'
    assert checks.flag("x", np.True_) is True


def test_what_contains_itself_is_refused() -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(ArgumentError, match="x is nested too deeply"):
        checks.tree("x", endless)


MISSING = [
    None,
    float("nan"),
    np.float32("nan"),
    decimal.Decimal("nan"),
    decimal.Decimal("snan"),
    pd.NA,
    pd.NaT,
    np.datetime64("NaT", "ns"),
    np.timedelta64("NaT", "ns"),
    np.ma.masked,
]


@pytest.mark.parametrize("value", MISSING, ids=repr)
def test_a_missing_cell_has_no_text(value: object) -> None:
    assert is_missing(value)
    assert cell_text(value) == ""
    assert json_value([value]) == [None]


CELLS = [
    ("a 'b'\n", "a 'b'\n"),
    (Word.YES, "yes"),
    (True, "true"),
    (np.False_, "false"),
    (7, "7"),
    (np.int16(7), "7"),
    (10**30, "1" + "0" * 30),
    (1.0, "1.0"),
    (np.float32(0.1), "0.1"),
    (float("-inf"), "-inf"),
    (decimal.Decimal("1.50"), "1.50"),
    (decimal.Decimal("1E+3"), "1000"),
    (dt.date(2024, 1, 2), "2024-01-02"),
    (dt.datetime(2024, 1, 2), "2024-01-02 00:00:00"),  # noqa: DTZ001 - without one
    (
        dt.datetime(2024, 1, 2, 3, 4, 5, 60000, BERLIN),
        "2024-01-02 03:04:05.06+01:00",
    ),
    (pd.Timestamp("2024-01-02 03:04:05.000000007"), "2024-01-02 03:04:05.000000007"),
    (pd.Timestamp("2024-01-02", tz="UTC"), "2024-01-02 00:00:00+00:00"),
    (np.datetime64("2024-01-02T03:04:05.500"), "2024-01-02 03:04:05.5"),
    (dt.time(3, 4, 5, 120000), "03:04:05.12"),
    (dt.timedelta(days=1, hours=2, seconds=3.5), "P1DT2H3.5S"),
    (dt.timedelta(seconds=-90), "-PT1M30S"),
    (dt.timedelta(0), "PT0S"),
    (np.timedelta64(90, "m"), "PT1H30M"),
    (pd.Timedelta(1, "ns"), "PT0.000000001S"),
    (uuid.UUID(int=5), "00000000-0000-0000-0000-000000000005"),
    ("caf\u00e9".encode(), "caf\u00e9"),
    (b"\xff\x00", "ff00"),
    ([1, dt.date(2024, 1, 2), float("nan")], '[1, "2024-01-02", null]'),
    ({"a": b"x", "b": {"c": pd.NaT}}, '{"a": "x", "b": {"c": null}}'),
    (np.array([0.1, 0.5], np.float32), "[0.1, 0.5]"),
    (np.array(["2024-01-02"], "datetime64[ns]"), '["2024-01-02 00:00:00"]'),
    ((1, {2}), "[1, [2]]"),
]


@pytest.mark.parametrize(("value", "text"), CELLS, ids=repr)
def test_a_cell_has_a_text_without_marks_of_its_type(value: object, text: str) -> None:
    assert cell_text(value) == text


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(JSON_VALUES)
def test_other_texts_are_read_as_by_json(value: object) -> None:
    assert read_json(json.dumps(value)) == value


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ('{"a": 1, "a": 1}', '"a"'),
        ('{"a": 1, "b": 2, "\\u0061": 3}', '"a"'),
        ('[{"x": {"": 1, "": 2}}]', '""'),
        ('{"é": 1, "é": 2}', '"é"'),
        (f'{{"{"k" * 999}": 1, "{"k" * 999}": 2}}', f'"{"k" * 57}..."'),
    ],
)
def test_a_key_that_occurs_twice_is_named(text: str, key: str) -> None:
    with pytest.raises(DuplicateKeyError) as caught:
        read_json(text)
    assert str(caught.value) == f"an object has the key {key} twice"


def test_a_path_has_no_nul() -> None:
    with pytest.raises(ArgumentError, match="path must not contain a NUL character"):
        checks.path("path", "a\0b")


def test_a_name_is_compared_only_with_texts() -> None:
    assert checks.meant("textt", [0, ("text", 1), "text"]) == "; did you mean 'text'?"
    assert checks.meant("text", [0, 1]) == ""


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("system", ""),
        ("top_n", ""),
        ("input", ""),
        ("max_tokes", "max_tokens"),
        ("maxTokens", "max_tokens"),
        ("stpo", "stop"),
        ("tempereture", "temperature"),
        ("max_new_tokens", "max_tokens"),
        ("num_predict", "max_tokens"),
    ],
)
def test_only_a_near_name_or_one_of_the_same_meaning_is_suggested(
    name: str, meant: str
) -> None:
    names = [
        "max_tokens",
        "min_p",
        "min_tokens",
        "stop",
        "stream",
        "temperature",
        "top_p",
    ]
    assert checks.meant(name, names) == (f"; did you mean {meant!r}?" if meant else "")
