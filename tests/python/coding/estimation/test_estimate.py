"""Tests of estimates from data frames, against estimates from arrays and statsmodels."""

from __future__ import annotations

import dataclasses
import pickle
import re
import sys
import warnings
from typing import Any

import llamaherd as lh
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import statsmodels.formula.api as smf
from llamaherd.coding.estimation import notes
from llamaherd.coding.statistics import dsl, label_weight
from scipy.stats import t as student_t
from simulated_texts import by_dsl, by_gold

N, N_GOLD = 1200, 240


def texts() -> pd.DataFrame:
    """Return texts with three labels; the model calls labels that it misses neutral."""
    rng = np.random.default_rng(8)
    party = rng.choice(["A", "B", "C"], N, p=[0.4, 0.4, 0.2])
    age = rng.integers(20, 80, N).astype(float)
    names = np.array(["negative", "neutral", "positive"])
    shares = {"A": [0.5, 0.3, 0.2], "B": [0.3, 0.3, 0.4], "C": [0.2, 0.6, 0.2]}
    code = np.array([rng.choice(names, p=shares[name]) for name in party])
    missed = rng.random(N) < np.where(party == "B", 0.35, 0.15)
    return pd.DataFrame(
        {
            "text": [f"Text {i}." for i in range(N)],
            "label": np.where(missed, "neutral", code),
            "code": code,
            "party": party,
            "age": age,
            "votes": 10 + 3.0 * (code == "negative") + rng.normal(size=N),
            "speaker": np.arange(N) // 4,
        }
    )


DATA = texts()


def gold(data: pd.DataFrame = DATA, **options: Any) -> lh.GoldSample:
    arguments = {"text": "text", "label": "label", "seed": 3, **options}
    drawn = lh.gold_sample(data, arguments.pop("n", N_GOLD), **arguments)
    return drawn.with_codes(data["code"].to_numpy()[drawn.rows].tolist())


def value(fit: lh.types.Estimates, method: str, **selection: str) -> lh.types.Estimate:
    rows = [
        row
        for row in fit.by(method)
        if all(getattr(row, name) == level for name, level in selection.items())
    ]
    assert len(rows) == 1, (selection, fit.rows)
    return rows[0]


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame, pa.table, dict])
def test_shares_in_any_data_frame(kind: Any) -> None:
    data = kind({name: DATA[name].tolist() for name in DATA})
    drawn = gold()
    fit = lh.estimate(data, drawn)
    assert (fit.n_texts, fit.n_gold, fit.design) == (N, N_GOLD, "simple")
    assert len(fit) == 12
    for label in ("negative", "neutral", "positive"):
        y_hat = (DATA["label"] == label).to_numpy(float)
        y = (DATA["code"] == label).to_numpy(float)[drawn.rows]
        assert value(fit, "naive", outcome=label).estimate == pytest.approx(y_hat.mean())
        assert value(fit, "gold", outcome=label).estimate == pytest.approx(y.mean())
        corrected = y_hat.mean() + (y - y_hat[drawn.rows]).mean()
        assert value(fit, "dsl", outcome=label).estimate == pytest.approx(corrected)
        others = np.delete(y_hat, drawn.rows)
        lam = label_weight.best_lam(y, y_hat[drawn.rows], others)
        expected = lam * others.mean() + (y - lam * y_hat[drawn.rows]).mean()
        row = value(fit, "ppi", outcome=label)
        assert (row.estimate, row.lam) == (pytest.approx(expected, abs=1e-12), lam)
        errors = np.var(y - lam * y_hat[drawn.rows], ddof=1) / len(y)
        variance = errors + lam**2 * np.var(others) / len(others)
        # Few errors may increase the standard error.
        assert 0.99 < row.std_error / np.sqrt(variance) < 1.1
    total = sum(row.estimate for row in fit.by("dsl"))
    assert total == pytest.approx(1)


@pytest.mark.parametrize("prob", ["simple", "stratified"])
def test_groups_and_differences(prob: str) -> None:
    estimates = lh.estimate(DATA, gold(prob=prob), outcome="negative", by="party")
    drawn = gold(prob=prob)
    for method in ("dsl", "gold", "naive", "ppi"):
        a = value(estimates, method, group="A")
        b = value(estimates, method, group="B")
        difference = value(estimates, method, term="difference", group="B - A")
        assert difference.estimate == pytest.approx(b.estimate - a.estimate)
        matrix = estimates.covariance(method)
        variance = matrix[0, 0] + matrix[1, 1] - 2 * matrix[0, 1]
        if method != "naive":
            assert min(a.df, b.df) < difference.df < a.df + b.df + 1
        assert difference.std_error == pytest.approx(np.sqrt(variance), rel=0.15)
    rows = drawn.rows
    weights = 1 / drawn.probs
    in_b = (DATA["party"] == "B").to_numpy()[rows]
    negative = (DATA["code"] == "negative").to_numpy()[rows]
    expected = (weights * in_b * negative).sum() / (weights * in_b).sum()
    assert value(estimates, "gold", group="B").estimate == pytest.approx(expected)


def test_means_of_an_ordinal_scale() -> None:
    scale = {"negative": -1, "neutral": 0, "positive": 1}
    estimates = lh.estimate(DATA, gold(), outcome=scale)
    shares = lh.estimate(DATA, gold())
    for method in ("dsl", "gold", "naive"):
        parts = {row.outcome: row.estimate for row in shares.by(method)}
        expected = parts["positive"] - parts["negative"]
        assert value(estimates, method, term="mean").estimate == pytest.approx(expected)
    with pytest.raises(ValueError, match="a number for each label, also for positive"):
        lh.estimate(DATA, gold(), outcome={"negative": -1, "neutral": 0})


@pytest.mark.parametrize("model", ["ols", "logit"])
def test_a_regression_is_that_of_the_arrays(model: str) -> None:
    formula = "label == 'negative' ~ party + age"
    drawn = gold(prob="uncertainty", confidence=np.linspace(0, 1, N))
    estimates = lh.estimate(DATA, drawn, formula, model=model)
    naive = {row.term: row for row in estimates.by("naive")}
    data = DATA.assign(y=(DATA["label"] == "negative").astype(float))
    fit = getattr(smf, model)("y ~ party + age", data).fit(disp=False)
    for term, expected in fit.params.items():
        assert naive[term].estimate == pytest.approx(expected, abs=1e-6)
    x = np.column_stack(
        [np.ones(N), DATA["party"] == "B", DATA["party"] == "C", DATA["age"]]
    ).astype(float)
    problem = dsl.Problem(
        kind=model,
        x_hat=x,
        y_hat=data["y"].to_numpy(),
        rows=np.array(drawn.rows),
        x=x[drawn.rows],
        y=(DATA["code"] == "negative").to_numpy(float)[drawn.rows],
        probs=drawn.probs,
        strata=drawn.strata[drawn.rows],
    )
    for method, expected in (("dsl", by_dsl(problem)), ("gold", by_gold(problem))):
        rows = estimates.by(method)
        assert [row.estimate for row in rows] == pytest.approx(expected.theta.tolist())
        ratios = np.array([row.std_error for row in rows]) / expected.std_errors
        # Few errors of a group may increase the standard error.
        assert (ratios > 1 - 1e-9).all()
        assert (ratios < 1.5).all()
        assert max(row.df for row in rows) < N_GOLD
    assert "ppi" not in estimates.methods
    assert any("ppi is left out" in note for note in estimates.notes)
    with pytest.raises(ValueError, match="methods must have another method than 'ppi'"):
        lh.estimate(DATA, drawn, formula, model=model, methods=["ppi"])


@pytest.mark.filterwarnings("ignore:240 codes for:UserWarning")
def test_labels_on_the_right() -> None:
    estimates = lh.estimate(DATA, gold(), "votes ~ label + party")
    assert estimates.methods == ("dsl", "gold", "naive")
    assert any("ppi is left out" in note for note in estimates.notes)
    truth = smf.ols("votes ~ code + party", DATA).fit()
    for term in ("neutral", "positive"):
        expected = truth.params[f"code[T.{term}]"]
        right = value(estimates, "dsl", term=f"label[T.{term}]")
        assert right.low < expected < right.high
    naive = value(estimates, "naive", term="label[T.neutral]")
    assert naive.low > truth.params["code[T.neutral]"]


def test_a_formula_without_a_left_side_and_a_label_of_another_name() -> None:
    expected = lh.estimate(DATA, gold(), "label == 'negative' ~ age")
    fit = lh.estimate(DATA, gold(), "~ age", outcome="negative")
    assert [row.estimate for row in fit.rows] == [row.estimate for row in expected.rows]
    odd = DATA.rename(columns={"label": "its label"})
    drawn = gold(odd, label="its label")
    fit = lh.estimate(odd, drawn, "~ age", outcome="negative")
    assert [row.estimate for row in fit.rows] == [row.estimate for row in expected.rows]


def test_clusters() -> None:
    estimates = lh.estimate(DATA, gold(), "label == 'negative' ~ age", cluster="speaker")
    data = DATA.assign(y=(DATA["label"] == "negative").astype(float))
    fit = smf.ols("y ~ age", data).fit(
        cov_type="cluster", cov_kwds={"groups": data["speaker"]}
    )
    errors = [row.std_error for row in estimates.by("naive")]
    assert errors == pytest.approx(list(fit.bse), rel=2e-3)


@pytest.mark.filterwarnings("ignore:.*few coded texts have a wrong label:UserWarning")
def test_a_sample_of_unknown_probabilities_is_refused() -> None:
    codes = [None] * N
    codes[:100] = DATA["code"][:100]
    with pytest.raises(ValueError, match=r"no inclusion probabilities.*gold_sample\(\)"):
        lh.estimate(DATA, codes)
    with pytest.raises(ValueError, match="no inclusion probabilities"):
        lh.estimate(DATA.assign(hand=codes), "hand")
    estimates = lh.estimate(DATA.assign(hand=codes), "hand", prob="simple")
    assert estimates.design == "simple, as the caller says"
    assert estimates.n_gold == 100
    estimates = lh.estimate(DATA, codes, prob=[100 / N] * N)
    assert estimates.design == "probabilities by the caller"
    with pytest.raises(ValueError, match="gold has a design"):
        lh.estimate(DATA, gold(), prob="simple")
    with pytest.raises(ValueError, match="gold has no codes yet"):
        lh.estimate(DATA, lh.gold_sample(DATA, 20, text="text", label="label"))


def test_texts_that_could_never_be_drawn_are_named() -> None:
    probs = np.full(N, 0.2)
    probs[[4, 9]] = 0
    codes = [None if i in {4, 9} else code for i, code in enumerate(DATA["code"])]
    with pytest.raises(ValueError, match=r"2 texts could never be drawn.*ids 5, 10\)"):
        lh.estimate(DATA, codes, prob=probs)
    with pytest.raises(ValueError, match=r"prob\[0\] must be a probability .* not 1.5"):
        lh.estimate(DATA, codes, prob=np.full(N, 1.5))


def test_rows_with_something_missing_are_left_out() -> None:
    data = DATA.copy()
    drawn = gold()
    data.loc[drawn.rows[0], "age"] = np.nan
    data.loc[[2, 7], "label"] = None
    with pytest.warns(UserWarning, match="The column 'age' has no value for 1 of"):
        estimates = lh.estimate(data, drawn, "label == 'negative' ~ age")
    assert estimates.n_texts == N - 3
    assert any("3 of 1,200 texts are left out: they" in note for note in estimates.notes)
    left = data.dropna(subset=["age", "label"])
    y = (left["label"] == "negative").astype(float)
    fit = smf.ols("y ~ age", left.assign(y=y)).fit().params
    assert [row.estimate for row in estimates.by("naive")] == pytest.approx(list(fit))


@pytest.mark.filterwarnings("ignore:.*ha(s|ve) a wrong label:UserWarning")
@pytest.mark.filterwarnings("ignore:one coded text has a leverage:UserWarning")
def test_few_codes_are_warned_of() -> None:
    with pytest.warns(UserWarning, match="few codes, so intervals may be too short"):
        lh.estimate(DATA, gold(n=20), outcome="negative", by="party")
    with pytest.warns(UserWarning, match=r"too few codes \(20\) for 4 coefficients"):
        lh.estimate(DATA, gold(n=20), "label == 'negative' ~ party + age")
    codes = ["neutral"] * (N_GOLD - 1) + ["negative"]
    drawn = gold().with_codes(codes)
    with pytest.warns(
        UserWarning, match="People gave the label 'negative' 1 time in 240"
    ):
        lh.estimate(DATA, drawn, outcome="negative")


def test_a_method_without_a_solution_leaves_the_others() -> None:
    drawn = gold()
    codes = ["negative" if party == "A" else "neutral" for party in DATA["party"]]
    drawn = drawn.with_codes([codes[i] for i in drawn.rows])
    with pytest.warns(UserWarning, match=r"gold gives no estimate: .*separated"):
        estimates = lh.estimate(
            DATA,
            drawn,
            "label == 'negative' ~ party",
            model="logit",
            methods=["gold", "naive"],
        )
    assert np.isnan([row.estimate for row in estimates.by("gold")]).all()
    assert not np.isnan([row.estimate for row in estimates.by("naive")]).any()
    assert "not estimated: see the notes" in str(estimates)
    assert estimates.to_dicts()[-1]["method"] == "naive"
    with pytest.raises(
        ValueError, match="no method gives an estimate: naive gives no estimate"
    ):
        lh.estimate(
            DATA, drawn, "label == 'negative' ~ age + I(2 * age)", methods=["naive"]
        )


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"formula": "label"}, "formula must be like 'y ~ x'"),
        ({"formula": "label == 'negative' ~ colour"}, "cannot be evaluated.*colour"),
        ({"formula": "label == 'negative' ~ (age"}, "cannot be read"),
        ({"formula": "votes ~ label", "model": "logit"}, "must be 0 or 1.*'votes'"),
        ({"formula": "votes ~ age", "model": "mean"}, "cannot be used with a formula"),
        ({"formula": "votes ~ age", "by": "party"}, "by cannot be used with a formula"),
        ({"formula": "votes ~ age", "outcome": "neutral"}, "without a left side"),
        ({"model": "ols"}, "needs a formula"),
        ({"outcome": "sad"}, "outcome must be among the labels negative, neutral"),
        ({"outcome": []}, "outcome must name at least one of the labels negative, neu"),
        ({"outcome": ["neutral", None]}, "among the labels negative, .*, not None"),
        ({"methods": ["magic"]}, "methods must be one of 'dsl'"),
        ({"level": 95}, "level must be above 0 and below 1, not 95"),
        ({"target": "all"}, "target must be one of"),
        ({"by": "colour"}, "by must be a column"),
        ({"by": ["party", "party"]}, "by names the column 'party' twice"),
    ],
)
def test_what_does_not_fit_is_refused(options: dict[str, Any], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        lh.estimate(DATA, gold(), **options)


def test_without_formulaic_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "formulaic", None)
    with pytest.raises(ImportError, match=r'pip install "llamaherd\[research\] @ git'):
        lh.estimate(DATA, gold(), "votes ~ age")


@pytest.mark.filterwarnings("ignore:.*few coded texts have a wrong label:UserWarning")
def test_the_result_is_told_in_many_ways() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", ".*few coded texts have a wrong label")
        fit = lh.estimate(DATA, gold(), outcome=["negative", "positive"], by=["party"])
    table = fit.to_pandas()
    assert list(table["method"].unique()) == ["dsl", "ppi", "gold", "naive"]
    assert len(table) == len(fit) == 2 * 5 * 4
    assert "negative share party: A" in str(fit)
    worth = round(fit.gold_worth("dsl"))
    assert f"short intervals with {worth} texts (dsl), " in str(fit)
    assert pickle.loads(pickle.dumps(fit)).to_dicts() == fit.to_dicts()
    assert repr(fit).startswith("<Estimates: mean of 1,200 texts with 240 codes")
    assert N_GOLD < fit.gold_worth("dsl") < 5 * N_GOLD
    assert fit.gold_worth("gold") == pytest.approx(N_GOLD)
    assert fit.covariance("dsl", "negative").shape == (3, 3)
    with pytest.raises(ValueError, match="outcome must be one of 'negative', 'positive'"):
        fit.covariance("dsl")
    labels = DATA["label"].tolist()
    codes = [DATA["code"][i] if i % 5 == 0 else None for i in range(N)]
    assert lh.estimate(labels, codes, prob="simple").n_gold == N_GOLD


@pytest.mark.filterwarnings("ignore:These groups have few codes:UserWarning")
@pytest.mark.filterwarnings("ignore:.*few coded texts have a wrong label:UserWarning")
@pytest.mark.filterwarnings("ignore:one coded text has a leverage:UserWarning")
def test_a_group_that_nobody_coded_has_no_corrected_estimate() -> None:
    data = DATA.assign(party=np.where(np.arange(N) < 3, "D", DATA["party"]))
    codes = [DATA["code"][i] if i % 5 == 4 else None for i in range(N)]
    fit = lh.estimate(data, codes, outcome="negative", by="party", prob="simple")
    for method in ("dsl", "ppi", "gold"):
        assert np.isnan(value(fit, method, group="D").estimate)
        assert np.isnan(value(fit, method, group="D - A").std_error)
    others = lh.estimate(
        DATA[3:], codes[3:], outcome="negative", by="party", prob="simple"
    )
    for method in ("dsl", "gold", "ppi", "naive"):
        one, other = (value(study, method, group="B - A") for study in (fit, others))
        assert one.estimate == pytest.approx(other.estimate, abs=2e-3)
        assert one.std_error == pytest.approx(other.std_error, rel=1e-2)
    assert value(fit, "naive", group="D").std_error >= 0
    with pytest.warns(
        UserWarning, match="dsl gives no estimate: column 4 of the model is 0"
    ):
        fit = lh.estimate(
            data,
            codes,
            "label == 'negative' ~ party",
            prob="simple",
            methods=["dsl", "naive"],
        )
    assert np.isnan([row.estimate for row in fit.by("dsl")]).all()


def test_when_all_texts_are_coded_there_is_nothing_to_predict() -> None:
    drawn = gold(n=N)
    with pytest.warns(
        UserWarning, match="ppi gives no estimate: all texts .* be predicted$"
    ):
        estimates = lh.estimate(DATA, drawn, outcome="negative", methods=["dsl", "ppi"])
    assert not np.isnan([row.std_error for row in estimates.by("dsl")]).any()


def test_a_column_may_be_called_frame() -> None:
    data = DATA.assign(frame="x")
    assert lh.estimate(data, gold()).n_texts == N
    with pytest.raises(ValueError, match="cluster requires target='population'"):
        lh.estimate(data, gold(), cluster="speaker", target="texts")


def groups(data: Any, **options: Any) -> list[str]:
    estimates = lh.estimate(
        data, gold(), outcome="negative", by="party", methods=["naive"], **options
    )
    return [row.group for row in estimates.rows]


def test_the_order_of_groups() -> None:
    assert groups(DATA) == ["A", "B", "C", "B - A", "C - A"]
    expected = ["C", "A", "B", "A - C", "B - C"]
    names = ["C", "never", "A", "B"]
    assert groups(DATA, order={"party": names}) == expected
    ordered = DATA.assign(party=pd.Categorical(DATA["party"], categories=names))
    assert groups(ordered) == expected
    columns = {name: DATA[name].tolist() for name in DATA}
    assert groups(pl.DataFrame(columns).cast({"party": pl.Enum(names)})) == expected
    assert groups(columns) == groups(DATA)
    with pytest.raises(ValueError, match="order of 'party' lacks 'C'"):
        groups(DATA, order={"party": ["A", "B"]})
    with pytest.raises(ValueError, match=r"order must name only columns in by, not age"):
        groups(DATA, order={"age": [1]})


def test_a_formula_must_use_the_labels_as_they_are_spelled() -> None:
    with pytest.raises(ValueError, match="must use the column of labels, 'label'"):
        lh.estimate(DATA, gold(), "age ~ party")
    for model in ("ols", "logit"):
        with pytest.raises(ValueError, match="is 0 for all labels and codes: check"):
            lh.estimate(DATA, gold(), "label == 'Negative' ~ party", model=model)


@pytest.mark.parametrize("prob", ["simple", "unequal"])
def test_intervals_of_shares_stay_within_what_shares_can_be(prob: str) -> None:
    """The normal intervals of a rare label's share would begin below 0."""
    n, n_gold = 400, 60
    label = ["rare" if i % 40 == 0 else "common" for i in range(n)]
    code: list[str | None] = [None] * n
    for i in range(n_gold):
        code[i] = "rare" if i in {0, 7} else "common"
    data = {"label": label, "group": [i % 2 for i in range(n)]}
    probs = [n_gold / n * (1.2 if i % 2 else 0.8) for i in range(n)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        fit = lh.estimate(
            data, code, by="group", prob=prob if prob == "simple" else probs
        )
    shares = [row for row in fit.rows if row.term == "share"]
    assert all(0 <= row.low <= row.high <= 1 for row in shares)
    assert any(row.low == 0 for row in shares)
    for row in fit.rows:
        least = 0 if row.term == "share" else -1
        assert least <= row.low <= row.estimate <= row.high <= 1
    for row in fit.by("naive"):
        reach = student_t.ppf(0.975, row.df) * row.std_error
        least = 0 if row.term == "share" else -1
        assert row.low == pytest.approx(max(row.estimate - reach, least))
        assert row.high == pytest.approx(min(row.estimate + reach, 1))


def test_means_and_coefficients_have_no_ends() -> None:
    data = {"label": ["a", "b"] * 100, "x": [float(i % 7) for i in range(200)]}
    code = ["a" if i % 3 else "b" for i in range(100)] + [None] * 100
    scale = {"a": -100.0, "b": 100.0}
    fit = lh.estimate(data, code, outcome=scale, prob="simple")
    assert min(row.low for row in fit.rows) < -1
    fit = lh.estimate(data, code, "(label == 'a') * 50 ~ x", prob="simple")
    assert max(row.high for row in fit.rows) > 1


def test_a_share_that_cannot_be_is_told() -> None:
    label = ["rare"] * 2 + ["common"] * 198
    code = ["common" if i < 100 else None for i in range(200)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        fit = lh.estimate(
            {"label": label}, code, outcome=["rare"], methods=["dsl"], prob="simple"
        )
    assert fit.rows[0].estimate < 0
    assert fit.rows[0].low == 0
    assert any("outside 0 to 1" in note for note in fit.notes)


def test_warnings_name_the_line_of_the_caller() -> None:
    data = {
        "text": [f"text {i}" for i in range(60)],
        "label": ["a", "b", "a"] * 20,
        "x": list(range(60)),
    }
    gold = lh.gold_sample(data, 12, text="text", label="label", seed=1)
    gold = gold.with_codes([data["label"][row] for row in gold.rows])
    for formula in (None, "label == 'a' ~ x"):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            lh.estimate(data, gold, formula)
        assert {warning.filename for warning in caught} == {__file__}


def test_a_text_with_several_missing_values_is_counted_once() -> None:
    data = DATA.assign(w=1.0)
    data.loc[[5, 6, 9, 20], "party"] = None
    data.loc[[5, 6, 30, 40], "speaker"] = np.nan
    data.loc[[9, 40, 50], "w"] = 0.0  # these texts count nowhere
    options: Any = {"outcome": "negative", "by": "party", "cluster": "speaker"}
    with pytest.warns(
        UserWarning,
        match=r"The columns 'party' \(3\), 'speaker' \(3\) have no value "
        r"for 4 of 1,197 texts with a label and a weight above 0, which are left out",
    ) as caught:
        estimates = lh.estimate(data, gold(), weights="w", **options)
    assert sum("no value" in str(warning.message) for warning in caught) == 1
    assert estimates.n_texts == N - 3 - 4
    data["party"] = DATA["party"]
    data.loc[9, "party"] = None
    with warnings.catch_warnings():
        warnings.filterwarnings("error", ".*'party' has no value")
        lh.estimate(data, gold(), outcome="negative", by="party", weights="w")


@pytest.mark.parametrize(("n", "expected"), [(1, r"codes \(1\) for 2 co"), (2, r"\(2\)")])
def test_few_codes_are_counted_in_english(n: int, expected: str) -> None:
    (note,) = notes.few_coefficients(n, 2)
    assert re.search(expected, note)
    assert "1 code" not in note


def test_a_missing_standard_error_is_not_printed_as_nan() -> None:
    estimates = lh.estimate(DATA, gold(), outcome="negative", by="party")
    first, *rest = estimates.by("dsl")
    nan = float("nan")
    odd = dataclasses.replace(first, std_error=nan, low=nan, high=nan)
    none = dataclasses.replace(rest[0], estimate=nan, std_error=nan, low=nan, high=nan)
    notes = ("a note of many words " * 9,)
    text = str(dataclasses.replace(estimates, rows=(odd, none, *rest[1:]), notes=notes))
    assert max(map(len, text.splitlines())) <= 88
    assert "nan" not in text
    assert f"{first.estimate:8.4f}  no std. error: the codes show no variance" in text
    assert "not estimated: fewer than two codes" in text
    other = [
        dataclasses.replace(
            row, outcome="other", estimate=nan if row.method == "dsl" else row.estimate
        )
        for row in estimates.rows
    ]
    text = str(dataclasses.replace(estimates, rows=(*estimates.rows, *other)))
    assert text.count("not estimated: see the notes") == len(estimates.by("dsl"))
    assert "fewer than two codes" not in text
