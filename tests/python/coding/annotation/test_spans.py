"""Tests of passages with labels, with a tiny random model."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from click.testing import CliRunner
from llamaherd.calls.structured.quoting import locate_quotes
from llamaherd.cli.run import spans as spans_command
from llamaherd.coding import frames
from llamaherd.coding.annotation.texts import parts_of
from llamaherd.tables.whole import write_spans

if TYPE_CHECKING:
    from pathlib import Path

QUOTE = lh.structured.type_quote(least=1, most=3)
ACTORS = lh.Codebook(
    "Mark actors and places.",
    {"actor": "Who acts.", "place": ""},
    type="spans",
    max_spans=3,
    quote=QUOTE,
    examples=[("Ann sang in Rome.", [{"quote": "Rome", "label": "place"}])],
)
TWO = lh.Codebook("?", ["a", "b"])
TEXTS = ['Ann "met" \U0001f469\u200d\U0001f680 in Paris.', None, "Peter sang.", "", "?"]


def coded_of(context: lh.Context, frame: Any, **options: Any) -> lh.Coded:
    """Return texts coded at a high temperature, so that there are passages."""
    return lh.annotate(
        frame,
        "text",
        lh.Codebook("Mark.", ["a", "b"], type="spans", max_spans=2, quote=QUOTE),
        context,
        **{"max_tokens": 220, "temperature": 99.0, "seed": 3, **options},
    )


@pytest.mark.parametrize("make", [dict, pd.DataFrame, pl.DataFrame, pa.table])
def test_every_passage_is_in_its_text(context: lh.Context, make: Any) -> None:
    data = {"id": list("vwxyz"), "text": TEXTS}
    frame = make(data)
    coded = coded_of(context, frame)
    assert frames.names(coded.frame) == ["id", "text", "spans", "error"]
    assert coded.names == ()
    table = coded.spans("id")
    assert type(table) is type(frame)
    columns = {name: frames.column(table, name, name) for name in frames.names(table)}
    assert list(columns) == ["id", "label", "quote", "start", "end"]
    rows = list(zip(*columns.values(), strict=True))
    assert rows
    for key, label, quote, start, end in rows:
        text = TEXTS["vwxyz".index(key)]
        assert text is not None
        assert text[start:end] == quote
        assert label in ("a", "b")
    cells = frames.column(coded.frame, "spans", "spans")
    assert cells[1] is None
    assert sum(len(cell) for cell in cells if cell is not None) == len(rows)
    assert max(len(cell) for cell in cells if cell is not None) <= 2
    numbers = frames.column(coded.spans(), "row", "row")
    assert ["vwxyz"[i] for i in numbers] == columns["id"]
    assert repr(coded).startswith(f"<Coded: 5 texts, {len(rows)} spans (a ")


def test_a_table_without_passages_has_its_columns(context: lh.Context) -> None:
    coded = coded_of(context, pl.DataFrame({"text": ["x"]})[:0])
    assert coded.spans().schema == pl.Schema(
        {
            "row": pl.Int64,
            "label": pl.String,
            "quote": pl.String,
            "start": pl.Int64,
            "end": pl.Int64,
        }
    )


def test_repeated_passages_have_the_next_place_and_copies_count_once() -> None:
    root = json.loads(ACTORS.written_schema)
    text = "Ann saw Ann in Rome"

    def answer(*spans: tuple[str, str]) -> dict[str, Any]:
        return {"spans": [{"quote": quote, "label": label} for quote, label in spans]}

    quotes = answer(
        ("Rome", "place"), ("Ann", "actor"), ("Ann", "actor"), ("Ann", "actor"),
        ("Ann saw Ann", "actor"), ("Rome", "actor"),
    )  # fmt: skip
    kept: Any = ACTORS.kind.read(locate_quotes(root, quotes, text))
    assert [(s["quote"], s["start"], s["end"], s["label"]) for s in kept["spans"]] == [
        ("Ann", 0, 3, "actor"),
        ("Ann saw Ann", 0, 11, "actor"),
        ("Ann", 8, 11, "actor"),
        ("Rome", 15, 19, "actor"),
        ("Rome", 15, 19, "place"),
    ]


def test_a_file_of_the_codebook_is_the_codebook(tmp_path: Path) -> None:
    path = tmp_path / "actors.yaml"
    lh.write_codebook(ACTORS, path)
    again = lh.read_codebook(path)
    assert again == ACTORS
    assert again.hash == ACTORS.hash
    plain = lh.Codebook("Mark actors and places.", ["actor", "place"], type="spans")
    lh.write_codebook(plain, path, overwrite=True)
    assert lh.read_codebook(path).hash == plain.hash


def test_the_prompt_has_definitions_form_and_examples() -> None:
    prompt = lh.prompt_preview(ACTORS, "Hi.").prompt
    assert "- actor: Who acts.\n- place\n" in prompt
    assert '- "spans": list of object (0 to 3)' in prompt
    assert "words copied from the text (1 to 3 words)" in prompt
    assert '{"spans": [{"quote": "Rome", "label": "place"}]}' in prompt


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"max_spans": 0}, "max_spans"),
        ({"quote": True}, "quote must be a quote such as type_quote"),
        ({"quote": {"least": 99}}, "least"),
        ({"schema": {}}, "schema goes with type='fields'"),
        ({"labels": None}, "type='spans' needs labels"),
        ({"examples": [("a b", [{"quote": "c", "label": "x"}])]}, "is not in the text"),
        ({"examples": [("a b", [{"quote": "a", "label": "y"}])]}, "one of the labels"),
        ({"examples": [("a b", "a")]}, "must be a list of passages"),
        ({"examples": [("a b", [{"quote": "a"}])]}, "must have quote and label"),
        ({"type": "label", "max_spans": 3}, "max_spans goes with type='spans'"),
    ],
)
def test_wrong_codebooks(more: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {"labels": ["x", "z"], "type": "spans", **more}
    with pytest.raises((ValueError, TypeError), match=message):
        lh.Codebook("Mark.", **arguments)


def test_spans_are_of_codebooks_of_spans(context: lh.Context) -> None:
    with pytest.warns(UserWarning, match="Median coverage"):
        coded = lh.annotate(
            {"text": ["a"]}, "text", lh.Codebook("?", ["a", "b"]), context
        )
    with pytest.raises(ValueError, match="'spans', not 'label'"):
        coded.spans()
    with pytest.raises(ValueError, match="column of passages"):
        coded_of(context, {"label": ["a"], "text": ["Ann sang."]}).spans("label")


def test_places_of_the_last_part_are_in_the_whole_text(context: lh.Context) -> None:
    text = "one two three four five six seven eight nine ten " * 20
    coded = coded_of(context, {"text": [text] * 2}, split="last", part_tokens=40)
    spans = coded.spans()
    assert spans["start"]
    for quote, start, end in zip(
        spans["quote"], spans["start"], spans["end"], strict=True
    ):
        assert text[start:end] == quote
        assert start > len(text) / 2


def test_passages_of_all_parts_have_places_in_the_whole_text(context: lh.Context) -> None:
    """Before, only the first or the last part of a long text could be coded."""
    text = " ".join(f"one two {i}" for i in range(90))
    parts = parts_of(context.model, text, 40)
    assert len(parts) > 3
    coded = coded_of(context, {"text": [text, "Ann sang."]}, split="all", part_tokens=40)
    spans = coded.spans()
    for row, quote, start, end in zip(
        spans["row"], spans["quote"], spans["start"], spans["end"], strict=True
    ):
        assert [text, "Ann sang."][row][start:end] == quote
    of_long = [i for i, row in enumerate(spans["row"]) if row == 0]
    starts = [spans["start"][i] for i in of_long]
    ends = np.cumsum([len(part) for part in parts])
    assert len({int(np.searchsorted(ends, at, side="right")) for at in starts}) > 1
    by_part = coded_of(context, {"text": parts}).spans()
    assert [spans["quote"][i] for i in of_long] == by_part["quote"]


@pytest.mark.parametrize(
    ("book", "split", "message"),
    [
        (lh.Codebook("?", ["a", "b"]), "all", "takes the passages of all parts"),
        (lh.Codebook("?", ["a"], type="spans"), "majority", "for passages use 'all'"),
    ],
)
def test_parts_are_combined_as_their_answers_allow(
    context: lh.Context, book: lh.Codebook, split: Any, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        lh.annotate({"text": ["a"]}, "text", book, context, split=split)


SPAN = {"label": "a", "quote": 'b, "c"', "start": 2, "end": 8}


def test_the_command_makes_a_long_table(tmp_path: Path) -> None:
    table, out = tmp_path / "t.jsonl", tmp_path / "long.jsonl"
    rows = [{"id": "x", "s": [SPAN, SPAN]}, {"id": "y", "s": None}, {"id": "z", "s": []}]
    table.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    assert write_spans(str(table), str(out), column="s", id="id") == 2
    lines = out.read_text(encoding="utf-8").splitlines()
    assert [json.loads(line) for line in lines] == [{"id": "x", **SPAN}] * 2
    csv = tmp_path / "t.csv"
    pd.DataFrame({"spans": [json.dumps([SPAN]), "", "[]"]}).to_csv(csv, index=False)
    done = CliRunner().invoke(spans_command, [str(csv), "-o", str(tmp_path / "l.csv")])
    assert done.exit_code == 0, done.output
    assert pd.read_csv(tmp_path / "l.csv").to_dict("records") == [{"row": 0, **SPAN}]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"column": "span"}, "did you mean 'spans'"),
        ({"id": "nope"}, "no column 'nope'"),
        ({"id": "label"}, "a column of passages"),
        ({"output": "x.parquet"}, "must end in"),
        ({"column": "label"}, "row 0, column label must hold passages"),
    ],
)
def test_wrong_tables(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    csv = tmp_path / "t.csv"
    csv.write_text("label,spans\nx,[]\n", encoding="utf-8")
    arguments = {"output": str(tmp_path / "o.csv"), **options}
    with pytest.raises(ValueError, match=message):
        write_spans(str(csv), **arguments)
