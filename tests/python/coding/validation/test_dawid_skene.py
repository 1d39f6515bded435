"""Tests of Dawid and Skene's model, against expectation maximization in loops."""

from __future__ import annotations

import math

import llamaherd as lh
import numpy as np
import pytest
from llamaherd.coding.validation import dawid_skene

N, NAMES, RIGHT = 60, 3, (0.9, 0.7, 0.6, 0.8)


def codes(n: int = N, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Return codes of four coders, a fifth of them missing, and the true labels."""
    rng = np.random.default_rng(seed)
    truth = rng.choice(NAMES, n, p=[0.5, 0.3, 0.2])
    columns = [
        np.where(rng.random(n) < p, truth, (truth + rng.integers(1, NAMES, n)) % NAMES)
        for p in RIGHT
    ]
    out = np.where(rng.random((len(RIGHT), n)) < 0.2, -1, np.array(columns))
    out[0, out.max(axis=0) < 0] = 0
    return out, truth


def fitted(coded: np.ndarray) -> lh.types.DawidSkene:
    drawn = lh.gold_sample(
        {"text": [f"text {i}" for i in range(coded.shape[1])]}, coded.shape[1]
    )
    by_coder = {
        f"coder {j}": [None if code < 0 else str(code) for code in column]
        for j, column in enumerate(coded.tolist())
    }
    return lh.dawid_skene(drawn.with_codes(by_coder))


def plain(coded: np.ndarray, n_steps: int) -> list[list[float]]:
    """Compute the algorithm as published: with loops over texts, coders and labels."""
    n_coders, n = coded.shape
    z = []
    for i in range(n):
        votes = [sum(coded[j, i] == k for j in range(n_coders)) for k in range(NAMES)]
        z.append([v / sum(votes) for v in votes])
    for _ in range(n_steps):
        prior = [sum(z[i][k] for i in range(n)) + 0.01 for k in range(NAMES)]
        pi = [[[0.0] * NAMES for _ in range(NAMES)] for _ in range(n_coders)]
        for j in range(n_coders):
            for k in range(NAMES):
                rows = [i for i in range(n) if coded[j, i] >= 0]
                total = sum(z[i][k] for i in rows) + 0.01 * NAMES
                for c in range(NAMES):
                    hits = sum(z[i][k] for i in rows if coded[j, i] == c)
                    pi[j][k][c] = (hits + 0.01) / total
        for i in range(n):
            joint = [
                prior[k]
                * math.prod(
                    pi[j][k][coded[j, i]] for j in range(n_coders) if coded[j, i] >= 0
                )
                for k in range(NAMES)
            ]
            z[i] = [share / sum(joint) for share in joint]
    return z


def test_labels_are_those_of_the_algorithm_in_loops(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    coded, _ = codes()
    expected = np.array(plain(coded, 200))
    assert fitted(coded).probs == pytest.approx(expected, abs=2e-3)
    monkeypatch.setattr(dawid_skene, "_LEAST_GAIN", -math.inf)  # no step is the last
    monkeypatch.setattr(dawid_skene, "_MOST_STEPS", 12)
    assert fitted(coded).probs == pytest.approx(np.array(plain(coded, 12)), abs=1e-9)


def test_errors_are_found() -> None:
    coded, truth = codes(600)
    consensus = fitted(coded)
    assert list(consensus.accuracy.values()) == pytest.approx(RIGHT, abs=0.08)
    votes = np.array([np.bincount(c[c >= 0], minlength=NAMES).argmax() for c in coded.T])
    by_model = np.array(consensus.labels, dtype=int)
    assert (by_model == truth).mean() >= (votes == truth).mean()


def test_the_model_with_one_error_rate_per_coder_is_gone() -> None:
    with pytest.raises(
        lh.ArgumentTypeError, match="one_coin was removed: each coder has"
    ):
        lh.dawid_skene(None, one_coin=True)  # type: ignore[arg-type,call-arg]
