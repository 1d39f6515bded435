from __future__ import annotations

import csv
import io
import json
import re
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from llamaherd.calls.structured.columns import INTEGER, JSON, NUMBER, STRING, VECTOR
from llamaherd.engine.core.errors import ArgumentError
from llamaherd.tables.inputs import opened
from llamaherd.tables.outputs import TextWriter, writing
from llamaherd.tables.spec import RunSpec
from llamaherd.tables.table import Block, Row
from llamaherd.tables.template import Template

if TYPE_CHECKING:
    from pathlib import Path


def read(path: Path, size: int = 2, **options: Any) -> tuple[list[Row], Any]:
    spec = RunSpec(input=path.name, folder=path.parent, **options)
    with opened(spec) as source:
        blocks = list(source.table.blocks(size))
        assert [block.start for block in blocks] == list(
            range(0, source.table.n_rows, size)
        )
        rows = [row for block in blocks for row in block.rows]
        assert len(rows) == source.table.n_rows
        return rows, source


def made(folder: Path, content: bytes, name: str = "in.csv") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def values(rows: list[Row]) -> list[tuple[object, ...]]:
    return [tuple(row.values.values()) for row in rows]


def test_csv_with_all_that_belongs_to_it(tmp_path: Path) -> None:
    content = (
        "\ufeffid,a text,x\r\n"
        '1,"with ""quotes"", commas\r\nand lines",=SUM(A1)\r\n'
        "\r\n"
        "2,\U0001f600 ümlaut,\r\n"
        "3,a\0b,+1"
    ).encode()
    rows, source = read(made(tmp_path, content))
    assert list(source.table.columns) == ["id", "a text", "x"]
    assert values(rows) == [
        ("1", 'with "quotes", commas\r\nand lines', "=SUM(A1)"),
        ("2", "\U0001f600 ümlaut", ""),
        ("3", "a\0b", "+1"),
    ]
    assert not any(row.problem for row in rows)


def test_bad_rows_of_csv_stay_rows(tmp_path: Path) -> None:
    content = b"id,text\n1,caf\xe9 au lait\n2\n3,a,b\n4,good\n"
    rows, _ = read(made(tmp_path, content))
    advice = "; set the file's encoding (--encoding)"
    assert [row.problem for row in rows] == [
        f"line 2: column 'text' is not valid utf-8: byte 0xe9 at character 4{advice}",
        "line 3: the row has 1 cells, the header 2",
        "line 4: the row has 3 cells, the header 2; beyond them: b",
        "",
    ]
    assert values(rows) == [
        ("1", "caf\ufffd au lait"),
        ("2", ""),
        ("3", "a"),
        ("4", "good"),
    ]
    rows, _ = read(made(tmp_path, content), encoding="cp1252")
    assert rows[0].values["text"] == "café au lait"
    assert rows[0].problem == ""


def test_a_quote_that_is_wrong_spoils_its_row_alone(tmp_path: Path) -> None:
    content = (
        b'id,text\n1,"a ""good"" one"\n\n2,"he said "hi" to me"\n3,"5" wide, or 6"\n'
        b'4,5" wide\n5,"two\nlines"\n6,"a"b\n7,plain\n8,"not closed\n'
    )
    # After a misplaced quote, a quote inside a cell may be the end of its text.
    with pytest.raises(ValueError, match="line 5: a quote is wrong here, and line 6 may"):
        read(made(tmp_path, content))
    rows, _ = read(made(tmp_path, content.replace(b'5" wide\n', b"5 wide\n")))
    reason = "line {}: a quote in a text is not doubled or closed"
    assert [row.values["id"] for row in rows] == list("12345678")
    assert [row.problem for row in rows] == [
        "", reason.format(4), reason.format(5), "", "", reason.format(9), "",
        reason.format(11),
    ]  # fmt: skip
    assert rows[4].values["text"] == "two\nlines"
    # Without a misplaced quote before it, such a quote is an ordinary character.
    rows, _ = read(made(tmp_path, b'id,text\n4,5" wide\n'))
    assert values(rows) == [("4", '5" wide')]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "it is empty"),
        (b"a,b,a\n1,2,3\n", "the column 'a' .* twice"),
        (b'"a"a,b\n1,2\n', "line 1: the names of its columns cannot be read: a quote"),
        # The quoted cell of line 3 includes the rest of the file, or the text to the
        # next quote.
        (
            b'a,b\n1,2\n3,"4\n5,6\n7,8\n',
            "line 3: the quote that opens here is not closed",
        ),
        (b'a,b\n1,2\n3,"4\n5,"6"\n7,8\n', "line 3: the quote that opens here is not"),
        (b'a,b\n1,2\n"3\n3",4\n"5\n5","6\n7,8\n', "line 6: the quote that opens here is"),
        # It is ambiguous whether this is a text of two lines or a separate row.
        (
            b'a,b\n1,"x "y" z\nend"\n',
            "line 2: a quote is wrong here, and line 3 may belong to the same",
        ),
        (b'a,b\n"1"x,"y\nz"\n', "line 2: the quote that opens here is not closed"),
        (b"\xff\xfe,b\n1,2\n", "names of its columns are not valid"),
        (b",".join(b"%d" % i for i in range(10_001)), "10001 columns"),
    ],
)
def test_a_file_that_is_no_table_is_refused(
    tmp_path: Path, content: bytes, message: str
) -> None:
    with pytest.raises(lh.ArgumentError, match=message) as caught:
        read(made(tmp_path, content))
    assert (caught.value.argument, caught.value.file) == ("input", "in.csv")
    line = re.search(r"line (\d)", message)
    assert caught.value.line == (int(line[1]) if line else 1)


@pytest.mark.long(reason="runs a table many times")
def test_a_huge_cell_is_read_and_one_without_an_end_refused(tmp_path: Path) -> None:
    rows, _ = read(made(tmp_path, b"text\n" + b"x" * 1_000_000 + b"\n"))
    assert len(str(rows[0].values["text"])) == 1_000_000
    with pytest.raises(
        ValueError, match="line 2: the quote that opens here is not closed"
    ):
        read(made(tmp_path, b'text\n"' + b"x" * (65 << 20)))


def test_tsv_and_other_delimiters(tmp_path: Path) -> None:
    rows, _ = read(made(tmp_path, b"a\tb,c\n1\t2,3\n", "in.tsv"))
    assert values(rows) == [("1", "2,3")]
    rows, _ = read(made(tmp_path, b"a;b\n1;2\n"), delimiter=";")
    assert values(rows) == [("1", "2")]


def test_json_lines_and_their_bad_rows(tmp_path: Path) -> None:
    lines = [
        b'\xef\xbb\xbf{"text": "a", "n": 1, "x": 1}',
        b'{"text": "b\\u2028", "n": 2.5, "y": {"z": [1]}}',
        b'{"text": "c", "n": null, "x": true}',
        b"",
        b"[1]",
        b'{"text": ',
        b'{"text": "\xff"}',
        b'{"text": "\\ud800"}',
        b'{"n": NaN}',
        b'{"n": 1e999}',
        b"[" * 100_000,
        b'{"n": ' + b"9" * 5000 + b"}",
        b'{"text": "a", "y": {"z": 1, "z": 2}}',
    ]
    rows, source = read(made(tmp_path, b"\n".join(lines), "in.jsonl"))
    assert source.table.columns == {
        "text": STRING,
        "n": NUMBER,
        "x": JSON,
        "y": JSON,
    }
    assert [bool(row.problem) for row in rows] == [False] * 3 + [True] * 9
    assert rows[1].values == {"text": "b\u2028", "n": 2.5, "y": {"z": [1]}}
    told = " | ".join(row.problem for row in rows[3:])
    for word in (
        "line 5 is not a JSON object: [1]", "byte 0xff", "not valid Unicode", "NaN",
        'line 6 is not valid JSON (Expecting value at character 11): {"text": ',
        "too large",
        f"line 11 is not valid JSON (it is nested too deep): {'[' * 200}...",
        'line 13: an object has the key "z" twice: {"text": "a", ',
    ):  # fmt: skip
        assert word in told
    told = Template.parsed("{n} {x}").filled(rows[1].values)
    assert told == ("", "the row has no 'x'")
    with pytest.raises(ValueError, match="no line of it has a JSON object"):
        read(made(tmp_path, b"text\n1\n", "in.jsonl"))


def test_parquet_keeps_its_types_and_tells_of_bad_texts(tmp_path: Path) -> None:
    path = tmp_path / "in.parquet"
    raw = pa.array([b"good", b"caf\xe9", None])
    text = pa.Array.from_buffers(pa.string(), 3, raw.buffers())
    table = pa.table(
        {
            "text": text,
            "when": pa.array([1, 2, 3], pa.timestamp("ns")),
            "kind": pa.array(["a", "b", "a"]).dictionary_encode(),
            "n": pa.array([1, None, 3], pa.int8()),
        }
    )
    pq.write_table(table, path)
    rows, source = read(path)
    assert [row.problem for row in rows] == ["", "column 'text' is not valid UTF-8", ""]
    assert rows[1].values["text"] == "caf\ufffd"
    assert [row.values["kind"] for row in rows] == ["a", "b", "a"]
    assert source.table.columns["n"] == INTEGER


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1" + b"\xff" * 100 + b"PAR1"])
def test_a_damaged_parquet_file_is_refused(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(ValueError, match="not a Parquet file"):
        read(made(tmp_path, content, "in.parquet"))


def test_parquet_with_a_column_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "in.parquet"
    pq.write_table(pa.Table.from_arrays([pa.array(["a"])] * 2, names=["x", "x"]), path)
    with pytest.raises(ValueError, match=r"the column 'x' .* twice"):
        read(path)


@pytest.mark.parametrize(
    ("name", "content", "fields"),
    [
        ("in.csv", b"", ("empty", 1)),
        ("in.csv", b"a,b,a\n1,2,3\n", ("bad_header", 1)),
        ("in.jsonl", b"[1]\n2\n", ("no_json", None)),
        ("in.parquet", b"PAR1", ("no_parquet", None)),
    ],
)
def test_errors_of_an_input_have_fields(
    tmp_path: Path, name: str, content: bytes, fields: tuple[str, int | None]
) -> None:
    with pytest.raises(ArgumentError) as caught:
        read(made(tmp_path, content, name))
    error = caught.value
    assert (error.argument, error.place, error.file) == ("input", (), name)
    assert (error.code, error.line) == fields


def test_the_second_column_of_a_name_has_its_place(tmp_path: Path) -> None:
    path = tmp_path / "in.parquet"
    columns = [pa.array(["a"])] * 3
    pq.write_table(pa.Table.from_arrays(columns, names=["x", "y", "x"]), path)
    with pytest.raises(ArgumentError) as caught:
        read(path)
    assert (caught.value.place, caught.value.code) == ((2,), "duplicate")


def test_an_input_that_changes_while_it_is_read(tmp_path: Path) -> None:
    path = made(tmp_path, b"text\na\n")
    with opened(RunSpec(input="in.csv", folder=tmp_path)) as source:
        source.check_unchanged()
        path.write_bytes(b"text\na\nb\n")
        with pytest.raises(ValueError, match="changed while it was read"):
            source.check_unchanged()
    with pytest.raises(ValueError, match="cannot be read: No such file"):
        read(tmp_path / "no.csv")


def text_out(rows: list[list[str]], delimiter: str = ",") -> str:
    out = io.BytesIO()
    writer = TextWriter(out, ["a", "b"], {"c": STRING}, delimiter=delimiter)
    block = Block(0, [Row({"a": row[0], "b": row[1]}) for row in rows])
    writer.write(block, [[row[2] for row in rows]])
    return out.getvalue().decode()


@given(st.lists(st.lists(st.text(), min_size=3, max_size=3), max_size=5))
def test_csv_is_read_again_as_it_was(rows: list[list[str]]) -> None:
    text = text_out(rows)
    found = list(csv.reader(io.StringIO(text, newline=""), strict=True))
    assert found == [["a", "b", "c"], *rows]
    lines = text_out(rows, "").split("\n")[:-1]
    assert [list(json.loads(line).values()) for line in lines] == rows


def write(
    folder: Path, name: str, kinds: dict[str, Any], new: list[Any], **words: Any
) -> Path:
    spec = RunSpec(input="in.csv", output=name, folder=folder, **words)
    with (
        opened(spec) as source,
        writing(spec, source, kinds, '{"run":1}') as writer,
    ):
        for block in source.table.blocks(10):
            writer.write(block, new)
    return folder / name


def test_each_format_holds_what_was_found(tmp_path: Path) -> None:
    made(tmp_path, b'text\na\n"=b\r"\n')
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
    made(tmp_path, b"text\na\n")
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
