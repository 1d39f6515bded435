from __future__ import annotations

import csv
import json
import sqlite3
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tiny_models
from llamaherd.engine.core.errors import JournalError
from llamaherd.tables import execution
from llamaherd.tables.execution import do_run, journal_path
from llamaherd.tables.merging import merge_runs
from llamaherd.tables.spec import RunSpec
from llamaherd.tables.spec_file import with_changes
from programs import ended

if TYPE_CHECKING:
    from llamaherd.tables.execution import RunProgress

Tiny = Callable[[str], Path]
TEXTS = [f"{'abc'[i % 3] * 6} text number {i // 2}" for i in range(60)]
SHORT = {"max_tokens": 5, "ignore_eos": True}


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def table(texts: list[str], name: str = "in.csv") -> None:
    with Path(name).open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "text"])
        writer.writerows(enumerate(texts))


def described(model: Path, **keys: Any) -> RunSpec:
    keys.setdefault("output", "out.csv")
    task = keys.get("task", "generate")
    if task == "generate":
        keys.setdefault("sampling", SHORT)
    if task != "embed":
        keys.setdefault("context", {"deterministic": True, "n_threads": 1})
    return RunSpec(input="in.csv", model={"path": str(model)}, **keys)


def rows_of(path: str) -> list[dict[str, str]]:
    with Path(path).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@contextmanager
def asking(
    before: Callable[[int, Any], object] = lambda _n_asked, _places: None,
) -> Iterator[list[int]]:
    """Return the numbers of prompts of all questions to the host.

    Before each, call a function with the number of earlier questions and the places.
    """
    ask_model = execution._Run._ask_model
    counts: list[int] = []

    def counting(self: Any, prompts: Any, places: Any, *more: Any) -> Any:
        before(len(counts), places)
        counts.append(len(prompts))
        return ask_model(self, prompts, places, *more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(execution._Run, "_ask_model", counting)
        yield counts


def interrupt(spec: RunSpec, n_questions: int, **how: Any) -> None:
    """Interrupt a run after a number of questions to the host."""

    def stop(n_asked: int, _places: Any) -> None:
        if n_asked == n_questions:
            raise KeyboardInterrupt

    with asking(stop), pytest.raises(KeyboardInterrupt):
        do_run(spec, **how)


def change_record(journal: str, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the record of the run in a journal."""
    with closing(sqlite3.connect(journal)) as db, db:
        [text] = db.execute("SELECT record FROM run").fetchone()
        record = json.loads(text)
        change(record)
        db.execute("UPDATE run SET record = ?", (json.dumps(record),))


def test_answers_are_those_of_generate_parallel(tiny_path: Tiny) -> None:
    table(TEXTS)
    drawn = {**SHORT, "temperature": 1.5, "seed": 7}
    spec = described(tiny_path("llama"), prompt="Say {text}.", sampling=drawn)
    # With blocks smaller than the table, the draws equal the draws of a single call.
    outcome = do_run(spec, block=7)
    assert (outcome.n_rows, outcome.n_failed) == (60, 0)
    rows = rows_of("out.csv")
    with lh.Model(tiny_path("llama")) as model:
        context = lh.Context(model, deterministic=True)
        prompts = [f"Say {text}." for text in TEXTS]
        out = lh.generate_parallel(context, prompts, **drawn)
    assert [row["answer"] for row in rows] == out.texts
    assert [row["id"] for row in rows] == [str(i) for i in range(60)]
    assert {row["finish_reason"] for row in rows} == {"length"}
    meta = json.loads(Path("out.csv.meta.json").read_text("utf-8"))
    assert meta["run_sha256"] == spec.hash()
    assert meta["n_rows"] == 60
    assert meta["model"] == "llama.gguf"
    assert len(meta["model_sha256"]) == len(meta["input_sha256"]) == 64


def test_bad_rows_are_in_the_output_with_their_reason(tiny_path: Tiny) -> None:
    Path("in.csv").write_bytes(
        b'id,text\n0,good\n1,\n2,"' + b"long " * 200 + b'"\n3,good too\n'
    )
    for output in ("out.csv", "out.jsonl", "out.parquet"):
        spec = described(tiny_path("llama"), output=output)
        outcome = do_run(spec)
        assert (outcome.n_rows, outcome.n_failed) == (4, 2)
    frame = pq.read_table("out.parquet").to_pylist()
    lines = Path("out.jsonl").read_text("utf-8").splitlines()
    assert [json.loads(line) for line in lines] == frame
    errors = [row["error"] for row in frame]
    assert errors[0] is errors[3] is None
    for i, word in ((1, "is empty"), (2, "trained for")):
        assert word in errors[i]
        assert frame[i]["answer"] is None
        assert frame[i]["finish_reason"] == "error"
    assert [row["error"] or None for row in rows_of("out.csv")] == errors


def test_fields_of_a_schema_are_columns(tiny_path: Tiny) -> None:
    table(TEXTS[:4])
    schema = {
        "type": "object",
        "properties": {
            "word": {"enum": ["yes", "no"], "type": "string"},
            "n": {"type": "integer", "minimum": 0, "maximum": 9},
            "part": {"type": ["number", "null"], "enum": [0.5, None]},
            "list": {
                "type": "array",
                "items": {"const": 1},
                "minItems": 2,
                "maxItems": 2,
            },
            "answer": {"const": True, "type": "boolean"},
        },
        "required": ["word", "n", "part", "list", "answer"],
        "additionalProperties": False,
    }
    spec = described(
        tiny_path("llama"),
        output="out.parquet",
        sampling={"schema": schema, "max_tokens": 200},
    )
    assert do_run(spec).n_failed == 0
    stored = pq.read_table("out.parquet")
    assert stored.schema.field("n").type == pa.int64()
    assert stored.schema.field("part").type == pa.float64()
    for row in stored.to_pylist():
        parsed = json.loads(row["answer"])
        assert (row["word"], row["n"]) == (parsed["word"], parsed["n"])
        assert row["list"] == [1, 1]
        assert row["answer.answer"] is True


def test_labels_have_their_probabilities(tiny_path: Tiny) -> None:
    table([*TEXTS[:9], ""])
    spec = described(
        tiny_path("llama"),
        task="classify",
        output="out.parquet",
        prompt="{text}:",
        classify={"labels": {"yes": "Y", "no": "N", "nope": "N"}, "normalize": "token"},
    )
    assert do_run(spec, block=4).n_failed == 1
    rows = pq.read_table("out.parquet").to_pylist()
    with lh.Model(tiny_path("llama")) as model:
        out = lh.classify_parallel(
            lh.Context(model, deterministic=True),
            [f"{text}:" for text in TEXTS[:9]],
            {"yes": "Y", "no": "N", "nope": "N"},
            normalize="token",
        ).to_pandas()
    for row, (_, expected) in zip(rows, out.iterrows(), strict=False):
        assert row["label"] == expected["label"]
        for name in ("prob", "margin", "entropy", "coverage", "p_Y", "p_N"):
            assert row[name] == expected[name]
    assert rows[9]["label"] is rows[9]["p_Y"] is None
    assert "is empty" in rows[9]["error"]


def test_vectors_are_kept_and_taken_from_the_journal(tiny_path: Tiny) -> None:
    table([*TEXTS[:9], ""])
    spec = described(
        tiny_path("bert"),
        task="embed",
        output="out.parquet",
        embed={"deterministic": True},
    )
    interrupt(spec, 2, block=3)
    assert not Path("out.parquet").exists()
    with asking() as n_asked:
        assert do_run(spec, block=3).n_failed == 1
    assert n_asked == [3]  # two blocks were stored; the last needs no answer
    stored = pq.read_table("out.parquet")
    with lh.Model(tiny_path("bert")) as model:
        out = lh.embed_parallel(model, TEXTS[:9], deterministic=True)
    vectors = np.array(stored["embedding"].to_pylist()[:9], np.float32)
    assert (vectors == out.vectors).all()
    assert stored["embedding"].to_pylist()[9] is None


@pytest.mark.parametrize("task", ["embed", "generate"])
def test_a_failing_function_for_progress_loses_no_row(tiny_path: Tiny, task: str) -> None:
    table([*TEXTS[:9], ""])
    output = "out.parquet" if task == "embed" else "out.csv"
    keys: dict[str, Any] = {"task": task, "output": output}
    if task == "generate":
        keys["prompt"] = "{text}"
    model = tiny_path("bert" if task == "embed" else "llama")
    spec = described(model, **keys)

    def fail(progress: RunProgress) -> None:
        if progress.n_done == 10:
            raise RuntimeError("a mistake")

    with pytest.raises(RuntimeError, match="a mistake"):
        do_run(spec, progress=fail)
    journal = Path(f"{output}.journal")
    is_embed = task == "embed"
    assert (_n_rows(journal) if is_embed else len(lh.journal_read(journal))) == 9
    assert do_run(spec).n_failed == 1


def test_a_journal_that_was_removed_is_told_once(plain: RunSpec) -> None:
    journal = Path("out.csv.journal")

    removed: list[Path] = []

    def remove(progress: RunProgress) -> None:
        if progress.n_done >= 20 and not removed:
            removed.extend(Path().glob("out.csv.journal*"))
            for file in removed:
                file.unlink()

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        outcome = do_run(plain, block=7, progress=remove)
    messages = [str(warning.message) for warning in caught] + [outcome.problem]
    assert len([text for text in messages if "was removed, moved" in text]) == 1
    assert len(lh.journal_read(journal)) > 0
    assert len(rows_of("out.csv")) == len(TEXTS)


def _n_rows(journal: Path) -> int:
    with closing(sqlite3.connect(journal)) as db:
        (n,) = db.execute("SELECT count(*) FROM run_row").fetchone()
    return int(n)


def test_chats_are_rendered() -> None:
    template = "{% for m in messages %}<{{ m['role'] }}>{{ m['content'] }}{% endfor %}"
    model = tiny_models.write(Path("m.gguf"), "llama", chat_template=template)
    table(TEXTS[:3])
    spec = described(model, chat=True, system="Be kind.")
    do_run(spec)
    stored = lh.journal_read("out.csv.journal")
    assert {entry.prompt for entry in stored} == {
        f"<system>Be kind.<user>{text}" for text in TEXTS[:3]
    }


def test_a_second_run_takes_all_from_the_journal(plain: RunSpec) -> None:
    do_run(plain, block=16)
    first = Path("out.csv").read_bytes()
    n_stored = len(lh.journal_read("out.csv.journal"))
    Path("out.csv").unlink()
    seen: list[RunProgress] = []
    do_run(plain, block=16, progress=seen.append)
    assert Path("out.csv").read_bytes() == first
    assert len(lh.journal_read("out.csv.journal")) == n_stored
    assert seen[-1].n_done == seen[-1].n_total == 60
    assert all(a.n_done <= b.n_done for a, b in pairwise(seen))


def test_what_cannot_be_is_refused_before_a_model_is_loaded() -> None:
    table(TEXTS)
    spec = described(Path("no.gguf"))
    for changes, message in (
        ({"prompt": "{txt}"}, "no column 'txt'"),
        ({"input": "no.csv"}, "No such file"),
        ({"output": "in.csv"}, "is the input"),
        ({"output": "no/out.csv", "journal": "j"}, "no folder"),
        ({"task": "classify", "classify.labels": ["id"], "prefix": "id"}, None),
    ):
        if message is not None:
            with pytest.raises(ValueError, match=message):
                do_run(with_changes(spec, changes))
    Path("in.csv").write_text("text,error\na,b\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"already has a column 'error'.*--prefix llm_"):
        do_run(spec)
    with pytest.raises(lh.ModelLoadError):
        do_run(with_changes(spec, {"prefix": "llm_"}))


def test_a_table_without_rows(tiny_path: Tiny) -> None:
    table([])
    for output in ("out.csv", "out.jsonl", "out.parquet"):
        spec = described(tiny_path("llama"), output=output)
        assert do_run(spec).n_rows == 0
    assert pq.read_table("out.parquet").num_rows == 0
    assert Path("out.csv").read_text("utf-8") == "id,text,answer,finish_reason,error\n"
    for i in (1, 2):
        do_run(spec, shard=(i, 2))
    paths = [str(journal_path(spec, (i, 2))) for i in (1, 2)]
    assert merge_runs(paths, "merged.csv").n_rows == 0


# ---- shards ----


@pytest.fixture
def plain(tiny_path: Tiny) -> RunSpec:
    """Write a table; return a run over it that generates answers."""
    table(TEXTS)
    return described(tiny_path("llama"))


def sharded(spec: RunSpec, n: int, block: int = 7) -> list[str]:
    for i in range(1, n + 1):
        do_run(spec, shard=(i, n), block=block)
    return [str(journal_path(spec, (i, n))) for i in range(1, n + 1)]


@pytest.mark.parametrize("output", ["out.csv", "out.jsonl", "out.parquet"])
@pytest.mark.parametrize(
    ("kind", "keys"),
    [
        ("llama", {"sampling": SHORT}),
        ("llama", {"sampling": {**SHORT, "temperature": 1.2, "seed": 3}}),
        ("llama", {"task": "classify", "classify": {"labels": ["a", "b"]}}),
        ("bert", {"task": "embed", "embed": {"deterministic": True}}),
    ],
    ids=["greedy", "drawn", "classify", "embed"],
)
def test_shards_together_are_the_whole(
    tiny_path: Tiny, kind: str, keys: dict[str, Any], output: str
) -> None:
    table([*TEXTS, "", "long " * 200])
    spec = described(tiny_path(kind), output=output, **keys)
    whole = do_run(spec, block=20)
    journals = sharded(spec, 3)
    merged = Path(f"merged{Path(output).suffix}")
    outcome = merge_runs(reversed(journals), str(merged), block=20)
    assert (outcome.n_rows, outcome.n_failed) == (whole.n_rows, whole.n_failed) == (62, 2)
    assert merged.read_bytes() == (Path(output)).read_bytes()
    if output != "out.parquet":
        metas = [Path(f"{path}.meta.json").read_text("utf-8") for path in
                 (merged, Path(output))]  # fmt: skip
        assert metas[0] == metas[1]


def test_texts_that_begin_alike_are_in_one_shard(tiny_path: Tiny) -> None:
    texts = [f"{'abc'[i % 3] * 60} {i}" for i in range(60)]
    table(texts)
    journals = sharded(described(tiny_path("llama")), 3)
    for path in journals:
        assert len({entry.prompt[0] for entry in lh.journal_read(path)}) == 1


@pytest.fixture
def three(plain: RunSpec) -> tuple[RunSpec, list[str]]:
    return plain, sharded(plain, 3)


def refused(journals: list[str], message: str, **keys: Any) -> None:
    out = Path(journals[0]).with_name("refused.csv")
    with pytest.raises(ValueError, match=message):
        merge_runs(journals, str(out), **keys)
    assert not out.exists()


def test_a_clock_that_was_set_back_changes_no_order(
    tiny_path: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    table(TEXTS)
    model = tiny_path("llama")
    clock = iter([2e9, *[1e9] * 99])
    now = [next(clock)]
    monkeypatch.setattr("llamaherd.tables.record.time.time", lambda: now[0])
    journal = "one.journal"
    first = described(model, journal=journal, sampling=SHORT)
    other = {**SHORT, "temperature": 1.5}
    second = described(model, journal=journal, sampling=other)
    whole = described(model, output="whole.csv", sampling=other)
    do_run(first, shard=(1, 1))
    now[0] = next(clock)  # 30 years earlier
    do_run(second, shard=(1, 1))
    do_run(whole)
    merged = Path("merged.csv")
    merge_runs([journal], str(merged))
    assert merged.read_bytes() == Path("whole.csv").read_bytes()
    do_run(first, shard=(1, 1))  # from the journal, which again belongs to this run
    merge_runs([journal], str(merged), overwrite=True)
    assert merged.read_bytes() != Path("whole.csv").read_bytes()


@pytest.mark.more(reason="runs a table many times", cases=6)
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n_rows", "3"),
        ("n_rows", -1),
        ("shard", 1.5),
        ("shard", 9),
        ("n_shards", True),
        ("columns", {"a": 1}),
        ("run", []),
        ("lora", "x"),
        ("path", None),
        ("columns", [["a", "blob"]]),
        ("columns", [["a", {"list": "blob"}]]),
        ("columns", [["a", {"struct": [["a"]]}]]),
        ("columns", [["a", {"map": "json"}]]),
        ("columns", [1]),
        ("more", 1),
    ],
)
def test_records_that_no_run_wrote(
    three: tuple[RunSpec, list[str]], name: str, value: object
) -> None:
    _, journals = three
    change_record(journals[0], lambda record: record.update({name: value}))
    with pytest.raises(lh.JournalError, match="its record of the run cannot be read"):
        merge_runs(journals, str(Path(journals[0]).with_name("x.csv")))


def test_shards_that_are_missing_or_double(three: tuple[RunSpec, list[str]]) -> None:
    spec, journals = three
    refused(journals[:1], r"missing shards \(2 of 3\): 2, 3")
    refused(
        [*journals, journals[1]], r"row \d+ is in '.*2-of-3.*' and again in '.*2-of-3"
    )
    with pytest.raises(ValueError, match="no journal to merge"):
        merge_runs([], "-")
    refused([*journals[:2], "no.journal"], "there is no such file")
    refused([*journals[:2], "in.csv"], "is not a journal")
    do_run(spec)
    refused(["out.csv.journal"], "no rows to merge")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sampling.max_tokens": 6}, "another description of the run .*max_tokens is 6"),
        ({"prompt": "Say {text}"}, "description of the run .*prompt is 'Say {text}'"),
        ({"context.n_ctx": 512}, "context.n_ctx is 512 .*instead of not set"),
    ],
)
def test_shards_of_other_settings(
    three: tuple[RunSpec, list[str]], changes: dict[str, Any], message: str
) -> None:
    spec, journals = three
    do_run(with_changes(spec, {**changes, "journal": "other.journal"}), shard=(3, 3))
    refused([*journals[:2], "other.journal"], message)


def test_shards_of_another_model_input_or_number(
    three: tuple[RunSpec, list[str]],
) -> None:
    spec, journals = three
    other = Path("other.journal")
    model = tiny_models.write(Path("other.gguf"), "llama", seed=2)
    for changes, shard, message in (
        ({"model.path": str(model)}, (3, 3), "another model"),
        ({}, (3, 4), "another number of shards .*: 4 and 3"),
    ):
        other.unlink(missing_ok=True)
        do_run(with_changes(spec, {**changes, "journal": str(other)}), shard=shard)
        refused([*journals[:2], str(other)], message)
    table(TEXTS[:-1])
    refused(journals, "differs from the input of the shards: its SHA-256")
    do_run(with_changes(spec, {"journal": str(other)}), shard=(3, 3))
    refused([*journals[:2], str(other)], "another input")
    table(TEXTS, "moved.csv")
    merge_runs(journals, "x.csv", source="moved.csv")
    assert len(rows_of("x.csv")) == 60


def test_a_shard_that_did_not_end_says_so_and_goes_on(plain: RunSpec) -> None:
    interrupt(plain, 1, shard=(1, 2), block=7)
    do_run(plain, shard=(2, 2))
    journals = [str(journal_path(plain, (i, 2))) for i in (1, 2)]
    refused(journals, r"has \d+ of the \d+ rows of shard 1/2: run that shard again")
    do_run(plain, shard=(1, 2), block=7)
    merge_runs(journals, "merged.csv")
    do_run(plain)
    merged = Path("merged.csv")
    assert merged.read_bytes() == Path("out.csv").read_bytes()


def test_a_changed_row_of_a_journal_is_seen(three: tuple[RunSpec, list[str]]) -> None:
    _, journals = three
    with closing(sqlite3.connect(journals[0])) as db, db:
        db.execute("UPDATE run_row SET value = replace(value, 'length', 'stop')")
    refused(journals, "were changed")
    change_record(journals[1], dict.clear)
    refused(journals[1:], "record of the run cannot be read")


def test_a_shard_needs_a_journal_and_a_number(plain: RunSpec) -> None:
    for changes in ({"journal": ""}, {"output": "-"}):
        with pytest.raises(ValueError, match="set one"):
            do_run(with_changes(plain, changes), shard=(1, 2))
    for shard in ((0, 2), (3, 2)):
        with pytest.raises(ValueError, match="shard must be i/n"):
            do_run(plain, shard=shard)


def test_a_journal_that_goes_away_during_a_shard_is_told(plain: RunSpec) -> None:

    def remove(_n_asked: int, places: Any) -> None:
        if places[0] == 30:
            for suffix in ("", "-wal", "-shm"):
                Path(f"{journal_path(plain, (1, 1))}{suffix}").unlink(missing_ok=True)

    with (
        asking(remove),
        pytest.raises(JournalError, match="30 of 60 rows: run the shard again"),
        pytest.warns(lh.JournalWarning),
    ):
        do_run(plain, shard=(1, 1), block=30)
    assert do_run(plain, shard=(1, 1), block=30).n_failed == 0


def test_any_host_can_answer(tiny_path: Tiny) -> None:
    table(TEXTS[:5])
    spec = described(tiny_path("llama"))
    opened: list[RunSpec] = []

    @contextmanager
    def host(of_run: RunSpec) -> Iterator[lh.Context]:
        opened.append(of_run)
        with lh.Model(of_run.path) as model, lh.Context(model) as context:
            yield context

    assert do_run(spec, open_host=host).n_rows == 5
    assert opened == [spec]


LISTED = {
    "type": "object",
    "properties": {
        "tags": {"type": "array", "items": {"const": 1}, "minItems": 2, "maxItems": 2},
        "at": {
            "type": "object",
            "properties": {"x": {"const": 2}, "y": {"enum": ["u", "v"]}},
            "required": ["x", "y"],
            "additionalProperties": False,
        },
        "open": {"type": "object", "properties": {"z": {"const": True}},
                 "required": ["z"]},
    },
    "required": ["tags", "at", "open"],
    "additionalProperties": False,
}  # fmt: skip


def test_lists_and_objects_keep_their_types(tiny_path: Tiny) -> None:
    table(TEXTS[:6])
    sampling = {"schema": LISTED, "max_tokens": 200}
    spec = described(tiny_path("llama"), output="out.parquet", sampling=sampling)
    do_run(spec)
    merge_runs(sharded(spec, 2), "merged.parquet")
    whole = Path("out.parquet").read_bytes()
    assert Path("merged.parquet").read_bytes() == whole
    stored = pq.read_table("out.parquet")
    place = pa.struct([("x", pa.int64()), ("y", pa.string())])
    kinds = [stored.schema.field(name).type for name in ("tags", "at", "open")]
    assert kinds == [pa.list_(pa.int64()), place, pa.string()]
    for row in stored.to_pylist():
        parsed = json.loads(row["answer"])
        assert (row["tags"], row["at"]) == (parsed["tags"], parsed["at"])
        assert json.loads(row["open"]) == parsed["open"]


def test_shards_of_an_earlier_version_have_lists_as_text(tiny_path: Tiny) -> None:
    table(TEXTS[:6])
    sampling = {"schema": LISTED, "max_tokens": 200}
    journals = sharded(described(tiny_path("llama"), sampling=sampling), 2)

    def without_types(record: dict[str, Any]) -> None:
        names = [name for name, _ in record["columns"]]
        kinds = [*["json"] * 3, *["string"] * 3]
        record["columns"] = list(zip(names, kinds, strict=True))

    for path in journals:
        change_record(path, without_types)
    merge_runs(journals, "merged.parquet")
    merged = pq.read_table("merged.parquet")
    assert merged.schema.field("tags").type == pa.string()
    assert merged["tags"].to_pylist() == ["[1, 1]"] * 6


_LIMITED = """
import resource, sys
from llamaherd.engine.core.errors import JournalError
from llamaherd.tables.execution import do_run
from llamaherd.tables.spec import RunSpec

model, limit = sys.argv[1], int(sys.argv[2])
spec = RunSpec(
    input="in.csv", model={"path": model}, output="out.csv",
    sampling={"max_tokens": 5, "ignore_eos": True},
    context={"deterministic": True, "n_threads": 1},
)
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
try:
    do_run(spec)
except JournalError as error:
    print(error)
    sys.exit(3)
"""


@pytest.mark.long(reason="runs a table many times")
@pytest.mark.skipif(sys.platform == "win32", reason="limits the size of files")
def test_a_run_stops_when_its_journal_cannot_grow(tiny_path: Tiny) -> None:
    model = tiny_path("llama")
    table([f"{i} " + "ab" * 20 for i in range(3000)])

    first = ended(_LIMITED, model, 300_000, status=3)
    n_stored = len(lh.journal_read("out.csv.journal"))
    assert f"contains {n_stored} results" in first.stdout
    assert "repeat the same command" in first.stdout
    assert n_stored < 3000
    assert not Path("out.csv").exists()
    spec = described(model)
    assert do_run(spec).n_rows == 3000  # with space again
    assert len(rows_of("out.csv")) == 3000
