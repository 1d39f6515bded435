"""Documents ordered by their relevance to a query, in the formats of other servers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import llamaherd as lh
import numpy as np
import pytest
import tiny_models
from served import NAME, served

if TYPE_CHECKING:
    from pathlib import Path

    from served import Client

PATH = "/v1/rerank"
QUERY = "Which city is the capital?"
DOCUMENTS = ["Bread is made of flour.", "The capital is Paris.", "Trains are late."]
CONTEXT = {"n_seq_max": 4}


def _ok(real: Client, body: dict[str, Any], path: str = PATH) -> Any:
    status, response = real.post(path, body)
    assert status == 200, response
    return response


def _scores(real: Client, **fields: object) -> list[float]:
    """Return the relevance of each document, in their order."""
    rows = _ok(real, {"query": QUERY, "documents": DOCUMENTS, **fields})["results"]
    return [row["relevance_score"] for row in sorted(rows, key=lambda x: x["index"])]


def _likelihoods(ctx: lh.Context) -> list[float]:
    prompts = [
        f"Passage: {text}\nQuestion that this passage answers:" for text in DOCUMENTS
    ]
    scores = lh.score_parallel(ctx, prompts, f" {QUERY}")
    return [
        float(np.exp(row[0].token_logprobs.mean())) for row in scores.continuations if row
    ]


def test_a_model_that_generates_text_scores_the_query(
    real: Client, ctx: lh.Context
) -> None:
    expected = _likelihoods(ctx)
    assert _scores(real) == pytest.approx(expected, rel=1e-4)
    response = _ok(real, {"query": QUERY, "documents": DOCUMENTS})
    order = [row["index"] for row in response["results"]]
    assert order == sorted(range(3), key=lambda i: -expected[i])
    assert (response["object"], response["model"]) == ("list", NAME)
    assert response["usage"]["prompt_tokens"] == response["usage"]["total_tokens"] > 0
    for row in response["results"]:
        assert row["document"] == {"text": DOCUMENTS[row["index"]]}


def test_a_model_for_embeddings_compares_vectors(ctx: lh.Context, tmp_path: Path) -> None:
    encoder = tiny_models.write(tmp_path / "other.gguf", "bert", seed=4)
    with lh.Model(encoder) as other:
        query, *vectors = lh.embed_parallel(other, [QUERY, *DOCUMENTS]).vectors
        expected = [float(query @ vector) for vector in vectors]
        with served(other) as real:  # a single document
            assert _scores(real) == pytest.approx(expected, abs=1e-5)
        with served(ctx, embedding_model=other, embedding_name="other") as real:
            assert _scores(real) == pytest.approx(expected, abs=1e-5)
            scores = _scores(real, model=NAME)
            assert scores == pytest.approx(_likelihoods(ctx), rel=1e-4)


def test_the_other_fields_and_formats(real: Client) -> None:
    whole = _ok(real, {"query": QUERY, "documents": DOCUMENTS})["results"]
    body = {"query": {"text": QUERY}, "documents": [{"text": x} for x in DOCUMENTS]}
    bare = _ok(real, {**body, "top_n": 2, "return_documents": False}, "/rerank")
    assert bare["results"] == [
        {name: row[name] for name in ("index", "relevance_score")} for row in whole[:2]
    ]
    assert len(_ok(real, {**body, "top_n": 99})["results"]) == 3
    assert len(_ok(real, {**body, "top_n": 0})["results"]) == 3  # the default in vLLM
    plain = _ok(real, {"query": QUERY, "texts": DOCUMENTS, "priority": 0})
    assert [(row["index"], row["score"]) for row in plain] == [
        (row["index"], row["relevance_score"]) for row in whole
    ]
    assert all(row.keys() == {"index", "score"} for row in plain)
    (first,) = _ok(real, {"query": QUERY, "texts": DOCUMENTS[:1], "return_text": True})
    assert first["text"] == DOCUMENTS[0]


def test_a_reranker_with_a_head_is_refused(tmp_path: Path) -> None:
    """The model's file declares a classification head, which libllama does not run."""
    path = tiny_models.write(tmp_path / "ranks.gguf", "bert", changes={"pooling_type": 4})
    with lh.Model(path) as model, served(model) as real:
        status, response = real.post(PATH, {"query": QUERY, "documents": DOCUMENTS})
        assert (status, response["error"]["param"]) == (400, "model"), response
        assert "ranks texts" in response["error"]["message"]
        assert "--embedding-model" in response["error"]["message"]


@pytest.mark.model
def test_a_real_encoder_finds_the_right_document(minilm: lh.Model) -> None:
    """Needs a real model, because a tiny random model cannot judge relevance."""
    with served(minilm) as real:
        response = _ok(real, {"query": QUERY, "documents": DOCUMENTS})
    assert response["results"][0]["index"] == 1
