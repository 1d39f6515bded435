"""Tests of the number of codes with which codes alone give equally short intervals."""

from __future__ import annotations

import math
import warnings
from typing import Any

import llamaherd as lh
import numpy as np
import pytest


@pytest.mark.parametrize("target", ["texts", "population"])
def test_so_many_codes_alone_have_the_same_variance(target: Any) -> None:
    """Half as many texts by DSL as by codes alone, in draws of both sizes."""
    rng = np.random.default_rng(7)
    code = rng.random(600) < 0.4
    label = np.where(rng.random(600) < 0.9, code, ~code)
    data = {
        "text": [f"text {i}" for i in range(600)],
        "label": label.astype(int).tolist(),
    }

    def estimates(n: int) -> lh.types.Estimates:
        gold = lh.gold_sample(data, n, seed=n)
        gold = gold.with_codes([int(code[row]) for row in gold.rows])
        return lh.estimate(data, gold, outcome="1", target=target)

    few = estimates(150)
    n_alone = round(few.gold_worth("dsl"))
    assert few.gold_worth("gold") == pytest.approx(150)
    assert 150 < n_alone < 600
    alone = estimates(n_alone).by("gold")[0].std_error
    assert alone == pytest.approx(few.by("dsl")[0].std_error, rel=0.03)


@pytest.mark.filterwarnings("ignore:.*code more texts:UserWarning")
def test_quantiles_and_regressions_have_a_worth() -> None:
    rng = np.random.default_rng(3)
    code = rng.normal(size=400)
    data = {
        "label": (code + rng.normal(size=400) / 2).round(4),
        "x": rng.normal(size=400),
        "group": ["ab"[i // 8 % 2] for i in range(400)],
    }
    codes = [code[i].round(4) if i % 4 == 0 else None for i in range(400)]
    options: dict[str, Any] = {"prob": "simple", "label": "label"}
    for estimates in (
        lh.estimate(data, codes, outcome="median", by="group", **options),
        lh.estimate(data, codes, "label ~ x", **options),
    ):
        assert estimates.gold_worth("gold") == pytest.approx(100)
        assert 0 < estimates.gold_worth("dsl") <= 400


@pytest.mark.parametrize("seed", range(20))
def test_no_number_of_codes_is_needed_if_all_texts_of_a_group_are_coded(
    seed: int,
) -> None:
    rng = np.random.default_rng(seed)
    n_of = {"a": 60, "b": 20, "c": 12}
    groups = np.repeat(list(n_of), [200, 20, 12])
    labels = rng.choice(["yes", "no"], len(groups)).tolist()
    data = {"label": labels, "group": groups.tolist()}
    gold = lh.gold_sample(data, 92, "group", allocation=n_of, seed=seed)
    gold = gold.with_codes(rng.choice(["yes", "no"], 92).tolist())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimates = lh.estimate(data, gold, by="group")
        assert str(estimates)
        whole = {"label": labels[:40]}
        codes = rng.choice(["yes", "no"], 40).tolist()
        every = lh.estimate(whole, codes, prob="simple")
    assert str(every)
    assert math.isnan(every.gold_worth("dsl"))
