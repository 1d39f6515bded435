"""Errors of formulas name the term or column, and say what is wrong with it."""

from __future__ import annotations

import datetime as dt

import llamaherd as lh
import numpy as np
import pandas as pd
import pytest

N = 200
RNG = np.random.default_rng(2)
DATA = pd.DataFrame(
    {
        "text": [f"Text {i}." for i in range(N)],
        "label": RNG.choice(["yes", "no", "maybe"], N),
        "age": RNG.normal(size=N),
        "party": RNG.choice(["a", "b"], N),
        "day": pd.Timestamp("2020-01-01") + pd.to_timedelta(RNG.integers(0, 99, N), "D"),
        "pair": [[1, 2]] * N,
    }
)
DATA["my col"], DATA["my day"], DATA["my party"] = DATA["age"], DATA["day"], DATA["party"]
DRAWN = lh.gold_sample(DATA, 80, text="text", label="label", seed=1)
GOLD = DRAWN.with_codes(DATA["label"].iloc[DRAWN.rows].tolist())


@pytest.mark.parametrize(
    ("formula", "match"),
    [
        (
            "label ~ age",
            r"left side 'label' must be a number for each text, .* such as label == 'may",
        ),
        ("C(label) ~ age", r"left side 'C\(label\)' must be a number"),
        ("party ~ label", r"left side 'party' must be .* such as party == 'a'"),
        (
            "label == 'yes' ~ agee",
            r"'agee' is not a column; did you mean 'age'\?$",
        ),
        (
            "label == yes ~ age",
            "'yes' is not a column; labels are quoted",
        ),
        (
            "label == 'yes' ~ `my col` + undefinedx",
            "'undefinedx' is not a column",
        ),
        (
            "label == 'yes' ~ log(`my col`) + I(`my col` * undefinedx)",
            "'undefinedx' is not a column",
        ),
        (
            "label == 'yes' ~ `my col` + `my day`",
            "the column 'my day' has dates",
        ),
        (
            "label == 'yes' ~ I(`my day`)",
            "the column 'my day' has dates",
        ),
        ("`my party` ~ label", "left side '`my party`' must be a number for each text"),
        ("label == 'yes' ~ age:agee", r"'agee' is not a column; did you mean"),
        ("label == 'yes' ~ age + foo(age)", r"`foo\(age\)`. \[NameError"),
        ("label == 'yes' ~ log(party)", r"`log\(party\)`. \[TypeError"),
        ("label == 'yes' ~ day", "the column 'day' has dates or times"),
        (
            "label == 'yes' ~ pair",
            r"uses the column 'pair', whose values .* not \[1, 2\]",
        ),
        ("label == 'yes' ~ age | party", r"one left and one right side, without '\|'"),
        ("label == 'yes' ~ age +", r"cannot be read: [^\n\x1b]*$"),
    ],
)
def test_the_term_or_column_is_named(formula: str, match: str) -> None:
    with pytest.raises(lh.ArgumentError, match=match) as caught:
        lh.estimate(DATA, GOLD, formula)
    assert caught.value.argument == "formula"


@pytest.mark.parametrize("term", ["since", "I(day.dt.month)"])
def test_columns_of_dates_that_a_formula_converts_are_accepted(term: str) -> None:
    since = (DATA["day"] - dt.datetime(2020, 1, 1)).dt.days  # noqa: DTZ001
    estimates = lh.estimate(
        DATA.assign(since=since), GOLD, f"label == 'yes' ~ {term}", methods=["naive"]
    )
    assert len(estimates.rows) == 2
