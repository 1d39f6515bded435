"""Ray Data and Ray Serve: rows of data sets, replicas over HTTP."""

from __future__ import annotations

import json
import os
import socket
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import llamaherd as lh
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from llamaherd.ray import Config, processor
from llamaherd.ray.config import versions
from llamaherd.ray.serving import _built
from llamaherd.remote.server import KEY_VARIABLE
from ray_batches import BatchActor
from starlette.testclient import TestClient
from waiting import HANGS_S

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


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
BOOK = lh.Codebook("Which?", ["a", "b", "c"])


@pytest.fixture
def answers(tiny_path: Callable[[str], Path]) -> Callable[..., BatchActor]:
    return partial(BatchActor, tiny_path("llama"))


def texts(n: int = 24, column: str = "prompt") -> pa.Table:
    words = ["sea", "bread", "winter", "music", "moon"]
    rows = [f"{words[i % 5]} {words[i % 3]} {i % 20}" for i in range(n)]
    return pa.table({"id": list(range(n)), column: rows})


def in_batches(answer: BatchActor, table: pa.Table, size: int) -> pa.Table:
    """Return the result in the form of Ray Data, with the last batch first."""
    starts = range(0, table.num_rows, size)
    parts = [answer(table.slice(i, size)) for i in reversed(starts)]
    return pa.concat_tables(reversed(parts))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.more(reason="loads a model for each of seven tasks", cases=3)
@pytest.mark.parametrize(
    "task",
    [
        {**DRAWN, "id_column": "id"},
        DRAWN,
        {"schema": SCHEMA, "temperature": 1.5, "max_tokens": 80, "context": CONTEXT},
        {"task": "classify", "labels": ["good", "bad"], "context": CONTEXT},
        {
            "task": "annotate",
            "codebook": lh.Codebook("Which?", type="fields", schema=SCHEMA),
            "temperature": 1.5,
            "max_tokens": 80,
            "context": CONTEXT,
        },
        {
            "task": "annotate",
            "codebook": BOOK,
            "calibrate": "contextual",
            "context": CONTEXT,
        },
        {"task": "embed", "deterministic": True, "n_threads": 1},
    ],
    ids=["drawn by id", "drawn", "schema", "classify", "fields", "labels", "embed"],
)
def test_a_rows_answer_does_not_depend_on_its_batch(
    answers: Callable[..., BatchActor], task: dict[str, Any]
) -> None:
    is_text = task.get("task") in ("annotate", "embed")
    answer, table = answers(**task), texts(column="text" if is_text else "prompt")
    whole = answer(table)
    assert whole.schema == answer(table.slice(0, 1)).schema
    assert whole.column_names[:2] == table.column_names
    assert whole[whole.column_names[-1]].null_count > 12  # most have no error
    for size in (1, 7):
        assert in_batches(answer, table, size).equals(whole)


@pytest.mark.filterwarnings("ignore")
def test_row_numbers_as_ids_draw_as_one_call_does(
    answers: Callable[..., BatchActor], tiny_path: Callable[[str], Path]
) -> None:
    table = texts()
    coded = in_batches(answers(**DRAWN, id_column="id"), table, 5)
    with lh.Model(tiny_path("llama")) as model, lh.Context(model, **CONTEXT) as context:
        prompts = table["prompt"].to_pylist()
        called = lh.generate_parallel(context, prompts, max_tokens=6, temperature=1.0)
    assert coded["out_text"].to_pylist() == called.texts
    assert len(set(called.texts)) > 20


@pytest.mark.filterwarnings("ignore")
def test_equal_prompts_draw_alike_unless_there_are_ids(
    answers: Callable[..., BatchActor],
) -> None:
    table = pa.table({"prompt": ["sea"] * 4, "id": ["a", "b", "c", "d"]})
    assert len(set(answers(**DRAWN)(table)["out_text"].to_pylist())) == 1
    by_id = answers(**DRAWN, id_column="id")(table)
    assert len(set(by_id["out_text"].to_pylist())) == 4
    other = answers(**DRAWN, seed=5)(table)
    assert other["out_text"] != answers(**DRAWN)(table)["out_text"]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.more(reason="loads a model for each of five tasks", cases=2)
@pytest.mark.parametrize("task", ["generate", "annotate", "classify", "embed", "schema"])
def test_a_row_that_fails_has_its_reason_and_no_answer(
    answers: Callable[..., BatchActor], task: str
) -> None:
    settings: dict[str, dict[str, Any]] = {
        "generate": {"columns": {"text": "answer"}},
        "classify": {"task": "classify", "labels": ["a", "b"]},
        "annotate": {"task": "annotate", "codebook": BOOK},
        "embed": {"task": "embed"},
        "schema": {"schema": SCHEMA, "max_tokens": 80},
    }
    answer = answers(**settings[task])
    raw = pa.array([b"well", b"", b"  ", None, b"\xff\xfe", b"x" * 3000], pa.binary())
    text = pa.Array.from_buffers(pa.string(), len(raw), raw.buffers())
    column = "text" if task in ("annotate", "embed") else "prompt"
    coded = answer(pa.table({column: text}))
    reasons = coded[coded.column_names[-1]].to_pylist()
    assert reasons[0] is None
    assert "is empty" in reasons[1]
    assert "is empty" in reasons[2]
    if task == "annotate":
        assert reasons[3] is None  # as in `annotate`, a missing text is no failure
    else:
        assert "is empty" in reasons[3]
    assert "UTF-8" in reasons[4]
    assert "shorten it" in reasons[5]
    for name in coded.column_names[1:-1]:
        values = coded[name].to_pylist()
        assert values[0] is not None
        assert set(values[1:]) <= {None, "error"}  # of the prompt that is too long
    # A batch in which all rows fail has columns of the same types.
    assert answer(pa.table({column: text.slice(1)})).schema == coded.schema


@pytest.mark.filterwarnings("ignore")
def test_a_number_without_room_in_its_column_is_a_reason(
    answers: Callable[..., BatchActor],
) -> None:
    schema = {
        "type": "object",
        "properties": {"n": {"const": 10**20}},
        "required": ["n"],
        "additionalProperties": False,
    }
    coded = answers(schema=schema, max_tokens=80)(texts(1))
    assert coded["n"].to_pylist() == [None]
    assert "64 bits" in coded["error"][0].as_py()


@pytest.mark.filterwarnings("ignore")
def test_wrong_batches(answers: Callable[..., BatchActor]) -> None:
    answer = answers(max_tokens=1)
    with pytest.raises(ValueError, match=r"no column 'prompt' \(they have id\): prep"):
        answer(pa.table({"id": [1]}))
    with pytest.raises(ValueError, match="'text' already"):
        answer(pa.table({"prompt": ["a"], "text": ["a"]}))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ({"max_token": 3}, TypeError, "did you mean 'max_tokens'"),
        ({"prompt": "{text}"}, TypeError, "no argument 'prompt'"),
        ({"journal": "x"}, ValueError, "journal cannot be combined"),
        ({"n": 2}, ValueError, "n cannot be combined"),
        ({"seed": None}, ValueError, "seed must be at least 0"),
        ({"regex": ["a", "b"]}, TypeError, "regex"),
        ({"preprocess": "prompt"}, TypeError, "preprocess must be a function"),
        ({"task": "answer"}, ValueError, "task must be one of"),
        ({"task": "classify"}, TypeError, "needs labels"),
        ({"task": "classify", "labels": ["a", "a"]}, ValueError, "labels"),
        ({"columns": {"txt": "answer"}}, ValueError, "did you mean 'text'"),
        ({"columns": 5}, TypeError, "columns must be a prefix"),
        ({"task": "annotate"}, TypeError, "needs codebook"),
        ({"task": "embed", "context": {"n_ctx": 5}}, ValueError, "with task 'embed'"),
        (
            {"task": "classify", "labels": ["a"], "id_column": "i"},
            ValueError,
            "id_column needs task 'generate'",
        ),
        (
            {"task": "annotate", "codebook": BOOK, "calibrate": "batch"},
            ValueError,
            "all rows",
        ),
    ],
)
def test_wrong_arguments(
    arguments: dict[str, Any], kind: type[Exception], message: str
) -> None:
    config = Config("model.gguf", context=arguments.pop("context", {}))
    with pytest.raises(kind, match=message):
        lh.ray.map(config, **arguments)
    with pytest.raises(TypeError, match="dataset must be a Dataset of Ray"):
        lh.ray.map(config)([{"prompt": "a"}])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.long(reason="starts actors of Ray Data, which takes a minute")
@pytest.mark.usefixtures("cluster")
def test_parquet_in_and_out_although_an_actor_dies(
    answers: Callable[..., BatchActor],
    tiny_path: Callable[[str], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import ray.data  # takes a second

    marker = str(tmp_path / "died")
    table = texts(60, "text")
    (tmp_path / "in").mkdir()
    for i in range(3):
        pq.write_table(table.slice(20 * i, 20), tmp_path / "in" / f"{i}.parquet")

    class Dying(processor.BatchAnswering):
        """Actor that is killed once; Ray pickles a local class without this module."""

        async def __call__(self, table: pa.Table) -> pa.Table:
            coded = await super().__call__(table)
            if 25 in coded["id"].to_pylist():
                with suppress(FileExistsError):
                    os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
                    os.kill(os.getpid(), 9)
            return coded

    monkeypatch.setattr(processor, "BatchAnswering", Dying)
    mapper = lh.ray.map(
        Config(
            tiny_path("llama"), concurrency=2, num_cpus=1, batch_size=8, context=CONTEXT
        ),
        preprocess=lambda row: {"prompt": f"{row['text']}."},
        postprocess=lambda row: {"id": row["id"], "answer": row["out_text"]},
        **{name: value for name, value in DRAWN.items() if name != "context"},
    )
    rows = mapper(ray.data.read_parquet(str(tmp_path / "in"))).take_all()
    assert os.path.exists(marker)  # noqa: PTH110
    monkeypatch.undo()
    prompts = [f"{text}." for text in table["text"].to_pylist()]
    expected = answers(**DRAWN)(pa.table({"prompt": prompts}))["out_text"].to_pylist()
    assert rows == [{"id": i, "answer": expected[i]} for i in range(60)]
    options = ray.data.DataContext.get_current().execution_options
    assert not options.preserve_order  # of other data sets


@pytest.mark.filterwarnings("ignore")
@pytest.mark.long(reason="starts an actor of Ray")
@pytest.mark.usefixtures("cluster")
def test_what_is_wrong_is_told_to_the_driver(tiny_path: Callable[[str], Path]) -> None:
    import ray.data  # takes a second

    mapper = lh.ray.map(Config(tiny_path("llama"), concurrency=1, num_cpus=1))
    with pytest.raises(Exception, match=r"no column 'prompt'.*preprocess can return it"):
        mapper(ray.data.range(3)).take_all()


ASKED = {"model": "tiny", "prompt": "a", "max_tokens": 3}


@pytest.fixture
def build(tiny_path: Callable[[str], Path]) -> Callable[..., Any]:
    config = Config(tiny_path("llama"), num_cpus=1)
    return partial(_built, config, versions(), "tiny", None, 100)


@pytest.mark.filterwarnings("ignore")
def test_a_replica_answers_with_the_key_of_its_environment(
    build: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEY_VARIABLE, "secret")
    with TestClient(build(has_key=True)) as client:
        assert client.post("/v1/completions", json=ASKED).status_code == 401
        key = {"authorization": "Bearer secret"}
        answer = client.post("/v1/completions", json=ASKED, headers=key)
        assert answer.json()["usage"]["completion_tokens"] == 3
        for path in ("/v1/files", "/batches", "/v1/batches/x"):
            refused = client.get(path, headers=key)
            assert refused.status_code == 501
            assert "share no files" in refused.json()["error"]["message"]


@pytest.mark.filterwarnings("ignore")
def test_a_replica_without_the_key_does_not_start(
    build: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(KEY_VARIABLE, raising=False)
    with pytest.raises(lh.ClusterError, match=r"set it before `ray start`"):
        build(has_key=True)


@pytest.mark.filterwarnings("ignore")
def test_wrong_arguments_are_named(tiny_path: Callable[[str], Path]) -> None:
    config = Config(tiny_path("llama"))
    with pytest.raises(TypeError, match=r"config must be a lh\.ray\.Config"):
        lh.ray.serve_app("model.gguf")
    with pytest.raises(ValueError, match="timeout_s"):
        lh.ray.serve_app(config, timeout_s=-1)
    with pytest.raises(ValueError, match="max_tokens"):
        lh.ray.serve_app(config, max_tokens=0)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.long(reason="starts Ray Serve, which takes a minute")
@pytest.mark.usefixtures("cluster")
def test_replicas_answer_over_http(tiny_path: Callable[[str], Path]) -> None:
    from ray import serve  # takes a second

    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    config = Config(tiny_path("llama"), concurrency=2, num_cpus=1)
    serve.start(http_options={"port": port})
    try:
        serve.run(lh.ray.serve_app(config, model_name="tiny"))
        body = json.dumps({**ASKED, "stream": True}).encode()
        address = f"http://127.0.0.1:{port}/v1"
        head = {"content-type": "application/json"}
        with urlopen(
            Request(f"{address}/completions", body, head), timeout=HANGS_S
        ) as answer:
            assert answer.read().endswith(b"data: [DONE]\n\n")
        with pytest.raises(HTTPError, match="501"):
            urlopen(f"{address}/batches", timeout=HANGS_S)
    finally:
        serve.shutdown()
