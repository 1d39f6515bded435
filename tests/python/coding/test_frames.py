"""Tests of columns of data frames of every kind."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from llamaherd.coding import frames

_DATA = {"id": [7, 7, 9], "text": ["a", None, "c"], "x": [0.5, math.nan, 2.0]}
_KINDS = {
    "pandas": lambda: pd.DataFrame(_DATA, index=[5, 5, 1]),
    "polars": lambda: pl.DataFrame(_DATA),
    "arrow": lambda: pa.table(_DATA),
    "dict": lambda: dict(_DATA),
    "arrays": lambda: {name: np.array(values) for name, values in _DATA.items()},
}


@pytest.fixture(params=_KINDS)
def frame(request: pytest.FixtureRequest) -> Any:
    return _KINDS[request.param]()


def test_reads(frame: Any) -> None:
    assert frames.n_rows(frame) == 3
    assert frames.names(frame) == ["id", "text", "x"]
    assert frames.column(frame, "text", "text") == ["a", None, "c"]
    assert frames.column(frame, "x", "x") == [0.5, None, 2.0]


def test_adds_and_leaves_all_else(frame: Any) -> None:
    labels = frames.Categories(values=["u", None, "v"], names=("v", "u"))
    new = {"label": labels, "p": np.array([0.25, np.nan, 1.0]), "error": [None] * 3}
    wider = frames.with_columns(frame, new)
    assert type(wider) is type(frame)
    assert frames.names(frame) == ["id", "text", "x"]
    assert frames.names(wider) == ["id", "text", "x", "label", "p", "error"]
    assert frames.column(wider, "id", "id") == [7, 7, 9]
    assert frames.column(wider, "label", "label") == ["u", None, "v"]
    assert frames.column(wider, "p", "p") == [0.25, None, 1.0]
    assert frames.column(wider, "error", "error") == [None] * 3


def test_a_record_batch_is_a_table() -> None:
    batch = pa.RecordBatch.from_pydict(_DATA)
    assert frames.n_rows(batch) == 3
    assert frames.names(batch) == ["id", "text", "x"]
    assert frames.column(batch, "x", "x") == [0.5, None, 2.0]
    assert frames.with_rows(batch, [2, 0])["id"].to_pylist() == [9, 7]
    wider = frames.with_columns(batch, {"y": [1.0, 2.0, 3.0]})
    assert isinstance(wider, pa.Table)
    assert wider.column_names == ["id", "text", "x", "y"]
    assert wider["y"].to_pylist() == [1.0, 2.0, 3.0]


def test_keeps_an_index_and_the_order_of_labels() -> None:
    labels = frames.Categories(values=["u", None, "v"], names=("v", "u"), ordered=True)
    wider = frames.with_columns(_KINDS["pandas"](), {"label": labels})
    assert list(wider.index) == [5, 5, 1]
    assert list(wider["label"].cat.categories) == ["v", "u"]
    assert wider["label"].cat.ordered
    wider = frames.with_columns(_KINDS["polars"](), {"label": labels})
    assert wider["label"].dtype == pl.Enum(["v", "u"])


@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow", "dict"])
def test_no_rows(kind: str) -> None:
    empty = {"text": []}
    make = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "arrow": pa.table}
    frame = make.get(kind, dict)(empty)
    wider = frames.with_columns(
        frame, {"label": frames.Categories(values=[], names=("a",)), "e": []}
    )
    assert frames.names(wider) == ["text", "label", "e"]
    assert frames.n_rows(wider) == 0


def test_what_is_missing_in_pandas() -> None:
    frame = pd.DataFrame(
        {
            "a": pd.array(["x", pd.NA], dtype="string"),
            "b": pd.Categorical(["x", None]),
            "c": pd.Series([1, None], dtype="Int64"),
            "d": pd.to_datetime(["2026-01-01", None]),
            "e": pd.Series(["x", pd.NA], dtype=object),
        }
    )
    for name in frame.columns:
        values = frames.column(frame, name, "text")
        assert values[1] is None, name
        assert values[0] is not None


def test_what_is_wrong(frame: Any) -> None:
    with pytest.raises(ValueError, match=r"text must be a column .*'words'.*id, text"):
        frames.column(frame, "words", "text")
    with pytest.raises(TypeError, match="text must be the name of a column, not 3"):
        frames.column(frame, 3, "text")
    with pytest.raises(ValueError, match="column 'p' must have 3 values, not 2"):
        frames.with_columns(frame, {"p": [1, 2]})


def test_what_is_no_frame() -> None:
    with pytest.raises(TypeError, match="must be one of pandas, polars"):
        frames.n_rows([1, 2])
    with pytest.raises(TypeError, match=r"collect\(\) it first"):
        frames.names(pl.DataFrame(_DATA).lazy())
    with pytest.raises(ValueError, match="columns of the same name"):
        frames.names(pd.DataFrame([[1, 2]], columns=["a", "a"]))
    with pytest.raises(ValueError, match="the same number of rows, not 'a': 1, 'b': 2"):
        frames.n_rows({"a": [1], "b": [1, 2]})
    with pytest.raises(TypeError, match="column 'a' must be a list, not 'xy'"):
        frames.n_rows({"a": "xy"})
