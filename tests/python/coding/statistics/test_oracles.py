"""Tests of estimators against their formulas, written again from the papers in numpy."""

from __future__ import annotations

import llamaherd as lh
import numpy as np
import pandas as pd
import pytest
from llamaherd.coding.statistics import dsl
from simulated_texts import by_dsl

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


@pytest.mark.parametrize("seed", range(3))
def test_dsl_of_a_share_with_unequal_probabilities(seed: int) -> None:
    """The mean of label + R / pi (code - label), and its variance.

    Source: Egami, Hinck, Stewart, Wei 2023, arXiv 2306.04746. The part of the variance
    that is due to the draw has the factor n / (n - 1).
    """
    rng = np.random.default_rng(seed)
    n_texts = 800
    y = (rng.random(n_texts) < 0.4).astype(float)
    label = np.where(rng.random(n_texts) < 0.3, 1 - y, y)
    pi = rng.uniform(0.1, 0.7, n_texts)
    drawn = rng.random(n_texts) < pi
    data = pd.DataFrame(
        {
            "label": np.where(label == 1, "yes", "no"),
            "code": np.where(drawn, np.where(y == 1, "yes", "no"), None),
            "pi": pi,
        }
    )
    options = {"outcome": "yes", "prob": "pi", "methods": ["dsl"]}
    for target in ("population", "texts"):
        row = lh.estimate(data, "code", target=target, **options).rows[0]
        corrected = label + drawn / pi * (y - label)
        share = corrected.mean()
        draw = (drawn * (1 - pi) / pi**2 * (y - label) ** 2).sum()
        texts = ((corrected - share) ** 2).sum() - draw
        n = drawn.sum()
        variance = draw * n / (n - 1) + (texts if target == "population" else 0)
        assert row.estimate == pytest.approx(share, abs=1e-10)
        assert row.std_error == pytest.approx(np.sqrt(variance) / n_texts, abs=1e-10)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("design", ["simple", "stratified"])
@pytest.mark.parametrize("left_out", ["filtered", "without a label"])
def test_dsl_of_a_part_of_the_texts(left_out: str, design: str, seed: int) -> None:
    """The mean of a domain of a stratified sample: other codes count as zeros.

    The numbers of the model are too high in the domain, so that the number of its codes,
    which is random, changes the correction.

    Source: Särndal, Swensson, Wretman, "Model Assisted Survey Sampling", 1992, section
    10.3.
    """
    rng = np.random.default_rng(seed)
    n_texts = 600
    number = rng.normal(5, 1, n_texts).round(3)
    data = pd.DataFrame(
        {
            "id": [f"t{i}" for i in range(n_texts)],
            "text": [f"Text {i}." for i in range(n_texts)],
            "group": rng.choice(["u", "v"], n_texts),
            "part": rng.random(n_texts) < 0.5,
            "label": (number + 0.15 + rng.normal(0, 0.6, n_texts)).round(3),
        }
    )
    by = "group" if design == "stratified" else None
    sample = lh.gold_sample(
        data, 300, by=by, id="id", text="text", label="label", seed=seed
    )
    gold = sample.with_codes(number[sample.rows].tolist())
    used = data[data["part"]]
    if left_out == "without a label":
        used = data.assign(label=data["label"].where(data["part"]))
    options = {"outcome": "mean", "target": "texts", "methods": ["dsl"]}
    row = lh.estimate(used, gold, **options).rows[0]
    label, here = data["label"].to_numpy(), data["part"].to_numpy()
    total, variance = label[here].sum(), 0.0
    rows = np.array(gold.rows)
    strata = data["group"] if by else pd.Series("all", index=data.index)
    for stratum in strata.unique():
        drawn = rows[(strata == stratum).to_numpy()[rows]]
        error = (number - label)[drawn] * here[drawn]
        n, size = len(drawn), (strata == stratum).sum()
        total += size / n * error.sum()
        variance += size**2 * (1 - n / size) * error.var(ddof=1) / n
    assert row.estimate == pytest.approx(total / here.sum(), abs=1e-10)
    assert row.std_error == pytest.approx(np.sqrt(variance) / here.sum(), abs=1e-10)


def test_a_part_of_waves_has_the_error_of_a_group() -> None:
    """Texts that are filtered out count as the texts of another group do."""
    rng = np.random.default_rng(1)
    number = rng.normal(5, 1, 600).round(3)
    data = pd.DataFrame(
        {
            "id": np.arange(600),
            "label": (number + 0.7 + rng.normal(0, 0.6, 600)).round(3),
            "group": rng.choice(["u", "v"], 600),
        }
    )

    def coded(sample: lh.GoldSample) -> lh.GoldSample:
        return sample.with_codes(number[sample.rows].tolist())

    gold = coded(lh.gold_sample(data, 150, id="id", label="label", seed=1))
    size = rng.uniform(0.5, 3, 600).tolist()
    gold = coded(lh.gold_sample(data, 150, after=gold, prob=size, seed=2))
    options = {"outcome": "mean", "target": "texts", "methods": ["dsl"]}
    alone = lh.estimate(data[data["group"] == "u"], gold, **options).rows[0]
    group = lh.estimate(data, gold, by="group", **options).rows[0]
    assert (group.group, alone.estimate) == ("u", pytest.approx(group.estimate, abs=1e-9))
    assert alone.std_error == pytest.approx(group.std_error, rel=0.01)


def test_labels_that_are_the_codes_have_the_width_of_all_codes() -> None:
    rng = np.random.default_rng(4)
    y = rng.normal(size=300)
    rows = rng.choice(300, 90, replace=False)
    ones = np.ones((300, 1))
    fit = by_dsl(
        dsl.Problem(
            kind="ols", x_hat=ones, y_hat=y, rows=rows, x=ones[rows], y=y[rows],
            probs=np.full(90, 0.3), strata=np.zeros(90, dtype=int),
        )
    )  # fmt: skip
    assert fit.theta[0] == pytest.approx(y.mean(), abs=1e-12)
    assert fit.covariance[0, 0] == pytest.approx(y.var() / 300, abs=1e-12)
