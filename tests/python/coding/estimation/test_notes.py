"""Notes on labels that add nothing to the codes: never given, or with many errors."""

from __future__ import annotations

import warnings

import llamaherd as lh
import numpy as np

N = 1200


def fitted(label: np.ndarray, code: np.ndarray) -> lh.types.Estimates:
    data = {"text": [f"Text {i}." for i in range(N)], "label": label.tolist()}
    names = ["a", "b", "c"]
    gold = lh.gold_sample(data, 200, text="text", label="label", names=names, seed=1)
    gold = gold.with_codes(code[gold.rows].tolist())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # notes are warnings, too
        return lh.estimate(data, gold)


def test_bad_labels_get_notes_and_good_ones_none() -> None:
    rng = np.random.default_rng(1)
    code = rng.choice(["a", "b", "c"], N, p=[0.5, 0.3, 0.2])
    bad = rng.choice(["a", "b"], N)
    good = np.where(rng.random(N) < 0.05, rng.permutation(code), code)
    poor = fitted(bad, code)
    never, wider = poor.notes[-2:]
    assert never.startswith("The model never gives the label 'c', which people gave to ")
    assert "2 of 3 corrected intervals are wider than by the human codes alone" in wider
    assert wider.endswith("predictions='probs' may give narrower intervals")
    assert not [n for n in fitted(good, code).notes if "wider" in n or "never" in n]
