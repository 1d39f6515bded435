"""Tests of the result of coding: selected rows and the printed form."""

from __future__ import annotations

from typing import Any

import llamaherd as lh
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from llamaherd.coding import frames
from llamaherd.engine.core.stats import Stats

LABELS = ["a", "b", "a", None, "a", None]


def coded(make: Any = pd.DataFrame, **more: Any) -> lh.Coded:
    data = {"text": ["t0", "t1", "t2", None, "t4", "t5"], "label": LABELS}
    arguments = {
        "frame": make(data),
        "text": "text",
        "codebook": lh.Codebook("Which?", ["a", "b", "c"]),
        "columns": {"label": "label"},
        "names": ("a", "b", "c"),
        "labels": LABELS,
        "probs": np.arange(18.0).reshape(6, 3),
        "errors": [None] * 5 + ["too long"],
        "run": {"n_rows": 6},
        "stats": Stats(),
    }
    return lh.Coded(**{**arguments, **more})


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table, dict])
@pytest.mark.parametrize(
    ("rows", "places"),
    [
        (slice(1, 4), [1, 2, 3]),
        (slice(None, None, -2), [5, 3, 1]),
        ([4, 0, -1], [4, 0, 5]),
        (np.array([2, 2]), [2, 2]),
        ([True, False, False, True, False, False], [0, 3]),
        (pd.Series([False] * 5 + [True]), [5]),
        ([], []),
        (slice(0, 0), []),
    ],
)
def test_rows_are_coded_texts(make: Any, rows: Any, places: list[int]) -> None:
    whole = coded(make)
    some = whole[rows]
    assert type(some.frame) is type(whole.frame)
    assert len(some) == len(places)
    assert some.labels == [LABELS[i] for i in places]
    assert frames.column(some.frame, "label", "label") == some.labels
    assert some.errors == [whole.errors[i] for i in places]
    assert whole.probs is not None
    np.testing.assert_array_equal(some.probs, whole.probs[places])
    assert (some.run, some.names, some.text) == (whole.run, whole.names, whole.text)
    assert len(whole) == 6


def test_frames_of_pandas_keep_their_index() -> None:
    frame = pd.DataFrame({"text": list("abcdef")}, index=[9, 9, 7, 7, 5, 5])
    assert list(coded(frame=frame)[[1, 4]].frame.index) == [9, 5]
    assert coded(probs=None)[:2].probs is None


@pytest.mark.parametrize(
    ("rows", "error", "message"),
    [
        (3, TypeError, r"a single row is coded\[\[3\]\]"),
        ("label", TypeError, "rows must be a slice, indices or flags, not 'label'"),
        ([0.5], TypeError, "rows must be"),
        ([[0], [1, 2]], TypeError, "rows must be"),
        ([6], IndexError, "rows must be between -6 and 5"),
        ([True], IndexError, "a flag for each of 6 rows"),
    ],
)
def test_what_is_no_row(rows: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        coded()[rows]


def test_head_shows_the_first_rows() -> None:
    assert coded(dict).head(2) == {"text": ["t0", "t1"], "label": ["a", "b"]}
    assert len(coded().head()) == 5
    assert len(coded().head(99)) == 6
    with pytest.raises(ValueError, match="n must be at least 0"):
        coded().head(-1)


def test_it_says_how_many_texts_have_each_label() -> None:
    assert repr(coded()) == (
        "<Coded: 6 texts, 3 labels (a 3, b 1, c 0), 1 missing, 1 failed>"
    )
    several = lh.Codebook("Which?", ["a", "b"], type="multiple")
    labels = ["a; b", "", "b", None, "b", None]
    page = repr(coded(codebook=several, labels=labels, names=("a", "b")))
    assert "2 labels (b 3, a 1)" in page
    names = tuple(f"label{i}" for i in range(30))
    assert repr(coded(names=names)).count(" more)") == 1


@pytest.mark.parametrize(
    ("mask", "places"),
    [
        (pd.Series([True, False] * 3, index=[5, 4, 3, 2, 1, 0]), [1, 3, 5]),
        (pd.Series([True, None] + [False] * 4, dtype="boolean"), [0]),
        (pd.Index([4, 2]), [4, 2]),
        (pl.Series([False] * 5 + [True]), [5]),
        (pa.array([False] * 5 + [True]), [5]),
    ],
)
def test_flags_are_matched_by_their_index(mask: Any, places: list[int]) -> None:
    for make in (pd.DataFrame, dict):
        assert coded(make)[mask].labels == [LABELS[i] for i in places]


def test_flags_of_other_rows_are_refused() -> None:
    frame = pd.DataFrame({"text": list("abcdef"), "label": LABELS}, index=list("uvwxyz"))
    whole = coded(frame=frame)
    assert len(whole[whole.frame.label == "a"]) == 3
    backwards = (whole.frame.label == "b")[::-1]
    assert list(whole[backwards].frame.index) == ["v"]
    for rows in (pd.Series([True] * 6), pd.Index([0, 1]), pd.Series([True], index=["u"])):
        with pytest.raises(ValueError, match="rows has labels of another index"):
            whole[rows]
    turned = coded(frame=frame.set_axis([1, 0, 2, 3, 4, 5]))
    with pytest.raises(ValueError, match=r"frame.index.isin\(rows\)"):
        turned[pd.Index([1])]


@pytest.mark.parametrize("make", [pd.DataFrame, dict])
def test_labels_changed_in_the_frame_are_not_passed_over(make: Any) -> None:
    whole = coded(make, probs=None)
    whole.frame["label"] = ["b", *LABELS[1:]]
    message = "'label' of the data frame was changed after coding: it has 'b' in row 0"
    gold: Any = ["a", "b"] * 3
    calls: list[Any] = [
        lambda: lh.validate(whole, gold),
        lambda: lh.gold_sample(whole, 2),
        lambda: lh.estimate(whole, gold),
        lambda: lh.plot(whole),
        lambda: whole[:2],
    ]
    for call in calls:
        with pytest.raises(ValueError, match=message):
            call()
    assert message in repr(whole)
    assert lh.validate(whole.frame, gold, label="label").n_texts == 6
    whole.frame["label"] = LABELS
    assert len(whole[:2]) == 2
    assert "changed" not in repr(whole)


@pytest.mark.parametrize("make", [pl.DataFrame, pa.table, dict])
def test_a_missing_number_is_null_and_not_nan(make: Any) -> None:
    new = {"prob": np.array([0.5, np.nan]), "sd": np.array([np.nan, np.nan])}
    frame = frames.with_columns(make({"text": ["a", "b"]}), new)
    table = (
        frame if isinstance(frame, dict) else pl.DataFrame(frame).to_dict(as_series=False)
    )
    assert (table["prob"], table["sd"]) == ([0.5, None], [None, None])
    if make is pl.DataFrame:
        assert frame.schema["sd"] == pl.Float64
    like = frames.table_like(frame, {"x": [1.5, float("nan")]})
    assert frames.column(like, "x", "x") == [1.5, None]
    assert (like if make is dict else pl.DataFrame(like))["x"][1] is None
