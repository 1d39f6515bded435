"""Tests of reproducing codings in steps, with models that are found by content."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import pytest
import tiny_models

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TOPICS = lh.Codebook("Which topic?", ["Sports", "Business"])
TEXTS = [f"text {i} {'ball' * (i % 4)}" for i in range(80)]


def test_all_steps_are_repeated(tiny_path: Callable[[str], Path], tmp_path: Path) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    small = shutil.copy(tiny_path("llama"), folder / "small.gguf")
    encoder = shutil.copy(tiny_path("bert"), folder / "encoder.gguf")
    larger = tiny_models.write(folder / "larger.gguf", "llama", seed=2)
    exact: dict[str, Any] = {"deterministic": True, "n_threads": 1}
    with lh.Model(small) as model, lh.Context(model, **exact) as context:
        coded = lh.annotate(
            {"text": TEXTS}, "text", TOPICS, context,
            until=50, embeddings=encoder, larger=larger, seed=7,
        )  # fmt: skip
        enough = lh.annotate(
            {"text": TEXTS}, "text", TOPICS, context, until=100, embeddings=encoder
        )
    path = lh.report(coded, tmp_path / "report.json")
    found = lh.reproduce(path, small)  # the other models are in the same folder
    assert str(found).startswith("80 of 80 labels and probabilities are the same")
    whole = lh.report(enough, tmp_path / "whole.json")
    assert lh.reproduce(whole, small).n_same == 80

    contents = json.loads(path.read_text(encoding="utf-8"))
    encoder.rename(folder / "other.gguf")
    with pytest.raises(
        FileNotFoundError, match=r"no encoder.gguf in .*put the file into one"
    ):
        lh.reproduce(path, small)
    shutil.copy(larger, encoder)
    with pytest.raises(ValueError, match="the model for embeddings was changed"):
        lh.reproduce(path, small)
    contents["run"]["steps"]["larger"]["sha256"] = None
    contents["run"]["steps"].pop("embeddings")
    path.write_text(json.dumps(contents), encoding="utf-8")
    with pytest.raises(ValueError, match="the report's larger model has adapters, or"):
        lh.reproduce(path, small)
