"""Tests of identities that hold for every estimate, whatever the data are."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import numpy as np
import pandas as pd
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

# The samples are small, so estimate() warns.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
N = 300
Rows = dict[tuple[str, str, str, str], np.ndarray]
# Arguments of estimate(); the last three are regressions.
CALLS: dict[str, dict[str, Any]] = {
    "shares": {},
    "groups": {"by": "g"},
    "clusters": {"cluster": "c"},
    "weights": {"weights": "w"},
    "all at once": {"by": "g", "weights": "w", "cluster": "c"},
    "these texts": {"target": "texts"},
    "scores": {"outcome": {"a": 1, "b": 2, "z": 5}},
    "bonferroni": {"by": "g", "simultaneous": "bonferroni"},
    "ols": {"formula": "(label == 'a') ~ x + g"},
    "logit": {"formula": "(label == 'a') ~ x + g", "model": "logit"},
    "covariate": {"formula": "x ~ label"},
}
QUICK = [call for call in CALLS if call != "bonferroni"]
OF_SHARES = ("shares", "groups", "clusters", "weights", "all at once", "these texts")


def study(seed: int, *, rare: bool = False, design: str = "unequal") -> pd.DataFrame:
    """Return texts with labels and numbers, by the model and by people.

    `design` is "simple" or "unequal"; a rare label has few errors.
    """
    rng = np.random.default_rng(seed)
    rate, error = (0.05, 0.03) if rare else (0.35, 0.2)
    code = np.where(rng.random(N) < rate, "a", rng.choice(["b", "z"], N))
    label = np.where(rng.random(N) < error, rng.choice(["a", "b", "z"], N), code)
    probs = np.full(N, 0.3) if design == "simple" else rng.uniform(0.1, 0.6, N)
    drawn = rng.random(N) < probs
    if design == "simple":
        drawn = np.isin(np.arange(N), rng.choice(N, 90, replace=False))
    num = rng.normal(5, 2, N)
    return pd.DataFrame(
        {
            "label": label,
            "code": pd.Series(np.where(drawn, code, None), dtype=object),
            "num": num.round(3),
            "num_code": np.where(
                drawn, (0.8 * num + rng.normal(1, 1, N)).round(3), np.nan
            ),
            "x": rng.normal(size=N),
            "g": rng.choice(["u", "v"], N),
            "w": rng.uniform(0.5, 3, N),
            "c": np.arange(N) // 3,
            "p": probs,
        }
    )


def rows_of(data: pd.DataFrame, design: str = "unequal", **options: Any) -> Rows:
    gold = "num_code" if options.get("label") == "num" else "code"
    prob = "p" if design == "unequal" else "simple"
    estimates = lh.estimate(data, gold, prob=prob, **options)
    return {
        (row.outcome, row.term, row.group, row.method): np.array(
            [row.estimate, row.std_error, row.low, row.high]
        )
        for row in estimates.rows
    }


def assert_equal(one: Rows, other: Rows, tolerance: float = 1e-8) -> None:
    assert one.keys() == other.keys()
    for key, values in one.items():
        np.testing.assert_allclose(
            values, other[key], rtol=tolerance, atol=tolerance, err_msg=str(key)
        )


@pytest.mark.more(reason="repeats an estimate for many forms of the same data", cases=5)
@pytest.mark.parametrize("design", ["simple", "unequal"])
@pytest.mark.parametrize("call", CALLS)
def test_the_order_of_rows_does_not_matter(call: str, design: str) -> None:
    data = study(1, design=design)
    other = data.sample(frac=1, random_state=2).reset_index(drop=True)
    rows = (rows_of(frame, design, **CALLS[call]) for frame in (data, other))
    assert_equal(*rows)


@pytest.mark.more(reason="repeats an estimate for many forms of the same data", cases=6)
@pytest.mark.parametrize("design", ["simple", "unequal"])
@pytest.mark.parametrize("call", [*QUICK, "median"])
def test_rows_without_any_value_do_not_matter(call: str, design: str) -> None:
    options = CALLS.get(call, {"label": "num", "outcome": "median"})
    data = study(2, design=design)
    empty = pd.DataFrame({"p": [0.3] * 20, "w": [1.0] * 20})
    more = pd.concat([data.astype({"code": object}), empty], ignore_index=True)
    assert_equal(rows_of(data, design, **options), rows_of(more, design, **options))


@pytest.mark.parametrize("design", ["simple", "unequal"])
@pytest.mark.parametrize("rare", [False, True])
@pytest.mark.parametrize("call", OF_SHARES)
def test_a_share_and_its_complement_mirror_each_other(
    call: str, design: str, *, rare: bool
) -> None:
    data = study(1, rare=rare, design=design)
    for name in ("label", "code"):
        known = data[name].isin(["b", "z"])
        data[name] = data[name].mask(known, "other")
    rows = rows_of(data, design, **CALLS[call])
    for (outcome, term, group, method), values in rows.items():
        if outcome == "a":
            other = rows["other", term, group, method]
            whole = 0.0 if term == "difference" else 1.0
            mirrored = [whole - other[0], other[1], whole - other[3], whole - other[2]]
            np.testing.assert_allclose(values, mirrored, atol=1e-9)


@pytest.mark.parametrize("call", OF_SHARES)
def test_a_share_does_not_depend_on_how_others_are_divided_or_named(call: str) -> None:
    data = study(3)
    rows = rows_of(data, **CALLS[call])
    for names in ({"b": "other", "z": "other"}, {"b": "0", "z": "Ä b"}):
        renamed = data.assign(
            label=data["label"].replace(names), code=data["code"].replace(names)
        )
        other = rows_of(renamed, **CALLS[call])
        assert_equal(
            {key: row for key, row in rows.items() if key[0] == "a"},
            {key: row for key, row in other.items() if key[0] == "a"},
        )


@pytest.mark.parametrize("call", ["weights", "all at once"])
def test_the_unit_of_survey_weights_does_not_matter(call: str) -> None:
    data = study(4)
    other = data.assign(w=data["w"] * 73)
    assert_equal(rows_of(data, **CALLS[call]), rows_of(other, **CALLS[call]))


@pytest.mark.parametrize("call", ["shares", "groups", "scores", "ols", "logit"])
def test_whole_weights_count_like_repeated_texts(call: str) -> None:
    data = study(5)
    data["w"] = np.random.default_rng(1).integers(1, 4, N)
    repeated = data.loc[data.index.repeat(data["w"])].reset_index(drop=True)
    methods = ["dsl", "gold", "naive"]
    weighted = rows_of(data, weights="w", methods=methods, **CALLS[call])
    counted = rows_of(repeated, methods=methods, **CALLS[call])
    for key, values in weighted.items():
        assert values[0] == pytest.approx(counted[key][0], abs=1e-9)


@pytest.mark.more(reason="repeats an estimate for many forms of the same data", cases=1)
@pytest.mark.parametrize("outcome", ["mean", "median"])
@pytest.mark.parametrize("call", ["shares", "groups", "clusters", "weights"])
def test_numbers_have_any_unit_and_any_zero(call: str, outcome: str) -> None:
    data = study(6)
    options = {"label": "num", "outcome": outcome, **CALLS[call]}
    rows = rows_of(data, **options)
    for add, times in ((10.0, 3.0), (-7.0, 1.0), (0.0, 1e-6), (0.0, 1e6)):
        moved = data.assign(
            num=data["num"] * times + add, num_code=data["num_code"] * times + add
        )
        for key, values in rows_of(moved, **options).items():
            start = 0.0 if key[1] == "difference" else add
            expected = rows[key] * times + start * np.array([1, 0, 1, 1])
            np.testing.assert_allclose(values, expected, rtol=1e-6, atol=1e-6 * times)


@pytest.mark.parametrize("call", ["shares", "groups", "clusters", "weights"])
def test_the_mean_of_negative_numbers_is_mirrored(call: str) -> None:
    data = study(7, rare=True)
    options = {"label": "num", "outcome": "mean", **CALLS[call]}
    negated = data.assign(num=-data["num"], num_code=-data["num_code"])
    rows, other = (rows_of(frame, **options) for frame in (data, negated))
    for key, values in rows.items():
        mirrored = [-other[key][0], other[key][1], -other[key][3], -other[key][2]]
        np.testing.assert_allclose(values, mirrored, atol=1e-9)


@pytest.mark.parametrize("model", ["ols", "logit"])
def test_a_slope_has_the_unit_of_its_covariate(model: Any) -> None:
    """PPI++ is left out: its lam minimizes a sum of variances, which have units."""
    data = study(8)
    options = {"formula": "(label == 'a') ~ x + g", "model": model}
    methods = ["dsl", "gold", "naive"]
    rows = rows_of(data, methods=methods, **options)
    seconds_since_1970 = (1.77e9, 3600.0)
    for add, times in ((3.0, 5.0), (0.0, 1e-5), (-40.0, 1.0), seconds_since_1970):
        moved = data.assign(x=data["x"] * times + add)
        for key, values in rows_of(moved, methods=methods, **options).items():
            if key[1] == "x":
                np.testing.assert_allclose(values * times, rows[key], rtol=1e-5)


@pytest.mark.parametrize("call", QUICK)
def test_probabilities_of_0_and_1_are_labels(call: str) -> None:
    options = CALLS[call]
    data = study(9)
    certain = data.assign(**{f"p_{x}": (data["label"] == x) * 1.0 for x in "abz"})
    assert_equal(
        rows_of(data, **options), rows_of(certain, predictions="probs", **options)
    )


@pytest.mark.parametrize(
    "to",
    [
        lambda g: np.where(g == "u", 1, 2),
        lambda g: np.where(g == "u", 1.0, 2.0),
        lambda g: np.where(g == "u", "1", "2"),
        lambda g: np.where(g == "u", 1, 2).astype(np.int8),
        lambda g: g == "v",
        lambda g: pd.Categorical(g, ["u", "v", "a group without texts"]),
    ],
    ids=["int", "float", "str", "int8", "bool", "category"],
)
def test_the_type_of_groups_does_not_matter(to: Callable[[Any], Any]) -> None:
    data = study(10)
    rows = rows_of(data, **CALLS["groups"])
    other = rows_of(data.assign(g=to(data["g"])), **CALLS["groups"])
    np.testing.assert_allclose(list(rows.values()), list(other.values()))


@pytest.mark.parametrize("call", QUICK)
def test_data_that_were_a_file_give_the_same(call: str) -> None:
    data = study(11)
    back = pd.read_csv(io.StringIO(data.to_csv(index=False)))
    assert_equal(rows_of(data, **CALLS[call]), rows_of(back, **CALLS[call]))


@pytest.mark.parametrize("declared", ["simple", "probabilities"])
@pytest.mark.parametrize("call", [call for call in QUICK if call != "these texts"])
def test_codes_of_all_texts_leave_nothing_to_correct(call: str, declared: str) -> None:
    data = study(12)
    rng = np.random.default_rng(3)
    data["code"] = rng.choice(["a", "b", "z"], N, p=[0.3, 0.3, 0.4])
    data["p"] = 1.0
    design = "simple" if declared == "simple" else "unequal"
    rows = rows_of(data, design, **CALLS[call])
    right = data.assign(label=data["code"])
    direct = rows_of(right, design, methods=["naive"], **CALLS[call])
    for (outcome, term, group, method), values in rows.items():
        if method in {"dsl", "gold"}:
            expected = direct[outcome, term, group, "naive"]
            assert values[0] == pytest.approx(expected[0], abs=1e-8)
            # The corrections for small samples differ.
            assert values[1] == pytest.approx(expected[1], rel=0.02)


def test_a_column_of_probabilities_is_the_same_as_its_numbers() -> None:
    data = study(14)
    estimates = [
        lh.estimate(data, "code", prob=prob)
        for prob in ("p", data["p"].tolist(), data["p"], data["p"].to_numpy())
    ]
    assert len({str(result) for result in estimates}) == 1
