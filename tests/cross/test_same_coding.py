"""R and Python label the same texts equally, and record the same run."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import numpy as np
import pytest
import rscript

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.model

TEXTS = ["The keeper saved two penalties.", None,
         "Les actions ont baissé de 9 %.", "東京",
         "The keeper saved two penalties.", ""]  # fmt: skip
TOPICS = lh.Codebook(
    "Which topic does the text have?",
    {"Sports": "Matches.", "économie": "", "no": ""},
    examples=[("A late goal.", "Sports", "It is of a match."), ("Rien.", "no")],
    language="fr",
)


def column(values: list[float | None]) -> list[float]:
    return [np.nan if value is None else value for value in values]


@pytest.mark.filterwarnings("ignore:calibrate='batch' was fitted to only:UserWarning")
@pytest.mark.parametrize("arguments", [{}, {"calibrate": "batch", "chat": True}])
def test_r_says_what_python_says(
    smollm2: lh.Model, smollm2_path: Path, tmp_path: Path, arguments: dict[str, Any]
) -> None:
    lh.write_codebook(TOPICS, tmp_path / "topics.yaml")
    job = {
        "model": str(smollm2_path),
        "codebook": str(tmp_path / "topics.yaml"),
        "texts": TEXTS,
        "arguments": arguments,
    }
    from_r = rscript.results("texts.R coding", tmp_path, job)
    data = {"text": TEXTS}
    with lh.Context(smollm2, n_threads=1) as context:
        coded = lh.annotate(data, "text", TOPICS, context, **arguments)
        several = lh.robustness(data, "text", TOPICS, context, orders=2, n_texts=4)
        preview = lh.prompt_preview(TOPICS, "x", context)
    assert list(from_r["coded"]) == list(coded.frame)
    assert from_r["coded"]["label"] == coded.labels
    assert from_r["coded"]["error"] == coded.errors
    for name in coded.columns.values():
        if name not in ("label", "error"):
            np.testing.assert_allclose(
                column(from_r["coded"][name]), column(coded.frame[name]), rtol=1e-9
            )
    run = json.loads(from_r["run"][0])
    assert set(run.pop("versions")) - {"R"} == set(coded.run["versions"])
    for name in ("codebook", "settings", "prompts", "model", "context", "texts_sha256"):
        assert run[name] == coded.run[name], name
    assert from_r["hash"] == [TOPICS.hash]
    assert from_r["preview"]["prompt"] == [preview.prompt]
    assert from_r["preview"]["tokens"] == preview.tokens
    labels = from_r["labels"]
    assert [row - 1 for row in labels["row"]] == several.rows
    for name, each in zip(several.variants, several.labels, strict=True):
        assert labels[name] == each
    np.testing.assert_allclose(from_r["pairwise"], several.pairwise)
