"""R and Python draw the same samples and compute the same estimates."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import numpy as np
import pandas as pd
import pytest
import rscript
from llamaherd.engine.core.words import R, spoken_in

if TYPE_CHECKING:
    from pathlib import Path


def texts(n: int = 600) -> dict[str, list[Any]]:
    rng = np.random.default_rng(4)
    code = rng.choice(["a", "b", "c"], n, p=[0.4, 0.4, 0.2])
    party = rng.choice(["X", "Y"], n)
    wrong = rng.random(n) < np.where(party == "X", 0.1, 0.3)
    return {
        "text": [f'=Größe {i}, "quoted"\n東京' for i in range(n)],
        "label": np.where(wrong, "a", code).tolist(),
        "code": code.tolist(),
        "party": party.tolist(),
        "age": (rng.integers(20, 80, n) / 2 + 5 * (code == "b")).tolist(),
        "sure": rng.beta(4, 2, n).tolist(),
        "speaker": [f"s{i // 3}" for i in range(n)],
        "key": [1e4 * (n - i) for i in range(n)],
    }


def estimates(data: pd.DataFrame, gold: lh.GoldSample) -> dict[str, lh.types.Estimates]:
    b = "label == 'b' ~ party + age"
    return {
        "shares": lh.estimate(data, gold),
        "groups": lh.estimate(data, gold, outcome="b", by="party"),
        "factor": lh.estimate(
            data, gold, outcome="b", by="party", order={"party": ["Y", "W", "X"]}
        ),
        "score": lh.estimate(
            data, gold, outcome={"a": -1, "b": 0, "c": 1}, target="texts"
        ),
        "ols": lh.estimate(data, gold, b, cluster="speaker"),
        "logit": lh.estimate(data, gold, b, model="logit"),
        "right": lh.estimate(data, gold, "age ~ label + party", level=0.9),
    }


@pytest.mark.filterwarnings("ignore:few codes:UserWarning")
@pytest.mark.filterwarnings("ignore:.*code more texts:UserWarning")
def test_r_says_what_python_says(tmp_path: Path) -> None:
    columns = texts()
    from_r = rscript.results("numbers.R estimates", tmp_path, columns)

    data = pd.DataFrame(columns)
    known = {"text": "text", "label": "label"}
    drawn = {
        "simple": lh.gold_sample(data, 150, seed=11, **known),
        "stratified": lh.gold_sample(
            data, 150, by=["label", "party"], allocation="equal", seed=12, **known
        ),
        "uncertainty": lh.gold_sample(
            data,
            150,
            prob="uncertainty",
            confidence="sure",
            id="key",
            seed=2**40,
            **known,
        ),
    }
    for name, sample in drawn.items():
        gold = sample.with_codes([columns["code"][i] for i in sample.rows])
        found = from_r[name]
        assert [row - 1 for row in found["rows"]] == gold.rows
        assert found["probs"] == pytest.approx(gold.all_probs.tolist(), rel=1e-14)
        assert found["codes"] == gold.gold
        with spoken_in(R):
            fits = estimates(data, gold)
        for title, wanted in fits.items():
            rows = found["fits"][title]
            assert rows["method"] == [row.method for row in wanted.rows], (name, title)
            notes = [note.replace('"', "'") for note in rows["notes"]]  # of regressions
            # R and formulaic name the coefficients of labels in their own way.
            told = [note.replace('"', "'") for note in wanted.notes]
            assert notes == [re.sub(r"\[T\.(\w+)\]", r"\1", note) for note in told]
            assert rows["group"] == [row.group for row in wanted.rows]
            for column in ("estimate", "std_error", "low", "high"):
                values = [getattr(row, column) for row in wanted.rows]
                np.testing.assert_allclose(rows[column], values, rtol=1e-9, atol=1e-12)
            lams = [np.nan if lam is None else lam for lam in rows["lam"]]
            np.testing.assert_allclose(lams, [row.lam for row in wanted.rows], rtol=1e-9)
