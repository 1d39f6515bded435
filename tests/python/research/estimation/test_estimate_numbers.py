"""Estimates from labels that are numbers."""

from __future__ import annotations

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


def of(found: lh.Estimates, method: str) -> lh.Estimate:
    (row,) = found.by(method)  # type: ignore[arg-type]
    return row


def test_the_mean_of_numbers_is_asked_for() -> None:
    gold = sample()
    found = lh.estimate(DATA, gold, outcome="mean")
    rows = np.array(gold.rows)
    assert of(found, "naive").estimate == pytest.approx(MODEL.mean())
    assert of(found, "gold").estimate == pytest.approx(TRUTH[rows].mean())
    corrected = MODEL.mean() + (TRUTH[rows] - MODEL[rows]).mean()
    assert of(found, "dsl").estimate == pytest.approx(corrected)
    assert of(found, "dsl").term == "mean"
    assert of(found, "dsl").low < TRUTH.mean() < of(found, "dsl").high
    scores = lh.estimate(DATA, gold, outcome={str(i): i for i in range(11)})
    for name in ("estimate", "std_error", "low", "high"):
        assert getattr(of(scores, "dsl"), name) == getattr(of(found, "dsl"), name)
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
    found = lh.estimate(named, gold, outcome="mean")  # the label
    assert {row.term for row in found.rows} == {"share"}


def test_expected_values_correct_the_mean_too() -> None:
    found = lh.estimate(DATA, sample(), label="mean")
    assert of(found, "naive").estimate == pytest.approx(DATA["mean"].mean())
    assert of(found, "dsl").term == "mean"
    by_label = lh.estimate(DATA, sample(), outcome="mean")
    assert of(found, "gold").estimate == pytest.approx(of(by_label, "gold").estimate)
    assert not any("another label" in note for note in found.notes)


@pytest.mark.parametrize(
    ("formula", "term", "y", "x"),
    [("label ~ age", "age", None, "age"), ("age ~ label", "label", "age", None)],
)
def test_numbers_are_on_either_side_of_a_regression(
    formula: str, term: str, y: str | None, x: str | None
) -> None:
    gold = sample()
    found = lh.estimate(DATA, gold, formula)
    rows = np.array(gold.rows)

    def slope(numbers: Any, rows: Any) -> float:
        one = numbers if y is None else DATA[y].to_numpy()[rows]
        other = numbers if x is None else DATA[x].to_numpy()[rows]
        return float(np.polyfit(other, one, 1)[0])

    by = {row.method: row for row in found.rows if row.term == term}
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
    found = lh.estimate(coded, read)
    assert {row.term for row in found.rows} == {"mean"}
    numbers = coded.frame["label"].astype(float)
    assert of(found, "naive").estimate == pytest.approx(numbers.mean())
    compared = lh.validate(coded, read)
    assert compared.scale == "interval"
    assert compared.numbers is not None
    expected = coded.frame["mean"].to_numpy()[gold.rows]
    wanted = (expected - TRUTH[gold.rows]).mean()
    assert compared.numbers.bias is not None
    assert compared.numbers.bias.value == pytest.approx(wanted, abs=1e-5)
    sheet["ann"] = 11
    sheet.to_csv(tmp_path / "gold.csv", index=False)
    with pytest.raises(ValueError, match="none of the labels 0, 1, 2"):
        lh.read_gold(tmp_path / "gold.csv")
