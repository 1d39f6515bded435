"""Labelled texts with codes of a person, for the commands on a gold sample."""

from __future__ import annotations

import llamaherd as lh
import numpy as np
import pandas as pd

NAMES = ["no", "yes"]


def coded_texts(texts: list[str], n_gold: int, shift: float = 1.0) -> pd.DataFrame:
    """Return labelled texts, and write gold.csv with the codes of some of them."""
    rng = np.random.default_rng(2)
    code = rng.integers(0, 2, len(texts))
    yes = 1 / (1 + np.exp(-(shift + 2 * (code - 0.5) + rng.normal(size=len(texts)))))
    labels = np.where(yes > 0.5, "yes", "no")
    data = pd.DataFrame({"text": texts, "label": labels, "p_no": 1 - yes, "p_yes": yes})
    gold = lh.gold_sample(data, n_gold, text="text", label="label", names=NAMES, seed=1)
    gold = gold.with_codes({"anna": [NAMES[code[row]] for row in gold.rows]})
    gold.write("gold.csv")
    return data
