"""R and Python compute the same embeddings."""

from __future__ import annotations

from typing import TYPE_CHECKING

import llamaherd as lh
import numpy as np
import pytest
import rscript

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.model

TEXTS = ["A cat sleeps.", "", "naïve café 新しい駅", "word " * 600, "Shares fell."]


@pytest.mark.parametrize("truncate", [False, True])
def test_r_makes_the_same_vectors_as_python(
    minilm: lh.Model, minilm_path: Path, tmp_path: Path, *, truncate: bool
) -> None:
    options = {"truncate": truncate, "deterministic": True, "n_threads": 1}
    expected = lh.embed_parallel(minilm, TEXTS, **options)
    job = {"model": str(minilm_path), "texts": [*TEXTS, None], "embed": options}
    out = rscript.results("texts.R embed", tmp_path, job)
    errors = [error and error.replace("`", "") for error in out["errors"]]
    assert errors == [*expected.errors, "the text is NA"]
    for i, row in enumerate(expected.vectors):
        if expected.errors[i] is None:
            assert np.array_equal(np.float32(out["vectors"][i]), row)
        else:
            assert out["vectors"][i] == [None] * 384
    assert out["stats"]["n_truncated"] == [int(truncate)]
