"""Calls as users write them, for type checkers: `make type` checks this file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, assert_type

import llamaherd as lh
from pydantic import BaseModel

if TYPE_CHECKING:
    import pandas as pd


class Review(BaseModel):
    """A type as a schema."""

    stars: int


def prompts_of_all_kinds(context: lh.Context, frame: pd.DataFrame) -> None:
    """Prompts are a list with None, a column, a generator, or messages."""
    lh.generate_parallel(context, ["a", None], max_tokens=4)
    lh.generate_parallel(context, frame["text"], choices=["a", "b"])
    lh.generate_parallel(
        context, (str(i) for i in range(3)), choices=[["a"], ["b"], None]
    )
    lh.generate_parallel(context, [[{"role": "user", "content": "hi"}]], chat=True)
    out = lh.generate_parallel(
        context, ["a", None], schema=Review, quote_from=["a", None], max_tokens=4
    )
    assert_type(out.parsed, list[Review | None])
    lh.classify_parallel(context, frame["text"], ["good", "bad"])
    lh.perplexity(context, ["a", None])
    lh.embed_parallel(context.model, frame["text"])


class OutOfTimeError(Exception):
    """An error of the user, which gets the finished results."""

    results: lh.Results


def unfinished(context: lh.Context) -> lh.Results:
    """Results are in the exception that ended a call."""
    try:
        return lh.generate_parallel(context, ["a"])
    except (lh.Interrupted, OutOfTimeError) as error:
        return error.results


def schemas(context: lh.Context) -> None:
    """A class as schema is the type of the parsed answers."""
    out = lh.generate_parallel(context, ["a"], schema=Review, max_tokens=9)
    assert_type(out.parsed, list[Review | None])
    assert_type(lh.generate(context, "a", schema=Review).parsed, Review | None)
    job = lh.start_parallel(context, ["a"], schema=Review)
    assert_type(job.result().parsed, list[Review | None])
    plain = lh.generate_parallel(context, ["a"], schema={"type": "string"})
    assert_type(plain.parsed, list[Any | None])


def coding(context: lh.Context, frame: pd.DataFrame) -> None:
    """The road from texts to an estimate."""
    anger = lh.Codebook("How angry?", lh.number_scale(0, 10))
    bare = lh.Codebook("How angry?", anger.names, type="ordinal")
    coded = lh.annotate(frame, "text", bare, context)
    gold = lh.gold_sample(coded, 30, seed=1)
    assert_type(lh.validate(coded, gold), lh.types.Validation)
    assert_type(lh.estimate(coded, gold), lh.types.Estimates)
