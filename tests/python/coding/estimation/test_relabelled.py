"""Tests of labels that people corrected for the coded texts alone."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import numpy as np
import pandas as pd
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

N = 600
RNG = np.random.default_rng(5)
TRUTH = RNG.choice(["yes", "no"], N, p=[0.3, 0.7])
LABEL = np.where(RNG.random(N) < 0.85, TRUTH, np.where(TRUTH == "yes", "no", "yes"))
DATA = pd.DataFrame(
    {
        "key": [f"k{i}" for i in range(N)],
        "text": [f"Text {i}." for i in range(N)],
        "label": LABEL,
        "code": TRUTH,
    }
)
DATA["p_yes"] = np.where(LABEL == "yes", 0.9, 0.2)
DATA["p_no"] = 1 - DATA["p_yes"]
EDITED = "another label than when the sample was drawn"


def drawn(**design: Any) -> lh.GoldSample:
    return coded(lh.gold_sample(DATA, 120, id="key", label="label", seed=3, **design))


def coded(gold: lh.GoldSample) -> lh.GoldSample:
    return gold.with_codes([TRUTH[row] for row in gold.rows])


def corrected(gold: lh.GoldSample, more: int = 0) -> pd.DataFrame:
    """Return the data with right labels for all coded texts and for some others."""
    labels = LABEL.copy()
    labels[gold.rows] = TRUTH[gold.rows]
    other = [i for i in np.flatnonzero(LABEL != TRUTH) if i not in set(gold.rows)]
    labels[other[:more]] = TRUTH[other[:more]]
    return DATA.assign(label=labels)


def other_column(data: pd.DataFrame) -> pd.DataFrame:
    return data.assign(fixed=data["label"], label=LABEL)


USES: dict[str, Callable[[pd.DataFrame, lh.GoldSample], Any]] = {
    "estimate": lambda data, gold: lh.estimate(data, gold, outcome="yes"),
    "regression": lambda data, gold: lh.estimate(data, gold, "label == 'yes' ~ 1"),
    "validate": lh.validate,
    "recalibrate": lh.recalibrate,
    "second wave": lambda data, gold: lh.gold_sample(data, 30, after=gold),
    "other order": lambda data, gold: lh.estimate(data[::-1], gold, outcome="yes"),
    "some of the texts": lambda data, gold: lh.validate(data[:300], gold),
    "stored": lambda data, gold: lh.estimate(
        data, lh.GoldSample.from_json(gold.to_json()), outcome="yes"
    ),
    "other column": lambda data, gold: lh.validate(
        other_column(data), gold, label="fixed"
    ),
    "part": lambda data, gold: lh.validate(
        data, lh.gold_part(lh.gold_split(gold, seed=1), "select")
    ),
}


@pytest.mark.parametrize("use", USES)
def test_labels_corrected_for_coded_texts_alone_are_refused(use: str) -> None:
    with pytest.raises(lh.ArgumentError, match=EDITED):
        USES[use](corrected(drawn()), drawn())


@pytest.mark.parametrize("prob", ["simple", "stratified", "uncertainty"])
def test_a_few_other_corrections_do_not_hide_it(prob: str) -> None:
    more: dict[str, Any] = {"confidence": "p_yes"} if prob == "uncertainty" else {}
    gold = drawn(prob=prob, **more)
    with pytest.raises(lh.ArgumentError, match="but 3 other texts have"):
        lh.estimate(corrected(gold, 3), gold, outcome="yes")


@pytest.mark.parametrize("prob", ["simple", "stratified", "uncertainty"])
@pytest.mark.parametrize("share", [0.01, 0.1, 0.5, 1.0])
def test_labels_of_another_run_are_used(prob: str, share: float) -> None:
    more: dict[str, Any] = {"confidence": "p_yes"} if prob == "uncertainty" else {}
    gold = drawn(prob=prob, **more)
    is_new = np.random.default_rng(7).random(N) < share
    again = np.where(is_new, np.where(LABEL == "yes", "no", "yes"), LABEL)
    data = DATA.assign(label=again)
    for notes in (
        lh.estimate(data, gold, outcome="yes").notes,
        lh.validate(data, gold).warnings,
    ):
        assert share < 0.1 or any(EDITED[:13] in note for note in notes)
    assert len(lh.gold_sample(data, 30, after=gold, seed=1, **more)) == 150


def test_texts_left_out_and_texts_in_other_waves_are_no_corrections() -> None:
    gold = drawn()
    missing = DATA["label"].mask(DATA.index.isin(gold.rows[:40]))
    assert lh.estimate(DATA.assign(label=missing), gold, outcome="yes").n_gold == 80
    again = DATA.assign(label=np.where(LABEL == "yes", "no", "yes"))
    second = coded(lh.gold_sample(again, 60, after=gold, seed=1))
    assert lh.estimate(again, second, outcome="yes").n_gold == 180


def test_codes_without_a_sample_are_compared_with_the_coding() -> None:
    kept = lh.Codebook("How do they vote?", ["yes", "no"])
    result = lh.Coded(
        frame=DATA, text="text", codebook=kept, columns={"label": "label"},
        names=("yes", "no"), labels=LABEL.tolist(), probs=None, errors=[None] * N,
        run={}, stats=None,  # type: ignore[arg-type]
    )  # fmt: skip
    codes = [str(TRUTH[i]) if i < 100 else None for i in range(N)]
    lh.estimate(result, codes, prob="simple", outcome="yes")
    labels = LABEL.copy()
    labels[:100] = TRUTH[:100]
    edited = replace(result, frame=DATA.assign(label=labels))
    with pytest.raises(lh.ArgumentError, match=EDITED[:17]):
        lh.estimate(edited, codes, label="label", prob="simple", outcome="yes")
    with pytest.raises(lh.ArgumentError, match="was changed after coding"):
        lh.estimate(edited, codes, prob="simple", outcome="yes")


@pytest.mark.parametrize("way", ["sample", "list", "column"])
@pytest.mark.parametrize("use", [lh.estimate, lh.validate])
def test_a_misspelt_code_is_no_new_label(use: Callable[..., Any], way: str) -> None:
    """Labels are "against" and "for"; nobody declared a codebook."""
    words = np.where(LABEL == "yes", "against", "for")
    codes = [str(word) if i < 150 else None for i, word in enumerate(words)]
    codes[codes.index("against")] = "agianst"
    data = DATA.drop(columns=["p_yes", "p_no"]).assign(label=words, mine=codes)
    answers: Any = codes if way == "list" else "mine"
    more = {"label": "label"} if use is lh.validate else {"prob": "simple"}
    if way == "sample":
        bare, more = data.drop(columns="label"), {}
        gold = lh.gold_sample(bare, 200, text="text", id="key", seed=1)
        typed = [str(codes[row] or words[row]) for row in gold.rows]
        typed[typed.index("against")] = "agianst"
        answers = gold.with_codes(typed)
    with pytest.raises(lh.ArgumentError, match="did you mean 'against'"):
        use(data, answers, **more)


def test_a_new_label_can_be_declared() -> None:
    words = np.where(LABEL == "yes", "against", "for")
    data = DATA.drop(columns=["p_yes", "p_no"]).assign(label=words)
    names = ["against", "for", "againsts"]
    gold = lh.gold_sample(data, 200, text="text", id="key", seed=1, names=names)
    typed = ["againsts" if i < 9 else str(words[row]) for i, row in enumerate(gold.rows)]
    validation = lh.validate(data, gold.with_codes(typed))
    assert validation.n_gold == 200
    with pytest.raises(
        lh.ArgumentError, match="none of the labels"
    ):  # its labels are known
        lh.gold_sample(data, 200, text="text", id="key", seed=1).with_codes(typed)
