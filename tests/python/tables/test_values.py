"""One value is the same in CSV, JSON lines, Parquet, pandas, polars and Arrow."""

from __future__ import annotations

import csv
import datetime as dt
import decimal
import io
import json
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from llamaherd.calls.structured.columns import JSON, SchemaLayout, cells, columns_of
from llamaherd.coding_page.sheet import make_sheet
from llamaherd.tables.outputs import TextWriter
from llamaherd.tables.parquet import ParquetTable, ParquetWriter
from llamaherd.tables.table import Block
from llamaherd.tables.template import Template

if TYPE_CHECKING:
    from pathlib import Path

COLOURS = {"enum": ["red", "blue"]}
REFERRED = {"$ref": "#/$defs/Colour"}
# Schemas from pydantic 1 and 2, other libraries and people, each with a valid value.
FIELDS: dict[str, tuple[object, Any]] = {
    "enum": (COLOURS, "blue"),
    "enum with type": ({"type": "string", **COLOURS}, "blue"),
    "reference": (REFERRED, "blue"),
    "all of a reference": ({"allOf": [REFERRED], "default": "red"}, "blue"),
    "one of constants": ({"oneOf": [{"const": "pos"}, {"const": "neg"}]}, "pos"),
    "a text or none": ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "x"),
    "an enum or none": ({"anyOf": [REFERRED, {"type": "null"}]}, "red"),
    "types": ({"type": ["string", "null"]}, 'a "b"'),
    "whole": ({"type": "integer"}, 1171123932307103233),
    "whole or none": ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, 2**63 - 1),
    "negative": ({"type": "integer"}, -(2**63)),
    "constant": ({"const": 3}, 3),
    "number": ({"type": "number"}, 0.1),
    "number or none": ({"oneOf": [{"type": "number"}, {"type": "null"}]}, 1e300),
    "truth": ({"type": "boolean"}, True),
    "truth or none": ({"anyOf": [{"type": "boolean"}, {"type": "null"}]}, False),
    "text or number": ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, "five"),
}
DEFINED = {"Colour": COLOURS}


def schema_of(*, referred: bool) -> str:
    properties = {name: schema for name, (schema, _) in FIELDS.items()}
    whole = {"type": "object", "properties": properties}
    if referred:  # like the schema of a model that refers to itself
        return json.dumps({"$ref": "#/$defs/Item", "$defs": {**DEFINED, "Item": whole}})
    return json.dumps({**whole, "$defs": DEFINED})


def results(answers: list[dict[str, Any] | None], schema: str) -> lh.Results:
    answered = [
        lh.Result(
            index=i,
            text=None if answer is None else json.dumps(answer),
            tokens=[],
            finish_reason="error" if answer is None else "stop",
            complete=answer is not None,
            error="it failed" if answer is None else None,
            n_prompt_tokens=1,
            n_reused_tokens=0,
            seed=0,
            parsed=answer,
        )
        for i, answer in enumerate(answers)
    ]
    return lh.Results(answered, lh.Stats(), layout=SchemaLayout((schema,)))


def cells_of(
    answers: list[dict[str, Any] | None], schema: str
) -> tuple[list[list[Any]], dict[int, str]]:
    """Return the columns of answers, and reasons for values that do not fit."""
    problems: dict[int, str] = {}
    columns = [
        cells(name, [(row or {}).get(name) for row in answers], column.hold, problems)
        for name, column in columns_of(schema).items()
    ]
    return columns, problems


def written(answers: list[dict[str, Any] | None], schema: str) -> dict[str, list[bytes]]:
    """Write the tables of a run to files, and return the columns of the files."""
    kinds = columns_of(schema)
    columns, _ = cells_of(answers, schema)
    block = Block(0, [{} for _ in answers], None)
    files = {}
    for name, delimiter in (("csv", ","), ("jsonl", "")):
        files[name] = io.BytesIO()
        writer = TextWriter(files[name], [], kinds, delimiter=delimiter)
        writer.write(block, columns)
    return {name: file.getvalue() for name, file in files.items()}


@pytest.mark.parametrize("referred", [False, True])
def test_a_value_is_the_same_in_every_table(tmp_path: Path, *, referred: bool) -> None:
    schema = schema_of(referred=referred)
    expected = {name: value for name, (_, value) in FIELDS.items()}
    answers = [expected, None, dict.fromkeys(expected)]
    kinds = columns_of(schema)
    assert list(kinds) == list(expected)
    files = written(answers, schema)
    path = tmp_path / "x.parquet"
    writer = ParquetWriter(path, {}, kinds)
    block = Block(0, [{} for _ in answers], None)
    writer.write(block, cells_of(answers, schema)[0])
    writer.close()
    parsed = results(answers, schema)
    arrow = parsed.to_arrow().drop_columns("error")
    frame = parsed.to_pandas().drop(columns="error")
    tables = {
        "jsonl": [json.loads(line) for line in files["jsonl"].splitlines()],
        "parquet": pq.read_table(path).to_pylist(),
        "arrow": arrow.to_pylist(),
        "polars": pl.from_arrow(arrow).to_dicts(),
        "pandas": [
            {name: None if frame[name].isna()[i] else frame[name][i] for name in frame}
            for i in range(3)
        ],
    }
    for kind, table in tables.items():
        assert table[0] == expected, kind
        types = {name: type(value) for name, value in table[0].items()}
        if kind != "pandas":
            assert types == {name: type(value) for name, value in expected.items()}
        for row in table[1:]:
            assert set(row.values()) == {None}, kind
    text = list(csv.DictReader(io.StringIO(files["csv"].decode())))
    assert text[0] == {
        name: value if isinstance(value, str) else json.dumps(value)
        for name, value in expected.items()
    }
    assert set(text[1].values()) == {""}


def test_types_do_not_depend_on_other_rows() -> None:
    schema = schema_of(referred=False)
    full = {name: value for name, (_, value) in FIELDS.items()}
    frames = [results(rows, schema).to_pandas() for rows in ([full], [full, None])]
    assert list(frames[0].dtypes[:-1]) == list(frames[1].dtypes[:-1])


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 10**47])
def test_a_whole_number_without_room_is_a_reason_and_not_an_empty_cell(
    number: int,
) -> None:
    schema = json.dumps({"properties": {"big": {"type": "integer"}, "s": COLOURS}})
    answers = [{"big": number, "s": "red"}, {"big": 1, "s": "red"}]
    values, problems = cells_of(answers, schema)
    assert values == [[None, 1], ["red", "red"]]
    assert list(problems) == [0]
    problem = problems[0]
    assert problem.startswith("big: the whole number ")
    parsed = results(answers, schema)
    for table in (parsed.to_pandas().to_dict("list"), parsed.to_arrow().to_pydict()):
        assert table["error"][0] == problem
        assert table["error"][1] != table["error"][0]
        assert table["big"][1] == 1
        assert table["s"] == ["red", "red"]
    assert parsed.parsed[0]["big"] == number


def test_schemas_that_refer_to_each_other_are_read_in_bounded_time() -> None:
    names = [f"d{i}" for i in range(40)]
    union = {"anyOf": [{"$ref": f"#/$defs/{name}"} for name in names]}
    schema = {"properties": {"x": union}, "$defs": dict.fromkeys(names, union)}
    assert columns_of(json.dumps(schema)) == {"x": JSON}


DAY = dt.date(2024, 1, 2)
# A value in Arrow, and the text of its cell; "" for a missing cell.
ARROW: dict[str, tuple[pa.Array, str]] = {
    "date": (pa.array([DAY]), "2024-01-02"),
    "date64": (pa.array([DAY], pa.date64()), "2024-01-02"),
    "time": (pa.array([11_045_120_000], pa.time64("us")), "03:04:05.12"),
    "time of nanoseconds": (pa.array([1], pa.time64("ns")), "00:00:00.000000001"),
    "timestamp": (pa.array([0], pa.timestamp("s")), "1970-01-01 00:00:00"),
    "timestamp of nanoseconds": (
        pa.array([1], pa.timestamp("ns")),
        "1970-01-01 00:00:00.000000001",
    ),
    "timestamp of a zone": (
        pa.array([0], pa.timestamp("ms", "Europe/Berlin")),
        "1970-01-01 01:00:00+01:00",
    ),
    "duration": (pa.array([90], pa.duration("s")), "PT1M30S"),
    "decimal": (pa.array([decimal.Decimal("1.50")]), "1.50"),
    "binary text": (pa.array([b"caf\xc3\xa9"]), "caf\u00e9"),
    "binary": (pa.array([b"\xff\x00"]), "ff00"),
    "list": (pa.array([[DAY]]), '["2024-01-02"]'),
    "struct": (
        pa.array([{"a": decimal.Decimal("1.5"), "b": None}]),
        '{"a": "1.5", "b": null}',
    ),
    "NaN": (pa.array([float("nan")]), ""),
    "null": (pa.array([None], pa.date32()), ""),
    "NaT": (pa.array([None], pa.duration("s")), ""),
}


@pytest.mark.parametrize(("column", "text"), ARROW.values(), ids=ARROW)
def test_a_cell_of_parquet_has_one_text_everywhere(
    tmp_path: Path, column: pa.Array, text: str
) -> None:
    pq.write_table(pa.table({"x": column}), tmp_path / "in.parquet")
    (block,) = ParquetTable(tmp_path / "in.parquet").blocks(9)
    stream = io.BytesIO()
    TextWriter(stream, ["x"], {}, delimiter=",").write(block, [])
    (_, line) = csv.reader(io.StringIO(stream.getvalue().decode() or "\n"))
    assert (line or [""]) == [text]
    filled = Template.parsed("<{x}>").filled(block.rows[0])
    assert filled == (
        (f"<{text}>", "") if text else ("", "the text is empty in column 'x'")
    )
    if text:
        frame = {"text": [block.rows[0]["x"]]}
        book = lh.Codebook("Which?", ["a", "b"])
        assert make_sheet(frame, book, None, None).texts == (text,)
