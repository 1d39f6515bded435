"""Thoughts in tables: on the command line, in shards, in batches of Ray, over HTTP."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import llamaherd as lh
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tiny_models
from llamaherd.cli import main
from ray_batches import BatchActor
from served import served

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
CONTEXT = {"deterministic": True, "n_threads": 1}
TEXTS = ["The keeper saved it.", "Shares fell by 9 %.", "東京", "Rien.", "One more."]
SCHEMA = {
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
    "schema": {"thinking": 5, "schema": SCHEMA, "max_tokens": 60},
    "quiet schema": {"thinking": False, "schema": SCHEMA, "max_tokens": 60},
}
HAVE_THOUGHTS = ("asked", "default", "schema")


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("thinking") / "tiny.gguf"
    return tiny_models.write(
        file, "llama", chat_template=TEMPLATE, changes={"context_length": 2048}
    )


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def from_python(path: Path, name: str) -> dict[str, list[Any]]:
    with lh.Model(path) as model, lh.Context(model, **CONTEXT) as context:
        out = lh.generate_parallel(context, TEXTS, chat=True, **TASKS[name])
    return out.to_arrow().to_pydict()


def command(path: Path, name: str) -> list[str]:
    pq.write_table(pa.table({"text": TEXTS}), "in.parquet")
    settings = TASKS[name]
    run = ["run", "in.parquet", "-m", str(path), "-o", "out.parquet", "--chat"]
    run += ["--deterministic", "--n-threads", "1"]
    run += ["--max-tokens", str(settings["max_tokens"])]
    if settings["thinking"] is not None:
        run += ["--thinking", str(settings["thinking"] or "off")]
    if "schema" in settings:
        Path("schema.json").write_text(json.dumps(SCHEMA), encoding="utf-8")
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
        assert all(isinstance(each, bool) for each in expected["thinking_complete"])
    if name == "schema":  # a field of the schema has the same name as a column
        assert list(expected)[:2] == ["kind", "thinking"]
        assert list(expected)[2] == ".thinking"

    run = command(path, name)
    assert main(run) == 0
    found = pq.read_table("out.parquet").to_pydict()
    texts = found.pop("text"), found.pop("answer"), found.pop("finish_reason")
    assert texts[0] == TEXTS
    if "schema" in name:
        for role, values in expected.items():
            clash = has_thoughts and role == "thinking"
            own = "answer.thinking" if clash else role.lstrip(".")
            assert found.pop(own) == values, role
        assert found == {}
    else:
        assert {"text": texts[1], **found} == expected

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
    table = pa.table({"id": list(range(len(TEXTS))), "prompt": TEXTS})
    batch = actor(table).to_pydict()
    own = {n[2:]: v for n, v in batch.items() if n.startswith("x_")}
    own.pop("finish_reason", None)
    assert own == expected


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
    assert len(lh.journal_read("out.parquet.journal")) == len(stored) == len(TEXTS)
    cut = "5 of 5 answers ended at max_tokens, before the model had ended them"
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
        pq.write_table(pa.table({"text": TEXTS, "thinking": TEXTS}), "in.parquet")
        assert main(run) == 2
        assert "the input already has a column 'thinking'" in capsys.readouterr().err


def test_the_server_answers_as_the_library(path: Path) -> None:
    ask = {"prompt": TEXTS[0], "chat": True, **TASKS["asked"]}
    with lh.Model(path) as model, lh.Context(model, **CONTEXT) as context:
        out = lh.generate_parallel(context, [TEXTS[0]], chat=True, **TASKS["asked"])
        with served(context) as client:
            status, got = client.post("/generate", ask)
            assert status == 200, got
            assert (got["text"], got["thinking"]) == (out[0].text, out[0].thinking)
            assert got["thinking_complete"] is out[0].thinking_complete
            events = client.events("/generate", {**ask, "stream": True})
            thought = "".join(event.get("thinking", "") for event in events)
            assert thought == out[0].thinking
            chat = {"messages": [{"role": "user", "content": "a"}], "max_tokens": 3}
            status, got = client.post("/v1/chat/completions", {**chat, "thinking": 3})
            message = got["choices"][0]["message"]
            assert message["reasoning_content"] == message["reasoning"]
            details = got["usage"]["completion_tokens_details"]
            assert details["reasoning_tokens"] >= 3
            off = {**chat, "reasoning_effort": "none"}
            status, got = client.post("/v1/chat/completions", off)
            assert "reasoning" not in got["choices"][0]["message"]
            assert "completion_tokens_details" not in got["usage"]
            # With the template's default, answer and thought fit.
            status, got = client.post(
                "/v1/chat/completions", {**chat, "max_tokens": None}
            )
            assert status == 200, got


def test_a_last_message_of_the_assistant_is_continued(path: Path) -> None:
    asked = [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "It is"},
    ]
    with lh.Model(path) as model, lh.Context(model, **CONTEXT) as context:
        off = {"enable_thinking": False}
        prompt = lh.apply_chat_template(model, asked[:1], variables=off) + "It is"
        settings = {"max_tokens": 4, "temperature": 1.0, "seed": 3}
        out = lh.generate_parallel(
            context, [prompt], parse_special=True, params=lh.SamplingParams(
                top_p=1.0, **settings
            )
        )  # fmt: skip
        with served(context) as client:
            body = {"messages": asked, "thinking": False, **settings}
            more = {"continue_final_message": True, "add_generation_prompt": False}
            status, got = client.post("/v1/chat/completions", {**body, **more})
            assert status == 200, got
            assert got["usage"]["prompt_tokens"] == out[0].n_prompt_tokens
            assert len(got["choices"][0]["message"]["content"]) > 0
            wrong = {"continue_final_message": False}
            status, got = client.post("/v1/chat/completions", {**body, **wrong})
            assert (status, got["error"]["param"]) == (400, "continue_final_message")
