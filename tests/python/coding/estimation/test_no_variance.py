"""Tests of estimates without a variance: rounding errors are no standard error."""

from __future__ import annotations

from typing import Any

import llamaherd as lh
import numpy as np
import pandas as pd
import pytest

N = 300
RNG = np.random.default_rng(3)
CODES = np.where(RNG.random(N) < 0.4, "b", "a")
DATA = pd.DataFrame({"text": [f"Text {i}." for i in range(N)], "label": "a"})
DATA["x"] = RNG.normal(size=N)


def fitted(scale: float, label: Any, codes: Any) -> list[Any]:
    data = DATA.assign(label=label, x=DATA["x"] * scale + 3 * scale)
    gold = lh.gold_sample(data, 90, text="text", label="label", seed=1, names=["a", "b"])
    gold = gold.with_codes([codes[row] for row in gold.rows])
    return lh.estimate(data, gold, "label == 'a' ~ x").rows


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
def test_equal_labels_have_no_standard_error(scale: float) -> None:
    rows = fitted(scale, "a", CODES)
    assert [row.std_error for row in rows if row.method == "naive"] == [0, 0]
    for row in rows:
        if row.method in {"dsl", "gold"}:  # codes have a variance, at any scale
            assert row.std_error > 0
