"""Prompts in lists, arrays and columns of all kinds get the same answers."""

from __future__ import annotations

from enum import Enum
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import tiny_models
from llamaherd.calls.journal.entry import entry_of, row_of
from llamaherd.calls.journal.file import DamagedError
from setting_examples import Liar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


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
    by_params = lh.generate_parallel(ctx, [], params=params)
    for empty in (none, by_params):
        table = empty.to_pandas()
        assert table.dtypes.to_dict() == whole.to_pandas().dtypes.to_dict()
        assert empty.to_arrow().schema == whole.to_arrow().schema


# ---- members of Enums and other subclasses are read as their values at every door


class Label(str, Enum):
    YES = "yes"
    NO = "no"


SUBCLASSES: list[Callable[[str], Any]] = [Label, Liar, np.str_]
TEMPLATE = "{% for m in messages %}{{ m.role }}:{{ m.content }}{{ x[0].y }};{% endfor %}"


@pytest.fixture(scope="module")
def context(tiny_path: Callable[[str], Path]) -> Iterator[lh.Context]:
    with lh.Model(tiny_path("llama")) as model, lh.Context(model) as context:
        yield context


@pytest.mark.parametrize("kind", SUBCLASSES)
def test_labels_and_choices_are_read_as_their_values(
    context: lh.Context, kind: Callable[[str], Any]
) -> None:
    yes, no = kind("yes"), kind("no")
    prompts: list[Any] = ["the answer", no]
    expected = lh.classify_parallel(context, ["the answer", "no"], ["yes", "no"])
    results = lh.classify_parallel(context, prompts, [yes, no])
    assert repr(results.names) == "('yes', 'no')"
    np.testing.assert_array_equal(results.probs, expected.probs)
    named = lh.classify_parallel(context, prompts, {yes: kind("no"), "no": kind("yes")})
    assert repr(named.names) == "('no', 'yes')"
    chosen = lh.generate(context, prompts[1], choices=[yes, no])
    assert chosen.text in ("yes", "no")
    scored = lh.score_parallel(context, prompts, [yes, [no]])
    assert [repr(c[0].text) for c in scored.continuations if c] == ["'yes'", "'no'"]


@pytest.mark.parametrize("kind", SUBCLASSES)
def test_messages_and_variables_are_read_as_their_values(
    context: lh.Context, kind: Callable[[str], Any]
) -> None:
    talk = [{"role": kind("no"), "content": [{"type": "text", "text": kind("yes")}]}]
    variables = {np.str_("x"): [{"y": kind("no")}]}
    text = lh.apply_chat_template(
        context.model, talk, template=TEMPLATE, variables=variables
    )
    assert str(text) == "no:yesno;"


@pytest.mark.parametrize("kind", SUBCLASSES)
def test_a_codebook_has_plain_labels(
    context: lh.Context, kind: Callable[[str], Any], tmp_path: Path
) -> None:
    yes, no = kind("yes"), kind("no")
    book = lh.Codebook(
        "Which?", {yes: kind("no"), no: ""}, examples=[{"text": kind("yes"), "label": no}]
    )
    expected = lh.Codebook("Which?", {"yes": "no", "no": ""}, examples=[("yes", "no")])
    assert repr(book) == repr(expected)
    assert book.hash == expected.hash
    lh.write_codebook(book, tmp_path / "book.yaml")
    assert lh.read_codebook(tmp_path / "book.yaml") == expected
    frame = pd.DataFrame({"text": pd.Series([no, "a"], dtype=object), "id": [no, "b"]})
    coded = lh.annotate(frame, np.str_("text"), book, context)
    labels = [repr(label) for label in coded.labels]
    assert set(labels) <= {"'yes'", "'no'"}
    gold = lh.gold_sample(coded, 2, id="id", seed=1).with_codes({"a": [yes, no]})
    assert sorted(map(repr, gold.ids)) == ["'b'", "'no'"]
    assert [[repr(code) for code in codes] for codes in gold.codes] == [["'yes'", "'no'"]]


@pytest.mark.parametrize("kind", SUBCLASSES)
def test_a_journal_of_such_prompts_is_read_again(
    context: lh.Context, kind: Callable[[str], Any], tmp_path: Path
) -> None:
    path = tmp_path / "run.journal"
    prompts: Any = [kind("yes"), kind("no")]
    first = lh.generate_parallel(context, prompts, max_tokens=3, journal=path)
    again = lh.generate_parallel(context, ["yes", "no"], max_tokens=3, journal=path)
    assert again.texts == first.texts
    assert again.stats.n_journal == 2
    assert {entry.prompt for entry in lh.journal_read(path)} == {"yes", "no"}


def test_a_journal_with_digests_of_numpy_texts_is_read(
    context: lh.Context, tmp_path: Path
) -> None:
    path = tmp_path / "run.journal"
    lh.generate_parallel(context, ["it's"], max_tokens=3, journal=path)
    (entry,) = lh.journal_read(path)
    *row, _ = row_of(entry)
    # Earlier versions stored the digest of a row that had the prompt in numpy's type.
    before = tuple(np.str_(cell) if cell == "it's" else cell for cell in row)
    digest = blake2b(repr(before).encode(), digest_size=8).digest()
    assert entry_of((*row, digest)) == entry
    with pytest.raises(DamagedError):
        entry_of((*row[:5], "other", *row[6:], digest))


def test_results_have_the_index_of_a_series(context: lh.Context) -> None:
    texts = pd.Series(["the answer", None, "no"], index=[7, 3, 5])
    model = context.model
    results: list[Any] = [
        lh.generate_parallel(context, texts, max_tokens=2),
        lh.start_parallel(context, texts, max_tokens=2).results(),
        lh.classify_parallel(context, texts, ["yes", "no"]),
        lh.score_parallel(context, texts, "yes"),
        lh.perplexity(context, texts),
        lh.embed_parallel(model, texts),
    ]
    for result in results:
        assert list(result.to_pandas().index) == [7, 3, 5]
    assert np.asarray(results[-1]).shape == (3, model.info.n_embd_out)
    several = lh.score_parallel(context, texts, [["yes", "no"]] * 3).to_pandas()
    assert list(several.index) == [7, 7, 3, 5, 5]
    calibration = lh.calibrate_batch(results[2])
    assert list(results[2].calibrated(calibration).to_pandas().index) == [7, 3, 5]
    assert list(lh.generate_parallel(context, ["a"] * 2).to_pandas().index) == [0, 1]
