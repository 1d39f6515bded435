from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from llamaherd.calls.structured.columns import INTEGER, JSON, NUMBER, STRING, VECTOR
from llamaherd.engine.core.errors import ArgumentError
from llamaherd.tables.inputs import open_input
from llamaherd.tables.outputs import TextWriter, writing
from llamaherd.tables.spec import RunSpec
from llamaherd.tables.table import Block
from llamaherd.tables.template import Template

if TYPE_CHECKING:
    from pathlib import Path

    from llamaherd.tables.table import Row


def read(path: Path, size: int = 2, **options: Any) -> tuple[list[Row], Any]:
    spec = RunSpec(input=str(path), **options)
    with open_input(spec) as source:
        blocks = list(source.table.blocks(size))
        assert [block.start for block in blocks] == list(
            range(0, source.table.n_rows, size)
        )
        rows = [row for block in blocks for row in block.rows]
        assert len(rows) == source.table.n_rows
        return rows, source


def written(folder: Path, content: bytes, name: str = "in.csv") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def values(rows: list[Row]) -> list[tuple[object, ...]]:
    return [tuple(row.values()) for row in rows]


def test_csv_with_all_that_belongs_to_it(tmp_path: Path) -> None:
    content = (
        "\ufeffid,a text,x\r\n"
        '1,"with ""quotes"", commas\r\nand lines",=SUM(A1)\r\n'
        "\r\n"
        "2,\U0001f600 ümlaut,\r\n"
        "3,a\0b,+1"
    ).encode()
    rows, source = read(written(tmp_path, content))
    assert list(source.table.columns) == ["id", "a text", "x"]
    assert values(rows) == [
        ("1", 'with "quotes", commas\r\nand lines', "=SUM(A1)"),
        ("2", "\U0001f600 ümlaut", ""),
        ("3", "a\0b", "+1"),
    ]


# A file that is no table, or has a damaged line: its name, the message and the line.
REFUSED: list[tuple[str, bytes, str, int | None]] = [
    ("in.csv", b"", "it is empty", 1),
    ("in.csv", b"a,b,a\n1,2,3\n", "the column 'a' .* twice", 1),
    ("in.csv", b'"a"a,b\n1,2\n', "a quote is not closed", 1),
    ("in.csv", b"\xff\xfe,b\n1,2\n", "not valid utf-8: byte 0xff", 1),
    ("in.csv", b"a,b\n1,caf\xe9\n", r"byte 0xe9 at character 6.*\(--encoding\)", 2),
    ("in.csv", b"a,b\n\n1\n", "the row has 1 cells, the header 2", 3),
    ("in.csv", b'a,b\n"1\n1",2\n1,a,b\n', "the row has 3 cells, the header 2", 4),
    ("in.csv", b'a,b\n1,"he said "hi" to me"\n', "a quote within a text is not doub", 2),
    ("in.csv", b'a,b\n1,"a"b\n', "a quote within a text is not doubled", 2),
    # The quoted cell has the rest of the file, or the text to the next quote.
    ("in.csv", b'a,b\n1,2\n3,"4\n5,6\n7,8\n', "a quote is not closed", 3),
    ("in.csv", b'a,b\n1,2\n3,"4\n5,"6"\n7,8\n', "a quote is not closed", 3),
    ("in.csv", b'sep=;\na;b\n1;2\n3;"4\n', "a quote is not closed", 4),
    ("in.jsonl", b'{"a": 1}\n\n[1]\n', "not a JSON object: it is not an object", 3),
    ("in.jsonl", b'{"text": \n', "Expecting value at character 11", 1),
    ("in.jsonl", b'{"text": "\xff"}', "not valid utf-8: byte 0xff", 1),
    ("in.jsonl", b'{"text": "\\ud800"}', "not valid Unicode", 1),
    ("in.jsonl", b'{"n": NaN}', "NaN is not a number", 1),
    ("in.jsonl", b'{"n": 1e999}', "1e999 is too large", 1),
    ("in.jsonl", b"[" * 100_000, "nested too deep", 1),
    ("in.jsonl", b'{"n": ' + b"9" * 5000 + b"}", "Exceeds the limit", 1),
    ("in.jsonl", b'{"y": {"z": 1, "z": 2}}', 'an object has the key "z" twice', 1),
    ("in.parquet", b"", "not a Parquet file", None),
    ("in.parquet", b"PAR1", "not a Parquet file", None),
    ("in.parquet", b"PAR1" + b"\xff" * 100 + b"PAR1", "not a Parquet file", None),
]


@pytest.mark.parametrize(("name", "content", "message", "line"), REFUSED)
def test_a_damaged_file_is_refused_with_its_line(
    tmp_path: Path, name: str, content: bytes, message: str, line: int | None
) -> None:
    with pytest.raises(ArgumentError, match=message) as caught:
        read(written(tmp_path, content, name))
    error = caught.value
    assert (error.argument, error.file, error.line) == ("input", name, line)


def test_an_encoding_is_that_of_the_option(tmp_path: Path) -> None:
    rows, _ = read(written(tmp_path, b"text\ncaf\xe9\n"), encoding="cp1252")
    assert values(rows) == [("caf\u00e9",)]
    # A quote within a cell that is not quoted is an ordinary character.
    rows, _ = read(written(tmp_path, b'id,text\n4,5" wide\n'))
    assert values(rows) == [("4", '5" wide')]


@pytest.mark.long(reason="runs a table many times")
def test_a_huge_cell_is_read_and_one_without_an_end_refused(tmp_path: Path) -> None:
    rows, _ = read(written(tmp_path, b"text\n" + b"x" * 1_000_000 + b"\n"))
    assert len(str(rows[0]["text"])) == 1_000_000
    with pytest.raises(ValueError, match=r"line 2: .* a quote is not closed"):
        read(written(tmp_path, b'text\n"' + b"x" * (65 << 20)))


def test_tsv_and_other_delimiters(tmp_path: Path) -> None:
    rows, _ = read(written(tmp_path, b"a\tb,c\n1\t2,3\n", "in.tsv"))
    assert values(rows) == [("1", "2,3")]
    rows, _ = read(written(tmp_path, b"a;b\n1;2\n"), delimiter=";")
    assert values(rows) == [("1", "2")]


def test_json_lines_have_types(tmp_path: Path) -> None:
    lines = [
        b'\xef\xbb\xbf{"text": "a", "n": 1, "x": 1}',
        b'{"text": "b\\u2028", "n": 2.5, "y": {"z": [1]}}',
        b"",
        b'{"text": "c", "n": null, "x": true}',
    ]
    rows, source = read(written(tmp_path, b"\n".join(lines), "in.jsonl"))
    kinds = {"text": STRING, "n": NUMBER, "x": JSON, "y": JSON}
    assert source.table.columns == kinds
    assert rows[1] == {"text": "b\u2028", "n": 2.5, "y": {"z": [1]}}
    prompt = Template.parsed("{n} {x}").filled(rows[1])
    assert prompt == ("", "the row has no 'x'")


def test_parquet_keeps_its_types(tmp_path: Path) -> None:
    path = tmp_path / "in.parquet"
    table = pa.table(
        {
            "text": ["good", None],
            "kind": pa.array(["a", "b"]).dictionary_encode(),
            "n": pa.array([1, None], pa.int8()),
        }
    )
    pq.write_table(table, path)
    rows, source = read(path)
    assert [row["kind"] for row in rows] == ["a", "b"]
    assert source.table.columns["n"] == INTEGER


@pytest.mark.parametrize(
    ("names", "is_kept"),
    [
        pytest.param(["text", "n"], True, id="texts"),
        pytest.param([("a", "text"), ("a", "n")], False, id="two levels"),
        pytest.param([1, 2], False, id="numbers"),
    ],
)
def test_pandas_reads_its_index_and_types_from_the_output(
    tmp_path: Path, names: list[Any], *, is_kept: bool
) -> None:
    frame = pd.DataFrame(
        {"text": ["good", "bad"], "n": pd.array([1, None], dtype="Int64")},
        index=pd.Index(["r1", "r2"], name="id"),
    )
    frame.columns = pd.Index(names)
    frame.to_parquet(tmp_path / "in.parquet")
    spec = RunSpec(
        input=str(tmp_path / "in.parquet"), output=str(tmp_path / "out.parquet")
    )
    with open_input(spec) as source, writing(spec, source, {"c": STRING}, "{}") as writer:
        for block in source.table.blocks(1):
            writer.write(block, [["x"]])
    out = pd.read_parquet(spec.output)
    assert list(out.pop("c")) == ["x", "x"]
    if is_kept:
        pd.testing.assert_frame_equal(out, frame)
    else:
        assert list(out["id"]) == ["r1", "r2"]


def test_parquet_whose_texts_are_damaged_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "in.parquet"
    raw = pa.array([b"good", b"caf\xe9", None])
    text = pa.Array.from_buffers(pa.string(), 3, raw.buffers())
    pq.write_table(pa.table({"text": text}), path)
    with pytest.raises(
        ArgumentError, match="row 2: column 'text' is not valid"
    ) as caught:
        read(path)
    assert (caught.value.place, caught.value.file) == ((1,), "in.parquet")


def test_the_second_column_of_a_name_has_its_place(tmp_path: Path) -> None:
    path = tmp_path / "in.parquet"
    columns = [pa.array(["a"])] * 3
    pq.write_table(pa.Table.from_arrays(columns, names=["x", "y", "x"]), path)
    with pytest.raises(ArgumentError, match=r"the column 'x' .* twice") as caught:
        read(path)
    assert (caught.value.place, caught.value.code) == ((2,), "duplicate")


def test_an_input_that_changes_while_it_is_read(tmp_path: Path) -> None:
    path = written(tmp_path, b"text\na\n")
    with open_input(RunSpec(input=str(path))) as source:
        source.check_unchanged()
        path.write_bytes(b"text\na\nb\n")
        with pytest.raises(ValueError, match="changed while it was read"):
            source.check_unchanged()
        path.unlink()  # its rows are read from the open file
        source.check_unchanged()
    with pytest.raises(ValueError, match="cannot be read: No such file"):
        read(tmp_path / "no.csv")


def text_out(rows: list[list[str]], delimiter: str = ",") -> str:
    out = io.BytesIO()
    writer = TextWriter(out, ["a", "b"], {"c": STRING}, delimiter=delimiter)
    block = Block(0, [{"a": row[0], "b": row[1]} for row in rows])
    writer.write(block, [[row[2] for row in rows]])
    return out.getvalue().decode()


@given(st.lists(st.lists(st.text(), min_size=3, max_size=3), max_size=5))
def test_csv_is_read_again_as_it_was(rows: list[list[str]]) -> None:
    text = text_out(rows)
    reread = list(csv.reader(io.StringIO(text, newline=""), strict=True))
    assert reread == [["a", "b", "c"], *rows]
    lines = text_out(rows, "").split("\n")[:-1]
    assert [list(json.loads(line).values()) for line in lines] == rows


def write(
    folder: Path, name: str, kinds: dict[str, Any], new: list[Any], **words: Any
) -> Path:
    at = {"input": str(folder / "in.csv"), "output": str(folder / name)}
    spec = RunSpec(**at, **words)
    with (
        open_input(spec) as source,
        writing(spec, source, kinds, '{"run":1}') as writer,
    ):
        for block in source.table.blocks(10):
            writer.write(block, new)
    return folder / name


def test_each_format_holds_what_was_found(tmp_path: Path) -> None:
    written(tmp_path, b'text\na\n"=b\r"\n')
    vector = np.array([0.1, 1e-7], np.float32)
    kinds = {"n": INTEGER, "p": NUMBER, "j": JSON, "v": VECTOR, "error": STRING}
    new = [
        [1, None],
        [0.5, float("nan")],
        [{"k": ["ü"]}, None],
        [vector, None],
        [None, "e"],
    ]
    text = write(tmp_path, "out.csv", kinds, new).read_bytes().decode()
    assert list(csv.reader(io.StringIO(text, newline=""))) == [
        ["text", *kinds],
        ["a", "1", "0.5", '{"k": ["ü"]}', "[0.1,1e-07]", ""],
        ["=b\r", "", "", "", "", "e"],
    ]
    sheet = write(tmp_path, "sheet.csv", kinds, new, spreadsheet=True).read_bytes()
    assert sheet.startswith(b"\xef\xbb\xbftext,")
    assert b'"\'=b\r"' in sheet
    lines = write(tmp_path, "out.jsonl", kinds, new).read_text("utf-8").splitlines()
    assert json.loads(lines[0])["v"] == [0.1, 1e-07]
    assert json.loads(lines[1]) == dict.fromkeys(kinds) | {"text": "=b\r", "error": "e"}
    meta = json.loads((tmp_path / "out.jsonl.meta.json").read_text("utf-8"))
    assert meta["run"] == 1
    assert len(meta["output_sha256"]) == 64
    table = pq.read_table(write(tmp_path, "out.parquet", kinds, new))
    assert table.schema.metadata[b"llamaherd"] == b'{"run":1}'
    assert table.schema.field("v").type == pa.list_(pa.float32())  # see arrow_type
    assert table["v"].to_pylist()[0] == vector.tolist()
    assert table["j"].to_pylist() == ['{"k": ["ü"]}', None]
    assert table["n"].to_pylist() == [1, None]


def test_an_output_is_whole_or_not_there(tmp_path: Path) -> None:
    written(tmp_path, b"text\na\n")
    for name in ("out.csv", "out.parquet"):
        (tmp_path / name).write_bytes(b"before")
        stale = tmp_path / f"{name}.999999999.part"
        stale.touch()
        with pytest.raises(ValueError):
            write(tmp_path, name, {"n": INTEGER}, [[1, 2]])
        assert (tmp_path / name).read_bytes() == b"before"
        assert not stale.exists()
    assert not list(tmp_path.glob("*.part"))
    for name, message in (
        ("in.csv", "is the input"),
        ("no/out.csv", "there is no folder"),
    ):
        with pytest.raises(ValueError, match=message):
            write(tmp_path, name, {}, [])
