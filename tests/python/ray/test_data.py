"""`llamaherd.ray.Annotator` adds answers to the rows of Ray Data's batches."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from llamaherd.ray import Annotator

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.filterwarnings("ignore")  # Ray's, of itself

CONTEXT = {"deterministic": True, "n_threads": 1}
DRAWN = {"max_tokens": 6, "temperature": 1.0, "columns": "out_", "context": CONTEXT}
SCHEMA = {
    "type": "object",
    "properties": {
        "n": {"type": "integer", "maximum": 99},
        "kind": {"enum": ["u", "v"]},
        "error": {"type": "boolean"},
    },
    "required": ["n", "kind", "error"],
    "additionalProperties": False,
}


@pytest.fixture
def annotator(tiny_path: Callable[[str], Path]) -> Iterator[Callable[..., Annotator]]:
    made: list[Annotator] = []

    def make(**arguments: Any) -> Annotator:
        made.append(Annotator(tiny_path("llama"), **arguments))
        return made[-1]

    yield make
    for each in made:
        each.close()


def texts(n: int = 24) -> pa.Table:
    words = ["sea", "bread", "winter", "music", "moon"]
    return pa.table(
        {
            "id": list(range(n)),
            "text": [f"{words[i % 5]} {words[i % 3]} {i % 20}" for i in range(n)],
        }
    )


def in_batches(annotate: Annotator, table: pa.Table, size: int) -> pa.Table:
    """Return the result in the form of Ray Data, with the last batch first."""
    starts = range(0, table.num_rows, size)
    return pa.concat_tables(
        list(reversed([annotate(table.slice(i, size)) for i in reversed(starts)]))
    )


# ---- answers, whatever the batches ----


@pytest.mark.more(reason="starts actors of Ray or runs very many prompts", cases=3)
@pytest.mark.parametrize(
    "task",
    [
        {**DRAWN, "column": "text"},
        {**DRAWN, "column": "text", "id_column": "id"},
        {
            "column": "text",
            "schema": SCHEMA,
            "temperature": 1.5,
            "max_tokens": 80,
            "context": CONTEXT,
        },
        {
            "task": "classify",
            "prompt": "{id}. {text}:",
            "labels": ["good", "bad"],
            "context": CONTEXT,
        },
        {
            "task": "annotate",
            "column": "text",
            "codebook": lh.Codebook("Which?", type="fields", schema=SCHEMA),
            "temperature": 1.5,
            "max_tokens": 80,
            "context": CONTEXT,
        },
        {
            "task": "annotate",
            "column": "text",
            "codebook": lh.Codebook("Which?", ["a", "b", "c"]),
            "calibrate": "contextual",
            "context": CONTEXT,
        },
        {"task": "embed", "column": "text", "deterministic": True, "n_threads": 1},
    ],
    ids=["drawn", "drawn by id", "schema", "classify", "fields", "labels", "embed"],
)
def test_a_rows_answer_does_not_depend_on_its_batch(
    annotator: Callable[..., Annotator], task: dict[str, Any]
) -> None:
    annotate, table = annotator(**task), texts()
    whole = annotate(table)
    assert whole.schema == annotate(table.slice(0, 1)).schema
    assert whole.column_names[:2] == ["id", "text"]
    assert whole[whole.column_names[-1]].null_count > 12  # most have no error
    for size in (1, 7):
        assert in_batches(annotate, table, size).equals(whole)


def test_row_numbers_as_ids_draw_as_one_call_does(
    annotator: Callable[..., Annotator], tiny_path: Callable[[str], Path]
) -> None:
    table = texts()
    found = in_batches(annotator(**DRAWN, column="text", id_column="id"), table, 5)
    with lh.Model(tiny_path("llama")) as model, lh.Context(model, **CONTEXT) as context:
        prompts = table["text"].to_pylist()
        called = lh.generate_parallel(context, prompts, max_tokens=6, temperature=1.0)
    assert found["out_text"].to_pylist() == called.texts
    assert len(set(called.texts)) > 20


def test_equal_prompts_draw_alike_unless_there_are_ids(
    annotator: Callable[..., Annotator],
) -> None:
    table = pa.table({"text": ["sea"] * 4, "id": ["a", "b", "c", "d"]})
    assert len(set(annotator(**DRAWN, column="text")(table)["out_text"].to_pylist())) == 1
    by_id = annotator(**DRAWN, column="text", id_column="id")(table)
    assert len(set(by_id["out_text"].to_pylist())) == 4
    other = annotator(**DRAWN, column="text", seed=5)(table)
    assert other["out_text"] != annotator(**DRAWN, column="text")(table)["out_text"]


@pytest.mark.parametrize("kind", ["pandas", "numpy"])
def test_batches_of_any_kind(annotator: Callable[..., Annotator], kind: str) -> None:
    table = texts(6)
    annotate = annotator(**DRAWN, column="text")
    batch: object = table.to_pandas()
    if kind == "numpy":
        batch = {
            "id": np.arange(6),
            "text": np.array(table["text"].to_pylist(), dtype=object),
            "image": np.zeros((6, 2, 2)),
        }
    found = annotate(batch)
    assert found["out_text"].to_pylist() == annotate(table)["out_text"].to_pylist()
    assert found.num_rows == 6


# ---- rows that fail ----


@pytest.mark.parametrize("task", ["generate", "classify", "annotate", "embed", "schema"])
def test_a_row_that_fails_has_its_reason_and_no_answer(
    annotator: Callable[..., Annotator], task: str
) -> None:
    settings: dict[str, dict[str, Any]] = {
        "generate": {"task": "generate", "columns": {"text": "answer"}},
        "classify": {"task": "classify", "labels": ["a", "b"]},
        "annotate": {"task": "annotate", "codebook": lh.Codebook("Which?", ["a", "b"])},
        "embed": {"task": "embed"},
        "schema": {"schema": SCHEMA, "max_tokens": 80},
    }
    annotate = annotator(column="text", **settings[task])
    raw = pa.array([b"well", b"", b"  ", None, b"\xff\xfe", b"x" * 3000], pa.binary())
    text = pa.Array.from_buffers(pa.string(), len(raw), raw.buffers())
    found = annotate(pa.table({"text": text}))
    reasons = found[found.column_names[-1]].to_pylist()
    assert reasons[0] is None
    assert "is empty" in reasons[1]
    assert "is empty" in reasons[2]
    if task == "annotate":
        assert reasons[3] is None  # as in `annotate`, a missing text is no failure
    else:
        assert "is empty" in reasons[3]
    assert "UTF-8" in reasons[4]
    assert "shorten it" in reasons[5]
    for name in found.column_names[1:-1]:
        values = found[name].to_pylist()
        assert values[0] is not None
        assert set(values[1:]) <= {None, "error"}  # of the prompt that is too long
    # A batch in which all rows fail has columns of the same types.
    assert annotate(pa.table({"text": text.slice(1)})).schema == found.schema


def test_a_number_without_room_in_its_column_is_a_reason(
    annotator: Callable[..., Annotator],
) -> None:
    schema = {
        "type": "object",
        "properties": {"n": {"const": 10**20}},
        "required": ["n"],
        "additionalProperties": False,
    }
    found = annotator(column="text", schema=schema, max_tokens=80)(texts(1))
    assert found["n"].to_pylist() == [None]
    assert "64 bits" in found["error"][0].as_py()


def test_fields_beside_those_of_the_schema_are_in_the_text(
    annotator: Callable[..., Annotator],
) -> None:
    schema = {"type": "object", "properties": {"text": {"type": "boolean"}}}
    annotate = annotator(
        column="id", schema={**schema, "required": ["text"]}, max_tokens=80
    )
    with pytest.raises(ValueError, match="'text' already"):
        annotate(texts(1))
    found = annotate(texts(1).drop_columns("text"))
    assert found.column_names == ["id", "text", ".text", "error"]
    assert found["text"].type == pa.bool_()


# ---- arguments ----


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ({}, ValueError, "one of prompt"),
        ({"prompt": "{a}", "column": "a"}, ValueError, "one of prompt"),
        ({"prompt": "none"}, ValueError, "names no column"),
        ({"column": "text", "max_token": 3}, TypeError, "did you mean 'max_tokens'"),
        ({"column": "text", "journal": "x"}, ValueError, "journal cannot be combined"),
        ({"column": "text", "n": 2}, ValueError, "n cannot be combined"),
        ({"column": "text", "seed": None}, ValueError, "seed must be at least 0"),
        ({"column": "text", "regex": ["a", "b"]}, TypeError, "regex"),
        ({"column": "text", "task": "answer"}, ValueError, "task must be one of"),
        ({"column": "text", "task": "classify"}, TypeError, "needs labels"),
        ({"column": "text", "task": "annotate"}, TypeError, "needs codebook"),
        ({"column": "text", "context": 3}, TypeError, "context must map"),
        (
            {"column": "text", "task": "embed", "context": {"n_ctx": 5}},
            ValueError,
            "context cannot be combined with task 'embed'",
        ),
        (
            {"column": "t", "task": "classify", "labels": ["a"], "id_column": "i"},
            ValueError,
            "id_column needs task 'generate'",
        ),
        (
            {
                "column": "text",
                "task": "annotate",
                "codebook": lh.Codebook("Which?", ["a", "b"]),
                "calibrate": "batch",
            },
            ValueError,
            "all rows",
        ),
    ],
)
def test_wrong_arguments(
    annotator: Callable[..., Annotator],
    arguments: dict[str, Any],
    kind: type[Exception],
    message: str,
) -> None:
    with pytest.raises(kind, match=message):
        annotator(**arguments)


def test_wrong_batches(annotator: Callable[..., Annotator]) -> None:
    annotate = annotator(column="text", max_tokens=1)
    with pytest.raises(ValueError, match="no column 'text'; it has 'id'"):
        annotate(pa.table({"id": [1]}))
    with pytest.raises(ValueError, match="'text' already"):
        annotate(texts(1))
    with pytest.raises(TypeError, match="a batch must be"):
        annotate([1, 2])


# ---- Ray Data ----


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Create Parquet files of some texts, one of which is missing."""
    (tmp_path / "in").mkdir()
    table = texts(60)
    for i in range(3):
        pq.write_table(table.slice(20 * i, 20), tmp_path / "in" / f"{i}.parquet")
    return tmp_path


def mapped(
    folder: Path, annotate: type, arguments: dict[str, Any], **options: Any
) -> Any:
    import ray.data  # noqa: PLC0415 - takes a second

    ds = ray.data.read_parquet(str(folder / "in"))
    return ds.map_batches(
        annotate, fn_constructor_kwargs=arguments, num_cpus=1, **options
    )


@pytest.mark.long(reason="starts actors of Ray or runs very many prompts")
@pytest.mark.usefixtures("cluster")
def test_parquet_in_and_out(
    folder: Path, annotator: Callable[..., Annotator], tiny_path: Callable[[str], Path]
) -> None:
    arguments = {**DRAWN, "model": str(tiny_path("llama")), "column": "text"}
    ds = mapped(
        folder,
        lh.ray.Annotator,
        arguments,
        concurrency=1,
        batch_size=8,
        batch_format="pandas",
    )
    ds.write_parquet(str(folder / "out"))
    found = pq.read_table(folder / "out").sort_by("id")
    expected = annotator(**DRAWN, column="text")(texts(60))
    assert found["id"].to_pylist() == list(range(60))
    assert found["out_text"].to_pylist() == expected["out_text"].to_pylist()


@pytest.mark.long(reason="starts actors of Ray or runs very many prompts")
@pytest.mark.usefixtures("cluster")
def test_an_actor_that_dies_loses_nothing(
    folder: Path, annotator: Callable[..., Annotator], tiny_path: Callable[[str], Path]
) -> None:
    marker = str(folder / "died")

    class Dying(lh.ray.Annotator):
        """Annotator that is killed once, in its third batch."""

        def __call__(self, batch: object) -> pa.Table:
            found = super().__call__(batch)
            n_threads = [self._host.options["n_threads"]] * found.num_rows
            found = found.append_column("n_threads", pa.array(n_threads))
            if 25 in found["id"].to_pylist() and not os.path.exists(marker):  # noqa: PTH110
                os.close(os.open(marker, os.O_CREAT))
                os.kill(os.getpid(), 9)
            return found

    arguments = {**DRAWN, "model": str(tiny_path("llama")), "column": "text"}
    arguments["context"] = {"deterministic": True}
    ds = mapped(folder, Dying, arguments, concurrency=2, batch_size=8)
    found = ds.to_pandas().sort_values("id")
    assert os.path.exists(marker)  # noqa: PTH110
    expected = annotator(**DRAWN, column="text")(texts(60))
    assert found["id"].tolist() == list(range(60))
    assert found["out_text"].tolist() == expected["out_text"].to_pylist()
    assert found["out_error"].isna().all()
    assert found["n_threads"].tolist() == [1] * 60  # of one CPU


@pytest.mark.long(reason="starts actors of Ray or runs very many prompts")
@pytest.mark.usefixtures("cluster")
def test_what_is_wrong_is_told_to_the_driver(
    folder: Path, tiny_path: Callable[[str], Path]
) -> None:
    arguments = {"model": str(tiny_path("llama")), "column": "text", "max_token": 1}
    ds = mapped(folder, lh.ray.Annotator, arguments, concurrency=1)
    with pytest.raises(Exception, match="did you mean 'max_tokens'"):
        ds.materialize()
