from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from llamaherd.cli import main
from llamaherd.engine.core.errors import ArgumentError
from llamaherd.engine.core.thinking import Thinking
from llamaherd.tables.spec import RunSpec
from llamaherd.tables.spec_file import (
    parsed_setting,
    read_spec,
    spec_of,
    with_changes,
    write_spec,
)
from llamaherd.tables.template import Template

WHOLE = """\
task = "generate"
input = "texts.csv"
output = "out.parquet"
journal = "out.journal"
prompt = "Label this headline: {text}"
[model]
path = "model.gguf"
[context]
n_seq_max = 32
deterministic = true
[sampling]
max_tokens = 64
seed = 1
"""


def written(folder: Path, text: str, name: str = "run.toml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("schema", "strict", "message"),
    [
        (
            '{"type": "obj"}',
            "false",
            r"the schema s\.json .*not valid at \$\.type: \"obj\"",
        ),
        ('{"type": ', "false", r"s\.json.* is not valid JSON: .*line 1"),
        ("[1]", "false", r"s\.json.* must be a JSON Schema"),
        ('{"not": {}}', "true", r"the schema s\.json cannot be used: .*strict"),
    ],
)
def test_a_schema_that_cannot_be_used_is_told_with_its_file(
    tmp_path: Path, schema: str, strict: str, message: str
) -> None:
    written(tmp_path, schema, "s.json")
    file = written(tmp_path, f"[sampling]\nschema = 's.json'\nstrict = {strict}\n")
    with pytest.raises((ValueError, TypeError), match=message):
        read_spec(file)


def test_a_file_says_all_of_a_run(tmp_path: Path) -> None:
    spec = read_spec(written(tmp_path, WHOLE))
    assert spec.task == "generate"
    assert spec.input == str(tmp_path / "texts.csv")
    assert dict(spec.context) == {"n_seq_max": 32, "deterministic": True}
    assert spec.settings == {"max_tokens": 64, "seed": 1}
    assert str(spec.template) == "Label this headline: {text}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('tsak = "generate"', "no key 'tsak'; did you mean 'task'"),
        ("[sampling]\ntempereture = 1", "no key 'tempereture'; did you mean 'temper"),
        ("[contxt]\nn_ctx = 1", "no key 'contxt'; did you mean 'context'"),
        ("[model]\nfile = 'a'", "no key 'file'; known: path, lora"),
        ("[embed]\npoolin = 'a'", "did you mean 'pooling'"),
        ("folder = '/'", "no key 'folder'"),
        ("sampling = 3", r"\[sampling\] must be a table of keys, not 3"),
        ("task = 3", "task must be one of 'generate'"),
        ("task = 'genrate'", "task must be one of 'generate'"),
        ("chat = 1", "chat must be true or false"),
        ("input = 1", "input must be a text"),
        ("input = 'a.xlsx'", "input must end in .csv, .tsv, .jsonl, .ndjson"),
        ("output = 'a'", "output must end in"),
        ("delimiter = ';;'", "delimiter must be one character"),
        ("delimiter = '\"'", "delimiter must be one character"),
        ("encoding = 'utf8-klingon'", "encoding is not known"),
        ("encoding = 'rot13'", "encoding is not known"),
        ("encoding = 'a\\u0000b'", "encoding is not known"),
        ("prompt = 'a'\ncolumn = 'b'", "prompt and column cannot be given together"),
        ("prompt = 'the same'", "names no column"),
        ("prompt = 'a { b {text}'", "single '{'"),
        ("prompt = '{}{text}'", "single '{}'"),
        ("system = 'a'", "system needs chat"),
        ("task = 'embed'\nchat = true", "cannot be combined with embed"),
        ("task = 'classify'", "classify needs labels"),
        ("task = 'classify'\n[classify]\nlabels = []", "classify needs labels"),
        ("task = 'classify'\n[classify]\nlabels = ['a', 'a']", "is given twice"),
        ("[sampling]\nseed = -1", "seed must be at least 0"),
        ("thinking = 64", "line 1: thinking needs chat = true"),
        ("chat = true\nthinking = -1", "line 2: .*must be at least 0|between 0 and"),
        ("chat = true\nthinking = 'a'", "thinking must be None, True, False, a number"),
        ("chat = true\n[thinking]\nbudge = 1", "has no field 'budge'.*mean 'budget'"),
        ("chat = true\nvariables = 3", "variables must be a mapping of names"),
        ("[variables]\na = 1", "line 1: variables needs chat = true"),
        ("chat = true\nchat_template = 'no.jinja'", "chat_template.* cannot be read"),
        ("chat = true\nmerge_system = 1", "merge_system must be true or false"),
        ("answer_prefix = 'a'", "answer_prefix needs chat = true"),
        ("[sampling]\ntop_p = 7", "top_p must be between 0 and 1"),
        ("[sampling]\nschema = 'no.json'", "schema is neither JSON nor a file"),
        ("[sampling.logit_bias]\na = 1", "logit_bias must map token ids"),
        ("a = ", "Invalid value"),
        ("a = " + "[" * 100_000, "run.toml"),
        ("\x00", "Invalid"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, message: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises((ValueError, TypeError), match=message) as caught:
        read_spec(path)
    assert str(caught.value).startswith(str(path))
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("[sampling]\nmax_tokns = 3", 3),
        ("\n[sampling.foo]\nx = 1", 3),
        ("sampling.top_p = 'a'", 2),
        ("sampling.max_tokns = 3", 2),
        ("sampling = {max_tokns = 3}", 2),
        ("[[sampling]]\nx = 1", 2),
        ("sampling = 3", 2),
        ("[sampling] # of the answers\n'max_tokns' = 3", 3),
        ("task = 'annotate'\n[codebook]\nquestion = 'Q?'\nlabls = ['a', 'b']", 5),
        ("task = 'classify'\n[classify]\nlabels = [\n'a',\n'b']\nlabls = 1", 7),
        ("chat = true\n[thinking]\nbudge = 3", 3),
        ("[context]\nn_threads = 1\nn_ctx = -5", 4),
        ("[model]\npath = 'm.gguf'\nn_gpu_layers = 'x'", 4),
        ("[model]\npath = 'm.gguf'\nuse_mmap = 1", 4),
    ],
)
def test_an_error_has_the_line_of_its_key_or_table(
    tmp_path: Path, text: str, line: int
) -> None:
    message = rf"run\.toml, line {line}: "
    with pytest.raises((ValueError, TypeError), match=message):
        read_spec(written(tmp_path, f"input = 'in.csv'\n{text}"))


def test_an_error_in_a_codebook_has_the_line_of_its_own_file(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("question: Q?\nlabls: [a, b]\n", encoding="utf-8")
    path = written(tmp_path, "task = 'annotate'\ncodebook = 'c.yaml'")
    with pytest.raises(ValueError, match=r"c\.yaml, line 2: labls is not a field"):
        read_spec(path)


CHAT = """\
chat = true
thinking = 256
chat_template = "own.jinja"
answer_prefix = "It is"
merge_system = true
[variables]
reasoning_effort = "low"
"""


def test_the_chat_is_rendered_as_the_file_says(tmp_path: Path) -> None:
    (tmp_path / "own.jinja").write_text("{{ messages }}", encoding="utf-8")
    spec = read_spec(written(tmp_path, CHAT))
    options = spec.row_task.options  # type: ignore[attr-defined]
    assert (options.chat, options.thinking) == (True, Thinking(budget=256))
    assert options.variables == {"reasoning_effort": "low"}
    assert (options.template, options.prefix) == ("{{ messages }}", "It is")
    assert options.merge_system is True
    roles = ["answer", "finish_reason", "thinking", "n_thinking_tokens"]
    assert list(spec.row_task.columns) == [*roles, "thinking_complete", "error"]
    # The hash includes the template's content, and no keys with default values.
    inside = with_changes(spec, {"chat_template": "{{ messages }}"})
    assert inside.hash() == spec.hash()
    plain = with_changes(spec, {"thinking": None})
    assert plain.hash() != spec.hash()
    assert "thinking" not in plain.row_task.columns
    # The template's file is found after the run is saved in another folder.
    (tmp_path / "other").mkdir()
    write_spec(spec, tmp_path / "other" / "run.toml")
    assert read_spec(tmp_path / "other" / "run.toml").hash() == spec.hash()


def test_a_table_says_how_to_think(tmp_path: Path) -> None:
    text = "chat = true\n[thinking]\nbudget = 9\nmessage = 'So.'\n"
    spec = read_spec(written(tmp_path, text))
    thinking = Thinking(budget=9, message="So.")
    assert spec.row_task.options.thinking == thinking  # type: ignore[attr-defined]
    more = with_changes(spec, {"thinking.budget": 7, "variables.enable_thinking": True})
    options = more.row_task.options  # type: ignore[attr-defined]
    assert options.thinking == Thinking(budget=7, message="So.")
    assert options.variables == {"enable_thinking": True}


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="No such file"):
        read_spec(tmp_path / "no.toml")
    path = tmp_path / "bytes.toml"
    path.write_bytes(b'input = "\xff.csv"')
    with pytest.raises(ValueError, match="not in UTF-8: byte 0xff in line 1"):
        read_spec(path)
    path.write_bytes(b"#" * (17 << 20))
    with pytest.raises(ValueError, match="larger than"):
        read_spec(path)


def test_what_is_written_is_what_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.gguf").touch()
    (tmp_path / "data").mkdir()
    (tmp_path / "fields.json").write_text('{"type": "object"}', encoding="utf-8")
    spec = RunSpec(
        task="generate",
        input="data/a.csv",
        output="b.jsonl",
        prompt='Tricky: \\ "{text}" \r\n\t \x7f \U0001f600 {{}}',
        chat=True,
        system="Be brief.\n",
        model={"path": "model.gguf"},
        sampling={"schema": "fields.json", "stop": ["\n"], "logit_bias": {"5": -1.5}},
    )
    deep = tmp_path / "deep"
    deep.mkdir()
    for folder in (tmp_path, deep):
        write_spec(spec, folder / "run.toml")
        again = read_spec(folder / "run.toml")
        assert again.hash() == spec.hash()
        assert Path(again.input).resolve() == tmp_path / spec.input
        assert again.settings == spec.settings
        assert Path(again.path).samefile(tmp_path / "model.gguf")
    write_spec(spec, tmp_path / "run.toml")  # the same once more
    with pytest.raises(ValueError, match="describes another run"):
        write_spec(with_changes(spec, {"prompt": "{text}"}), tmp_path / "run.toml")
    with pytest.raises(OSError, match="cannot be used"):
        write_spec(spec, tmp_path / "no" / "run.toml")


def test_the_hash_is_of_what_decides_the_answers(tmp_path: Path) -> None:
    spec = read_spec(written(tmp_path, WHOLE))
    neutral: list[dict[str, Any]] = [
        {"input": "other.csv", "output": "-", "journal": ""},
        {"model.path": "elsewhere.gguf"},
        {"context.n_threads": 3},
        {"model.use_mmap": False},
        {"sampling.top_p": 1.0},  # the default
    ]
    for changes in neutral:
        assert with_changes(spec, changes).hash() == spec.hash(), changes
    other: list[dict[str, Any]] = [
        {"prompt": "Label that headline: {text}"},
        {"sampling.seed": 2},
        {"sampling.max_tokens": 65},
        {"context.deterministic": False},
        {"chat": True},
        {"task": "embed", "context": {}, "sampling": {}},
        {"prefix": "llm_"},
    ]
    hashes = [with_changes(spec, changes).hash() for changes in other]
    assert len({spec.hash(), *hashes}) == 1 + len(other)


def test_the_hash_is_of_a_schemas_content(tmp_path: Path) -> None:
    path = tmp_path / "fields.json"
    path.write_text('{"type": "object"}', encoding="utf-8")
    spec = RunSpec(sampling={"schema": str(path)})
    first = spec.hash()
    assert RunSpec(sampling={"schema": {"type": "object"}}).hash() == first
    path.write_text('{"type": "array"}', encoding="utf-8")
    assert spec.hash() != first


def test_a_column_is_a_prompt_and_labels_keep_their_order() -> None:
    assert RunSpec(column="text").hash() == RunSpec().hash()
    assert RunSpec(column="a").hash() == RunSpec(prompt="{a}").hash()
    one, other = (
        spec_of({"task": "classify", "classify": {"labels": labels}}, Path.cwd())
        for labels in ({"a": "A", "b": "B"}, {"b": "B", "a": "A"})
    )
    assert one.hash() != other.hash()


def test_settings_by_flag() -> None:
    assert parsed_setting("context.n_seq_max=16") == ("context.n_seq_max", 16)
    assert parsed_setting("a = [1, 2]") == ("a", [1, 2])
    assert parsed_setting("prompt=plain words") == ("prompt", "plain words")
    with pytest.raises(ValueError, match="not KEY=VALUE"):
        parsed_setting("n_ctx")
    with pytest.raises(ValueError, match=r"no table \[contxt\]"):
        with_changes(RunSpec(), {"contxt.n_ctx": 1})


def test_a_template_is_filled_and_never_read_again() -> None:
    template = Template.parsed("{{{a}}} {b c}{a}")
    assert template.columns == ("a", "b c")
    assert template.filled({"a": "{b c}", "b c": "{{}}"}) == ("{{b c}} {{}}{b c}", "")
    assert template.filled({"a": 1.5, "b c": ["x", None]})[0] == '{1.5} ["x", null]1.5'
    for empty in (None, "", " \n"):
        prompt, problem = template.filled({"a": "x", "b c": empty})
        assert (prompt, problem) == ("", "the text is empty in column 'b c'")
    assert Template.parsed(str(template)) == template
    assert Template.of_column("{odd}").filled({"{odd}": "x"}) == ("x", "")
    hostile = Template.parsed("{text.__class__}")
    assert hostile.columns == ("text.__class__",)
    with pytest.raises(ValueError, match=r"no column 'text.__class__'.*it has 'text'"):
        hostile.check(["text"])


NAMES = ("a", "{", "}", "{a}", "a}", "a}{b", "{{", "}}", '["a", true]', "a}b{c", "")


def test_different_templates_have_different_hashes() -> None:
    texts = [
        *(
            "{a}",
            "{{{a}",
            "{a}}}",
            "{a}{b}",
            "{a}b{c}",
            "{{}}{a}",
            "{a}{{b}}",
            "{{a}}{a}",
        ),
        '{["a", true]}',
    ]
    specs = [RunSpec(task="embed", prompt=text) for text in texts]
    specs += [RunSpec(task="embed", column=name) for name in NAMES if name]
    by_hash: dict[str, Template] = {}
    for spec in specs:
        assert by_hash.setdefault(spec.hash(), spec.template) == spec.template
    # A journal written before has the hash of the text, where the text says all.
    assert RunSpec(task="embed", column="a").canonical()["prompt"] == "{a}"


def test_the_canonical_content_is_json() -> None:
    spec = RunSpec(sampling={"logit_bias": {"5": -1.0}, "stop": ["a"]})
    assert json.loads(json.dumps(spec.canonical())) == spec.canonical()


TABLES = {
    "context": {"n_ctx": 64},
    "sampling": {"top_p": 0.5},
    "classify": {"labels": ["a", "b"]},
    "embed": {"truncate": True},
    "codebook": {"question": "Which?", "labels": ["a", "b"]},
    "annotate": {"seed": 1},
}


OWN = {
    "generate": ["sampling", "context"],
    "classify": ["classify", "context"],
    "annotate": ["annotate", "codebook", "context"],
    "embed": ["embed"],
}
OTHERS = [(task, table) for task in OWN for table in TABLES if table not in OWN[task]]


@pytest.mark.parametrize(("task", "table"), OTHERS)
def test_a_table_of_another_task_is_refused(
    task: str, table: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    needed = {
        name: TABLES[name] for name in ("classify", "codebook") if name in OWN[task]
    }
    RunSpec(task=task, **needed)
    key = next(iter(TABLES[table]))
    where = "codebook" if table == "codebook" else rf"\[{table}\] {key}"
    message = rf"{where} needs task = .*, but task is '{task}'$"
    with pytest.raises(ArgumentError, match=message):
        RunSpec(task=task, **{**needed, table: TABLES[table]})
    file = written(
        tmp_path, tomli_w.dumps({"task": task, **needed, table: TABLES[table]})
    )
    with pytest.raises(ArgumentError, match=rf"run.toml, line \d+: {message}"):
        read_spec(file)
    file = written(tmp_path, tomli_w.dumps({"task": task, **needed}))
    setting = "codebook" if table == "codebook" else f"{table}.{key}"
    value = "a.yaml" if table == "codebook" else TABLES[table][key]
    assert main(["run", str(file), "--show-prompt", "--set", f"{setting}={value}"]) == 2
    assert f"--set {setting} needs task = " in capsys.readouterr().err


@pytest.mark.parametrize("name", ["temperature", "max_tokens"])
def test_settings_of_generation_need_generation(name: str) -> None:
    settings = {name: 5}
    with pytest.raises(ValueError, match=f"{name} has an effect only with method"):
        RunSpec(task="annotate", codebook=TABLES["codebook"], annotate=settings)
    RunSpec(
        task="annotate",
        codebook=TABLES["codebook"],
        annotate={**settings, "method": "generate"},
    )


@pytest.mark.parametrize("delimiter", [";", "\t", "|"])
def test_a_table_with_another_delimiter_is_recognized(delimiter: str) -> None:
    template = Template.of_column("text")
    header = delimiter.join(["id", '"text"', "year"])
    with pytest.raises(
        ValueError, match=r"; is its delimiter .* \(--delimiter\)"
    ) as caught:
        template.check([header])
    assert repr(delimiter) in str(caught.value)
    for other in (["id", "year"], [header, "year"], [delimiter.join(["id", "texts"])]):
        with pytest.raises(ValueError, match="no column 'text'") as caught:
            template.check(other)
        assert "is its delimiter" not in str(caught.value)
