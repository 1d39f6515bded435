"""Calls that compute embeddings."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import llamaherd as lh
from llamaherd._r.boundary import (
    boundary,
    clean_or_none,
    given_prompts,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@boundary
def embed_start(
    model: lh.Model | lh.Context, texts: Sequence[Any], options: Mapping[str, Any]
) -> dict[str, lh.EmbedJob]:
    """Start to compute embeddings. A missing text (None) fails.

    Args:
        model: Model to run.
        texts: Texts or token ids.
        options: Arguments of `embed_parallel`.
    """
    return {"job": lh.start_embed(model, given_prompts(texts), **options)}


@boundary
def embed_result(job: lh.EmbedJob) -> dict[str, Any]:
    """Wait until the job ends; return embeddings as bytes of float32, row by row."""
    results = job.results()
    return {
        "vectors": bytearray(results.vectors.astype("<f4").tobytes()),
        "n_embd": results.vectors.shape[1],
        "errors": [clean_or_none(error) for error in results.errors],
        "stats": {
            **dataclasses.asdict(results.stats),
            "line": str(results.stats),
        },
    }
