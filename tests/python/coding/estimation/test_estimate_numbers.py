"""Tests of estimates from labels that are numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import numpy as np
import pandas as pd
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

RNG = np.random.default_rng(4)
N = 400
TRUTH = RNG.integers(0, 11, N)
MODEL = np.clip(TRUTH + RNG.integers(-1, 4, N), 0, 10)
DATA = pd.DataFrame(
    {
        "text": [f"text {i}" for i in range(N)],
        "label": MODEL,
        "mean": MODEL + RNG.normal(0, 0.2, N),
        "age": RNG.normal(size=N) + 0.2 * TRUTH,
    }
)
BOOK = lh.Codebook("How angry?", lh.number_scale(0, 10))


def sample(label: str = "label") -> lh.GoldSample:
    drawn = lh.gold_sample(DATA, 120, text="text", label=label, seed=1, names=BOOK.names)
    return drawn.with_codes([int(TRUTH[i]) for i in drawn.rows])


def of(estimates: lh.types.Estimates, method: str) -> lh.types.Estimate:
    (row,) = estimates.by(method)  # type: ignore[arg-type]
    return row


def test_the_mean_of_numbers_is_asked_for() -> None:
    gold = sample()
    estimates = lh.estimate(DATA, gold, outcome="mean")
    rows = np.array(gold.rows)
    assert of(estimates, "naive").estimate == pytest.approx(MODEL.mean())
    assert of(estimates, "gold").estimate == pytest.approx(TRUTH[rows].mean())
    corrected = MODEL.mean() + (TRUTH[rows] - MODEL[rows]).mean()
    assert of(estimates, "dsl").estimate == pytest.approx(corrected)
    assert of(estimates, "dsl").term == "mean"
    assert of(estimates, "dsl").low < TRUTH.mean() < of(estimates, "dsl").high
    scores = lh.estimate(DATA, gold, outcome={str(i): i for i in range(11)})
    for name in ("estimate", "std_error", "low", "high"):
        assert getattr(of(scores, "dsl"), name) == getattr(of(estimates, "dsl"), name)
    shares = lh.estimate(DATA, gold)  # 11 numbers could be codes of categories
    assert {row.term for row in shares.rows} == {"share"}


def test_a_mean_needs_numbers() -> None:
    words = DATA.assign(label=np.where(MODEL > 5, "angry", "calm"))
    gold = lh.gold_sample(words, 60, text="text", label="label", seed=1)
    gold = gold.with_codes([words["label"][i] for i in gold.rows])
    with pytest.raises(ValueError, match="needs labels that are numbers, not 'angry'"):
        lh.estimate(words, gold, outcome="mean")
    named = words.assign(label=np.where(MODEL > 5, "mean", "kind"))
    gold = lh.gold_sample(named, 60, text="text", label="label", seed=1)
    gold = gold.with_codes([named["label"][i] for i in gold.rows])
    estimates = lh.estimate(named, gold, outcome="mean")  # "mean" is a label here
    assert {row.term for row in estimates.rows} == {"share"}


def test_expected_values_correct_the_mean_too() -> None:
    estimates = lh.estimate(DATA, sample(), label="mean")
    assert of(estimates, "naive").estimate == pytest.approx(DATA["mean"].mean())
    assert of(estimates, "dsl").term == "mean"
    by_label = lh.estimate(DATA, sample(), outcome="mean")
    assert of(estimates, "gold").estimate == pytest.approx(of(by_label, "gold").estimate)
    assert not any("another label" in note for note in estimates.notes)


@pytest.mark.parametrize(
    ("formula", "term", "y", "x"),
    [("label ~ age", "age", None, "age"), ("age ~ label", "label", "age", None)],
)
def test_numbers_are_on_either_side_of_a_regression(
    formula: str, term: str, y: str | None, x: str | None
) -> None:
    gold = sample()
    estimates = lh.estimate(DATA, gold, formula)
    rows = np.array(gold.rows)

    def slope(numbers: Any, rows: Any) -> float:
        one = numbers if y is None else DATA[y].to_numpy()[rows]
        other = numbers if x is None else DATA[x].to_numpy()[rows]
        return float(np.polyfit(other, one, 1)[0])

    by = {row.method: row for row in estimates.rows if row.term == term}
    assert by["naive"].estimate == pytest.approx(slope(MODEL, np.arange(N)))
    assert by["gold"].estimate == pytest.approx(slope(TRUTH[rows], rows))
    assert by["dsl"].low < slope(TRUTH, np.arange(N)) < by["dsl"].high


def test_a_scale_keeps_its_numbers_from_coding_to_estimates(
    tiny_path: Callable[[str], Path], tmp_path: Path
) -> None:
    texts = {"id": list(range(60)), "text": [f"text {i} {i % 7}" for i in range(60)]}
    with lh.Model(tiny_path("llama")) as model, lh.Context(model) as context:
        coded = lh.annotate(pd.DataFrame(texts), "text", BOOK, context)
    gold = lh.gold_sample(coded, 40, seed=1)
    assert gold.names == BOOK.names
    assert gold.design["scale"] == "interval"
    gold.write(tmp_path / "gold.csv", coders=["ann"])
    sheet = pd.read_csv(tmp_path / "gold.csv")
    sheet["ann"] = TRUTH[sheet["id"]].astype(float)  # a spreadsheet writes 7.0
    sheet.to_csv(tmp_path / "gold.csv", index=False)
    read = lh.read_gold(tmp_path / "gold.csv")
    assert read.codes == [[str(TRUTH[i]) for i in gold.rows]]
    estimates = lh.estimate(coded, read)
    assert {row.term for row in estimates.rows} == {"mean"}
    numbers = coded.frame["label"].astype(float)
    assert of(estimates, "naive").estimate == pytest.approx(numbers.mean())
    compared = lh.validate(coded, read)
    assert compared.scale == "interval"
    assert compared.numbers is not None
    expected = coded.frame["mean"].to_numpy()[gold.rows]
    bias = (expected - TRUTH[gold.rows]).mean()
    assert compared.numbers.bias is not None
    assert compared.numbers.bias.value == pytest.approx(bias, abs=1e-5)
    sheet["ann"] = 11
    sheet.to_csv(tmp_path / "gold.csv", index=False)
    with pytest.raises(ValueError, match="none of the labels 0, 1, 2"):
        lh.read_gold(tmp_path / "gold.csv")


@pytest.mark.filterwarnings("ignore:.*share up to")
def test_the_median_is_corrected() -> None:
    gold = sample()
    rows = np.array(gold.rows)
    estimates = lh.estimate(DATA, gold, outcome="median")
    assert {(row.outcome, row.term) for row in estimates.rows} == {("median", "quantile")}
    median = {row.method: row for row in estimates.rows}
    by_rank = np.quantile(TRUTH[rows], 0.5, method="inverted_cdf")
    assert median["gold"].estimate == by_rank
    assert median["naive"].estimate == np.quantile(MODEL, 0.5, method="inverted_cdf")
    # The median is the smallest number whose corrected share reaches one half.
    shares = [
        (t >= MODEL).mean() + ((t >= TRUTH[rows]) * 1.0 - (t >= MODEL[rows])).mean()
        for t in range(11)
    ]
    assert median["dsl"].estimate == next(t for t in range(11) if shares[t] >= 0.5)
    true = np.quantile(TRUTH, 0.5, method="inverted_cdf")
    assert median["dsl"].low <= true <= median["dsl"].high
    assert estimates.gold_worth("dsl") > 0


def test_the_median_of_many_numbers_is_that_by_ranks() -> None:
    """Numbers with fractions are found by bisection, few numbers one by one."""
    gold = lh.gold_sample(DATA, 120, text="text", label="mean", seed=1)
    gold = gold.with_codes([float(TRUTH[i] + i / 1e4) for i in gold.rows])
    estimates = lh.estimate(DATA, gold, outcome="median", methods=["gold", "naive"])
    codes = [TRUTH[i] + i / 1e4 for i in gold.rows]
    by_rank = np.quantile(codes, 0.5, method="inverted_cdf")
    assert of(estimates, "gold").estimate == pytest.approx(by_rank)
    low, high = of(estimates, "gold").low, of(estimates, "gold").high
    ranks = [sum(code <= limit for code in codes) for limit in (low, high)]
    assert 40 < ranks[0] < 60 < ranks[1] < 80  # about 60 plus and minus 11
    naive = np.quantile(DATA["mean"], 0.5, method="inverted_cdf")
    assert of(estimates, "naive").estimate == pytest.approx(naive)


@pytest.mark.filterwarnings("ignore:.*share up to")
def test_medians_of_groups_have_differences() -> None:
    data = DATA.assign(old=np.where(DATA["age"] > 1, "yes", "no"))
    gold = lh.gold_sample(data, 120, text="text", label="label", seed=1)
    gold = gold.with_codes([int(TRUTH[i]) for i in gold.rows])
    estimates = lh.estimate(data, gold, outcome="median", by="old", methods=["dsl"])
    no, yes, difference = estimates.rows
    assert difference.term == "difference"
    assert difference.estimate == yes.estimate - no.estimate
    below = np.hypot(yes.estimate - yes.low, no.high - no.estimate)
    assert difference.low == pytest.approx(difference.estimate - below)
    assert lh.plot(estimates) is not None


def test_medians_take_probabilities() -> None:
    """Probabilities of 0 and 1 give the same medians as labels."""
    names = [str(i) for i in range(11)]
    sure = {f"p_{name}": (str(name) == DATA["label"].astype(str)) * 1.0 for name in names}
    data = DATA.assign(**sure)
    gold = sample()
    by_probs = lh.estimate(
        data, gold, outcome="median", predictions="probs", methods=["dsl"]
    )
    by_labels = lh.estimate(data, gold, outcome="median", methods=["dsl"])
    assert of(by_probs, "dsl").estimate == of(by_labels, "dsl").estimate


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"outcome": "quantile"}, "outcome 'quantile' was removed: the median is"),
        ({"quantile": 0.1}, "quantile was removed: outcome 'median'"),
        ({"consensus": "one_coin"}, "consensus was removed: .*model of coders"),
        ({"n_imputations": 5}, "n_imputations was removed: .*majority"),
    ],
)
def test_what_was_removed_says_what_to_use(
    arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(lh.BadArgumentError, match=message) as caught:
        lh.estimate(DATA, sample(), **arguments)
    assert caught.value.code == "removed"


@pytest.mark.filterwarnings("ignore:.*few:UserWarning")
def test_intervals_of_a_declared_scale_stay_on_the_scale() -> None:
    labels = np.where(np.arange(200) % 2 == 0, 10, 9)
    data = pd.DataFrame(
        {"text": [f"text {i}" for i in range(200)], "label": labels, "odd": labels == 9}
    )
    drawn = lh.gold_sample(data, 24, text="text", label="label", seed=1, names=BOOK.names)
    codes = [10 if i % 6 else 0 for i in range(len(drawn))]
    gold = drawn.with_codes(dict.fromkeys(("ann", "ben", "eve"), codes))
    scale = replace(gold, design={**gold.design, "scale": "interval"})
    scores = {str(number): number for number in range(11)}

    def limits(gold: lh.GoldSample, outcome: Any, term: str) -> tuple[float, float]:
        estimates = lh.estimate(data, gold, outcome=outcome, by="odd")
        rows = [row for row in estimates.by("dsl") if row.term == term]
        return min(row.low for row in rows), max(row.high for row in rows)

    assert limits(gold, "mean", "mean")[1] > 10  # no scale was declared
    for declared, outcome in ((scale, "mean"), (scale, None), (gold, scores)):
        low, high = limits(declared, outcome, "mean")
        assert low >= 0
        assert high == 10
        low, high = limits(declared, outcome, "difference")
        assert low >= -10
        assert high <= 10
