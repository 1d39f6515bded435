"""Groups whose texts are all coded: nothing of the model's errors remains."""

from __future__ import annotations

import warnings
from typing import Any

import llamaherd as lh
import numpy as np
import pytest

NUMBERS = ("estimate", "std_error", "low", "high", "df")


def study(seed: int = 1, rare: float = 0.1) -> tuple[dict[str, Any], list[str]]:
    """Return texts of the groups a, b and c with labels, and their codes."""
    rng = np.random.default_rng(seed)
    groups = np.repeat(["a", "b", "c"], [300, 24, 12])
    codes = np.where(rng.random(336) < rare, "yes", "no")
    labels = np.where(rng.random(336) < 0.8, codes, "yes")
    data = {"label": labels.tolist(), "group": groups.tolist()}
    return data, codes.tolist()


def estimated(data: dict[str, Any], gold: Any, **options: Any) -> lh.types.Estimates:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return lh.estimate(data, gold, by="group", label="label", **options)


def row_of(estimates: lh.types.Estimates, method: str, group: str) -> lh.types.Estimate:
    (row,) = [r for r in estimates.by(method) if r.group == group]  # type: ignore[arg-type]
    return row


@pytest.mark.parametrize("target", ["population", "texts"])
@pytest.mark.parametrize("outcome", ["yes", {"yes": 4.0, "no": 1.0}])
@pytest.mark.parametrize("rare", [0.0, 0.1, 0.5])
@pytest.mark.parametrize("weights", [False, True])
def test_dsl_is_the_mean_of_the_codes_with_its_interval(
    target: Any, outcome: Any, rare: float, *, weights: bool
) -> None:
    data, codes = study(rare=rare)
    options: dict[str, Any] = {"target": target, "outcome": outcome}
    if weights:
        data["w"] = np.linspace(0.5, 2, 336).tolist()
        options["weights"] = "w"
    gold = lh.gold_sample(data, 76, "group", allocation={"a": 40, "b": 24, "c": 12})
    gold = gold.with_codes([codes[row] for row in gold.rows])
    estimates = estimated(data, gold, **options)
    for group in "bc":
        expected = row_of(estimates, "gold", group)
        for method in ("dsl", "ppi"):
            row = row_of(estimates, method, group)
            for name in NUMBERS:
                assert getattr(row, name) == pytest.approx(getattr(expected, name)), name
        if target == "texts":
            assert expected.low == expected.estimate == expected.high
    if rare == 0.1:  # labels still count in the group with more texts
        assert row_of(estimates, "dsl", "a").std_error > 0
        assert row_of(estimates, "dsl", "a").high != row_of(estimates, "gold", "a").high
    for note in estimates.notes:
        assert "code more texts: b" not in note


@pytest.mark.parametrize("target", ["population", "texts"])
@pytest.mark.parametrize("prob", ["simple", "unequal"])
def test_a_group_that_was_drawn_completely_by_chance(target: Any, prob: str) -> None:
    data, codes = study(rare=0.4)
    coded: list[str | None] = [
        code if i % 3 == 0 or i >= 324 else None for i, code in enumerate(codes)
    ]
    probs: Any = prob
    if prob == "unequal":
        drawn = np.array([code is not None for code in coded])
        probs = np.where(np.arange(336) % 2, 0.3, 0.5) * drawn.mean() / 0.4
    estimates = estimated(data, coded, prob=probs, target=target, outcome="yes")
    mean = np.mean([code == "yes" for code in codes[324:]])
    for method in ("dsl", "gold", "ppi"):
        row = row_of(estimates, method, "c")
        assert row.estimate == pytest.approx(mean)
        assert (row.high - row.low == 0) == (target == "texts")
        other = row_of(estimates, method, "b")
        assert other.std_error > 0


def test_all_texts_coded_by_given_probabilities() -> None:
    """The texts are known, although the draw could have missed some."""
    data, codes = study(rare=0.4)
    probs = np.where(np.arange(336) % 2, 0.9, 0.95)
    estimates = estimated(data, codes, prob=probs, target="texts", outcome="yes")
    for group, truth in (("a", codes[:300]), ("b", codes[300:324])):
        row = row_of(estimates, "dsl", group)
        assert row.low == row.high == pytest.approx(np.mean([c == "yes" for c in truth]))
