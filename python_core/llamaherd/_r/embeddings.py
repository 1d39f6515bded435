"""Calls that make vectors."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import llamaherd as lh
from llamaherd._r.boundary import (
    NO_TEXT,
    boundary,
    clean_or_none,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@boundary
def embed_start(
    model: lh.Model | lh.Context, texts: Sequence[Any], options: Mapping[str, Any]
) -> dict[str, lh.EmbedJob]:
    """Starts to make vectors; None is a text that fails.

    Args:
        model: What to make them with.
        texts: Texts or token ids.
        options: Arguments of `embed_parallel`.
    """
    given = [NO_TEXT if text is None else text for text in texts]
    return {"job": lh.start_embed(model, given, **options)}


@boundary
def embed_result(job: lh.EmbedJob) -> dict[str, Any]:
    """The vectors as bytes, float32 row by row. Waits for the end of the job."""
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
