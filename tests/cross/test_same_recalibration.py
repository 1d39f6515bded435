"""R and Python return the same recalibrated labels and estimates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import llamaherd as lh
import numpy as np
import pandas as pd
import pytest
import rscript

if TYPE_CHECKING:
    from pathlib import Path

N, NAMES = 400, ["a", "b", "c"]


def texts() -> dict[str, list[Any]]:
    rng = np.random.default_rng(4)
    code = rng.choice(3, N, p=[0.4, 0.4, 0.2])
    scores = rng.normal(size=(N, 3)) + 1.5 * np.eye(3)[code] + np.array([2.0, 0, 0])
    probs = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    vectors = rng.normal(size=(N, 3)) * 0.5 + np.eye(3)[code]
    return {
        "text": [f"Größe {i}" for i in range(N)],
        "label": [NAMES[j] for j in probs.argmax(axis=1)],
        **{f"p_{name}": probs[:, j].tolist() for j, name in enumerate(NAMES)},
        **{f"v{j + 1}": vectors[:, j].tolist() for j in range(3)},
        "code": [NAMES[j] for j in code],
        "age": (rng.integers(20, 80, N) + 5.0 * (code == 1)).tolist(),
        "speaker": [f"s{i // 4}" for i in range(N)],
    }


def test_r_says_what_python_says(tmp_path: Path) -> None:
    columns = texts()
    from_r = rscript.results("numbers.R recalibrated", tmp_path, columns)

    data = pd.DataFrame(columns)
    gold = lh.gold_sample(data, 120, text="text", label="label", seed=11)
    gold = gold.with_codes([columns["code"][row] for row in gold.rows])
    better = lh.recalibrate(data, gold, seed=5)
    both = lh.recalibrate(
        data,
        gold,
        ("probs", "embeddings"),
        embeddings=data[["v1", "v2", "v3"]].to_numpy(),
        cluster="speaker",
    )
    for name, found in (("better", better), ("both", both)):
        other = from_r[name]
        assert list(other) == list(found.frame.columns)
        assert other["label"] == found.labels
        assert other["fold"] == found.folds
        for label in NAMES:
            for column in (f"p_{label}", f"raw_p_{label}"):
                values = found.frame[column].tolist()
                assert other[column] == pytest.approx(values, abs=1e-9)
    assert from_r["line"] == better.summary()
    fits = {
        "shares": lh.estimate(better, gold),
        "probs": lh.estimate(data, gold, outcome="b", predictions="probs"),
        "ols": lh.estimate(better, gold, "label == 'b' ~ age"),
        "right": lh.estimate(better, gold, "age ~ label"),
    }
    for name, fit in fits.items():
        rows, widths = (from_r["fits"][name][part] for part in ("rows", "widths"))
        assert [row["method"] for row in rows] == [row.method for row in fit.rows]
        for field in ("estimate", "low", "high"):
            wanted = [getattr(row, field) for row in fit.rows]
            assert [row[field] for row in rows] == pytest.approx(wanted, abs=1e-7)
        assert [row["predictions"] for row in widths] == [
            each.predictions for each in fit.widths
        ]
        wanted = [each.width for each in fit.widths]
        assert [row["width"] for row in widths] == pytest.approx(wanted, abs=1e-7)
