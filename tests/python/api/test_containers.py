"""Prompts in lists, arrays and columns of all kinds get the same answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import llamaherd as lh
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import tiny_models

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TEXTS = ["a b", None, "b"]
KINDS: dict[str, Callable[[list[str | None]], Any]] = {
    "tuple": tuple,
    "generator": lambda texts: (text for text in texts),
    "numpy": lambda texts: np.array(texts, dtype=object),
    "pandas": pd.Series,
    "pandas, object": lambda texts: pd.Series(texts, dtype=object),
    "pandas, string": lambda texts: pd.Series(texts, dtype="string"),
    "pandas, Arrow": lambda texts: pd.Series(texts, dtype=pd.ArrowDtype(pa.string())),
    "pandas, category": lambda texts: pd.Series(texts, dtype="category"),
    "pandas, index": lambda texts: pd.Series(texts, index=[7, 7, 0]),
    "polars": pl.Series,
    "polars, category": lambda texts: pl.Series(texts, dtype=pl.Categorical),
    "Arrow": pa.array,
    "Arrow, chunks": lambda texts: pa.chunked_array([texts[:1], texts[1:]]),
    "Arrow, dictionary": lambda texts: pa.array(texts).dictionary_encode(),
    "Arrow, large": lambda texts: pa.array(texts, pa.large_string()),
    "Arrow, view": lambda texts: pa.array(texts, pa.string_view()),
    "Arrow, scalars": lambda texts: list(pa.array(texts)),
}
SCHEMA = {"type": "object", "properties": {"n": {"enum": [1, 2]}, "t": {"const": "x"}}}


@pytest.fixture(scope="module")
def ctx(tmp_path_factory: pytest.TempPathFactory) -> Iterator[lh.Context]:
    path = tiny_models.write(tmp_path_factory.mktemp("models") / "tiny.gguf", "llama")
    with lh.Model(path) as model, lh.Context(model) as context:
        yield context


@pytest.mark.filterwarnings("ignore:median coverage")
@pytest.mark.parametrize("kind", KINDS)
def test_prompts_of_each_kind_get_the_same_answers(ctx: lh.Context, kind: str) -> None:
    def answers(make: Callable[[list[str | None]], Any]) -> tuple[Any, ...]:
        out = lh.generate_parallel(ctx, make(TEXTS), max_tokens=3)
        labels = lh.classify_parallel(ctx, make(TEXTS), ["a", "b"])
        vectors = lh.embed_parallel(ctx.model, make(TEXTS))
        return out.texts, out.errors, labels.errors, vectors.errors

    assert answers(KINDS[kind]) == answers(list)


LABELS: dict[str, Callable[[list[str]], Any]] = {
    "tuple": tuple,
    "numpy": np.array,
    "pandas": pd.Series,
    "pandas, category": lambda texts: pd.Categorical(texts).categories,
    "pandas, unique": lambda texts: pd.Series(texts).unique(),
    "polars": pl.Series,
    "Arrow": pa.array,
    "Arrow, chunks": lambda texts: pa.chunked_array([texts]),
}


@pytest.mark.filterwarnings("ignore:median coverage")
@pytest.mark.parametrize("kind", LABELS)
def test_lists_of_texts_may_be_columns(ctx: lh.Context, kind: str) -> None:
    make = LABELS[kind]
    labels = ["a", "b"]
    assert lh.classify_parallel(ctx, ["x"], make(labels)).names == ("a", "b")
    assert lh.score_parallel(ctx, ["x", "y"], make(labels)).errors == [None, None]
    assert lh.score_parallel(ctx, ["x"], [make(labels)]).errors == [None]
    assert list(lh.Codebook("Which?", make(labels)).labels) == labels
    expected = lh.SamplingParams(choices=labels)
    assert lh.SamplingParams(choices=make(labels)) == expected
    assert lh.SamplingParams(stop=make(labels)) == lh.SamplingParams(stop=labels)


@pytest.mark.parametrize("table", [pd.DataFrame, pl.DataFrame, pa.table])
def test_a_table_is_no_list_of_texts(
    ctx: lh.Context, table: Callable[[dict[str, list[str]]], Any]
) -> None:
    whole = table({"t": ["a", "b"]})
    for call in (
        lambda: lh.generate_parallel(ctx, whole),
        lambda: lh.classify_parallel(ctx, ["x"], whole),
        lambda: lh.score_parallel(ctx, ["x", "y"], whole),
        lambda: lh.Codebook("Which?", whole),
        lambda: lh.SamplingParams(choices=whole),
        lambda: lh.SamplingParams(stop=whole),
    ):
        with pytest.raises(lh.ArgumentTypeError) as caught:
            call()
        assert "\n" not in str(caught.value)


def test_one_prompt_may_be_a_scalar_of_arrow(ctx: lh.Context) -> None:
    prompt = pa.array(["a b"])[0]
    assert ctx.submit(prompt, max_tokens=3).result().error is None
    with pytest.raises(lh.ArgumentTypeError, match="must be text"):
        ctx.submit(pa.array([None], pa.string())[0])  # type: ignore[arg-type]


@pytest.mark.parametrize("one", [np.array("a"), pa.scalar("a"), "a", b"a"])
def test_one_prompt_is_not_a_list(ctx: lh.Context, one: Any) -> None:
    with pytest.raises(lh.ArgumentTypeError, match="must be a list of prompts"):
        lh.generate_parallel(ctx, one)


def test_no_prompts_have_the_columns_of_the_schema(ctx: lh.Context) -> None:
    whole = lh.generate_parallel(ctx, ["a"], schema=SCHEMA, max_tokens=40)
    none = lh.generate_parallel(ctx, [], schema=SCHEMA, max_tokens=40)
    params = lh.SamplingParams(schema=SCHEMA, max_tokens=40)
    same = lh.generate_parallel(ctx, [], params=params)
    for empty in (none, same):
        table = empty.to_pandas()
        assert table.dtypes.to_dict() == whole.to_pandas().dtypes.to_dict()
        assert empty.to_arrow().schema == whole.to_arrow().schema
