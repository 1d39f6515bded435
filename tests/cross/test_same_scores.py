"""R and Python compute equal probabilities of labels, continuations and texts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import llamaherd as lh
import numpy as np
import pytest
import rscript

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.model

TEXTS = ["The keeper saved two penalties.", "", "Les actions ont baissé de 9 %.", "東京"]
PROMPTS = [text and f"Text: {text}\nTopic:" for text in TEXTS]
READINGS = ["Sports", "Football", "économie"]
NAMES = ["sport", "sport", "économie"]  # attributes of the result
CONTINUATIONS = [" Sports", " Fußball 🎉", " a", " b"]


def column(values: list[float | None]) -> list[float]:
    return [np.nan if value is None else value for value in values]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"normalize": "pmi", "pmi_prompt": "Topic:", "space": True},
        {"normalize": "byte", "chat": True, "system": "Name it."},
    ],
)
def test_r_says_what_python_says(
    smollm2: lh.Model, smollm2_path: Path, tmp_path: Path, options: dict[str, Any]
) -> None:
    job = {
        "model": str(smollm2_path),
        "prompts": PROMPTS,
        "readings": READINGS,
        "names": NAMES,
        "classify": options,
        "score": {"continuations": CONTINUATIONS},
    }
    from_r = rscript.results("texts.R scores", tmp_path, job)

    with lh.Context(smollm2, n_threads=1) as context:
        labels = dict(zip(READINGS, NAMES, strict=True))
        classes = lh.classify_parallel(context, PROMPTS, labels, **options)
        scores = lh.score_parallel(context, PROMPTS, CONTINUATIONS)
        texts = lh.perplexity(context, PROMPTS)
    new = classes.calibrated(lh.calibrate_batch(classes))
    for frame, results in ((from_r["classes"], classes), (from_r["calibrated"], new)):
        assert frame["label"] == results.labels
        for name in ("prob", "margin", "entropy", "coverage"):
            np.testing.assert_allclose(column(frame[name]), getattr(results, name))
        for j, name in enumerate(results.names):
            np.testing.assert_allclose(column(frame[f"p_{name}"]), results.probs[:, j])
    np.testing.assert_allclose(
        [column(row) for row in from_r["logprobs"]], classes.logprobs
    )
    assert from_r["errors"] == classes.errors
    assert from_r["scores"]["continuation"] == CONTINUATIONS
    logprobs = [values and values[0] for values in scores.logprob]
    np.testing.assert_allclose(
        column(from_r["scores"]["logprob"]), column(logprobs), rtol=1e-6
    )
    np.testing.assert_allclose(column(from_r["texts"]["perplexity"]), texts.perplexity)
    n_tokens = [n or None for n in texts.n_tokens]
    assert from_r["texts"]["n_tokens"] == n_tokens
