"""Tests of intervals that include errors which few codes could show."""

from __future__ import annotations

from typing import Any

import llamaherd as lh
import numpy as np
import pytest
from llamaherd.coding.statistics.accuracy import accuracy_of
from llamaherd.coding.statistics.agreement import cohen_kappa, kappa_statistic
from llamaherd.coding.statistics.many_coders import gwet_ac1, krippendorff_alpha
from llamaherd.coding.statistics.ratings import ModelAndPerson

N, N_CODES = 4000, 100


def test_an_unseen_miss_of_a_large_weight_lowers_the_limits() -> None:
    """Codes of texts without the label have large weights, and show no missed case."""
    labels = ["yes"] * 50 + ["no"] * 50
    gold = ["yes"] * 45 + ["no"] * 55
    weights = np.repeat([1.0, 30.0], 50)
    codes = ModelAndPerson([labels, gold])
    accuracy = accuracy_of(labels, gold, unit_weights=weights, labels=["no", "yes"])
    plain = accuracy_of(labels, gold, labels=["no", "yes"])
    yes = accuracy.per_label[1]
    assert yes.recall.value == 1
    assert yes.recall.low < 0.6 < plain.per_label[1].recall.low
    assert yes.unfound is not None
    assert (yes.unfound.n_codes, yes.unfound.n_cases) == (50, 0)
    assert plain.per_label[1].unfound is None
    for of in (cohen_kappa, krippendorff_alpha, gwet_ac1):
        known = of(codes, unit_weights=weights)
        assert known.low < known.value < known.high
        even = of(codes)
        assert (even.low, even.high) == (of([labels, gold]).low, of([labels, gold]).high)


@pytest.mark.parametrize("worst", [1, 4])
def test_an_unseen_unit_of_kappa_is_a_unit_that_is_added(worst: int) -> None:
    """The value with each possible further unit is what the unseen unit says."""
    rng = np.random.default_rng(worst)
    both = rng.integers(0, 3, (2, 40))
    distance = np.array([[0, 1, worst], [1, 0, 1], [worst, 1, 0]], dtype=float)
    even = np.full(40, 1 / 40)
    kappa, _, _ = kappa_statistic(both, distance, even)
    for label, code in np.ndindex(3, 3):
        more = np.column_stack([both, [label, code]])
        added, _, _ = kappa_statistic(more, distance, np.full(41, 1 / 41))
        moved = kappa.value + kappa.unseen[label, code] / 40
        assert moved == pytest.approx(added.value, abs=1e-12)


@pytest.mark.parametrize("of", [cohen_kappa, krippendorff_alpha])
def test_a_coder_with_one_label_does_not_make_agreement_unbounded(of: Any) -> None:
    """Where nearly all codes are equal, the derivative by a unit is without bound."""
    person = ["no"] * 8 + ["yes"] * 52
    measure = of([["yes"] * 60, person])
    assert measure.value == pytest.approx(0.0, abs=0.07)
    assert measure.low < measure.value < measure.high < 0.9


@pytest.mark.long(
    reason="simulates studies or compares with other packages on many samples"
)
def test_intervals_of_a_rare_label_hold() -> None:
    """Before, 95% intervals of all three coefficients held in half of the samples."""
    rng = np.random.default_rng(0)
    gold = rng.random(N) < 0.03
    labels = np.where(gold, rng.random(N) < 0.8, rng.random(N) < 0.01)
    names = np.array(["no", "yes"])
    data = {
        "text": [f"text {i}" for i in range(N)],
        "label": names[labels.astype(int)].tolist(),
    }
    codes = names[gold.astype(int)].tolist()
    truth = {
        "kappa": cohen_kappa(data["label"], codes).value,
        "alpha": krippendorff_alpha([data["label"], codes]).value,
        "ac1": gwet_ac1([data["label"], codes]).value,
    }
    held = dict.fromkeys(truth, 0)
    n_draws = 40
    for seed in range(n_draws):
        drawn = lh.gold_sample(
            data, 2 * N_CODES, by="label", allocation="equal", text="text", label="label",
            seed=seed,
        )  # fmt: skip
        checks = lh.validate(data, drawn.with_codes([codes[row] for row in drawn.rows]))
        for measure in checks.model_agreement[1:]:
            held[measure.name] += measure.low <= truth[measure.name] <= measure.high
    assert min(held.values()) / n_draws >= 0.875
