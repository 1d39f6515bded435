"""R and Python return the same comparison of pairs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import llamaherd as lh
import numpy as np
import pytest
import rscript

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TEXTS = {
    "a": "It rains.",
    "b": "I hate größer!",
    "c": "Fine {first}.",
    "d": "Oh",
    "e": "?",
}


@pytest.mark.filterwarnings("ignore:the model favours", "ignore:.*texts won")
def test_r_finds_what_python_finds(
    tiny_path: Callable[[str], Path], tmp_path: Path
) -> None:
    model = tiny_path("llama")
    job = {"model": str(model), "names": list(TEXTS), "texts": list(TEXTS.values())}
    from_r = rscript.results("numbers.R pairs", tmp_path, job)
    with lh.Model(model) as loaded, lh.Context(loaded, n_threads=1) as context:
        found = lh.compare_pairs(TEXTS, "Which is angrier?", context, n_pairs=8, seed=3)
        other = lh.compare_pairs(
            TEXTS,
            "Which is angrier?",
            context,
            labels=("x", "y"),
            layout="{question} {a}={first} {b}={second}. Answer:",
            design="random",
            level=0.9,
        )
    for given, mine in (("strengths", found), ("other", other)):
        table = {name: [row[name] for row in mine.to_dicts()] for name in from_r[given]}
        for name in ("strength", "std_error", "low", "high"):
            np.testing.assert_allclose(from_r[given][name], table[name], rtol=1e-6)
        for name in ("name", "text", "rank", "n_pairs"):
            assert from_r[given][name] == table[name]
    rows = found.pair_dicts()
    for name in ("first", "second", "round", "consistent"):
        assert from_r["pairs"][name] == [row[name] for row in rows]
    np.testing.assert_allclose(
        from_r["pairs"]["log_odds"], [row["log_odds"] for row in rows], rtol=1e-6
    )
    assert from_r["bias"]["value"] == pytest.approx([found.position_bias.value])
    assert len(from_r["notes"]) == len(from_r["known_notes"])
    assert len(from_r["errors"]) == 4
