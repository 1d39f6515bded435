"""Tests of validations of texts that may have several labels."""

from __future__ import annotations

import json
import math

import llamaherd as lh
import numpy as np
import pytest
from llamaherd.coding.plots.plot import plot_of
from same_results import same_results
from sklearn import metrics

NAMES = ["climate", "economy", "war"]
Yes = np.ndarray[tuple[int, ...], np.dtype[np.bool_]]


def joined(flags: Yes) -> list[str | None]:
    return ["; ".join(np.array(NAMES)[row][::-1]) for row in flags]


def study(n: int = 200) -> tuple[Yes, Yes]:
    generator = np.random.default_rng(2)
    truth = generator.random((n, 3)) < [0.2, 0.5, 0.3]
    return truth, truth ^ (generator.random((n, 3)) < 0.15)


def test_each_label_is_a_yes_or_no_of_its_own() -> None:
    truth, model = study()
    checks = lh.validate(joined(model), joined(truth), labels=NAMES, several=True)
    assert checks.several
    assert checks.labels == tuple(NAMES)
    of = checks.accuracy
    assert of.accuracy.value == pytest.approx((truth == model).all(axis=1).mean())
    p, r, f, n = metrics.precision_recall_fscore_support(truth, model)
    for j, scores in enumerate(of.per_label):
        values = [scores.precision.value, scores.recall.value, scores.f1.value]
        assert values == pytest.approx([p[j], r[j], f[j]])
        assert scores.n_gold == n[j]
        assert scores.f1.low < scores.f1.value < scores.f1.high
    assert of.macro_f1.value == pytest.approx(np.mean(f))
    assert of.macro_f1.low < np.mean(f) < of.macro_f1.high
    assert of.confusion.shape == (0, 0)
    kappas = []
    for j, row in enumerate(checks.label_agreement):
        columns = [model[:, j].tolist(), truth[:, j].tolist()]
        assert same_results(row.model[1], lh.cohen_kappa(*columns))
        assert same_results(row.model[2], lh.krippendorff_alpha(columns))
        kappas.append(row.model[1].value)
    assert checks.model_agreement[1].value == pytest.approx(np.mean(kappas))
    assert math.isnan(checks.model_agreement[1].low)
    assert not any("could not" in line for line in checks.warnings)
    assert not any("No interval" in line for line in checks.warnings)


def test_order_and_the_word_for_none_do_not_matter() -> None:
    model = ["a; b", "", "b", None]
    checks = lh.validate(model, ["b;a", "none", "c", "a"], several=True)
    assert checks.labels == ("a", "b", "c")
    assert checks.accuracy.accuracy.value == pytest.approx(2 / 3)
    assert checks.wrong[0].truth == "c"
    other = lh.validate(model, ["b;a", "none", "c", "a"], labels=["a", "b"], several=True)
    assert any("labels that the model cannot give: c." in line for line in other.warnings)
    assert lh.validate([""] * 9, [""] * 9, several=True).accuracy.majority_label == "none"
    with pytest.raises(ValueError, match="scale must be 'nominal' for several labels"):
        lh.validate(model, model, several=True, scale="ordinal")


def test_samples_know_it_and_pages_tell() -> None:
    truth, model = study()
    data = {"text": [f"text {i}" for i in range(200)], "label": joined(model)}
    gold = lh.gold_sample(data, 80, text="text", label="label", several=True, seed=1)
    ann = [joined(truth)[i] for i in gold.rows]
    gold = gold.with_codes({"ann": ann, "ben": ["war"] * 9 + ann[9:]})
    checks = lh.validate(data, gold, label="label")
    assert checks.several
    of_label = checks.label_agreement[0]
    assert [of.name for of in of_label.people] == [of.name for of in of_label.model]
    page = repr(checks)
    assert "all labels right" in page
    assert "mean over labels      model and people" in page
    assert "model \\ people" not in page
    rows = [row for row in checks.rows() if row[:3] == ("between people", "alpha", "war")]
    assert rows[0][3] == checks.label_agreement[2].people[2].value
    json.dumps(checks.to_dict(), allow_nan=False)
    assert plot_of(checks, "labels").y.names[0].startswith("climate")
    with pytest.raises(ValueError, match="several labels have no confusion matrix"):
        plot_of(checks, "confusion")


def test_three_people_decide_on_each_label() -> None:
    codes = [["a"], ["a; b"], ["b"]]
    checks = lh.validate(["a; b"], codes, several=True)
    assert checks.accuracy.accuracy.value == 1
    assert checks.pairs[0].coefficients[0].value == 0.5  # the model and the first coder
    nothing = lh.validate([""] * 3, [["none"] * 3] * 2, several=True)
    assert (nothing.labels, nothing.accuracy.accuracy.value) == ((), 1)
    assert "all labels right" in repr(nothing)
    # Half of the coders gave b: the first of them decides.
    tied = lh.validate(["a; b"], codes[:2], several=True)
    assert (tied.accuracy.n, tied.accuracy.accuracy.value) == (1, 0)
    assert lh.validate(["a; b"], codes[1::-1], several=True).accuracy.accuracy.value == 1
