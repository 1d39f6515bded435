"""Tests of validations whose right codes are drawn by a model of coders."""

from __future__ import annotations

from typing import Any

import llamaherd as lh
import numpy as np
import pytest
from llamaherd.research.statistics.imputed_measures import (
    combined_interval,
    combined_measure,
)
from llamaherd.research.statistics.intervals import Measure, wilson

NAMES = ("no", "yes")


def coded(
    seed: int, n: int = 300, right: tuple[float, ...] = (0.9, 0.7, 0.7)
) -> tuple[list[str], list[str], dict[str, list[str]]]:
    """Return labels that are right in 80%, true labels, and three coders' codes."""
    rng = np.random.default_rng(seed)
    truth = (rng.random(n) < 0.4).astype(int)
    label = np.where(rng.random(n) < 0.8, truth, 1 - truth)
    codes = {
        f"coder {j}": [NAMES[k] for k in np.where(rng.random(n) < p, truth, 1 - truth)]
        for j, p in enumerate(right)
    }
    return [NAMES[k] for k in label], [NAMES[k] for k in truth], codes


@pytest.mark.long(reason="codes or estimates many times")
def test_accuracy_is_that_of_the_truth_and_not_of_the_majority() -> None:
    """The majority is right in 85%; its errors look like errors of labels."""
    hits: dict[str, list[bool]] = {}
    values: dict[str, list[float]] = {}
    recalls = []
    for seed in range(40):
        labels, truth, codes = coded(seed)
        for consensus in ("majority", "dawid_skene", "one_coin"):
            found = lh.validate(
                labels, codes, consensus=consensus, n_imputations=10
            ).accuracy
            low, high = found.accuracy.low, found.accuracy.high
            hits.setdefault(consensus, []).append(low <= 0.8 <= high)
            values.setdefault(consensus, []).append(found.accuracy.value)
        recalls.append(found.per_label[1].recall.value)
        assert truth
    assert np.mean(values["majority"]) < 0.74
    assert np.mean(values["dawid_skene"]) == pytest.approx(0.8, abs=0.015)
    assert np.mean(values["one_coin"]) == pytest.approx(0.8, abs=0.015)
    assert np.mean(recalls) == pytest.approx(0.8, abs=0.02)
    assert np.mean(hits["majority"]) < 0.4
    assert min(np.mean(hits["dawid_skene"]), np.mean(hits["one_coin"])) > 0.85


def test_coders_who_never_err_leave_nothing_to_draw() -> None:
    labels, truth, _ = coded(1)
    codes = dict.fromkeys(("a", "b", "c"), truth)
    base = lh.validate(labels, codes)
    found = lh.validate(labels, codes, consensus="dawid_skene", n_imputations=5)
    assert found.consensus == "dawid_skene"
    for name in ("accuracy", "balanced_accuracy", "macro_f1"):
        one, other = getattr(base.accuracy, name), getattr(found.accuracy, name)
        assert one.value == pytest.approx(other.value)
        assert (one.low, one.high) == pytest.approx((other.low, other.high), abs=2e-3)
    assert base.accuracy.confusion.tolist() == found.accuracy.confusion.tolist()
    kappas = [each.model_agreement[1].value for each in (base, found)]
    assert kappas[0] == pytest.approx(kappas[1])


def test_doubt_makes_intervals_longer_and_the_page_names_the_model() -> None:
    labels, _, codes = coded(3)
    base = lh.validate(labels, codes)
    found = lh.validate(labels, codes, consensus="one_coin", n_imputations=10)

    def width(each: lh.Validation) -> float:
        return each.accuracy.accuracy.high - each.accuracy.accuracy.low

    assert width(found) > 1.2 * width(base)
    kappa = found.model_agreement[1]
    assert kappa.low < kappa.value < kappa.high
    assert "one-coin Dawid-Skene model of coders" in " ".join(repr(found).split())
    assert "Dawid" not in repr(base)
    assert found.wrong
    assert found.to_dict()["consensus"] == "one_coin"
    weights = np.random.default_rng(1).uniform(0.5, 2, len(labels))
    frame = {"label": labels, **codes}
    weighted = lh.validate(
        frame, truth=list(codes), weights=weights, consensus="dawid_skene"
    )
    assert weighted.accuracy.accuracy.value != found.accuracy.accuracy.value


def test_the_combination_is_that_of_rubin() -> None:
    """Symmetric intervals follow the rules of Rubin (1987) with t quantiles."""
    from scipy import stats  # noqa: PLC0415 - an oracle

    rng = np.random.default_rng(2)
    values, ses = rng.normal(0.5, 0.03, 12), rng.uniform(0.03, 0.05, 12)
    z = stats.norm.ppf(0.975)
    value, low, high = combined_interval(values, values - z * ses, values + z * ses, 0.95)
    inside, between = np.mean(ses**2), values.var(ddof=1) * (1 + 1 / 12)
    df = 11 * (1 + inside / between) ** 2
    reach = stats.t.ppf(0.975, df) * np.sqrt(inside + between)
    assert (value, low, high) == pytest.approx(
        (values.mean(), values.mean() - reach, values.mean() + reach), abs=1e-7
    )


def test_a_share_is_close_to_the_interval_of_lott_and_reiter() -> None:
    """Wilson's interval for multiple imputation: Am. Statistician 74, 2020."""
    from scipy import stats  # noqa: PLC0415 - an oracle

    rng = np.random.default_rng(3)
    n, m = 150, 20
    shares = np.round(rng.normal(0.8, 0.02, m) * n) / n
    limits = [wilson(float(p), n, 0.95) for p in shares]
    measures = [
        Measure(value=float(p), low=low, high=high, n=n)
        for p, (low, high) in zip(shares, limits, strict=True)
    ]
    found = combined_measure(measures, 0.95)
    p = shares.mean()
    inside, between = np.mean(shares * (1 - shares) / n), shares.var(ddof=1)
    ratio = (1 + 1 / m) * between / inside
    t = stats.t.ppf(0.975, (m - 1) * (1 + 1 / ratio) ** 2)
    a = t**2 / n + t**2 * ratio / n
    root = np.sqrt((2 * p + a) ** 2 / (4 * (1 + a) ** 2) - p**2 / (1 + a))
    middle = (2 * p + a) / (2 * (1 + a))
    assert found.high - found.low == pytest.approx(2 * root, rel=0.02)
    theirs = (middle - root, middle + root)
    assert (found.low, found.high) == pytest.approx(theirs, abs=0.01)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"gold": [["a", "b"] * 20] * 2}, "must have 3 coders at least"),
        ({"gold": [["a", "b"] * 20] * 3, "several": True}, "one label for each text"),
        ({"gold": [[1, 2] * 20] * 3, "scale": "interval"}, "numbers are averaged"),
        ({"gold": [["a", "b"] * 20] * 3, "consensus": "best"}, "consensus must be"),
        ({"gold": [["a", "b"] * 20] * 3, "n_imputations": 1}, "n_imputations must be"),
    ],
)
def test_what_the_model_cannot_do_is_refused(
    arguments: dict[str, Any], message: str
) -> None:
    labels: list[Any] = [1, 2] * 20 if "scale" in arguments else ["a", "b"] * 20
    with pytest.raises(ValueError, match=message):
        lh.validate(labels, **{"consensus": "dawid_skene", **arguments})
