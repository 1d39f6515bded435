"""Tests of samples with missing codes: rates by stratum and by the model's label."""

from __future__ import annotations

import math
import warnings
from typing import Any

import llamaherd as lh
import numpy as np
import pytest
from llamaherd.coding.gold.codes import codes_of_sample

N, N_DRAWN = 1000, 200


def texts(seed: int) -> dict[str, list[Any]]:
    """Return texts with a label that the model misses more often than it invents it."""
    rng = np.random.default_rng(seed)
    code = rng.random(N) < 0.4
    label = np.where(rng.random(N) < np.where(code, 0.2, 0.1), ~code, code)
    return {
        "id": [f"t{i}" for i in range(N)],
        "text": [f"text {i}" for i in range(N)],
        "label": np.where(label, "yes", "no").tolist(),
        "code": np.where(code, "yes", "no").tolist(),
    }


def half_coded(
    data: dict[str, list[Any]], seed: int, rates: dict[str, float], **options: Any
) -> lh.GoldSample:
    """Draw a sample; each label of the model has its own share of texts with a code."""
    drawn = lh.gold_sample(data, N_DRAWN, text="text", seed=seed, **options)
    rng = np.random.default_rng([seed, 1])
    return drawn.with_codes(
        [
            data["code"][row] if rng.random() < rates[data["label"][row]] else None
            for row in drawn.rows
        ]
    )


def check_share(
    validation: lh.types.Validation, data: dict[str, list[Any]], gold: lh.GoldSample
) -> None:
    """Check that a validation and an estimate by codes have the same share."""
    share = next(row.share for row in validation.accuracy.per_label if row.label == "yes")
    by_codes = quietly(
        lambda: lh.estimate(data, gold, outcome="yes", methods=["gold"])
    ).rows[0]
    assert share == pytest.approx(by_codes.estimate)


def quietly(run: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return run()


@pytest.mark.parametrize("options", [{}, {"label": "label"}], ids=["frame", "label"])
def test_rates_by_label_are_noticed_although_the_draw_knew_no_label(
    options: dict[str, Any],
) -> None:
    """Intervals by codes alone covered a third of the true shares, without a warning."""
    held = 0
    for seed in range(20):
        data = texts(seed)
        gold = half_coded(data, seed, {"yes": 0.95, "no": 0.4}, **options)
        estimates = quietly(
            lambda data=data, gold=gold: lh.estimate(
                data, gold, outcome="yes", target="texts", methods=["gold", "dsl"]
            )
        )
        assert any("and not at random" in note for note in estimates.notes)
        truth = np.mean([code == "yes" for code in data["code"]])
        held += sum(row.low <= truth <= row.high for row in estimates.rows)
    assert held >= 36  # of 40 intervals; before, half of them


def test_the_estimate_is_the_poststratified_one() -> None:
    data = texts(1)
    gold = half_coded(data, 1, {"yes": 0.95, "no": 0.4})
    estimates = quietly(lambda: lh.estimate(data, gold, outcome="yes", methods=["gold"]))
    total = 0.0
    for name in ("yes", "no"):
        rows = [
            (row, code)
            for row, code in zip(gold.rows, gold.gold, strict=True)
            if data["label"][row] == name
        ]
        coded = [code == "yes" for _, code in rows if code is not None]
        total += len(rows) / N_DRAWN * float(np.mean(coded))
    assert estimates.rows[0].estimate == pytest.approx(total)


def test_a_validation_counts_what_a_missing_code_stands_for() -> None:
    """Before, the accuracy was 0.78 although the true accuracy was 0.92."""
    data = texts(2)
    gold = half_coded(
        data, 2, {"yes": 1.0, "no": 0.2}, by="label", label="label", allocation="equal"
    )
    validation = lh.validate(data, gold)
    right = {"yes": 0.0, "no": 0.0}
    for name in right:
        known = [
            data["code"][row] == name
            for row, code in zip(gold.rows, gold.gold, strict=True)
            if code is not None and data["label"][row] == name
        ]
        right[name] = data["label"].count(name) / N * float(np.mean(known))
    assert validation.accuracy.accuracy.value == pytest.approx(sum(right.values()))
    check_share(validation, data, gold)


def test_a_validation_of_a_simple_sample_is_weighted_by_label() -> None:
    data = texts(3)
    gold = half_coded(data, 3, {"yes": 0.95, "no": 0.3})
    validation = lh.validate(data, gold)
    assert any("and not at random" in line for line in validation.warnings)
    check_share(validation, data, gold)


def test_even_rates_leave_weights_equal() -> None:
    data = texts(4)
    gold = half_coded(data, 4, {"yes": 0.6, "no": 0.6})
    validation = lh.validate(data, gold)
    assert not any("not at random" in line for line in validation.warnings)
    hits = [
        data["label"][row] == code
        for row, code in zip(gold.rows, gold.gold, strict=True)
        if code is not None
    ]
    assert validation.accuracy.accuracy.value == pytest.approx(float(np.mean(hits)))


def test_a_stratum_without_codes_is_reported() -> None:
    data = texts(5)
    gold = half_coded(
        data, 5, {"yes": 1.0, "no": 0.0}, by="label", label="label", allocation="equal"
    )
    validation = lh.validate(data, gold)
    assert any("1 stratum of the sample (or waves) has no code" in line
               for line in validation.warnings)  # fmt: skip
    with pytest.raises(ValueError, match="has a stratum, or a wave, of which no text"):
        lh.estimate(data, gold)


def test_a_label_without_codes_beside_a_stratum_without_codes() -> None:
    """Codes are weighted by stratum if a label of a coded stratum has no code."""
    data = texts(6)
    data["part"] = ["one" if i % 2 else "two" for i in range(N)]
    drawn = lh.gold_sample(data, N_DRAWN, by="part", text="text", label="label", seed=6)
    codes = [
        data["code"][row]
        if data["part"][row] == "one" and data["label"][row] == "no"
        else None
        for row in drawn.rows
    ]
    validation = lh.validate(data, drawn.with_codes(codes))
    text = " ".join(validation.warnings)
    assert "A label has no coded text" in text
    assert "1 stratum of the sample (or waves) has no code" in text


def test_labels_of_few_texts_and_many_labels_are_no_evidence() -> None:
    """A label of one text that has no code differs "significantly" by itself."""
    rng = np.random.default_rng(3)
    labels = [str(number) for number in rng.integers(0, 101, N)]  # a scale from 0 to 100
    data = {"text": [f"text {i}" for i in range(N)], "label": labels}
    n_noticed = 0
    for seed in range(20):
        drawn = lh.gold_sample(data, N_DRAWN, text="text", label="label", seed=seed)
        lost = set(np.random.default_rng(seed).choice(N_DRAWN, 10, replace=False))
        codes = [None if i in lost else labels[row] for i, row in enumerate(drawn.rows)]
        n_noticed += codes_of_sample(drawn.with_codes(codes)).is_by_label
    assert n_noticed <= 3


def test_the_label_with_the_most_unusual_rate_is_named_first() -> None:
    names = [f"label {i}" for i in range(9)] + ["rare"]
    labels = [names[i % 10] for i in range(N)]
    data = {"text": [f"text {i}" for i in range(N)], "label": labels}
    drawn = lh.gold_sample(data, N_DRAWN, text="text", label="label", seed=1)
    codes = [
        labels[row] if labels[row] != "rare" or i % 5 == 0 else None
        for i, row in enumerate(drawn.rows)
    ]
    weighted = codes_of_sample(drawn.with_codes(codes))
    assert weighted.is_by_label
    assert "not at random: " in weighted.notes[0]
    assert "'rare'" in weighted.notes[0].split("not at random: ")[1].split(", ")[0]


def test_an_error_names_only_the_strata_without_codes() -> None:
    data = {"text": [f"t{i}" for i in range(90)], "party": ["a", "b", "c"] * 30}
    data["label"] = ["yes", "no"] * 45
    gold = lh.gold_sample(data, 30, "party", seed=1)
    codes = ["yes" if data["party"][row] != "b" else None for row in gold.rows]
    with pytest.raises(ValueError, match=r"code some texts of 'b' \(10 drawn\)$"):
        lh.estimate(data, gold.with_codes(codes))


@pytest.mark.parametrize(("prob", "is_told"), [(0.5, False), (0.9, True), (0.2, True)])
def test_probabilities_that_do_not_fit_the_number_of_codes_are_told(
    prob: float, is_told: bool
) -> None:
    labels = ["yes", "no"] * 100
    codes = ["yes" if i % 3 else "no" for i in range(100)] + [None] * 100
    estimates = quietly(lambda: lh.estimate({"label": labels}, codes, prob=[prob] * 200))
    assert any("add up to" in note for note in estimates.notes) == is_told


def test_clusters_and_texts_without_labels_do_not_make_probabilities_unlikely() -> None:
    labels = ["yes" if i % 4 else "no" for i in range(400)]
    data = {"label": [*labels, None], "school": [f"s{i // 40}" for i in range(401)]}
    codes = ["yes" if i % 3 else "no" for i in range(160)] + [None] * 241
    prob = [0.2] * 400 + [math.nan]
    one = quietly(lambda: lh.estimate(data, codes, prob=prob, cluster="school"))
    assert not any("add up to" in note for note in one.notes)
    prob = [0.4] * 400 + [math.nan]
    two = quietly(lambda: lh.estimate(data, codes, prob=prob))
    assert not any("add up to" in note for note in two.notes)
