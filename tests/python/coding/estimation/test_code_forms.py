"""Tests of labels and codes of any type in estimates, and of formulas on all rows."""

from __future__ import annotations

import math
from typing import Any

import llamaherd as lh
import numpy as np
import pandas as pd
import pytest
from same_results import same_results

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
N = 240


@pytest.fixture(scope="module")
def data() -> pd.DataFrame:
    rng = np.random.default_rng(4)
    label = rng.choice(["a", "b"], N)
    frame = pd.DataFrame(
        {
            "text": [f"Text {i}." for i in range(N)],
            "label": label,
            "x": rng.normal(5, 2, N),
            "g": rng.choice(list("uvw"), N),
            "rare": "p",
        }
    )
    code = np.where(rng.random(N) < 0.8, label, "a").tolist()
    frame["code"] = pd.Series(code[:80] + [None] * (N - 80), dtype=object)
    frame.loc[200:210, "rare"] = "q"  # texts without a code
    frame["centred"] = frame.x - frame.x.mean()
    frame["scaled"] = frame.centred / frame.x.std()
    frame["large"] = (frame.x > frame.x.median()) * 1.0
    return frame


def numbers(estimates: lh.types.Estimates) -> list[tuple[float, ...]]:
    rows = [row for row in estimates.rows if not math.isnan(row.estimate)]
    return [(row.estimate, row.std_error, row.low, row.high) for row in rows]


@pytest.mark.parametrize(
    ("formula", "column"),
    [
        ("I(x - x.mean()) ~ label", "centred ~ label"),
        ("label == 'a' ~ I(x - x.mean())", "label == 'a' ~ centred"),
        ("label == 'a' ~ center(x)", "label == 'a' ~ centred"),
        ("label == 'a' ~ scale(x) * g", "label == 'a' ~ scaled * g"),
        ("label == 'a' ~ I((x > x.median()) * 1.0)", "label == 'a' ~ large"),
        ("x ~ C(label)", "x ~ label"),
    ],
)
def test_a_term_is_what_a_column_made_before_is(
    data: pd.DataFrame, formula: str, column: str
) -> None:
    a, b = (lh.estimate(data, "code", spec, prob="simple") for spec in (formula, column))
    assert np.allclose(numbers(a), numbers(b))


@pytest.mark.parametrize("term", ["poly(x, 2)", "bs(x, df=4)", "np.log(x + 9)", "rare"])
def test_terms_that_remember_all_rows(data: pd.DataFrame, term: str) -> None:
    for formula in (f"label == 'a' ~ {term}", f"label == 'a' ~ {term} + g"):
        assert lh.estimate(data, "code", formula, prob="simple").n_texts == N


def test_rows_with_something_missing_are_cut_afterwards(data: pd.DataFrame) -> None:
    missing = data.copy()
    missing.loc[[3, 90], "label"] = None
    estimates = lh.estimate(missing, "code", "I(x - x.mean()) ~ label", prob="simple")
    column = lh.estimate(missing, "code", "centred ~ label", prob="simple")
    assert estimates.n_texts == N - 2
    assert np.allclose(numbers(estimates), numbers(column))
    missing.loc[[5, 91], ["x", "g"]] = None
    for formula in ("label == 'a' ~ center(x)", "label == 'a' ~ x * g"):
        assert lh.estimate(missing, "code", formula, prob="simple").n_texts == N - 4
    estimates = lh.estimate(missing, "code", "x ~ label", prob="simple", cluster="g")
    assert estimates.n_texts == N - 4


def test_a_term_may_not_use_labels_of_other_texts(data: pd.DataFrame) -> None:
    formula = "x ~ I((label == 'a') - (label == 'a').mean())"
    with pytest.raises(ValueError, match=r"from its own label, not from labels of other"):
        lh.estimate(data, "code", formula, prob="simple")
    zeros = data.assign(x=data.x * (data.index != 7))
    with pytest.raises(ValueError, match=r"must give numbers up to 1e\+50, but 'np.log"):
        lh.estimate(zeros, "code", "label == 'a' ~ np.log(abs(x))", prob="simple")


FORMS: dict[str, Any] = {
    "int": {"a": 1, "b": 0},
    "float": {"a": 1.0, "b": 0.0},
    "text": {"a": "1", "b": "0"},
    "decimals": {"a": "1.0", "b": "0.0"},
    "truth": {"a": True, "b": False},
}


@pytest.mark.more(reason="repeats an estimate for many forms of the same data", cases=23)
@pytest.mark.parametrize("labels", FORMS)
@pytest.mark.parametrize("codes", FORMS)
@pytest.mark.parametrize("blank", ["", " ", "NA", None, math.nan])
def test_types_make_no_difference(
    data: pd.DataFrame, labels: str, codes: str, blank: Any
) -> None:
    label = [FORMS[labels][cell] for cell in data.label]
    code = [blank if cell is None else FORMS[codes][cell] for cell in data.code]
    frame = {"label": label, "code": code, "x": data.x}
    plain = lh.estimate(data, "code", outcome="a", prob="simple")
    estimates = (
        lh.estimate(frame, "code", outcome=FORMS[labels]["a"], prob="simple")
        if (labels not in {"decimals", "truth"} and codes != "truth")
        else None
    )
    if estimates is not None:
        assert estimates.n_gold == plain.n_gold == 80
        assert numbers(estimates) == numbers(plain)
    a = lh.validate(label, code)
    b = lh.validate(list(data.label), list(data.code))
    assert a.n_gold == b.n_gold
    assert a.accuracy.accuracy == b.accuracy.accuracy
    assert same_results(a.model_agreement, b.model_agreement)


def test_a_formula_takes_labels_that_are_numbers_or_truth_values(
    data: pd.DataFrame,
) -> None:
    plain = lh.estimate(data, "code", "label == 'a' ~ x", prob="simple")
    for form in ("int", "truth"):
        frame = data.assign(
            label=[FORMS[form][label] for label in data.label],
            code=[None if c is None else str(FORMS[form][c]) for c in data.code],
        )
        estimates = lh.estimate(frame, "code", "label ~ x", prob="simple")
        assert np.allclose(numbers(estimates), numbers(plain))
    frame.loc[3, "code"] = "?"
    with pytest.raises(ValueError, match=r"gold must have numbers .* not '\?'"):
        lh.estimate(frame, "code", "label ~ x", prob="simple")


def test_measurements_have_a_mean() -> None:
    values = [i / 10 for i in range(60)]
    codes = [value if i % 2 else None for i, value in enumerate(values)]
    estimates = lh.estimate(values, codes, prob="simple")
    assert {(row.outcome, row.term) for row in estimates.rows} == {("score", "mean")}
    assert estimates.rows[0].estimate == pytest.approx(2.95)
    gold = lh.gold_sample({"label": values}, 10, label="label", seed=1)
    assert gold.with_codes([7.25] * 10).gold == ["7.25"] * 10
    with pytest.raises(ValueError, match=r"gold must have numbers, as .* 'high'"):
        lh.estimate(values, ["high", *codes[1:]], prob="simple")


def test_other_spelling_of_all_labels_is_named(data: pd.DataFrame) -> None:
    gold = lh.gold_sample(data, 50, text="text", label="label", seed=1)
    gold = gold.with_codes([data.label[row] for row in gold.rows])
    with pytest.raises(ValueError, match=r"the code '[AB]', .* did you mean '[ab]'"):
        lh.estimate(data.assign(label=data.label.str.upper()), gold)
    with pytest.raises(ValueError, match=r"none of the labels a, b among its codes x"):
        lh.estimate(list(data.label), ["x"] * N, prob="simple")
    with pytest.raises(ValueError, match=r"outcome must be among .* not 'A'"):
        lh.estimate(data, gold, outcome="A")


def test_the_scale_is_known_by_all() -> None:
    names = ["low", "middle", "high"]
    label = pd.Categorical([names[i % 3] for i in range(60)], names, ordered=True)
    frame = pd.DataFrame({"label": label})
    gold = lh.gold_sample(frame, 30, label="label", seed=2)
    assert gold.design["scale"] == "ordinal"
    codes = {"ann": [names[i % 3] for i in range(30)], "ben": ["low"] * 30}
    gold = gold.with_codes(codes)
    validation = lh.validate(frame, gold, label="label")
    plain = lh.validate(list(map(str, label)), gold, labels=names)
    assert validation.scale == plain.scale == "ordinal"
    alpha = lh.krippendorff_alpha(gold.codes, scale="ordinal", levels=names)
    of = {measure.name: measure for measure in validation.coder_agreement}
    assert same_results(of["alpha"], alpha)
    assert "agreement, ordinal" in repr(validation)
    assert "quadratic kappa" in repr(validation)


@pytest.mark.parametrize(
    ("labels", "codes"),
    [
        (pd.Categorical(["good"] * 60, ["good", "bad"]), ["bad"] * 60),
        ([1] * 60, [0, 2] * 30),  # numbers of a scale
    ],
)
def test_a_model_that_always_gives_a_label_that_people_never_give(
    labels: Any, codes: list[Any]
) -> None:
    column = [*codes[:30], *[None] * 30]
    frame = pd.DataFrame({"text": [f"Text {i}." for i in range(60)], "label": labels})
    frame["code"] = pd.Series(column, dtype=object)
    fit = lh.estimate(frame, "code", prob="simple", methods=["dsl", "gold"])
    estimates = {(row.outcome, row.method): row.estimate for row in fit.rows}
    for code in set(codes):
        share = codes[:30].count(code) / 30
        assert estimates[str(code), "dsl"] == pytest.approx(share)
        assert estimates[str(code), "gold"] == pytest.approx(share)


def test_labels_and_codes_that_are_written_differently_are_refused() -> None:
    frame = pd.DataFrame({"text": ["a", "b"] * 30, "label": ["good"] * 60})
    frame["label"] = pd.Categorical(frame.label, ["good", "bad"])
    frame["code"] = ["1"] * 60
    with pytest.raises(ValueError, match="labels and codes alike"):
        lh.estimate(frame, "code", prob="simple")


CASES = ["IT", "it", "other"]  # two labels that differ only in case


def of_cases() -> pd.DataFrame:
    rows = {"text": [f"Text {i}." for i in range(60)], "label": CASES * 20}
    return pd.DataFrame({**rows, "code": ["IT", "it", "it"] * 20})


@pytest.mark.parametrize("way", ["labels", "categories", "sample", "sample of a column"])
def test_declared_labels_may_differ_in_case_only(way: str) -> None:
    """A list of labels, categories and a sample say which labels there are."""
    frame = of_cases()
    names = CASES if way == "sample" else []
    gold = lh.gold_sample(frame, 60, text="text", label="label", names=names, seed=1)
    gold = gold.with_codes([frame.code[row] for row in gold.rows], coder="anna")
    gold = gold.with_codes([frame.label[row] for row in gold.rows], coder="ben")
    if way == "labels":
        validation = lh.validate(frame, truth=["code"], labels=CASES)
    elif way == "categories":
        frame["label"] = pd.Categorical(frame.label, CASES)
        validation = lh.validate(frame, truth=["code"])
    else:
        validation = lh.validate(frame, gold)
        rows = lh.estimate(frame, gold).rows
        assert {row.outcome for row in rows} == {*CASES}
    assert validation.labels == tuple(CASES)
    assert validation.accuracy.accuracy.value == pytest.approx(2 / 3)
    assert validation.model_agreement[0].value == pytest.approx(2 / 3)


def test_labels_that_nobody_declared_do_not_differ_in_case_only() -> None:
    with pytest.raises(ValueError, match=r"'IT' and 'it'.* declare all labels"):
        lh.validate(of_cases(), truth="code")


def test_sets_of_labels_may_differ_in_case_only() -> None:
    labels = ["IT; other", "it", "IT", "it; other"] * 10
    codes = ["IT; other", "it", "it", "it"] * 10
    validation = lh.validate(labels, [codes, codes], labels=CASES, several=True)
    assert validation.accuracy.accuracy.value == pytest.approx(1 / 2)
    assert validation.coder_agreement[0].value == pytest.approx(1)


def test_levels_may_differ_in_case_only() -> None:
    codes = [CASES * 10, ["IT", "it", "it"] * 10]
    for function in (lh.percent_agreement, lh.cohen_kappa, lh.krippendorff_alpha):
        assert 0 < function(codes, levels=CASES).value < 1
    with pytest.raises(ValueError, match="declare all labels"):
        lh.percent_agreement(codes)
