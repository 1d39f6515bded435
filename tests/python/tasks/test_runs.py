"""Runs that annotate or think: on the command line, in shards, resumed, over HTTP."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import llamaherd as lh
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tiny_models
from llamaherd.cli import main
from llamaherd.tables import execution
from llamaherd.tables.execution import do_run
from llamaherd.tables.merging import merge_runs
from llamaherd.tables.spec import RunSpec
from llamaherd.tables.spec_file import read_spec, with_changes
from ray_batches import BatchActor
from served import served

Tiny = Callable[[str], Path]
BOOK = lh.Codebook("Which topic?", {"sport": "Games.", "money": "", "art": ""})
SCHEMA = {
    "type": "object",
    "properties": {
        "n": {"type": "integer", "minimum": 0, "maximum": 9},
        "kind": {"enum": ["u", "v"]},
        "tags": {"type": "array", "items": {"enum": ["a"]}, "maxItems": 2},
    },
    "required": ["n", "kind", "tags"],
    "additionalProperties": False,
}
FIELDS = lh.Codebook("What does it say?", type="fields", schema=SCHEMA)
CONTEXT = {"deterministic": True, "n_threads": 1}
TEXTS = [f"{'abc'[i % 3] * 6} text number {i // 2}" for i in range(24)]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with Path("in.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([["id", "text"], *enumerate(TEXTS)])
    lh.write_codebook(BOOK, "topics.yaml")


def spec_of(model: Path, book: Any = "topics.yaml", **keys: Any) -> RunSpec:
    return RunSpec(
        task="annotate",
        input="in.csv",
        codebook=book,
        model={"path": str(model)},
        context=CONTEXT,
        **{"output": "out.csv", **keys},
    )


def called(model: Path, book: lh.Codebook, **settings: Any) -> dict[str, Any]:
    """Return the new columns in the form of `annotate`."""
    with lh.Model(model) as loaded, lh.Context(loaded, **CONTEXT) as context:
        coded = lh.annotate({"text": TEXTS}, "text", book, context, **settings)
    return {role: list(coded.frame[name]) for role, name in coded.columns.items()}


def rows_of(path: str) -> dict[str, list[str]]:
    with Path(path).open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return {name: [row[name] for row in rows] for name in rows[0]}


def test_the_command_codes_as_annotate_does(tiny_path: Tiny) -> None:
    model = tiny_path("llama")
    run = ["annotate", "in.csv", "--codebook", "topics.yaml", "-m", str(model)]
    exact = ["--deterministic", "--n-threads", "1", "--calibrate", "contextual"]
    assert main([*run, *exact, "--prefix", "c_", "-o", "out.csv"]) == 0
    expected = called(model, BOOK, calibrate="contextual")
    columns = rows_of("out.csv")
    assert list(columns) == ["id", "text", *(f"c_{role}" for role in expected)]
    assert columns["c_label"] == expected["label"]
    for role in ("prob", "entropy", "p_art"):
        assert list(map(float, columns[f"c_{role}"])) == expected[role]
    # The run file that --save writes has the same results, also from another folder.
    assert (
        main([*run, *exact, "--prefix", "c_", "-o", "out.csv", "--save", "r.toml"]) == 0
    )
    meta = json.loads(Path("out.csv.meta.json").read_text("utf-8"))
    assert meta["run_sha256"] == read_spec("r.toml").hash()
    assert meta["run"]["codebook"]["hash"] == BOOK.hash
    Path("elsewhere").mkdir()
    assert main(["run", "r.toml", "-o", "elsewhere/out.csv"]) == 0
    assert Path("elsewhere/out.csv").read_bytes() == Path("out.csv").read_bytes()


@pytest.mark.parametrize(
    ("book", "keys"),
    [
        (BOOK, {"annotate": {"calibrate": "contextual"}}),
        (lh.Codebook("Which?", ["1", "2", "3"], type="ordinal"), {}),
        (lh.Codebook("Which?", ["a", "b"], type="multiple"), {}),
        (BOOK, {"annotate": {"method": "generate", "temperature": 1.5, "seed": 4}}),
        (FIELDS, {"annotate": {"max_tokens": 80}}),
    ],
    ids=["label", "ordinal", "multiple", "drawn", "fields"],
)
def test_shards_together_are_the_whole(
    tiny_path: Tiny, book: lh.Codebook, keys: dict[str, Any]
) -> None:
    spec = spec_of(tiny_path("llama"), book.to_dict(), output="out.parquet", **keys)
    whole = do_run(spec, block=7)
    for i in (1, 2):
        do_run(spec, shard=(i, 2), block=5)
    paths = [f"out.parquet.{i}-of-2.journal" for i in (1, 2)]
    assert merge_runs(paths, "merged.parquet", block=7).n_failed == whole.n_failed == 0
    assert Path("merged.parquet").read_bytes() == Path("out.parquet").read_bytes()
    if "temperature" not in spec.annotate:
        table = pq.read_table("out.parquet").drop_columns(["id", "text"])
        expected = called(tiny_path("llama"), book, **spec.annotate)
        assert table.to_pydict() == expected


def test_an_interrupted_run_goes_on(
    tiny_path: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = spec_of(tiny_path("llama"))
    ask_model = execution._Run._ask_model
    counts: list[int] = []

    def stopping(self: Any, prompts: Any, places: Any, *more: Any) -> Any:
        if len(counts) == 2:
            raise KeyboardInterrupt
        counts.append(len(prompts))
        return ask_model(self, prompts, places, *more)

    with monkeypatch.context() as patch:
        patch.setattr(execution._Run, "_ask_model", stopping)
        with pytest.raises(KeyboardInterrupt):
            do_run(spec, block=8)
    n_stored = len(lh.journal_read("out.csv.journal"))
    assert n_stored == 16
    do_run(spec, block=8)
    assert len(lh.journal_read("out.csv.journal")) == 24
    assert rows_of("out.csv")["label"] == called(tiny_path("llama"), BOOK)["label"]


def test_another_codebook_is_another_run(tiny_path: Tiny) -> None:
    spec = spec_of(tiny_path("llama"))
    first = spec.hash()
    assert spec_of(tiny_path("llama"), BOOK.to_dict()).hash() == first
    do_run(spec, shard=(1, 2))
    order = dict(reversed(list(BOOK.definitions.items())))
    lh.write_codebook(replace(BOOK, labels=order), "topics.yaml", overwrite=True)
    assert spec.hash() != first
    do_run(spec, shard=(2, 2))
    journals = [f"out.csv.{i}-of-2.journal" for i in (1, 2)]
    with pytest.raises(lh.JournalError, match="another description of the run"):
        merge_runs(journals, "merged.csv")


def test_batch_calibration_reads_all_rows(
    tiny_path: Tiny, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = spec_of(tiny_path("llama"), annotate={"calibrate": "batch"})
    do_run(spec, block=7)
    with pytest.warns(UserWarning, match="gave 8 of 24 texts .* 'art' another label"):
        expected = called(tiny_path("llama"), BOOK, calibrate="batch")
    columns = rows_of("out.csv")
    assert list(map(float, columns["prob"])) == expected["prob"]
    with pytest.raises(ValueError, match=r'calibrate is "batch", .* without shards'):
        do_run(spec, shard=(1, 2))
    run = ["annotate", "in.csv", "--codebook", "topics.yaml", "-m", "m.gguf"]
    assert main([*run, "--calibrate", "batch", "-o", "x.csv", "--save", "r.toml"]) == 0
    assert main(["run", "r.toml", "--shard", "1/2"]) == 2
    assert "calibrate is 'batch'" in capsys.readouterr().err.replace('"', "'")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"codebook": None}, "needs a codebook"),
        ({"codebook": "no.yaml"}, "'no.yaml'.* cannot be read: No such file"),
        ({"codebook": {"question": "Which?"}}, "needs labels"),
        ({"codebook": {"question": "W", "labels": ["a", ""]}}, r"labels\[1\] must not"),
        ({"chat": True, "system": "Be kind."}, "system cannot be combined with annotate"),
        ({"annotate.method": "guess"}, "method must be one of"),
        ({"annotate.columns": "x"}, "has no key 'columns'"),
        ({"annotate.splits": "first"}, "did you mean 'split'"),
    ],
)
def test_what_is_wrong_is_named(changes: dict[str, Any], message: str) -> None:
    spec = spec_of(Path("m.gguf"))
    with pytest.raises(ValueError, match=message):
        with_changes(spec, changes)


def test_a_number_without_room_is_missing_with_its_reason(tiny_path: Tiny) -> None:
    schema = {
        "type": "object",
        "properties": {"n": {"const": 10**20}, "kind": {"const": "u"}},
        "required": ["n", "kind"],
        "additionalProperties": False,
    }
    book = lh.Codebook("What?", type="fields", schema=schema)
    with lh.Model(tiny_path("llama")) as model, lh.Context(model, **CONTEXT) as context:
        coded = lh.annotate({"text": ["a"]}, "text", book, context, max_tokens=80)
    assert (coded.frame["n"], coded.frame["kind"]) == ([None], ["u"])
    assert coded.errors == coded.frame["error"]
    assert str(coded.errors[0]).startswith("n: the whole number 1")
    assert json.loads(str(coded.labels[0]))["n"] == 10**20  # the answer itself is kept
    spec = spec_of(
        tiny_path("llama"),
        book.to_dict(),
        output="out.jsonl",
        annotate={"max_tokens": 80},
    )
    assert do_run(spec).n_failed == len(TEXTS)
    row = json.loads(Path("out.jsonl").read_text("utf-8").splitlines()[0])
    assert (row["n"], row["kind"], row["error"]) == (None, "u", coded.errors[0])


def test_a_missing_text_has_no_label_and_no_error(tiny_path: Tiny) -> None:
    rows = [{"text": TEXTS[0]}, {"text": None}, {"text": ""}]
    Path("in.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    spec = spec_of(tiny_path("llama"), output="out.jsonl")
    do_run(replace(spec, input="in.jsonl"))
    out_rows = [json.loads(line) for line in Path("out.jsonl").read_text().splitlines()]
    assert [row["label"] is None for row in out_rows] == [False, True, True]
    assert [row["error"] for row in out_rows] == [None, None, "the text is empty"]


# The model thinks unless thinking is turned off.
TEMPLATE = (
    "{% for m in messages %}[{{ m.role }}]"
    "{% if m.reasoning_content %}<think>\n{{ m.reasoning_content }}\n</think>\n\n"
    "{% endif %}"
    "{{ m.content }};{% endfor %}"
    "{% if add_generation_prompt %}[assistant]<think>\n"
    "{% if enable_thinking is defined and enable_thinking is false %}\n</think>\n\n"
    "{% endif %}{% endif %}"
)
QUESTIONS = [
    "The keeper saved it.",
    "Shares fell by 9 %.",
    "東京",
    "Rien.",
    "One more.",
]
KIND = {
    "type": "object",
    "properties": {"kind": {"enum": ["u", "v"]}, "thinking": {"type": "boolean"}},
    "required": ["kind", "thinking"],
    "additionalProperties": False,
}
THOUGHTS = ["thinking", "n_thinking_tokens", "thinking_complete"]
ANSWERS = {"max_tokens": 6, "temperature": 1.0, "seed": 7}
TASKS: dict[str, dict[str, Any]] = {
    "asked": {"thinking": 9, **ANSWERS},
    "default": {"thinking": None, **ANSWERS},
    "off": {"thinking": False, **ANSWERS},
    "schema": {"thinking": 5, "schema": KIND, "max_tokens": 60},
    "quiet schema": {
        "thinking": False,
        "schema": KIND,
        "max_tokens": 60,
    },
}
HAVE_THOUGHTS = ("asked", "default", "schema")


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("thinking") / "tiny.gguf"
    return tiny_models.write(
        file, "llama", chat_template=TEMPLATE, changes={"context_length": 2048}
    )


def from_python(path: Path, name: str) -> dict[str, list[Any]]:
    with lh.Model(path) as model, lh.Context(model, **CONTEXT) as context:
        out = lh.generate_parallel(context, QUESTIONS, chat=True, **TASKS[name])
    return out.to_arrow().to_pydict()


def command(path: Path, name: str) -> list[str]:
    pq.write_table(pa.table({"text": QUESTIONS}), "in.parquet")
    settings = TASKS[name]
    run = ["run", "in.parquet", "-m", str(path), "-o", "out.parquet", "--chat"]
    run += ["--deterministic", "--n-threads", "1"]
    run += ["--max-tokens", str(settings["max_tokens"])]
    if settings["thinking"] is not None:
        run += ["--thinking", str(settings["thinking"] or "off")]
    if "schema" in settings:
        Path("schema.json").write_text(json.dumps(KIND), encoding="utf-8")
        run += ["--schema", "schema.json"]
    else:
        run += ["--temperature", "1", "--seed", "7"]
    return run


@pytest.mark.parametrize("name", TASKS)
def test_all_doors_have_the_same_thoughts(name: str, path: Path) -> None:
    expected = from_python(path, name)
    has_thoughts = name in HAVE_THOUGHTS
    if "schema" not in name:
        assert list(expected) == ["text", *(THOUGHTS if has_thoughts else ()), "error"]
    if name == "asked":
        assert all(n > 0 for n in expected["n_thinking_tokens"])
        assert all(isinstance(flag, bool) for flag in expected["thinking_complete"])
    if name == "schema":  # a field of the schema has the same name as a column
        assert list(expected)[:2] == ["kind", "thinking"]
        assert list(expected)[2] == ".thinking"

    run = command(path, name)
    assert main(run) == 0
    columns = pq.read_table("out.parquet").to_pydict()
    texts = columns.pop("text"), columns.pop("answer"), columns.pop("finish_reason")
    assert texts[0] == QUESTIONS
    if "schema" in name:
        for role, values in expected.items():
            clash = has_thoughts and role == "thinking"
            name_of_role = "answer.thinking" if clash else role.lstrip(".")
            assert columns.pop(name_of_role) == values, role
        assert columns == {}
    else:
        assert {"text": texts[1], **columns} == expected

    assert main([*run, "--save", "run.toml"]) == 0
    for i in (1, 2):
        shard = ["--shard", f"{i}/2", "--journal", f"{i}.journal"]
        assert main(["run", "run.toml", *shard]) == 0
    assert main(["merge", "1.journal", "2.journal", "--out", "merged.parquet"]) == 0
    merged = pq.read_table("merged.parquet")
    assert merged.to_pydict() == pq.read_table("out.parquet").to_pydict()

    actor = BatchActor(
        path, columns="x_", id_column="id", context=CONTEXT, chat=True, **TASKS[name]
    )
    table = pa.table({"id": list(range(len(QUESTIONS))), "prompt": QUESTIONS})
    batch = actor(table).to_pydict()
    fields = {n[2:]: v for n, v in batch.items() if n.startswith("x_")}
    fields.pop("finish_reason", None)
    assert fields == expected


def test_a_journal_has_the_thoughts(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = command(path, "asked")
    assert main(run) == 0
    before = pq.read_table("out.parquet").to_pydict()
    stored = lh.journal_read("out.parquet.journal")
    Path("out.parquet").unlink()
    assert main(run) == 0
    assert pq.read_table("out.parquet").to_pydict() == before
    assert len(lh.journal_read("out.parquet.journal")) == len(stored) == len(QUESTIONS)
    cut = "5 of 5 answers ended at --max-tokens, before the model had ended them"
    lines = capsys.readouterr().err.splitlines()  # one for each run
    assert [line.startswith(f"llamaherd: warning: {cut}") for line in lines] == [True] * 2


def test_csv_and_json_lines_have_the_columns(path: Path) -> None:
    run = command(path, "asked")
    for name in ("out.csv", "out.jsonl"):
        run[run.index("-o") + 1] = name
        assert main(run) == 0
    lines = Path("out.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    names = ["text", "answer", "finish_reason", *THOUGHTS, "error"]
    assert list(rows[0]) == names
    assert isinstance(rows[0]["n_thinking_tokens"], int)
    header = Path("out.csv").read_text(encoding="utf-8").splitlines()[0]
    assert header == ",".join(names)


def test_a_column_of_the_input_with_the_name_is_refused(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for thinking in ("asked", "default"):
        run = command(path, thinking)
        pq.write_table(
            pa.table({"text": QUESTIONS, "thinking": QUESTIONS}),
            "in.parquet",
        )
        assert main(run) == 2
        assert "the input already has a column 'thinking'" in capsys.readouterr().err


def test_the_server_answers_as_the_library(path: Path) -> None:
    body = {"prompt": QUESTIONS[0], "chat": True, **TASKS["asked"]}
    with lh.Model(path) as model, lh.Context(model, **CONTEXT) as context:
        out = lh.generate_parallel(context, [QUESTIONS[0]], chat=True, **TASKS["asked"])
        with served(context) as client:
            status, answer = client.post("/generate", body)
            assert status == 200, answer
            assert (answer["text"], answer["thinking"]) == (out[0].text, out[0].thinking)
            assert answer["thinking_complete"] is out[0].thinking_complete
            events = client.events("/generate", {**body, "stream": True})
            thought = "".join(event.get("thinking", "") for event in events)
            assert thought == out[0].thinking
            chat = {"messages": [{"role": "user", "content": "a"}], "max_tokens": 3}
            status, answer = client.post("/v1/chat/completions", {**chat, "thinking": 3})
            message = answer["choices"][0]["message"]
            assert message["reasoning_content"] == message["reasoning"]
            details = answer["usage"]["completion_tokens_details"]
            assert details["reasoning_tokens"] >= 3
            off = {**chat, "reasoning_effort": "none"}
            status, answer = client.post("/v1/chat/completions", off)
            assert "reasoning" not in answer["choices"][0]["message"]
            assert "completion_tokens_details" not in answer["usage"]
            # With the template's default, answer and thought fit.
            status, answer = client.post(
                "/v1/chat/completions", {**chat, "max_tokens": None}
            )
            assert status == 200, answer


def test_a_last_message_of_the_assistant_is_continued(path: Path) -> None:
    messages = [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "It is"},
    ]
    with lh.Model(path) as model, lh.Context(model, **CONTEXT) as context:
        off = {"enable_thinking": False}
        prompt = lh.apply_chat_template(model, messages[:1], variables=off) + "It is"
        settings = {"max_tokens": 4, "temperature": 1.0, "seed": 3}
        out = lh.generate_parallel(
            context, [prompt], parse_special=True, params=lh.SamplingParams(
                top_p=1.0, **settings
            )
        )  # fmt: skip
        with served(context) as client:
            body = {"messages": messages, "thinking": False, **settings}
            more = {"continue_final_message": True, "add_generation_prompt": False}
            status, answer = client.post("/v1/chat/completions", {**body, **more})
            assert status == 200, answer
            assert answer["usage"]["prompt_tokens"] == out[0].n_prompt_tokens
            assert len(answer["choices"][0]["message"]["content"]) > 0
            wrong = {"continue_final_message": False}
            status, answer = client.post("/v1/chat/completions", {**body, **wrong})
            assert (status, answer["error"]["param"]) == (400, "continue_final_message")
