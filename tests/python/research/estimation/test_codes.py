"""What counts as a text's code and label: of several coders, of several labels."""

from __future__ import annotations

import llamaherd as lh
import numpy as np

N, N_GOLD = 600, 200


def estimates(found: lh.Estimates) -> list[float]:
    return [row.estimate for row in found.rows]


def test_ties_of_coders_are_told() -> None:
    rng = np.random.default_rng(1)
    truth = rng.choice(["a", "b"], N)
    data = {"label": np.where(rng.random(N) < 0.8, truth, "a").tolist()}
    drawn = lh.gold_sample(data, N_GOLD, label="label", seed=1)
    ann = [str(truth[row]) for row in drawn.rows]
    ben = [code if i % 4 else "b" for i, code in enumerate(ann)]
    n_ties = sum(a != b for a, b in zip(ann, ben, strict=True))
    two = drawn.with_codes({"ann": ann, "ben": ben})
    found = lh.estimate(data, two)
    note = f"{n_ties} of 200 codes are ties, decided by the first coder (ann before ben)"
    assert n_ties > 20
    assert any(told.startswith(note) for told in found.notes)
    assert estimates(found) == estimates(lh.estimate(data, drawn.with_codes(ann)))
    other = lh.estimate(data, drawn.with_codes({"ben": ben, "ann": ann}))
    assert estimates(other) != estimates(found)
    # A third one decides where the others differ.
    chief = [b if a != b else None for a, b in zip(ann, ben, strict=True)]
    decided = lh.estimate(data, two.with_codes({"chief": chief}))
    assert not any("ties" in told for told in decided.notes)
    assert estimates(decided) == estimates(lh.estimate(data, drawn.with_codes(ben)))
